package command

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

// dump writes data files, and raw profiles.
func (l *liveTargets) dump(dir string, snapshots []*taken) error {
	var units []live.Unit
	for _, s := range snapshots {
		units = append(units, s.units...)
	}
	n, err := live.Dump(dir, units)
	failed := []error{err}
	for _, t := range l.targets {
		if t.process == nil {
			continue
		}
		profiles, err := t.process.Profiles()
		if err != nil && !errors.Is(err, live.ErrNoCounters) {
			l.problem(t.title, err)
		}
		for _, p := range profiles {
			if t.base != nil {
				l.problem(t.title, fmt.Errorf("%s: all counts: those of source-based coverage are not reset", p.Name))
			}
			if len(l.targets) > 1 {
				p.Name = fmt.Sprintf("%d-%s", t.process.PID, p.Name)
			}
			if err := live.DumpProfile(dir, p); err != nil {
				failed = append(failed, err)
				continue
			}
			n++
		}
	}
	if n > 0 {
		fmt.Fprintf(l.stderr, "footfall: %s written below %s\n", output.Plural(n, "data file"), dir)
	}
	return errors.Join(failed...)
}

// profilesOnly tells whether a target without other counters can be dumped all
// the same.
func (l *liveTargets) profilesOnly(t *liveTarget) bool {
	if t.process == nil || l.options.dump == "" {
		return false
	}
	profiles, err := t.process.Profiles()
	return err == nil && len(profiles) > 0
}

func (l *liveTargets) writeInPlace(snapshots []*taken) error {
	var failed []error
	n := 0
	for _, s := range snapshots {
		if s.process == nil {
			return errors.New("the kernel writes no data files: --dump=DIR does")
		}
		written, skipped, err := s.process.WriteInPlace(s.units)
		n += written
		failed = append(failed, err)
		if skipped > 0 {
			fmt.Fprintf(l.stderr, "footfall: %s: %s left out: the program has written these data files itself, and would not write them again; --reset, and what is counted from then on can be added\n", s.title, output.Plural(skipped, "object"))
		}
	}
	if n > 0 {
		fmt.Fprintf(l.stderr, "footfall: %s added to what was counted before\n", output.Plural(n, "data file"))
	}
	return errors.Join(failed...)
}

// resetAfter carries out --reset and --hard-reset. A reset takes what was shown
// as the new zero.
func (l *liveTargets) resetAfter(snapshots []*taken) error {
	for _, s := range snapshots {
		var err error
		switch {
		case l.options.hardReset != "":
			err = l.hardReset(s)
		case l.options.reset == "off":
			var was bool
			if was, err = l.baselines.Remove(s.source.Key()); err == nil {
				said := "reset forgotten: all counts are shown again"
				if !was {
					said = "there was no reset"
				}
				fmt.Fprintf(l.stderr, "footfall: %s: %s\n", s.title, said)
			}
		case l.options.reset != "":
			if err = l.baselines.Store(s.source.Key(), live.NewBaseline(s.all)); err == nil {
				fmt.Fprintf(l.stderr, "footfall: %s: counts of %s start from zero; the program is not changed\n", s.title, output.Plural(len(s.all), "object"))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hardReset sets counters to zero and says what became of it.
func (l *liveTargets) hardReset(s *taken) error {
	name := l.options.hardReset
	if s.process == nil {
		if name == allObjects {
			name = ""
		} else if i := slices.IndexFunc(s.all, func(u live.Unit) bool { return live.NameMatch(name)(u.Name) }); i >= 0 {
			name = s.all[i].Name
		} else {
			return fmt.Errorf("kernel: no object of the name %s", name)
		}
		if err := s.source.(*live.Kernel).Reset(name); err != nil {
			return err
		}
		fmt.Fprintf(l.stderr, "footfall: the kernel set %s to zero\n", cmp.Or(name, "all counters"))
	} else {
		var match func(string) bool
		if name != allObjects {
			match = live.NameMatch(name)
		}
		r, err := s.process.HardReset(match)
		if err != nil {
			return err
		}
		fmt.Fprintf(l.stderr, "footfall: %s: %d counters of %s set to zero, the program stood still for %s\n",
			s.title, r.Counters, output.Plural(r.Units, "object"), r.Paused.Round(10*time.Microsecond))
		l.sayUndone(s, r)
	}
	if was, err := l.baselines.Remove(s.source.Key()); err != nil {
		return err
	} else if was {
		fmt.Fprintf(l.stderr, "footfall: %s: the earlier --reset is forgotten\n", s.title)
	}
	return nil
}

func (l *liveTargets) sayUndone(s *taken, r *live.HardReset) {
	if len(r.Undone) > 0 {
		fmt.Fprintf(l.stderr, "footfall: %s in %s came back, because the program was just increasing them: reset again\n",
			output.Plural(r.UndoneCounters, "counter"), strings.Join(r.Undone, ", "))
	}
	u, err := s.process.Updates()
	switch {
	case err != nil || u.Atomic+u.Plain == 0:
		fmt.Fprintf(l.stderr, "footfall: whether its counters are atomic is not known; if not, a reset is undone now and then\n")
	case u.Plain > 0:
		fmt.Fprintf(l.stderr, "footfall: %d of %d places that count are not atomic: a thread that is stopped between reading and writing a counter undoes its reset (measured: 0 to 12 %% of resets of a hot counter); -fprofile-update=atomic makes it exact, --reset is exact always\n",
			u.Plain, u.Plain+u.Atomic)
	}
}
