//go:build linux

package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"footfall/output"
	"footfall/process"
	"footfall/trace"
)

// A recorder takes the events of programs to the outputs, from when they are switched on until
// something ends it.
type recorder struct {
	o        *Options
	settings *settings
	stderr   io.Writer

	p        *process.Process // that was traced first; nil: the kernel, or a program that has not begun
	programs []*program
	follows  *follows // nil: programs that others become are not followed
	started  *started // nil: it is not known which programs begin

	// Where events go: with numbers of functions and times of the recording, in order if that is
	// wanted, to outputs.
	header    *trace.Header
	functions *functions
	time      *recordingTime
	order     *order   // nil: events are given as they come
	outputs   *outputs // nil: calls are only counted
	counts    []countOutput

	control
	ended ended
}

// control is what changes a recording that runs.
type control struct {
	requests chan request    // of --set
	paused   bool            // by --set: nothing is to be recorded
	notices  <-chan struct{} // of libraries: a thread waits until look has been called
}

// ended is what is known at the end of programs.
type ended struct {
	lost               losses
	recorded, children int      // children made by fork: that have recorded, and others
	counts             []uint64 // by the number of the function
}

// newRecorder returns one that has no programs yet.
func (o *Options) newRecorder(h *trace.Header, set *settings) *recorder {
	h.Exits, h.Filter = set.mode.HasExits(), set.filter
	r := &recorder{o: o, settings: set, header: h, functions: newFunctions(h), time: new(recordingTime), stderr: o.Stderr}
	r.functions.lineless = set.mode == trace.Counts
	return r
}

// endSignals end a recording. With SIGPIPE the reader of the output has gone.
var endSignals = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE}

// untilSignal returns a context that they end; below nohup it goes on. SIGINT counts
// also in the background of a script, where it is ignored: kill -INT is how a script ends us.
func untilSignal() (context.Context, context.CancelFunc) {
	signals := slices.DeleteFunc(slices.Clone(endSignals), func(s os.Signal) bool { return s == unix.SIGHUP && signal.Ignored(s) })
	return signal.NotifyContext(context.Background(), signals...)
}

// record switches on by open, lets go by release what has been started, and records
// until something ends it.
func (r *recorder) record(open, release func() error) (err error) {
	// Signals must not end footfall before it has restored the program.
	ctx, cancel := untilSignal()
	defer cancel()
	defer func() { err = errors.Join(err, r.closePrograms()) }()
	if err := open(); err != nil {
		return err
	}
	if r.p != nil || r.follows != nil {
		defer r.listen()()
	}
	r.time.begin()
	r.header.Start = r.time.since
	if r.settings.mode == trace.Counts {
		if r.counts, err = openCounts(r.o); err != nil {
			return err
		}
		defer discardCounts(r.counts)
	} else {
		if r.outputs, err = openOutputs(ctx, r.o, r.header, nil); err != nil {
			return err
		}
		defer r.outputs.discard()
		r.setOrder()
	}
	for _, t := range r.programs {
		t.say()
	}
	if err := release(); err != nil {
		return err
	}
	why, err := r.run(ctx)
	if r.follows != nil {
		r.follows.end()
	}
	for _, t := range r.programs {
		if err := t.stop(); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return r.end(why)
}

// listen takes wishes of --set, and what the process tells of, until what it returns is called.
func (r *recorder) listen() (end func()) {
	if r.p != nil {
		sayTracers(r.p, r.stderr)
	}
	requests, socket, err := serveControl(r.header.PID)
	if err != nil {
		fmt.Fprintf(r.stderr, "footfall: %v\n", err)
	}
	r.requests = requests
	if r.follows == nil {
		r.started = watchStarted(r.header.PID)
		if s := r.programs[0].sites; s != nil {
			r.notices = s.session.LoadNotifications()
		}
	}
	return func() {
		if socket != nil {
			socket.Close()
		}
		r.started.close()
	}
}

// setOrder has events brought into the order of time, if an output wants that, or if several
// backends record one thread.
func (r *recorder) setOrder() {
	several := slices.ContainsFunc(r.programs, func(t *program) bool { return t.probes != nil })
	byTime := slices.ContainsFunc(r.programs, func(t *program) bool { return t.kernel != nil })
	if r.outputs != nil && r.order == nil && !byTime && (several || r.outputs.ordered) {
		r.order = &order{give: r.outputs.add, endPass: r.outputs.endPass}
	}
}

// run reads until the recording is to end, and says why it did if the user did
// not ask for it. Between reads that have brought nothing it waits.
func (r *recorder) run(ctx context.Context) (why string, err error) {
	begin, last := time.Now(), time.Now()
	for {
		n, err := r.readNew()
		if err != nil {
			return "", err
		}
		now := time.Now()
		switch {
		case r.ends(ctx, begin, now):
			return "", nil
		case now.Sub(last) > 50*time.Millisecond:
			last = now
			if r.outputs != nil && r.outputs.builder.Flush() != nil {
				return "", nil // Close tells it again
			}
			if err := r.check(); err != nil {
				return err.Error(), nil
			}
			if err := r.look(); err != nil {
				return err.Error(), nil
			}
		}
		select {
		case request := <-r.requests:
			request.answer <- r.change(&request.traceChange)
		case <-r.notices:
			if err := r.look(); err != nil {
				return err.Error(), nil
			}
		case <-r.pause(ctx, n):
		}
	}
}

// atOnce is a time that has come.
var atOnce = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// pause is when to read again after a read of so many events.
func (r *recorder) pause(ctx context.Context, events int) <-chan time.Time {
	wait, always := wayTable[Sites].wait, false
	for _, t := range r.programs {
		for _, b := range t.backends() {
			wait, always = max(wait, wayTable[b.Way()].wait), always || wayTable[b.Way()].always
		}
	}
	if events > 0 && !always || ctx.Err() != nil {
		return atOnce
	}
	if r.o.Duration > 0 {
		wait = min(wait, r.o.Duration)
	}
	return time.After(wait)
}

// check tells why the recording ends by itself.
func (r *recorder) check() error {
	switch {
	case r.follows != nil:
		return r.follows.check()
	case r.p != nil:
		return r.p.Check()
	}
	return nil
}

// ends tells whether the user wants the recording to end.
func (r *recorder) ends(ctx context.Context, begin, now time.Time) bool {
	return ctx.Err() != nil || r.o.Duration > 0 && now.Sub(begin) >= r.o.Duration || r.outputs != nil && r.outputs.full()
}

// look makes room for new threads, and records libraries that have been loaded meanwhile.
func (r *recorder) look() error {
	r.started.look()
	for _, t := range r.programs {
		if err := t.maintain(); err != nil && (r.follows == nil || t.p.Check() == nil) {
			return err
		} // else only its children run
	}
	r.setOrder()
	return nil
}

// readNew takes what events there are, unless the newest are kept to the end.
func (r *recorder) readNew() (int, error) {
	if r.follows != nil {
		r.follow()
	}
	if r.settings.newest {
		for _, t := range r.programs {
			for _, b := range t.backends() {
				if s, ok := b.(*sites); ok {
					s.session.NoticeFilters()
				}
			}
		}
		return 0, nil
	}
	return r.read(false)
}

// read takes what events there are. At the end none are held back.
func (r *recorder) read(end bool) (n int, err error) {
	until := r.time.now()
	for _, t := range r.programs {
		more, failed := r.readOf(t)
		n, err = n+more, errors.Join(err, failed)
	}
	waits := slices.ContainsFunc(r.programs, (*program).noticed) // reading has ended early
	switch {
	case r.order != nil && end:
		r.order.end()
	case r.order != nil && !waits:
		r.order.until(until - min(until, r.settled()))
	case r.order == nil && r.outputs != nil && n > 0:
		r.outputs.endPass()
	}
	return n, err
}

// settled is how long ago it must be that all events were, so that all have been read.
func (r *recorder) settled() uint64 {
	settled := time.Duration(0)
	for _, t := range r.programs {
		for _, b := range t.backends() {
			settled = max(settled, wayTable[b.Way()].settled)
		}
	}
	return uint64(settled)
}

// readOf takes the events of one program.
func (r *recorder) readOf(t *program) (n int, err error) {
	for _, b := range t.backends() {
		more, failed := b.Read(func(thread process.ThreadStatus, events []trace.Event) {
			switch of := r.thread(t, thread); {
			case r.order != nil:
				r.order.add(of, b.Way(), events)
			case r.outputs != nil:
				r.outputs.add(of, events)
			}
		})
		n, err = n+more, errors.Join(err, failed)
	}
	return n, err
}

// thread is one of a program. What has ended before anybody looked has the name of
// the program. Where several backends see it, it has one name.
func (r *recorder) thread(t *program, thread process.ThreadStatus) trace.Thread {
	of := trace.Thread{ID: thread.ID, Name: thread.Name, Program: t.threads.program, Exec: t.threads.exec}
	if of.Name == "" && t.p != nil {
		of.Name = t.p.Name
	}
	if thread.Process != r.header.PID {
		of.Process = thread.Process
	}
	if t.sites != nil && t.probes != nil {
		if name, ok := t.threads.names[of.ID]; ok {
			of.Name = name
		} else {
			t.threads.names[of.ID] = of.Name
		}
	}
	return of
}

// closePrograms puts everything back, if that has not been done.
func (r *recorder) closePrograms() error {
	var failed []error
	for _, t := range r.programs {
		failed = append(failed, t.close())
		if t.p != r.p {
			t.p.Close()
		}
	}
	return errors.Join(failed...)
}

// finish notes what is known at the end of a program.
func (r *recorder) finish(t *program) {
	if r.settings.mode == trace.Counts {
		r.addCounts(t)
	}
	r.ended.lost.add(t.lost())
	recorded, others := t.children()
	r.ended.recorded, r.ended.children = r.ended.recorded+recorded, r.ended.children+others
}

// addCounts adds what was counted in a program.
func (r *recorder) addCounts(t *program) {
	for _, b := range t.backends() {
		counts, err := b.Counts()
		if err != nil {
			fmt.Fprintf(r.stderr, "footfall: calls that %v count: %v\n", b.Way(), err)
		}
		r.ended.counts = append(r.ended.counts, make([]uint64, len(r.header.Functions)-len(r.ended.counts))...)
		for number, n := range counts {
			r.ended.counts[number] += n
		}
	}
	r.functions.placeNamesakes(t.p, r.ended.counts)
}

// end closes the outputs and says what is missing; why is why the recording has ended.
func (r *recorder) end(why string) error {
	_, err := r.read(true)
	for _, t := range r.programs {
		r.finish(t)
	}
	r.sayChildren()
	r.sayLost()
	if why != "" && !r.o.launches() {
		fmt.Fprintf(r.stderr, "footfall: process %d: %s\n", r.p.PID, why)
	}
	if r.settings.mode == trace.Counts {
		return errors.Join(err, writeCounts(r.counts, newCountTable(r.header, r.ended.counts)))
	}
	return errors.Join(err, r.outputs.close(r.ended.lost[dropped], func() string { return whySilent(r.p) }, r.settings.newest))
}

// sayLost says which calls are missing; of those that came too fast the outputs tell.
func (r *recorder) sayLost() {
	lost := r.ended.lost
	if r.settings.mode == trace.Counts {
		lost[uncounted] = lost[dropped]
	}
	for i, n := range lost {
		if l := lossTexts[i]; n > 0 && l.text != "" {
			fmt.Fprintf(r.stderr, "footfall: "+l.text+"\n", output.Count(int(n), l.one, l.more))
		}
	}
}

// sayChildren says what became of children, and of programs that are not followed.
func (r *recorder) sayChildren() {
	if r.follows != nil {
		r.follows.say(r.stderr)
	}
	sayChildren(r.ended.recorded, r.ended.children, r.stderr)
	if r.started.look(); r.started != nil && r.started.n > 0 {
		fmt.Fprintf(r.stderr, "footfall: %s started meanwhile: not traced; --follow-exec traces them, too\n", output.Count(r.started.n, "program", "programs"))
	}
}

func sayChildren(recorded, others int, stderr io.Writer) {
	if recorded > 0 {
		fmt.Fprintf(stderr, "footfall: with the calls of %s made by fork\n", output.Count(recorded, "child", "children"))
	}
	if others > 0 {
		fmt.Fprintf(stderr, "footfall: %s made by fork meanwhile: not recorded, and restored now\n", output.Count(others, "child", "children"))
	}
}

// whySilent says why a process calls nothing, if that is known.
func whySilent(p *process.Process) string {
	if p == nil || !p.Suspended() {
		return ""
	}
	return fmt.Sprintf(": process %d is stopped by a signal; kill -CONT %d lets it run", p.PID, p.PID)
}

// started counts the programs that children have become and that are not followed.
type started struct {
	pid     int
	watcher *process.Sampler
	n       int
}

// watchStarted returns nil if it is not permitted.
func watchStarted(pid int) *started {
	w, err := process.NewWatcher(pid)
	if err != nil || w == nil {
		return nil
	}
	return &started{pid: pid, watcher: w}
}

func (s *started) look() {
	if s == nil {
		return
	}
	for _, e := range s.watcher.Read(true) {
		if e.Kind == process.EventExec && e.PID != s.pid {
			s.n++
		}
	}
}

func (s *started) close() {
	if s != nil {
		s.watcher.Close()
	}
}
