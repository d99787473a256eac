package find

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"footfall/formats/gcov"
	"footfall/input"
	"footfall/report/source"
)

// A NotesFinder finds the notes of what was read in running programs.
type NotesFinder struct {
	sources *source.Sources
	byBase  map[string][]string // notes in object directories, by base name
	found   map[reading]string
}

// A reading is known by its place and its stamp.
type reading struct{ root, name, stamp string }

// NewNotesFinder searches objectDirs for notes. Paths that are recorded in programs
// may have moved as sources have.
func NewNotesFinder(objectDirs []string, sources *source.Sources) (*NotesFinder, []source.Problem, error) {
	s := search{slots: make(chan struct{}, 16), seen: make(map[string]bool)}
	for _, d := range objectDirs {
		if err := s.add(d, notesKind); err != nil {
			return nil, nil, err
		}
	}
	s.running.Wait()
	slices.Sort(s.notes)
	n := &NotesFinder{sources: sources, byBase: make(map[string][]string), found: make(map[reading]string)}
	for _, name := range s.notes {
		base := filepath.Base(name)
		n.byBase[base] = append(n.byBase[base], name)
	}
	return n, s.problems, nil
}

// Pair gives each reading to its notes: those beside the data file that the
// program would write, or else those in the object directories with the same
// stamp. Readings of the same object in several programs are one unit.
func (n *NotesFinder) Pair(readings []gcov.Reading) *Objects {
	found := &Objects{}
	index := make(map[string]int)
	for _, in := range readings {
		name, err := n.of(in)
		if err != nil {
			found.Problems = append(found.Problems, source.NewProblem(source.NoNotes, in.Name, err))
			continue
		}
		i, ok := index[name]
		if !ok {
			i = len(found.Units)
			index[name] = i
			found.Units = append(found.Units, gcov.Object{Notes: name, Dir: source.Unrecorded(filepath.Dir(name))})
		}
		found.Units[i].Readings = append(found.Units[i].Readings, in)
		found.Data++
	}
	slices.SortFunc(found.Units, func(a, b gcov.Object) int { return strings.Compare(a.Notes, b.Notes) })
	return found
}

// of returns the notes of a reading. What was found once is not looked for
// again.
func (n *NotesFinder) of(in gcov.Reading) (string, error) {
	stamp := in.Counts.FileStamp()
	key := reading{in.Root, in.Name, string(stamp)}
	if name, ok := n.found[key]; ok {
		return name, nil
	}
	name, err := n.look(in, stamp)
	if err == nil {
		n.found[key] = name
	}
	return name, err
}

// ErrRebuilt is why notes are of no use for the counters of a program that runs.
var ErrRebuilt = errors.New("rebuilt since the program was started: start it again, or name the directory of the old notes with --object-directory")

func (n *NotesFinder) look(in gcov.Reading, stamp []byte) (string, error) {
	stem := unmangle(strings.TrimSuffix(in.Name, dataSuffix))
	other := ""
	for _, place := range []string{in.Root + stem, n.sources.Locate("", stem)} {
		name := place + notesSuffix
		if sameStamp(stamp, readStamp(name)) {
			return name, nil
		}
		if other == "" && input.IsFile(name) {
			other = name
		}
	}
	name, err := notesOf(stamp, stem, n.byBase[filepath.Base(stem)+notesSuffix], n.sources)
	if err == nil && !sameStamp(stamp, readStamp(name)) {
		other = name
	}
	if other != "" && (err != nil || name == other) {
		return "", fmt.Errorf("%s has another stamp: %w", other, ErrRebuilt)
	}
	return name, err
}

// LeaveOutRebuilt takes those objects out of found whose notes have turned out to
// be of another build, as problems of [gcov.Collect] tell, although their stamps are
// equal (-frandom-seed). It returns false if there are none.
func (found *Objects) LeaveOutRebuilt(problems []source.Problem) bool {
	n := len(found.Units)
	found.Units = slices.DeleteFunc(found.Units, func(u gcov.Object) bool {
		i := slices.IndexFunc(problems, func(p source.Problem) bool { return p.Kind == source.OtherBuild && p.File == u.Notes })
		if i >= 0 {
			found.Problems = append(found.Problems, source.NewProblem(source.NoNotes, u.Notes, fmt.Errorf("its functions are other ones: %w", ErrRebuilt)))
		}
		return i >= 0
	})
	return len(found.Units) < n
}
