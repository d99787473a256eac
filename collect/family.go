//go:build linux

package collect

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"footfall/live"
	"footfall/output"
	"footfall/process"
)

// A family is the processes that an argument names, those that run and those that come: one
// target, whose counts are those of all of them, the ended ones included.
type family struct {
	*live.Family
	name     string
	arrivals *process.Arrivals
	first    *live.CountedProcess
	places   []string    // of the first one, which may end
	over     bool        // none ran at the last look
	reset    atomic.Bool // of some counts are those since a reset

	mu      sync.Mutex
	refused map[int]process.Identity // that cannot be looked at, or have no counters of their own
}

// Key is what nothing is kept by: resets are of processes.
func (f *family) Key() string { return "family" }

// title is what the family is called, with how many it is now.
func (f *family) title() string {
	running, ended := f.Members()
	switch {
	case ended > 0:
		return fmt.Sprintf("%s, %s, %d ended", f.name, output.Count(running, "process", "processes"), ended)
	case running == 1:
		return fmt.Sprintf("%s (pid %d)", f.name, f.first.PID)
	}
	return fmt.Sprintf("%s, %s", f.name, output.Count(running, "process", "processes"))
}

// openFamily opens the processes of an argument, of those that none before it has named, and
// follows them. One of them must have counters.
func (l *Targets) openFamily(selector process.Selector, pids []int, seen map[int]bool) error {
	f := &family{refused: make(map[int]process.Identity)}
	var refused []error
	for _, pid := range pids {
		p, err := l.known.OpenPatiently(pid)
		if err == nil {
			f.first, f.name = p, output.Printable(p.Name)
			break // the others have what it has, and are looked at faster
		}
		refused = append(refused, err)
		f.refuse(pid)
	}
	if f.first == nil {
		return errors.Join(refused...)
	}
	for _, err := range refused {
		if !errors.Is(err, live.ErrNoCounters) && !errors.Is(err, process.ErrExited) {
			l.leaveOut(err)
		}
	}
	f.places = f.first.Places()
	own := func(pid int) bool { return !seen[pid] && (selector.Descends() || selector.Selects(pid)) }
	f.Family = live.NewFamily(own)
	if !l.options.Total {
		if f.Baselines, _ = live.OpenBaselines(); f.Baselines != nil { // that there are none is said by loadBaselines
			f.Since = l.saySince(f)
		}
	}
	t := &Target{pid: f.first.PID, source: f, process: f.first, family: f}
	l.List = append(l.List, t)
	for _, pid := range pids {
		if err := f.add(pid); err != nil && !errors.Is(err, process.ErrExited) {
			l.leaveOut(err)
		}
	}
	if err := l.admit(t); err != nil {
		return err
	}
	f.arrivals = process.WatchArrivals(selector, f.Tells, func(pid int) {
		if !seen[pid] {
			_ = f.add(pid) // it may have ended meanwhile
		}
	})
	if l.options.Verbose && !f.arrivals.Told() {
		l.say("%s: processes that come are looked for each 20 ms: the kernel tells of them (proc connector) only who has CAP_NET_ADMIN, and in no container", f.name)
	}
	t.Title = f.title()
	return nil
}

// saySince tells of a reset that was made before.
func (l *Targets) saySince(f *family) func(name string, pid int, b *live.Baseline) error {
	return func(name string, pid int, b *live.Baseline) error {
		f.reset.Store(true)
		if l.options.Forgets {
			return nil
		}
		return fmt.Errorf("%s (pid %d): counts since the reset of %s (--total: all)", output.Printable(name), pid, b.Time.Local().Format(time.DateTime))
	}
}

// add makes a process one of the family.
func (f *family) add(pid int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isRefused(pid) {
		return nil
	}
	err := f.Add(pid)
	if err != nil && !errors.Is(err, process.ErrExited) {
		f.refuse(pid)
	}
	return err
}

// refuse has a process not be looked at again.
func (f *family) refuse(pid int) {
	if id, err := process.Identify(pid); err == nil {
		f.refused[pid] = id
	}
}

// isRefused tells it of the process that has the pid now.
func (f *family) isRefused(pid int) bool {
	id, known := f.refused[pid]
	if !known {
		return false
	}
	if now, err := process.Identify(pid); err == nil && now == id {
		return true
	}
	delete(f.refused, pid)
	return false
}

// close lets go of the processes.
func (f *family) close() {
	if f.arrivals != nil {
		f.arrivals.Close()
	}
	f.Close()
}

// An overError tells that all processes of a family have ended. It is one of process.ErrExited.
type overError struct{ name string }

func (e *overError) Error() string        { return e.name + ": all its processes have ended" }
func (e *overError) Is(target error) bool { return target == process.ErrExited }

// SeesEnds tells whether the counts of all targets stay exact when they end: of families.
func (l *Targets) SeesEnds() bool {
	return !slices.ContainsFunc(l.List, func(t *Target) bool { return t.family == nil })
}

// takeFamily is take.
func (l *Targets) takeFamily(t *Target) (*Snapshot, error) {
	f := t.family
	running, _ := f.Members()
	if running == 0 && f.over {
		return nil, &overError{f.name}
	}
	f.over = running == 0
	units, err := f.Snapshot()
	if err != nil {
		return nil, err
	}
	profiles := f.Profiles()
	for _, err := range f.Problems() {
		l.say("%v", err)
	}
	t.Title = f.title()
	if t.history == nil {
		if t.history, err = live.NewHistory(nil); err != nil {
			return nil, err
		}
	}
	t.history.Take(units)
	t.last = &Snapshot{Target: t, all: units, units: t.history.Units(), profiles: profiles}
	return t.last, nil
}
