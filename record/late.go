package record

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"footfall/hook/patch"
	"footfall/hook/uprobe"
	"footfall/proc"
	"footfall/trace"
)

// Where functions have room, libraries that are loaded later and have none are watched by
// uprobes besides: by the patterns that would be for libraries without room.

// newLate returns probes of libraries that will be loaded; the modules are the libraries'.
func newLate(l *libraries) *probes {
	w := newProbes(l.p, l.Modules)
	w.late = make(map[*patch.Image]bool)
	return w
}

// watchLate watches functions of images that have been loaded, and returns how many. The
// options are for the first ones.
func (w *probes) watchLate(fresh []*patch.Image, l *libraries, options func() (uprobe.Options, error), stderr io.Writer) (int, error) {
	if len(l.selection.take)+len(l.selection.roots) == 0 {
		return 0, nil // all that have room
	}
	for _, i := range fresh {
		w.late[i] = !i.IsProgram()
	}
	w.aim(l.selection)
	w.paused = l.paused
	sites := w.choose(fresh)
	if len(sites) == 0 {
		return 0, nil
	}
	if w.session != nil {
		if err := w.forbidExits(fresh); err != nil {
			return 0, err
		}
		return w.watch(sites, stderr)
	}
	o, err := options()
	if err != nil {
		return 0, err
	}
	w.sites = sites
	err = w.open(o, stderr)
	if err != nil {
		w.session = nil
	}
	return w.watched(), err
}

// watchLate watches functions of libraries that a program has loaded.
func (r *recorder) watchLate(t *traced, fresh []*patch.Image) (int, error) {
	if t.late == nil {
		t.late = newLate(t.libraries)
	}
	return t.late.watchLate(fresh, t.libraries, func() (uprobe.Options, error) {
		if r.options.Mode == patch.Filtered {
			return uprobe.Options{}, errors.New("they have no room for a jump, and filters, --args with --exits too, are for functions that all have it, or all have not")
		}
		r.ordered = r.ordered || !r.o.Count
		t.lateClock.look(r.clock)
		return r.o.probeOptions(t.p, r.options), nil
	}, r.stderr)
}

// lateSession is that of uprobes besides, nil if there is none.
func (t *traced) lateSession() *uprobe.Session {
	if t.late == nil {
		return nil
	}
	return t.late.session
}

// readLate takes the events of uprobes besides.
func (r *recorder) readLate(t *traced) int {
	session := t.lateSession()
	if session == nil || r.o.Count {
		return 0
	}
	t.lateClock.look(r.clock)
	return session.Read(func(events []uprobe.Event) {
		for _, e := range events {
			if int(e.ID) >= len(t.late.numbers) {
				continue
			}
			q := r.queueOf(r.lateThread(t, e), true)
			q.add(trace.Event{Time: t.lateClock.nanos(e.Time), Function: uint32(t.late.numbers[e.ID]), Exit: e.Exit, Stack: uint32(e.Stack)})
			for _, w := range e.Words {
				q.add(trace.Event{Time: w, Word: true})
			}
		}
	})
}

// A twoClocks makes the kernel's times those of other events. What code in the program and the
// kernel see of one call is some hundred nanoseconds apart, so that both are looked at again
// and again: they do not go equally fast.
type twoClocks struct{ before, now [2]uint64 } // the kernel's, the other

// look compares the clocks.
func (c *twoClocks) look(clock *patch.Clock) {
	least := uint64(math.MaxUint64)
	var now [2]uint64
	for range 10 { // without being interrupted
		begin := monotonic()
		ticks := proc.Ticks()
		if took := monotonic() - begin; took < least {
			least, now = took, [2]uint64{begin + took/2, clock.Nanos(ticks)}
		}
	}
	if c.before[0] == 0 || now[0]-c.before[0] > uint64(time.Second) {
		c.before = c.now
	}
	if c.now = now; c.before[0] == 0 {
		c.before = now
	}
}

// nanos returns the other time for one of the kernel's.
func (c *twoClocks) nanos(kernel uint64) uint64 {
	since := float64(int64(kernel - c.now[0]))
	if elapsed := c.now[0] - c.before[0]; elapsed > uint64(10*time.Millisecond) {
		since *= float64(c.now[1]-c.before[1]) / float64(elapsed)
	}
	return uint64(max(int64(c.now[1])+int64(since), 0))
}

// lateThread is the thread of an event, as it is called where it has others.
func (r *recorder) lateThread(t *traced, e uprobe.Event) trace.Thread {
	of := proc.Thread{ID: e.TID, Process: t.late.session.ProcessOf(e.TID), Name: strings.TrimSpace(e.Name)}
	for _, q := range r.queues {
		if q.thread.ID == e.TID && !q.late {
			return q.thread
		}
	}
	if of.Name == "" {
		of.Name = threadName(of.Process, of.ID)
	}
	return r.thread(t, of)
}

// addLate adds what uprobes besides have counted.
func (r *recorder) addLate(t *traced) {
	session := t.lateSession()
	if session == nil {
		return
	}
	counts, err := session.Counts()
	if err != nil {
		fmt.Fprintf(r.stderr, "footfall: calls that uprobes count: %v\n", err)
	}
	for id, n := range counts {
		r.counts[t.late.numbers[id]] += n
	}
}

// detachLate ends the watching besides.
func (t *traced) detachLate(stderr io.Writer) error {
	session := t.lateSession()
	if session == nil {
		return nil
	}
	t.late.sharing.sayNarrow(session, stderr)
	return session.Detach()
}

func (t *traced) closeLate() error {
	session := t.lateSession()
	if session == nil {
		return nil
	}
	return session.Close()
}
