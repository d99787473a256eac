//go:build linux

package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"footfall/output"
	"footfall/process"
	"footfall/trace"
)

// follows is --follow-exec: which processes there are, and what has become of the
// programs in them.
type follows struct {
	f      *process.Follower
	ways   ways
	owners map[int]*program // by process: whose functions are in it
	execs  map[int]int      // by process: programs that it has become
	ended  bool             // the process that was first has

	traced, untraced, failed map[string]int // programs by name, and how often
	said                     map[string]bool
}

// traceFollowing is footfall trace --follow-exec.
func (o *Options) traceFollowing(set *settings, ways ways) (err error) {
	if len(o.Ways) == 0 { // see adopt
		ways = slices.DeleteFunc(ways, func(w Way) bool { return w == Moved })
	}
	var p *process.Process
	var child *exec.Cmd
	var f *process.Follower
	header := new(trace.Header)
	if o.launches() {
		child = newChild(o.Program)
		if f, err = process.FollowCommand(child); err != nil {
			return NotStarted(o.Program[0], err)
		}
		header.PID, header.Program = f.Main(), filepath.Base(o.Program[0])
	} else {
		if p, err = openTarget(o.Targets[0]); err != nil {
			return err
		}
		defer p.Close()
		if f, err = process.Follow(p); err != nil {
			return err
		}
		header.PID, header.Program = p.PID, p.Name
	}
	defer f.Close()
	r := o.newRecorder(header, set)
	r.time.measure()
	r.p = p
	r.follows = &follows{
		f: f, ways: ways, owners: make(map[int]*program), execs: make(map[int]int),
		traced: make(map[string]int), untraced: make(map[string]int), failed: make(map[string]int), said: make(map[string]bool),
	}
	err = r.record(func() error {
		if p == nil {
			r.follows.execs[f.Main()] = -1 // it is about to become the first one
			return nil
		}
		if err := r.adopt(p); !errors.Is(err, errNothing) {
			return err
		}
		fmt.Fprintf(r.stderr, "footfall: process %d (%s): no functions that fit and can be traced; programs that it becomes or starts are\n", p.PID, output.Printable(p.Name))
		return nil
	}, func() error { return nil })
	if child == nil {
		return err
	}
	return endOf(child, err)
}

// adopt records the program of a process, if there is something to record. Uprobes are besides
// for programs that have functions with room, unless only they are permitted, and instructions
// are moved where that is asked for: most programs of a build are of no interest.
func (r *recorder) adopt(p *process.Process) error {
	w := r.follows
	s, err := r.o.selection()
	if err != nil {
		return err
	}
	// What does not fit in one program may be for another one.
	t := r.newProgram(p, s, w.ways, io.Discard)
	c, none := t.find(awaitNamed)
	if without := (*noSites)(nil); errors.As(none, &without) && (w.ways.jump() || len(c.probes) == 0) {
		w.untraced[p.Name]++
		t.images.Close()
		return errNothing
	} else if none != nil && without == nil {
		t.images.Close()
		return none
	}
	t.stderr, t.paused = r.stderr, r.paused
	if err := t.open(&c, none, false); err != nil {
		t.images.Close()
		return err
	}
	if t.threads.exec = w.execs[p.PID]; t.threads.exec > 0 || p.PID != r.header.PID {
		t.threads.program = p.Name
	}
	t.threads.live = 1
	if t.sites != nil {
		t.sites.session.LoadNotifications()
	}
	r.programs = append(r.programs, t)
	w.owners[p.PID] = t
	w.traced[p.Name]++
	return nil
}

// errNothing tells that a program has nothing to trace, which is noted.
var errNothing = errors.New("nothing to trace")

// follow does what is due with programs that have begun and ended.
func (r *recorder) follow() {
	w := r.follows
	for _, e := range w.f.Events() {
		switch e.Kind {
		case process.Forked:
			w.execs[e.PID] = w.execs[e.Parent]
			if t := w.owners[e.Parent]; t != nil {
				w.owners[e.PID] = t
				t.threads.live++
			}
		case process.Replaced:
			w.execs[e.PID]++
			r.leave(e.PID)
		case process.Began:
			r.began(&e)
		case process.Ended:
			w.ended = w.ended || e.PID == r.header.PID
			r.leave(e.PID)
			delete(w.execs, e.PID)
		}
	}
	r.lookAtNotices()
}

// lookAtNotices traces libraries that have been loaded, where a thread waits for that.
func (r *recorder) lookAtNotices() {
	for _, t := range r.programs {
		if t.noticed() {
			_ = t.look() // look says it again
		}
	}
}

// began traces a program that waits at its beginning, and lets it run.
func (r *recorder) began(e *process.FollowEvent) {
	w := r.follows
	err := e.Err
	if e.Unprivileged && !w.said["/"+e.Name] {
		w.said["/"+e.Name] = true
		fmt.Fprintf(r.stderr, "footfall: %s is set-user-id, and runs without that, because it is followed and footfall does not run as root\n", e.Name)
	}
	if err == nil {
		err = r.adopt(e.Process)
		w.f.Release(e.Process)
	}
	if err == nil {
		if w.traced[e.Name] == 1 {
			w.owners[e.PID].say()
		}
		return
	}
	if e.Process != nil {
		e.Process.Close()
	}
	if errors.Is(err, errNothing) || errors.Is(err, process.ErrExited) {
		return
	}
	if w.failed[e.Name]++; w.failed[e.Name] == 1 {
		fmt.Fprintf(r.stderr, "footfall: %s is not traced: %v\n", e.Name, err)
	}
}

// leave notes that a process does not run the program any more that it ran. With
// the last one the program is finished.
func (r *recorder) leave(pid int) {
	w := r.follows
	t := w.owners[pid]
	delete(w.owners, pid)
	if t == nil {
		return
	}
	if t.threads.live--; t.threads.live > 0 {
		return
	}
	_, err := r.readOf(t)
	r.finish(t)
	if err := errors.Join(err, t.closeEnded()); err != nil {
		fmt.Fprintf(r.stderr, "footfall: process %d (%s): %v\n", t.p.PID, output.Printable(t.p.Name), err)
	}
	if t.p != r.p {
		t.p.Close()
	}
	r.programs = slices.DeleteFunc(r.programs, func(other *program) bool { return other == t })
}

// check tells whether the process that was first has ended.
func (w *follows) check() error {
	if w.ended {
		return process.ErrExited
	}
	return nil
}

// end lets all processes go.
func (w *follows) end() { w.f.Close() }

// say says which programs there were.
func (w *follows) say(stderr io.Writer) {
	list := func(programs map[string]int) string {
		names := slices.SortedFunc(maps.Keys(programs), func(a, b string) int { return cmp.Or(cmp.Compare(programs[b], programs[a]), cmp.Compare(a, b)) })
		var parts []string
		for i, name := range names {
			if i == 8 {
				parts = append(parts, fmt.Sprintf("%d others", len(names)-i))
				break
			}
			part := name
			if n := programs[name]; n > 1 {
				part = fmt.Sprintf("%s (%d times)", name, n)
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, ", ")
	}
	if len(w.traced) > 0 {
		fmt.Fprintf(stderr, "footfall: programs traced: %s\n", list(w.traced))
	}
	if len(w.untraced) > 0 {
		fmt.Fprintf(stderr, "footfall: programs left alone, without functions that fit and can be traced: %s\n", list(w.untraced))
	}
	if len(w.failed) > 0 {
		fmt.Fprintf(stderr, "footfall: programs not traced, as said above: %s\n", list(w.failed))
	}
}
