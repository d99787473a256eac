//go:build linux

package collect

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"footfall/live"
	"footfall/output"
	"footfall/process"
)

// A Snapshot is what the counters of a target were at a moment.
type Snapshot struct {
	*Target
	all   []live.Unit
	units []live.Unit // since the reset, with what is gone; not to be changed
	// profiles are source-based counters, of libraries that are closed as they were read last.
	profiles []live.SourceProfile
}

// Same tells whether two looks at targets have found the same counts.
func Same(a, b []*Snapshot) bool {
	return slices.EqualFunc(a, b, func(a, b *Snapshot) bool {
		return a == b || a.Target == b.Target && slices.EqualFunc(a.units, b.units, func(a, b live.Unit) bool {
			return a.Name == b.Name && a.Image == b.Image && a.Counts.Same(b.Counts)
		}) && slices.EqualFunc(a.profiles, b.profiles, func(a, b live.SourceProfile) bool {
			return a.Key() == b.Key() && bytes.Equal(a.Bytes, b.Bytes) && bytes.Equal(a.Inherited, b.Inherited)
		})
	})
}

// Units returns the counters of the snapshots since the resets; they are not to be changed.
func Units(snapshots []*Snapshot) (units []live.Unit) {
	for _, s := range snapshots {
		units = append(units, s.units...)
	}
	return units
}

// Take takes a snapshot of each target, once. Of several those that cannot be read
// are told. Targets that have but profiles of source-based coverage are left out if
// profiles will do.
func (l *Targets) Take(profiles bool) (snapshots []*Snapshot, err error) {
	for _, t := range l.List {
		s, err := l.takeOnce(t)
		if err != nil && len(l.List) > 1 && !errors.Is(err, live.ErrNoCounters) {
			l.leaveOut(err)
			continue
		}
		if err != nil {
			if profiles && t.hasProfiles() {
				continue
			}
			return nil, err
		}
		snapshots = append(snapshots, s)
	}
	return snapshots, nil
}

// beginning is how long a program may take from exec to its first counters.
const beginning = 200 * time.Millisecond

// takeOnce is take. If the process becomes another program it reads that.
func (l *Targets) takeOnce(t *Target) (*Snapshot, error) {
	s, err := l.take(t)
	for end := time.Now().Add(beginning); errors.Is(err, process.ErrReplaced) && time.Now().Before(end); {
		process := t.process
		for err = t.open(process.PID, l.known); errors.Is(err, live.ErrNoCounters) && time.Now().Before(end); err = t.open(process.PID, l.known) {
			time.Sleep(time.Millisecond)
		}
		process.Close()
		if err == nil {
			err = l.admit(t)
		}
		if err == nil {
			s, err = l.take(t)
		}
	}
	return s, err
}

// take reads the counters of a target. Units that cannot be used are told; it
// is an error if none can.
func (l *Targets) take(t *Target) (*Snapshot, error) {
	if t.family != nil {
		return l.takeFamily(t)
	}
	all, err := t.counters()
	profiles := l.profiles(t)
	if len(profiles) > 0 && errors.Is(err, live.ErrNoCounters) {
		err = nil // it has no others
	} else if len(all) == 0 && !(t.history != nil && errors.Is(err, live.ErrNoCounters)) {
		return nil, err
	}
	if len(all) > 0 { // else all libraries with counters are closed
		l.problem(t.Title, err)
	}
	if t.history == nil {
		t.history, err = live.NewHistory(t.base)
		l.problem(t.Title, err)
	}
	for _, e := range t.history.Take(all) {
		l.say("%s: %v", t.Title, e)
	}
	if err := l.keepBaseline(t); err != nil {
		return nil, err
	}
	t.last = &Snapshot{Target: t, all: all, units: t.history.Units(), profiles: profiles}
	return t.last, nil
}

// profiles reads the source-based counters of a target, and keeps those of libraries that have been closed since.
func (l *Targets) profiles(t *Target) []live.SourceProfile {
	if t.process == nil || !t.process.HasProfiles() {
		return nil
	}
	profiles, err := t.process.Profiles()
	if err != nil && !errors.Is(err, process.ErrReplaced) && !errors.Is(err, process.ErrExited) {
		l.problem(t.Title, err)
	}
	if t.last == nil {
		return profiles
	}
	for _, p := range t.last.profiles {
		if !slices.ContainsFunc(profiles, func(o live.SourceProfile) bool { return o.Key() == p.Key() }) {
			profiles = append(profiles, p)
		}
	}
	return profiles
}

// counters reads them. A process that is stuck must not keep others waiting, nor a
// signal.
func (t *Target) counters() ([]live.Unit, error) {
	if t.process != nil {
		return t.process.SnapshotPatiently()
	}
	return t.source.Snapshot()
}

// TakeAgain takes a snapshot of each target, or what was read last where there is
// none now. It is an error if all have ended, or none could be read so far.
func (l *Targets) TakeAgain() ([]*Snapshot, error) {
	var snapshots []*Snapshot
	var ended, failed []error
	running := 0
	for i := 0; i < len(l.List); i++ { // it may become more
		t := l.List[i]
		if t.ended == nil {
			if err := l.look(t); t.ended != nil {
				ended = append(ended, err)
			} else if err != nil {
				failed = append(failed, err)
			}
		}
		if t.ended == nil {
			running++
		}
		if t.last != nil {
			snapshots = append(snapshots, t.last)
		}
	}
	if running == 0 || len(snapshots) == 0 {
		for _, t := range l.List { // at an earlier look, too
			failed = append(failed, t.ended)
		}
		return nil, errors.Join(failed...)
	}
	for _, err := range ended {
		l.say("%v: its counts stay as they were read last", err)
	}
	for _, err := range failed {
		var stuck *live.StuckError
		if errors.As(err, &stuck) {
			l.sayOnce("%s", output.Printable(err.Error()))
			continue
		}
		l.sayOnce("%v: it is read again at the next tick", err)
	}
	return snapshots, nil
}

// settling is how long processes that are writing their data files are waited for.
const settling = time.Second

// TakeSettled is TakeAgain, but waits for processes that are about to end, which are writing their data
// files: what they have counted is neither in memory nor in the files meanwhile.
func (l *Targets) TakeSettled() ([]*Snapshot, error) {
	for end := time.Now().Add(settling); ; time.Sleep(settling / 50) {
		snapshots, err := l.TakeAgain()
		moving := func(t *Target) bool { return t.family != nil && !t.family.Settled() }
		if err != nil || !slices.ContainsFunc(l.List, moving) || time.Now().After(end) {
			return snapshots, err
		}
	}
}

// Last returns what was read last of each target.
func (l *Targets) Last() (snapshots []*Snapshot) {
	for _, t := range l.List {
		if t.last != nil {
			snapshots = append(snapshots, t.last)
		}
	}
	return snapshots
}

// look reads a target. The counts of one that has ended stay; of one that runs
// another program now that is another target.
func (l *Targets) look(t *Target) error {
	if t.source == nil {
		return l.lookAgain(t)
	}
	_, err := l.take(t)
	replaced := errors.Is(err, process.ErrReplaced)
	if !replaced && !errors.Is(err, process.ErrExited) {
		return err
	}
	t.ended = err
	if t.process != nil {
		t.process.Close()
	}
	if replaced {
		l.List = append(l.List, &Target{Title: t.Title, pid: t.process.PID})
	}
	return err
}

// lookAgain looks for counters in a process that has become another program,
// and may have none so far.
func (l *Targets) lookAgain(t *Target) error {
	switch err := t.open(t.pid, l.known); {
	case err == nil:
		if err := l.admit(t); err != nil {
			return err
		}
		// It has begun since the first look: what cannot be its own is left out.
		if t.history, err = live.NewHistory(nil); err == nil {
			t.history.Take(nil)
			err = l.look(t)
		}
		return err
	case errors.Is(err, live.ErrNoCounters):
		return nil
	default:
		t.ended = err // or may not be looked into
		return err
	}
}

// ResetCounts has the counts of targets start from zero, for who follows them.
func (l *Targets) ResetCounts() error {
	snapshots, err := l.TakeAgain()
	if err != nil {
		return err
	}
	for _, s := range snapshots {
		s.history.Reset(nil)
		s.zero = make(map[string][]byte)
		for _, p := range s.profiles {
			s.zero[p.Key()] = p.Bytes
		}
		if s.family != nil {
			s.family.ResetInherited()
			for i := range s.profiles {
				s.profiles[i].Inherited = nil
			}
		}
		s.last.units = s.history.Units()
	}
	return nil
}
