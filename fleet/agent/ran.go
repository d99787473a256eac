//go:build linux

package agent

import (
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"footfall/collect"
	"footfall/fleet/store"
	"footfall/fleet/wire"
	"footfall/process"
)

// This file is programs without counters: which of their functions run, see [collect.Ran]. A function that has run is
// not watched any more, and so is seen once, in the window in which it ran. Therefore all are watched again from time
// to time: what runs always is seen then again.
//
// What is sent are no counts. It may be sent twice, and is by an agent that starts again, as of the time since
// when functions are watched.

// rearmEvery is after how long all functions are watched again. What is asked of a fleet are days.
const rearmEvery = 6 * time.Hour

// A ranWatching is the programs whose functions are watched.
type ranWatching struct {
	ran      *collect.Ran
	start    time.Time // since when
	armed    time.Time // since when all are
	programs map[*collect.RanProgram]*ranProgram
	requests chan func() // for the goroutine that has ran
	ended    chan error
}

// A ranProgram is one of them.
type ranProgram struct {
	build  string
	window int64 // the beginning of the next one, in seconds since 1970
	units  *ranUnits
	// Mostly nothing has run since: then what is sent is what was sent last but for what ran.
	known   uint64         // what was known of the functions then; 0: nothing, or it is to be looked at in any case
	unknown []packedVector // of which it was not known whether they ran
}

// mostBack is how long ago a window may have begun: what is older a server may have added up.
const mostBack = 7 * 24 * time.Hour

// watchRan begins to watch.
func watchRan(o *Options) (*ranWatching, error) {
	said := said{o.Log}
	ran, err := collect.OpenRan(o.Ran, collect.RanOptions{
		Sources: o.RanSources, Stderr: said, Notes: io.Discard, Keep: true, Directory: filepath.Join(o.Dir, "ran"), Wait: true,
	})
	if err != nil {
		return nil, err
	}
	w := &ranWatching{ran: ran, programs: make(map[*collect.RanProgram]*ranProgram), requests: make(chan func()), ended: make(chan error, 1)}
	w.start = time.Now()
	w.armed = w.start
	go w.look(o.Log)
	return w, nil
}

// said logs what is written, a line each.
type said struct{ log *slog.Logger }

func (s said) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		s.log.Warn(strings.TrimPrefix(strings.TrimSpace(line), "footfall: "))
	}
	return len(b), nil
}

// look looks again and again, and does what is asked for in between, until there is nobody who could ask.
func (w *ranWatching) look(log *slog.Logger) {
	for {
		_, next, err := w.ran.Look()
		if errors.Is(err, process.ErrExited) {
			next, err = time.Second, nil // others may come
		}
		if err != nil {
			log.Warn("looking for what has run", "error", err)
			next = time.Second
		}
		for due := time.After(next); due != nil; {
			select {
			case request, more := <-w.requests:
				if !more {
					w.ended <- w.ran.Close()
					return
				}
				request()
			case <-due:
				due = nil
			}
		}
	}
}

// do does something in the goroutine that looks.
func (w *ranWatching) do(what func()) {
	done := make(chan struct{})
	w.requests <- func() { what(); close(done) }
	<-done
}

// close ends the watching. Processes stay watched.
func (w *ranWatching) close() error {
	close(w.requests)
	return <-w.ended
}

// next adds to a state what has run since the one before; taken is to be called when that is kept.
func (w *ranWatching) next(a *agent, n *state) (taken func(), err error) {
	var marks []func()
	w.do(func() {
		w.ran.Settle()
		for _, p := range w.ran.Programs() {
			if p.BuildID() == "" {
				continue // it was said that it cannot be kept
			}
			var mark func()
			if mark, err = w.add(a, n, p); err != nil {
				return
			}
			marks = append(marks, mark)
		}
	})
	return func() {
		for _, mark := range marks {
			mark()
		}
		w.do(func() { w.rearm(a.o.Log) })
	}, err
}

// rearm has all functions be watched again if it is time for that. All that ran is on its way.
func (w *ranWatching) rearm(log *slog.Logger) {
	if time.Since(w.armed) < rearmEvery {
		return
	}
	if err := w.ran.Reset(); err != nil {
		log.Warn("functions are not watched again", "error", err)
	}
	w.armed = time.Now()
	for _, p := range w.programs {
		p.units.forget()
		p.known = 0
	}
}

// add adds what has run of a program. mark is to be called when that is kept.
func (w *ranWatching) add(a *agent, n *state, p *collect.RanProgram) (mark func(), err error) {
	of, known := w.programs[p], p.Known()
	window := n.Window
	if of == nil {
		if of, err = w.tell(a, p); err != nil {
			return nil, err
		}
		w.programs[p] = of
	}
	n.Ran = append(n.Ran, of.build)
	if of.known == known {
		if w.ran.Watches(p) {
			a.batches(n, of.build, w.start, n.Epoch, of.window, unpackAll(of.unknown))
		}
		return func() { of.window = window }, nil
	}
	usage, unknown, fresh := of.units.usage(p)
	if w.ran.Watches(p) || len(fresh) > 0 {
		a.batches(n, of.build, w.start, n.Epoch, of.window, usage)
	}
	return func() {
		of.window, of.known, of.unknown = window, known, unknown
		of.units.note(fresh)
	}, nil
}

// tell keeps the units of a program.
func (w *ranWatching) tell(a *agent, p *collect.RanProgram) (*ranProgram, error) {
	since := p.Since()
	if since.IsZero() {
		since = w.start
	}
	if back := time.Now().Add(-mostBack); since.Before(back) {
		since = back
	}
	of := &ranProgram{build: filepath.Base(p.Path) + "-" + p.BuildID(), window: since.Unix(), units: newRanUnits(p)}
	var hashes []store.Hash
	told := a.newProgram(of.build, p.Path)
	files := p.Files(a.o.RanSources)
	for i := range files {
		f := &files[i]
		one, at, counters := ranUnitOf(f.File)
		if one.Counters > wire.MostCounters {
			a.o.Log.Warn("there are too many functions to be sent", "program", p.Path, "source", f.Name, "functions", len(f.Functions))
			continue
		}
		hash := one.Hash()
		of.units.add(p, hash, f, at, counters)
		files[i] = collect.RanFile{} // what is sent of it is in the unit
		if err := a.spool.keepUnit(hash, one); err != nil {
			return nil, err
		}
		hashes = append(hashes, hash)
		if err := told.texts.note(&one); err != nil {
			return nil, err
		}
	}
	if _, err := a.readTexts(told, w.ran.PIDs(p)...); err != nil {
		return nil, err
	}
	defer debug.FreeOSMemory() // it takes many times as much as what stays
	return of, a.spool.keepBuild(of.build, a.o.Release(p.Path), hashes, told.texts.hashes())
}
