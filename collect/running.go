//go:build linux

package collect

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"footfall/collect/find"
	"footfall/formats/gcov"
	"footfall/live"
	"footfall/output"
	"footfall/report/source"
)

// Prepare finds the notes and sources of snapshots while their programs run. It says nothing,
// but returns an error if there will be nothing to collect.
func (l *Targets) Prepare(snapshots []*Snapshot) error {
	return l.nothing(l.gather(snapshots, io.Discard))
}

// Collect returns the coverage of snapshots. What a reader of it should know is
// said if tell is set.
func (l *Targets) Collect(snapshots []*Snapshot, tell bool) (*Result, error) {
	stderr, notes, progress := l.options.Stderr, l.options.Notes, l.options.Progress
	if !tell {
		stderr, notes, progress = io.Discard, io.Discard, io.Discard
	}
	r := l.gather(snapshots, progress)
	r.Problems = slices.Concat(l.problems, r.Problems)
	l.problems = nil
	wrong, known := source.Wrong(r.Problems)
	source.PrintProblems(stderr, wrong, l.options.Verbose)
	source.PrintProblems(notes, known, l.options.Verbose)
	l.sayMore(wrong, tell)
	if err := l.nothing(r); err != nil {
		return nil, err
	}
	if l.options.Each {
		l.apart(r, snapshots)
	}
	r.Objects.Outside = nil
	impossible := r.Stats.Inconsistent
	r.Stats.Inconsistent = 0 // they have other reasons than in files
	r.Say(notes, l.options.Verbose)
	if tell {
		l.sayImpossible(impossible, snapshots)
		l.sayInherited(snapshots)
		l.advise(snapshots)
	}
	return r, nil
}

func (l *Targets) gather(snapshots []*Snapshot, progress io.Writer) *Result {
	o := l.options.Options
	o.Progress = progress
	return Objects(l.pair(snapshots), o)
}

// pair finds the notes of snapshots.
func (l *Targets) pair(snapshots []*Snapshot) *find.Objects {
	var readings []gcov.Reading
	for _, s := range snapshots {
		root := s.root()
		for _, u := range s.units {
			readings = append(readings, gcov.Reading{Name: u.Name, Root: root, Counts: u.Counts})
		}
	}
	objects := l.finder.Pair(readings)
	l.unsure = 0
	for _, s := range snapshots {
		parent := l.parentOf(s, snapshots)
		for _, p := range s.profiles {
			r := ProfileReading{Title: s.Title, Root: s.root(), Profile: p, Since: s.zero[p.Key()]}
			if parent != nil && !l.options.Each {
				var unsure int
				var own *live.SourceProfile
				own, unsure = p.WithoutParents(parent.profiles, r.Since)
				r.Profile = *own
				l.unsure = max(l.unsure, unsure)
			}
			if p.Meta != nil && s.family != nil {
				r.Places = s.family.places
			} else if p.Meta != nil {
				r.Places = s.process.Places()
			}
			AddProfile(objects, r)
		}
	}
	return objects
}

// parentOf finds who has forked a process, among those that are read; nil: it is none of them.
func (l *Targets) parentOf(s *Snapshot, snapshots []*Snapshot) *Snapshot {
	if s.process == nil || s.family != nil || len(s.profiles) == 0 {
		return nil
	}
	pid := s.process.ForkedBy()
	i := slices.IndexFunc(snapshots, func(o *Snapshot) bool { return o.process != nil && o.family == nil && o.process.PID == pid })
	if i < 0 {
		return nil
	}
	return snapshots[i]
}

// sayInherited tells what of source-based counters is not a process's own, or may not be.
func (l *Targets) sayInherited(snapshots []*Snapshot) {
	if l.unsure > 0 {
		l.sayOnce("%s ran in a process and in the one that had forked it: what was counted there before counts twice; --watch sees what is forked from then on", output.Plural(l.unsure, "function"))
	}
	var forked []string
	for _, s := range snapshots {
		source := func(p live.SourceProfile) bool { return p.Meta == nil && s.zero[p.Key()] == nil }
		if s.process == nil || s.family != nil || !slices.ContainsFunc(s.profiles, source) {
			continue
		}
		if s.process.Forked() && (l.options.Each || l.parentOf(s, snapshots) == nil) {
			forked = append(forked, s.Title)
		}
	}
	if len(forked) > 0 {
		who := forked[0]
		if len(forked) > 1 {
			who += fmt.Sprintf(" and %d others", len(forked)-1)
		}
		l.sayOnce("%s: what the parent had counted before the fork is in source-based counters", who)
	}
}

// A ProfileReading is source-based counters that were read in a process.
type ProfileReading struct {
	Title   string // of the process
	Root    string // where its file system is, "" if it is ours
	Profile live.SourceProfile
	Since   []byte   // Bytes of the profile at a reset; nil: there was none
	Places  []string // where modules of Go may be
}

// AddProfile adds what was read to what is collected.
func AddProfile(objects *find.Objects, r ProfileReading) {
	image := r.Root + r.Profile.Image
	if r.Profile.Meta != nil {
		objects.Go = append(objects.Go,
			find.GoFile{Name: image, Bytes: r.Profile.Meta, Starts: r.Places, Root: r.Root},
			find.GoFile{Name: r.Title, Bytes: r.Profile.Bytes, Since: r.Since})
		return
	}
	objects.Profiles = append(objects.Profiles, find.Profile{Name: r.Title + ": " + r.Profile.Image, Bytes: r.Profile.Bytes, Since: r.Since, Binary: image, Inherited: r.Profile.Inherited})
	if !slices.ContainsFunc(objects.Binaries, func(b find.Binary) bool { return b.Name == image }) {
		objects.Binaries = append(objects.Binaries, find.Binary{Name: image, Runs: true})
	}
}

// nothing says why there is nothing to report, if there is nothing.
func (l *Targets) nothing(r *Result) error {
	if err := r.AllExcluded(); err != nil {
		return err
	}
	if r.Set.HasLines() {
		return nil
	}
	var titles []string
	for _, t := range l.List {
		titles = append(titles, t.Title)
	}
	who := strings.Join(titles, ", ")
	rebuilt := func(p source.Problem) bool { return errors.Is(p.Err, find.ErrRebuilt) }
	switch objects := r.Objects; {
	case len(objects.Units) == 0 && len(objects.Profiles) > 0 && r.Profiled.Binaries == 0:
		return fmt.Errorf("nothing to report: the coverage mapping of %s is not there: its file was rebuilt or removed, start it again", who)
	case len(objects.Units) == 0 && slices.ContainsFunc(objects.Problems, rebuilt):
		return fmt.Errorf("nothing to report: the notes (.gcno) of %s are of another build: start it again, or name the directory of the old notes with --object-directory", who)
	case len(objects.Units) == 0 && len(objects.Problems) > 0:
		return fmt.Errorf("nothing to report: %s has counters, but their notes (.gcno) are not where the compiler wrote them: name their directory with --object-directory", who)
	}
	if err := r.nothingLeft(); err != nil {
		return err
	}
	return fmt.Errorf("nothing to report: no code in the notes of %s", who)
}

// sayImpossible says why counts of functions are impossible, as far as that is
// known.
func (l *Targets) sayImpossible(functions int, snapshots []*Snapshot) {
	if functions == 0 {
		return
	}
	torn, forked, reset := false, false, false
	for _, s := range snapshots {
		reset = reset || s.base != nil || s.history.WasReset()
		if s.process == nil {
			continue
		}
		forked = forked || s.process.Forked()
		if s.process.Threads() > 1 {
			u, err := s.process.UpdatesPatiently()
			torn = torn || err != nil || u.Plain > 0 || u.Atomic == 0
		}
	}
	var why []string
	if torn {
		why = append(why, "torn by threads (-fprofile-update=atomic makes them exact)")
	}
	if forked {
		why = append(why, "running when the process was forked, where its counters begin from zero")
	}
	if reset {
		why = append(why, "running at the reset")
	}
	if len(why) == 0 {
		why = append(why, "running when they were read")
	}
	fmt.Fprintf(l.options.Stderr, "footfall: impossible counts in %s, %s: their counts are estimates\n", output.Plural(functions, "function"), strings.Join(why, ", or "))
}

// advise says how counts could be better.
func (l *Targets) advise(snapshots []*Snapshot) {
	if l.advised {
		return
	}
	l.advised = true
	held, objects := 0, map[string]bool(nil)
	first := ""
	for _, s := range snapshots {
		if s.process == nil {
			continue
		}
		u, err := s.process.UpdatesPatiently()
		if err != nil || u.Held == 0 {
			continue
		}
		if objects == nil {
			objects, first = make(map[string]bool), u.HeldIn[0]
		}
		held = max(held, u.Held)
		for _, name := range u.HeldIn {
			objects[name] = true
		}
	}
	if held > 0 {
		fmt.Fprintf(l.options.Stderr, "footfall: %s of loops in %s (most in %s) are kept in a register until the loop ends, and may be too low: build with -fprofile-update=atomic or -fno-tree-loop-im\n",
			output.Plural(held, "counter"), output.Plural(len(objects), "object"), strings.TrimSuffix(filepath.Base(first), ".gcda"))
	}
}
