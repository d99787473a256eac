//go:build linux

// Package agent reads the counters of the programs of a machine, again and again, and sends what they have counted to the server
// of a fleet.
//
// # Exactly once
//
// All processes with counters are one [live.Family], which sums up by program, those that have ended included. What
// a program has counted in a window is what the sum is at its end, less what it was at its beginning: the base. At the end of a
// window one file, the state, is replaced: it has the new bases, and what is to be sent. So what was counted is in what is to be
// sent or above the base, whenever the agent ends. What is to be sent stays on disk until the server says that it is on
// the server's, and may be sent again and again (see package store).
//
// If there is no room for more the window stays open until there is: nothing is lost by that.
//
// # Agents that start again
//
// A new agent does not know what processes counted that have ended meanwhile. The state says what those that ran had
// counted at the last look: if all of them still run, that is the base, and nothing is lost. Else the counters of those that still
// run are the base as they are now: what was counted in between is lost, and nothing is sent twice. Of processes that have begun after the
// last look everything counts.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/collect/find"
	"footfall/fleet/client"
	"footfall/formats/gocover"
	"footfall/formats/llvm"
	"footfall/live"
	"footfall/process"
	"footfall/report/source"
)

// Options say what is read and where it goes.
type Options struct {
	Server *client.Client
	Dir    string // of the spool and the state; one agent uses it at a time
	Host   string
	// Targets select the processes that are read; none: all that can be.
	Targets []process.Selector
	Every   time.Duration // how long a window is, at least
	Most    int64         // bytes in Dir
	// Release is what people call the build of a program; "" if they do not.
	Release func(program string) string
	Labels  map[string]string
	Sources *source.Sources // how sources are called, and which count
	// Ran are targets of collect.OpenRan, whose functions are watched; RanSources are Sources for them, and others than these.
	Ran        []string
	RanSources *source.Sources
	ObjectDirs []string // of notes
	// Texts has the text of sources below the root of Sources be sent.
	Texts bool
	Log   *slog.Logger
}

// share is how much of the time of one processor the agent takes at most for reading: a hundredth.
const share = 100

// garbage is how much more memory may be in use than is needed, in percent: the machine is that of others.
const garbage = 30

// Run reads and sends until ctx ends; then it reads once more, and tries once more to send.
func Run(ctx context.Context, o Options) error {
	defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	a, err := start(o)
	if err != nil {
		return err
	}
	defer a.close()
	sending, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		a.spool.sendAll(sending)
	}()
	a.giveBack() // of finding what there is much is left
	for wait := o.Every; ; {
		select {
		case <-ctx.Done():
			stop()
			<-sent
			err := a.look(context.Background())
			last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			a.spool.sendOnce(last)
			return err
		case <-time.After(wait):
		}
		before := processorTime()
		if err := a.look(ctx); err != nil {
			a.o.Log.Error("nothing is sent of this window until it can be kept", "error", err)
		}
		a.giveBack()
		wait = max(o.Every, share*(processorTime()-before))
	}
}

// giveBack gives memory back to the system that is not needed until the next look: where functions are watched a look takes as much
// as what is known of a hundred thousand of them.
func (a *agent) giveBack() {
	if a.ran != nil {
		debug.FreeOSMemory()
	}
	if err := process.ReleaseOwnFile(); err != nil {
		a.o.Log.Debug("what there is in memory of footfall's own file stays", "error", err)
	}
}

// processorTime is what the agent has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// An agent is one that runs.
type agent struct {
	o        Options
	spool    *spool
	watching *watching
	state    *state
	programs map[string]*program  // by build
	profiled map[string]*profiled // those with source-based counters
	reader   llvm.Reader
	modules  gocover.Modules
	finder   *find.NotesFinder
	loads    map[int]string  // builds of the family's loads
	noNotes  map[string]bool // what was said
	first    bool            // nothing has been read so far
	ran      *ranWatching    // nil: there is none
}

func start(o Options) (_ *agent, err error) {
	a := &agent{o: o, programs: make(map[string]*program), profiled: make(map[string]*profiled), loads: make(map[int]string), noNotes: make(map[string]bool), first: true}
	if a.finder, _, err = find.NewNotesFinder(o.ObjectDirs, o.Sources); err != nil {
		return nil, err
	}
	if a.spool, err = openSpool(o); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.spool.close()
		}
	}()
	if a.state, err = a.spool.readState(); err != nil {
		return nil, err
	}
	if boot := bootID(); a.state == nil || a.state.Boot != boot {
		before := a.state
		a.state = &state{Boot: boot, Fresh: before == nil}
		if before != nil { // of what ran then nothing runs
			a.state.Epoch, a.state.Window, a.state.Next = before.Epoch, before.Window, before.Next
		}
	}
	if a.state.Next, err = a.spool.unused(a.state.Next); err != nil {
		return nil, err
	}
	a.watching = watch(o.Targets, o.Log)
	if len(o.Ran) > 0 {
		a.ran, err = watchRan(&a.o)
	}
	if err == nil {
		err = a.look(context.Background())
	}
	if err != nil {
		a.unwatch()
		return nil, err
	}
	return a, nil
}

// unwatch ends the watching of programs.
func (a *agent) unwatch() {
	a.watching.close()
	if a.ran == nil {
		return
	}
	if err := a.ran.close(); err != nil {
		a.o.Log.Warn("functions are watched no more", "error", err)
	}
}

func (a *agent) close() {
	a.unwatch()
	a.spool.close()
}

// bootID is that of the system since it was started.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// look reads all counters, and ends the window.
func (a *agent) look(ctx context.Context) error {
	now := time.Now()
	if full, err := a.spool.full(); err != nil {
		return err
	} else if full {
		a.o.Log.Warn("there is no room for more until the server takes what there is: the window stays open", "dir", a.o.Dir)
		return nil
	}
	units, err := a.watching.family.Snapshot()
	if err != nil {
		return err
	}
	for _, problem := range a.watching.family.Problems() {
		a.o.Log.Warn(problem.Error())
	}
	var list []counted
	builds := a.byBuild(units, a.watching.family.Running())
	for _, build := range slices.Sorted(maps.Keys(builds)) {
		p, err := a.programOf(build, builds[build])
		if err != nil {
			return err
		}
		c, err := p.countsOf(builds[build])
		if err != nil {
			return err
		}
		list = append(list, counted{program: p, counts: c})
	}
	next, err := a.next(now, a.profiles(list))
	if err != nil {
		return err
	}
	taken := func() {}
	if a.ran != nil {
		if taken, err = a.ran.next(a, next); err != nil {
			return err
		}
	}
	if err := a.spool.keep(ctx, next); err != nil {
		return err
	}
	taken()
	if a.first {
		a.spool.tidy(next)
	}
	a.state, a.first = next, false
	a.spool.wake()
	return nil
}

// errNoNotes is logged for objects without notes.
var errNoNotes = errors.New("what it runs is not sent: name the directory of the notes (.gcno) with --object-directory")

// sayNoNotes says once of a program that notes are missing.
func (a *agent) sayNoNotes(program string, n int, err error) {
	key := fmt.Sprint(program, n)
	if a.noNotes[key] {
		return
	}
	a.noNotes[key] = true
	a.o.Log.Warn(errNoNotes.Error(), "program", program, "objects", n, "error", err)
}

// image is one of the family's sums.
type image struct {
	path    string
	units   []live.Unit
	running live.Running
}
