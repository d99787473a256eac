package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"footfall/patch"
	"footfall/proc"
	"footfall/trace"
)

// A recorder takes events to the outputs.
type recorder struct {
	o       *traceOptions
	p       *proc.Process
	session *patch.Session
	clock   *patch.Clock
	header  *trace.Header
	numbers []int32 // of functions, by the id of the site; -1: none
	known   map[fileSite]int32
	builder *trace.Builder
	raw     *trace.RawWriter
	files   []*os.File
	ordered bool // by time, over all threads
	held    []held
	total   uint64
	given   uint64 // with --events
	stderr  io.Writer
	// launched: the program was started for the trace, so that its end is no news.
	launched  bool
	libraries *libraries
	requests  chan request    // of --set
	notices   <-chan struct{} // of libraries: a thread waits until look has been called
}

// A fileSite is a site, wherever its library is loaded.
type fileSite struct {
	image, function string
	addr            uint64
	arguments       string
}

// held are events that wait for those of other threads which are earlier.
type held struct {
	thread trace.Thread
	time   uint64
	event  trace.Event
}

// endSignals end a recording. With SIGPIPE the reader of the output has gone.
var endSignals = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE}

// numberFunctions makes a list of the functions, or adds to it.
func (r *recorder) numberFunctions() {
	sites := r.session.Sites()
	var ids []uint32
	for id := range sites {
		if int(id) >= len(r.numbers) || r.numbers[id] < 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Compare(sites[a].Addr, sites[b].Addr) })
	lines := len(ids) < 50_000
	for _, id := range ids {
		for int(id) >= len(r.numbers) {
			r.numbers = append(r.numbers, -1)
		}
		s := sites[id]
		arguments := r.libraries.described[s]
		key := fileSite{s.Image.Path, s.Function.Name, s.Site.Addr, fmt.Sprint(arguments)}
		if number, ok := r.known[key]; ok {
			r.numbers[id] = number
			continue
		}
		r.numbers[id] = int32(len(r.header.Functions))
		r.known[key] = r.numbers[id]
		f := trace.Function{Name: s.Name(), Image: s.Image.Path}
		if lines && !r.o.count {
			f.File, f.Line = s.Source(r.p)
		}
		f.Arguments = arguments
		r.header.Functions = append(r.header.Functions, f)
	}
}

// addFunctions makes functions known that have been switched on.
func (r *recorder) addFunctions() {
	before := len(r.header.Functions)
	r.numberFunctions()
	r.tellFunctions(before)
}

// tellFunctions writes down functions from a number on.
func (r *recorder) tellFunctions(from int) {
	if more := r.header.Functions[from:]; len(more) > 0 && r.raw != nil {
		r.raw.AddFunctions(more)
	}
}

// begin says what is traced.
func (r *recorder) begin(sites int) {
	skipped := r.session.Skipped
	fmt.Fprintf(r.stderr, "footfall: process %d (%s): tracing %s; switching on took %v\n", r.p.PID, r.p.Name,
		counted(sites-len(skipped), "function", "functions"), r.session.Stopped.Round(10*time.Microsecond))
	n := 0
	for site, why := range skipped {
		if n++; n > 3 {
			fmt.Fprintf(r.stderr, "footfall: ... and %d more\n", len(skipped)-3)
			break
		}
		fmt.Fprintf(r.stderr, "footfall: %s is not traced: %s\n", site.Name(), why)
	}
}

// run reads until the recording is to end, and says why it did if the user did
// not ask for it. Between reads that have brought nothing it waits; look is called
// now and then, and returns why the recording must end.
func (r *recorder) run(ctx context.Context, read func() int, look func() error, wait time.Duration) (why string) {
	begin, last := time.Now(), time.Now()
	atOnce := make(chan time.Time)
	close(atOnce)
	for {
		n := read()
		now := time.Now()
		switch {
		case r.ends(ctx, begin, now):
			return ""
		case now.Sub(last) > 50*time.Millisecond:
			last = now
			if r.builder != nil && r.builder.Flush() != nil {
				return "" // Close tells it again
			}
			if err := r.p.Check(); err != nil {
				return err.Error()
			}
			if err := look(); err != nil {
				return err.Error()
			}
		}
		var pause <-chan time.Time = atOnce
		if n == 0 {
			pause = time.After(wait)
		}
		select {
		case request := <-r.requests:
			request.answer <- r.change(&request.traceChange)
		case <-r.notices:
			if err := look(); err != nil {
				return err.Error()
			}
		case <-pause:
		}
	}
}

// ends tells whether the user wants the recording to end.
func (r *recorder) ends(ctx context.Context, begin, now time.Time) bool {
	return ctx.Err() != nil || r.o.duration > 0 && now.Sub(begin) >= r.o.duration || r.o.events > 0 && r.given >= r.o.events
}

// readNew takes what events there are, unless the newest are kept to the end.
func (r *recorder) readNew() int {
	if r.o.newest {
		return 0
	}
	return r.read(false)
}

// look makes room for new threads, and traces libraries that have been loaded
// meanwhile.
func (r *recorder) look() error {
	if err := r.session.Recycle(); err != nil {
		return err
	}
	if r.libraries.update(r.session, r.stderr) {
		r.addFunctions()
	}
	return nil
}

// read takes what events there are. At the end none are held back.
func (r *recorder) read(end bool) int {
	until := r.clock.Nanos(proc.Ticks())
	var converted []trace.Event
	n := r.session.Read(func(t proc.Thread, events []patch.Event) {
		converted = converted[:0]
		dropped := false
		for _, e := range events {
			if e.ID&patch.WordFlag != 0 {
				if !dropped {
					converted = append(converted, trace.Event{Time: e.Time, Word: true})
				}
				continue
			}
			id := e.ID &^ patch.ExitFlag
			if dropped = int(id) >= len(r.numbers) || r.numbers[id] < 0; dropped {
				continue
			}
			converted = append(converted, trace.Event{Time: r.clock.Nanos(e.Time), Function: uint32(r.numbers[id]), Exit: e.ID&patch.ExitFlag != 0, Stack: e.Stack})
		}
		thread := trace.Thread{ID: t.ID, Name: t.Name}
		if t.Process != r.p.PID {
			thread.Process = t.Process
		}
		if !r.ordered {
			r.give(thread, converted)
			return
		}
		for _, e := range converted {
			h := held{thread, e.Time, e}
			if e.Word {
				h.time = r.held[len(r.held)-1].time // it stays with its call
			}
			r.held = append(r.held, h)
		}
	})
	r.total += uint64(n)
	if _, waits := r.session.Noticed(); r.ordered && !waits {
		r.order(until, end)
	}
	return n
}

func (r *recorder) give(t trace.Thread, events []trace.Event) {
	if r.o.events > 0 {
		if events = r.upTo(events); len(events) == 0 {
			return
		}
	}
	if r.raw != nil {
		r.raw.Add(t, events)
	}
	r.builder.Add(t, events)
}

// upTo returns as many of the events as --events wants; words are not counted.
func (r *recorder) upTo(events []trace.Event) []trace.Event {
	for i, e := range events {
		if e.Word {
			continue
		}
		if r.given == r.o.events {
			return events[:i]
		}
		r.given++
	}
	return events
}

// order gives the held events up to a time, by time.
func (r *recorder) order(until uint64, end bool) {
	slices.SortStableFunc(r.held, func(a, b held) int { return cmp.Compare(a.time, b.time) })
	n := 0
	var run []trace.Event
	for ; n < len(r.held) && (end || r.held[n].time < until); n++ {
		h := &r.held[n]
		run = append(run, h.event)
		if n+1 == len(r.held) || r.held[n+1].thread.ID != h.thread.ID || !end && r.held[n+1].time >= until {
			r.give(h.thread, run)
			run = run[:0]
		}
	}
	r.held = append(r.held[:0], r.held[n:]...)
}

// sayChildren says what became of children.
func sayChildren(session *patch.Session, stderr io.Writer) {
	if n := session.Followed(); n > 0 {
		fmt.Fprintf(stderr, "footfall: with the calls of %s made by fork\n", counted(n, "child", "children"))
	}
	if n := session.Children; n > 0 && !session.Follows {
		fmt.Fprintf(stderr, "footfall: %s made by fork meanwhile: not recorded, and restored now\n", counted(n, "child", "children"))
	}
}

// end closes the outputs and says what is missing.
func (r *recorder) end(why string) error {
	events, threads := r.session.Lost()
	if threads > 0 {
		fmt.Fprintf(r.stderr, "footfall: %d calls were not recorded: more than 1024 threads at once\n", threads)
	}
	r.sayWhy(why)
	return r.close(events)
}

// sayWhy says why the recording has ended by itself.
func (r *recorder) sayWhy(why string) {
	if why != "" && !r.launched {
		fmt.Fprintf(r.stderr, "footfall: process %d: %s\n", r.p.PID, why)
	}
}
