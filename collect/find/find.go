// Package find looks for what reports are made of: notes and data, profiles and binaries, data of programs of Go, below
// directories and of running programs; and which of them belong together.
package find

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"footfall/formats/gcov"
	"footfall/input"
	"footfall/report/source"
)

// Objects are the compiled units that [In] found.
type Objects struct {
	// Units have notes each, and data where they ran, by ascending name of
	// the notes.
	Units []gcov.Object
	// Data is the number of data files that belong to units.
	Data int
	// Reports are files that footfall or another tool has written, see ReadFile,
	// in the order in which they were named.
	Reports []string
	// Profiles and Binaries are those of source-based coverage, see profiles.go.
	Profiles []Profile
	Binaries []Binary
	// Go are the data of programs of Go, see gocover.go.
	Go []GoFile
	// Outside are the notes that were found by the path recorded in the name
	// of a data file, outside of the places that were searched. Units beside
	// them that never ran were not looked for.
	Outside []string
	// Problems are what was found and cannot be used.
	Problems []source.Problem
}

// In looks for notes and data files in paths, which are directories to be
// searched, or notes, data or object files, or reports of footfall and of other
// tools, which are not looked for in directories; and for notes in objectDirs. Data
// belong to the notes of the same name beside them, or else (GCOV_PREFIX,
// -fprofile-dir, notes kept apart) to those with which they have the end of
// the path and the stamp in common. What was compiled may have moved as sources
// have. A file that has several names is one: notes are a unit, and the data of a
// unit count once.
func In(paths, objectDirs []string, sources *source.Sources) (*Objects, error) {
	s := search{slots: make(chan struct{}, 16), seen: make(map[string]bool)}
	for _, p := range paths {
		if err := s.add(p, anyKind); err != nil {
			return nil, err
		}
	}
	for _, d := range objectDirs {
		if err := s.add(d, notesKind); err != nil {
			return nil, fmt.Errorf("directory of objects: %w", err)
		}
	}
	s.running.Wait()
	for _, n := range s.lost {
		if !s.seen[strings.TrimSuffix(n, notesSuffix)+dataSuffix] {
			s.notes = append(s.notes, n)
		}
	}
	for _, p := range paths {
		if len(paths) > 1 {
			s.nothingIn(p)
		}
	}
	slices.Sort(s.notes)
	slices.Sort(s.data)
	found := pair(s.notes, s.data, s.problems, sources)
	found.Reports = found.once(s.reports)
	slices.Sort(s.legacy)
	found.addLegacy(s.legacy)
	found.addProfiles(&s)
	found.addGo(s.goFiles)
	return found, nil
}

const (
	notesSuffix = ".gcno"
	dataSuffix  = ".gcda"
)

type fileKind int

const (
	notesKind fileKind = 1 << iota
	dataKind
	anyKind = notesKind | dataKind
)

// A search walks directories, several at a time.
type search struct {
	slots   chan struct{} // one for each directory read in its own goroutine
	running sync.WaitGroup

	mu            sync.Mutex
	seen          map[string]bool // files and directories found; both ways of notes and data
	notes, data   []string
	lost          []string // notes that are links which lead nowhere, as in a copy of a kernel's tree
	reports       []string
	legacy        []string // .bb, .bbg and .da, without suffix
	profiles      []string // of source-based coverage, in directories
	namedProfiles []string
	binaries      []string // with its mapping, that were named
	candidates    []string // that may have it
	goFiles       []string
	problems      []source.Problem
}

func (s *search) add(path string, kind fileKind) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := input.Stat(abs)
	switch ext := filepath.Ext(abs); {
	case err == nil && info.IsDir():
		s.directory(abs, kind)
		return nil
	case ext == notesSuffix || ext == dataSuffix || ext == ".o": // as with gcov, only the rest of the name matters
		stem := strings.TrimSuffix(abs, ext)
		if ext == ".o" && !input.IsFile(stem+notesSuffix) && input.IsFile(stem+".bbg") {
			s.legacyFile(stem+".bb", kind)
			return nil
		}
		found := false
		var other error
		for _, name := range []string{stem + notesSuffix, stem + dataSuffix} {
			if input.IsFile(name) {
				s.file(name, kind)
				found = true
			} else if err := notAFile(name); err != nil && other == nil {
				other = err
			}
		}
		if !found && other != nil {
			return other
		}
		if !found && s.named(abs, kind) {
			return nil
		}
		if !found {
			return fmt.Errorf("%s: no %s beside it: was it compiled with --coverage?", path, filepath.Base(stem)+notesSuffix)
		}
		return nil
	case ext == ".bb" || ext == ".bbg" || ext == ".da":
		s.legacyFile(abs, kind)
		return nil
	case err != nil:
		return fmt.Errorf("cannot look for coverage data: %w", err)
	}
	if s.named(abs, kind) {
		return nil
	}
	if kind == anyKind {
		s.mu.Lock() // others search directories
		defer s.mu.Unlock()
		if !s.seen[abs] {
			s.reports = append(s.reports, path)
		}
		s.seen[abs] = true
		return nil
	}
	return fmt.Errorf("%s: neither a directory nor a .gcno, .gcda or .o file", path)
}

// directory searches dir and all below. Symbolic links to directories are not
// followed: they could lead in circles.
func (s *search) directory(dir string, kind fileKind) {
	entries, err := input.ReadDir(dir)
	if err != nil {
		s.fail(dir, err)
	}
	if dir == "/" {
		dir = ""
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case e.IsDir():
			if name != ".git" {
				s.later(dir+"/"+name, kind)
			}
		case e.Type() == fs.ModeSymlink && strings.HasSuffix(name, notesSuffix) && !input.IsFile(dir+"/"+name):
			s.lose(dir + "/" + name)
		case strings.HasSuffix(name, notesSuffix), strings.HasSuffix(name, dataSuffix):
			s.file(dir+"/"+name, kind)
		case strings.HasSuffix(name, ".bb"), strings.HasSuffix(name, ".da"):
			s.legacyFile(dir+"/"+name, kind)
		case e.Type().IsRegular() && isGoName(name):
			s.goFile(dir+"/"+name, kind)
		case e.Type().IsRegular():
			s.maybe(dir+"/"+name, kind)
		}
	}
}

// later searches dir in another goroutine, or at once if there are enough.
func (s *search) later(dir string, kind fileKind) {
	select {
	case s.slots <- struct{}{}:
		s.running.Go(func() {
			s.directory(dir, kind)
			<-s.slots
		})
	default:
		s.directory(dir, kind)
	}
}

func (s *search) file(name string, kind fileKind) {
	isNotes := strings.HasSuffix(name, notesSuffix)
	if isNotes && kind&notesKind == 0 || !isNotes && kind&dataKind == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[name] {
		return
	}
	s.seen[name] = true
	if isNotes {
		s.notes = append(s.notes, name)
	} else {
		s.data = append(s.data, name)
	}
}

func (s *search) lose(notes string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen[notes] {
		s.seen[notes] = true
		s.lost = append(s.lost, notes)
	}
}

// nothingIn says so of a directory in which nothing was found, when all were searched.
func (s *search) nothingIn(path string) {
	abs, err := filepath.Abs(path)
	if info, e := input.Stat(abs); err != nil || e != nil || !info.IsDir() {
		return
	}
	in := func(name string) bool { _, ok := source.Below(name, abs); return ok }
	if !slices.ContainsFunc(s.notes, in) && !slices.ContainsFunc(s.data, in) && !slices.ContainsFunc(s.legacy, in) && !slices.ContainsFunc(s.profiles, in) && !slices.ContainsFunc(s.candidates, in) && !slices.ContainsFunc(s.goFiles, in) {
		s.fail(path, errors.New("no coverage data (.gcno, .gcda, .profraw, .profdata, covmeta) in it"))
	}
}

func (s *search) fail(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, source.NewProblem(source.Unreadable, name, source.WithoutPath(err)))
}

// pair gives each of data to one of notes; both are sorted.
func pair(notes, data []string, problems []source.Problem, sources *source.Sources) *Objects {
	found := &Objects{Problems: problems}
	index := make(map[string]int, len(notes)) // of units by the notes' name without suffix
	var same sameFiles
	unit := func(notes string) (u *gcov.Object, isNew bool) {
		stem := strings.TrimSuffix(notes, notesSuffix)
		i, ok := index[stem]
		if first := same.first(notes); !ok && first != notes {
			i, ok = index[strings.TrimSuffix(first, notesSuffix)]
			index[stem] = i
		}
		if !ok {
			i = len(found.Units)
			index[stem] = i
			found.Units = append(found.Units, gcov.Object{Notes: notes, Size: same.size, Dir: source.Unrecorded(filepath.Dir(notes))})
		}
		return &found.Units[i], !ok
	}
	byBase := make(map[string][]string) // notes by base name
	for _, n := range notes {
		if _, isNew := unit(n); isNew {
			base := filepath.Base(n)
			byBase[base] = append(byBase[base], n)
		}
	}
	var alone []string
	for _, d := range data {
		if i, ok := index[strings.TrimSuffix(d, dataSuffix)]; ok {
			found.Units[i].Data = append(found.Units[i].Data, d)
		} else {
			alone = append(alone, d)
		}
	}
	for _, d := range alone {
		stem := strings.TrimSuffix(d, dataSuffix)
		if path := unmangle(stem); len(byBase[filepath.Base(stem)+notesSuffix]) == 0 {
			stem = path
		}
		n, err := notesOf(readStamp(d), stem, byBase[filepath.Base(stem)+notesSuffix], sources)
		if err != nil {
			kind := source.Unpaired
			if err == errNoNotes {
				kind = source.NoNotes
			}
			found.Problems = append(found.Problems, source.NewProblem(kind, d, err))
			continue
		}
		u, isNew := unit(n)
		if isNew {
			found.Outside = append(found.Outside, n)
		}
		u.Data = append(u.Data, d)
	}
	slices.SortFunc(found.Units, func(a, b gcov.Object) int { return strings.Compare(a.Notes, b.Notes) })
	for i := range found.Units {
		u := &found.Units[i]
		u.Data = found.once(u.Data)
		found.Data += len(u.Data)
	}
	return found
}

// once returns the names that are of different files, and says which others are
// of the same ones. One file may be the data of two units, where equal files were
// made links.
func (o *Objects) once(names []string) []string {
	if len(names) < 2 {
		return names
	}
	var same sameFiles
	return slices.DeleteFunc(names, func(name string) bool {
		first := same.first(name)
		if first == name {
			return false
		}
		o.Problems = append(o.Problems, source.NewProblem(source.FoundTwice, name, fmt.Errorf("the same file as %s, found by a link or a mount: it counts once", first)))
		return true
	})
}

// unmangle returns the path that -fprofile-dir has put into the name of a data
// file, "#" for "/" and "^" for "..": /prof/#src#a becomes /src/a, and /prof/src#a,
// of which -fprofile-prefix-path has cut off the beginning, /prof/src/a. Any
// other path it returns as it is.
func unmangle(stem string) string {
	dir, base := filepath.Split(stem)
	if !strings.Contains(base, "#") {
		return stem
	}
	parts := strings.Split(base, "#")
	if parts[0] != "" {
		parts[0] = dir + parts[0]
	}
	for i, p := range parts {
		if p == "^" {
			parts[i] = ".."
		}
	}
	return filepath.Clean(strings.Join(parts, "/"))
}

// notesOf finds the notes of a data file that has none beside it. stamp is that
// of the file, stem its path without suffix, candidates are the notes of that
// base name that were searched for. Under GCOV_PREFIX some end of the path is the place where
// the object was compiled.
func notesOf(stamp []byte, stem string, candidates []string, sources *source.Sources) (string, error) {
	home := recorded(stem, sources)
	if home != "" && !slices.Contains(candidates, home) {
		candidates = append(slices.Clip(candidates), home)
	}
	var best []string
	most := 0
	for _, c := range candidates {
		if !sameStamp(stamp, readStamp(c)) {
			continue
		}
		switch n := source.CommonSuffix(stem, strings.TrimSuffix(c, notesSuffix)); {
		case n > most:
			best, most = []string{c}, n
		case n == most:
			best = append(best, c)
		}
	}
	switch {
	case len(best) == 1:
		return best[0], nil
	case len(best) > 1:
		return "", fmt.Errorf("it may belong to %s or %s: name the directory of one of them with --object-directory", best[0], best[1])
	case home != "":
		return home, nil // whoever reads the two will say what does not fit
	case len(candidates) > 0:
		return "", fmt.Errorf("its stamp is not that of %s: if that was rebuilt since the run, delete the data file", candidates[0])
	}
	return "", errNoNotes
}

var errNoNotes = errors.New("no notes file (.gcno) of that name: name the directory of the object files with --object-directory, or delete what is left of an older build")

// recorded returns the notes at the longest end of the path that is an
// absolute path of notes, or was one before they moved as sources did, or "".
func recorded(stem string, sources *source.Sources) string {
	for end := stem; end != ""; {
		for _, place := range []string{end, sources.Locate("", end)} {
			if notes := place + notesSuffix; input.IsFile(notes) {
				return notes
			}
		}
		next := strings.IndexByte(end[1:], '/')
		if next < 0 {
			break
		}
		end = end[1+next:]
	}
	return ""
}

// notAFile says why what is there is not a file that can be read, nil if nothing is
// there.
func notAFile(name string) error {
	f, err := input.Open(name)
	if err == nil {
		f.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readStamp returns the version and the stamp of a notes or data file:
//
//	magic, version, stamp: four bytes each
//
// or nil if it has none.
func readStamp(name string) []byte {
	f, err := input.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	var head [12]byte
	if n, _ := f.Read(head[:]); n < len(head) {
		return nil
	}
	return head[4:]
}

func sameStamp(a, b []byte) bool { return a != nil && slices.Equal(a, b) }
