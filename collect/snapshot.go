package collect

import (
	"errors"
	"time"

	"footfall/live"
	"footfall/proc"
)

// A Snapshot is what the counters of a target were at a moment.
type Snapshot struct {
	*Target
	all   []live.Unit
	units []live.Unit // since the reset, with what is gone; not to be changed
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
			l.say("left out: %v", err)
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
	for end := time.Now().Add(beginning); errors.Is(err, proc.ErrReplaced) && time.Now().Before(end); {
		process := t.process
		for err = t.open(process.PID); errors.Is(err, live.ErrNoCounters) && time.Now().Before(end); err = t.open(process.PID) {
			time.Sleep(time.Millisecond)
		}
		process.Close()
		if err == nil {
			err = l.trust(t)
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
	if t.process != nil {
		t.process.FollowFiles = l.options.Follow
	}
	all, err := t.source.Snapshot()
	if len(all) == 0 && !(t.history != nil && errors.Is(err, live.ErrNoCounters)) {
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
	t.last = &Snapshot{Target: t, all: all, units: t.history.Units()}
	return t.last, nil
}

// TakeAgain takes a snapshot of each target, or what was read last where there is
// none now. It is an error if all have ended, or none could be read so far.
func (l *Targets) TakeAgain() ([]*Snapshot, error) {
	var snapshots []*Snapshot
	var ended, failed []error
	running := 0
	for i := 0; i < len(l.List); i++ { // it may become more
		t := l.List[i]
		if !t.ended {
			if err := l.look(t); t.ended {
				ended = append(ended, err)
			} else if err != nil {
				failed = append(failed, err)
			}
		}
		if !t.ended {
			running++
		}
		if t.last != nil {
			snapshots = append(snapshots, t.last)
		}
	}
	if running == 0 || len(snapshots) == 0 {
		return nil, errors.Join(append(ended, failed...)...)
	}
	for _, err := range ended {
		l.say("%v: its counts stay as they were read last", err)
	}
	for _, err := range failed {
		l.sayOnce("%v: it is read again at the next tick", err)
	}
	return snapshots, nil
}

// look reads a target. The counts of one that has ended stay; of one that runs
// another program now that is another target.
func (l *Targets) look(t *Target) error {
	if t.source == nil {
		return l.lookAgain(t)
	}
	_, err := l.take(t)
	replaced := errors.Is(err, proc.ErrReplaced)
	if !replaced && !errors.Is(err, proc.ErrExited) {
		return err
	}
	t.ended = true
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
	switch err := t.open(t.pid); {
	case err == nil:
		if err := l.trust(t); err != nil {
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
		t.ended = true // or may not be looked into
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
		s.last.units = s.history.Units()
	}
	return nil
}
