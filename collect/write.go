//go:build linux

package collect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"footfall/live"
	"footfall/output"
)

// This file writes the counters of targets as files, and sets them to zero.

// AllObjects is the name of all objects at once, for a hard reset.
const AllObjects = "all"

// Dump writes data files, and raw profiles, below dir.
func (l *Targets) Dump(dir string, snapshots []*Snapshot) error {
	n, err := live.Dump(dir, Units(snapshots))
	failed := []error{err}
	for _, t := range l.List {
		if t.process == nil {
			continue
		}
		var profiles []live.SourceProfile
		var err error
		if t.family != nil && t.last != nil {
			profiles = slices.Clone(t.last.profiles)
		} else if t.family == nil {
			profiles, err = t.process.Profiles()
		}
		if err != nil && !errors.Is(err, live.ErrNoCounters) {
			l.problem(t.Title, err)
		}
		for _, p := range profiles {
			if since := t.zero[p.Key()]; since != nil {
				if err := p.Subtract(since); err != nil {
					failed = append(failed, fmt.Errorf("%s: counts at the reset: %w", t.Title, err))
					continue
				}
			}
			if len(l.List) > 1 && p.Meta == nil {
				p.Name = fmt.Sprintf("%d-%s", t.process.PID, p.Name)
			}
			if err := live.DumpProfile(dir, p); err != nil {
				failed = append(failed, err)
				continue
			}
			if n++; p.Meta != nil {
				n++
			}
		}
	}
	if n > 0 {
		fmt.Fprintf(l.options.Notes, "footfall: %s written below %s\n", output.Plural(n, "data file"), dir)
	}
	return errors.Join(failed...)
}

// hasProfiles tells whether a target has counters of source-based coverage.
func (t *Target) hasProfiles() bool {
	if t.process == nil {
		return false
	}
	profiles, err := t.process.Profiles()
	return err == nil && len(profiles) > 0
}

// WriteInPlace adds the counts to the data files that the programs would write.
func (l *Targets) WriteInPlace(snapshots []*Snapshot) error {
	var failed []error
	n := 0
	for _, s := range snapshots {
		if s.process == nil {
			return errors.New("the kernel writes no data files: --dump=DIR does")
		}
		if len(s.profiles) > 0 {
			written, err := l.writeProfiles(s)
			n += written
			failed = append(failed, err)
		}
		written, skipped, err := s.process.WriteInPlace(s.units)
		n += written
		failed = append(failed, err)
		if skipped > 0 {
			fmt.Fprintf(l.options.Stderr, "footfall: %s: %s left out: the program has written these data files itself, and would not write them again; --reset, and what is counted from then on can be added\n", s.Title, output.Plural(skipped, "object"))
		}
	}
	if n > 0 {
		fmt.Fprintf(l.options.Notes, "footfall: %s added to what was counted before\n", output.Plural(n, "data file"))
	}
	return errors.Join(failed...)
}

// writeProfiles adds source-based counters, since the reset, to the files of the program.
func (l *Targets) writeProfiles(s *Snapshot) (int, error) {
	list := slices.Clone(s.profiles)
	for i := range list {
		if since := s.zero[list[i].Key()]; since != nil {
			if err := list[i].Subtract(since); err != nil {
				return 0, fmt.Errorf("%s: counts at the reset: %w", s.Title, err)
			}
		}
	}
	n, err := s.process.WriteProfilesInPlace(list)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.Title, err)
	}
	return n, err
}

// Reset takes the snapshots as the new zero of what is shown. The programs are not changed.
func (l *Targets) Reset(snapshots []*Snapshot) error {
	for _, s := range snapshots {
		base := live.NewBaseline(s.all)
		for _, p := range s.profiles {
			base.Profiles = append(base.Profiles, live.BaselineProfile{Image: p.Key(), Bytes: p.Bytes})
		}
		if err := l.baselines.Store(s.source.Key(), base); err != nil {
			return err
		}
		if slices.ContainsFunc(s.profiles, func(p live.SourceProfile) bool { return p.Sets }) {
			fmt.Fprintf(l.options.Stderr, "footfall: %s: its counters (-covermode=set) tell that a block ran, not that it did so again: from now on they show what runs for the first time; -covermode=count or atomic show all\n", s.Title)
		}
		fmt.Fprintf(l.options.Notes, "footfall: %s: counts of %s start from zero; the program is not changed\n", s.Title, output.Plural(len(s.all)+len(s.profiles), "object"))
	}
	return nil
}

// ForgetReset has all counts be shown again.
func (l *Targets) ForgetReset(snapshots []*Snapshot) error {
	for _, s := range snapshots {
		was, err := l.baselines.Remove(s.source.Key())
		if err != nil {
			return err
		}
		said := "reset forgotten: all counts are shown again"
		if !was {
			said = "there was no reset"
		}
		fmt.Fprintf(l.options.Notes, "footfall: %s: %s\n", s.Title, said)
	}
	return nil
}

// HardReset sets the counters in the programs to zero: those of the object of a
// name, or of [AllObjects].
func (l *Targets) HardReset(snapshots []*Snapshot, name string) error {
	for _, s := range snapshots {
		if err := l.hardReset(s, name); err != nil {
			return err
		}
	}
	return nil
}

// errOfGo is why those of Go are not set to zero: a thread that is just increasing one would put it back, and in mode set
// who looks at it could not know that.
var errOfGo = errors.New("its counters are those of Go, which footfall does not change")

// hardReset sets counters to zero and says what became of it.
func (l *Targets) hardReset(s *Snapshot, name string) error {
	if len(s.all) == 0 && len(s.profiles) > 0 && !slices.ContainsFunc(s.profiles, func(p live.SourceProfile) bool { return p.Meta == nil }) {
		return fmt.Errorf("%s: %w: --reset starts from zero without changing the program", s.Title, errOfGo)
	}
	if s.process == nil {
		if name == AllObjects {
			name = ""
		} else if i := slices.IndexFunc(s.all, func(u live.Unit) bool { return live.NameMatch(name)(u.Name) }); i >= 0 {
			name = s.all[i].Name
		} else {
			return fmt.Errorf("kernel: no object of the name %s", name)
		}
		if err := s.source.(*live.Kernel).Reset(name); err != nil {
			return err
		}
		fmt.Fprintf(l.options.Notes, "footfall: the kernel set %s to zero\n", cmp.Or(name, "all counters"))
	} else {
		var match func(string) bool
		if name != AllObjects {
			match = live.NameMatch(name)
		}
		r, err := s.process.HardReset(match)
		if err != nil {
			return err
		}
		fmt.Fprintf(l.options.Notes, "footfall: %s: %d counters of %s set to zero, the program stood still for %s\n",
			s.Title, r.Counters, output.Plural(r.Units, "object"), r.Paused.Round(10*time.Microsecond))
		l.sayUndone(s, r)
	}
	if was, err := l.baselines.Remove(s.source.Key()); err != nil {
		return err
	} else if was {
		fmt.Fprintf(l.options.Notes, "footfall: %s: the earlier --reset is forgotten\n", s.Title)
	}
	return nil
}

func (l *Targets) sayUndone(s *Snapshot, r *live.HardReset) {
	if len(r.Undone) > 0 {
		fmt.Fprintf(l.options.Stderr, "footfall: %s in %s came back, because the program was just increasing them: reset again\n",
			output.Plural(r.UndoneCounters, "counter"), strings.Join(r.Undone, ", "))
	}
	u, err := s.process.Updates()
	switch {
	case err != nil || u.Atomic+u.Plain == 0:
		fmt.Fprintf(l.options.Stderr, "footfall: whether its counters are atomic is not known; if not, a reset is undone now and then\n")
	case u.Plain > 0:
		fmt.Fprintf(l.options.Stderr, "footfall: %d of %d places that count are not atomic: a thread that is stopped between reading and writing a counter undoes its reset (measured: 0 to 12 %% of resets of a hot counter); -fprofile-update=atomic makes it exact, --reset is exact always\n",
			u.Plain, u.Plain+u.Atomic)
	}
}
