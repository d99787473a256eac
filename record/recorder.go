package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"footfall/hook/patch"
	"footfall/output"
	"footfall/proc"
	"footfall/trace"
)

// A recorder takes events to the outputs.
type recorder struct {
	o         *Options
	p         *proc.Process // that was traced first
	options   patch.Options
	programs  []*traced
	clock     *patch.Clock
	header    *trace.Header
	known     map[fileSite]int32
	builder   *trace.Builder
	onlyRaw   bool // calls are not made of events: --read does that, too
	recorded  bool // there are events in the raw file
	raw       *trace.RawWriter
	files     []*output.File
	excerpt   *excerpt        // of --read; nil: all
	screen    *screen         // nil: the graph is not shown on a terminal
	ordered   bool            // by time, over all threads
	queues    []*queue        // of threads, if ordered
	last      *queue          // that was looked for last
	queued    int             // queues that were made
	spare     [][]trace.Event // of queues that have gone
	total     uint64
	converted []trace.Event
	given     uint64 // with --events
	stderr    io.Writer
	// launched: the program was started for the trace, so that its end is no news.
	launched bool
	uprobes  bool         // all events are of uprobes
	requests chan request // of --set
	try      func(*traceChange) (string, error)
	paused   bool            // by --set: nothing is to be switched on
	notices  <-chan struct{} // of libraries: a thread waits until look has been called
	follows  *follows        // nil: programs that others become are not followed
	watcher  *proc.Sampler   // then it tells of them, if that is permitted
	started  int             // of these

	lost     [4]uint64 // events, calls of threads without a place, of those without a thread pointer, and calls without a return stub
	children [2]int    // that have recorded, and that have not
	counts   []uint64  // by the number of the function
}

// A traced is a program whose calls are recorded: in a process, and in children
// of that made by fork.
type traced struct {
	p         *proc.Process
	session   *patch.Session
	libraries *libraries
	late      *probes // nil: none
	lateClock twoClocks
	sites     int     // that were selected
	numbers   []int32 // of functions, by the id of the site; -1: none
	// program and exec tell its threads from others', where programs are followed.
	program string
	exec    int
	live    int // processes that run it, where that is known
}

// A fileSite is a site, wherever its library is loaded.
type fileSite struct {
	image, function string
	addr            uint64
	arguments       string
}

// endSignals end a recording. With SIGPIPE the reader of the output has gone.
var endSignals = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE}

// untilSignal returns a context that they end; below nohup it goes on. SIGINT counts
// also in the background of a script, where it is ignored: kill -INT is how a script ends us.
func untilSignal() (context.Context, context.CancelFunc) {
	signals := slices.DeleteFunc(slices.Clone(endSignals), func(s os.Signal) bool { return s == unix.SIGHUP && signal.Ignored(s) })
	return signal.NotifyContext(context.Background(), signals...)
}

// open switches the functions of a program on. The files are its then.
func (r *recorder) open(p *proc.Process, sites []*patch.Site, libraries *libraries) (*traced, error) {
	options := r.options
	if images := libraries.All(); len(sites) == 0 && len(images) > 0 {
		options.Anchor = images[0].Start
	}
	if len(r.o.Threads) > 0 {
		options.Threads = func(t proc.Thread) bool { return r.o.takesThread(t.ID, cmp.Or(t.Name, p.Name)) }
	}
	session, err := patch.Open(p, sites, options)
	if err != nil {
		libraries.Close()
		return nil, err
	}
	t := &traced{p: p, session: session, libraries: libraries, sites: len(sites)}
	libraries.roomless = func(fresh []*patch.Image) (int, error) { return r.watchLate(t, fresh) }
	r.programs = append(r.programs, t)
	r.addFunctions(t)
	return t, nil
}

// numberFunctions makes a list of the functions, or adds to it.
func (r *recorder) numberFunctions(t *traced) {
	sites := t.session.Sites()
	var ids []uint32
	for id := range sites {
		if int(id) >= len(t.numbers) || t.numbers[id] < 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Compare(sites[a].Addr, sites[b].Addr) })
	lines := len(ids) < 50_000
	for _, id := range ids {
		for int(id) >= len(t.numbers) {
			t.numbers = append(t.numbers, -1)
		}
		s := sites[id]
		arguments := t.libraries.described[s]
		key := fileSite{s.Image.Path, s.Function.Name, s.Site.Addr, fmt.Sprint(arguments)}
		if number, ok := r.known[key]; ok {
			t.numbers[id] = number
			continue
		}
		t.numbers[id] = int32(len(r.header.Functions))
		r.known[key] = t.numbers[id]
		f := trace.Function{Name: s.Name(), Image: s.Image.Path}
		if lines && !r.o.Count {
			f.File, f.Line = s.Source(t.p)
		}
		f.Arguments = arguments
		r.header.Functions = append(r.header.Functions, f)
	}
}

// addFunctions makes functions known that have been switched on.
func (r *recorder) addFunctions(t *traced) {
	before := len(r.header.Functions)
	r.numberFunctions(t)
	if t.lateSession() != nil {
		r.numberProbes(t.late)
	}
	r.tellFunctions(before)
}

// tellFunctions writes down functions from a number on.
func (r *recorder) tellFunctions(from int) {
	if more := r.header.Functions[from:]; len(more) > 0 && r.raw != nil {
		r.raw.AddFunctions(more)
	}
}

// begin says what is traced.
func (r *recorder) begin(t *traced) {
	skipped := t.session.Skipped
	fmt.Fprintf(r.stderr, "footfall: process %d (%s): tracing %s; switching on took %v\n", t.p.PID, t.p.Name,
		output.Count(t.sites-len(skipped), "function", "functions"), t.session.Stopped.Round(10*time.Microsecond))
	n := 0
	for site, why := range skipped {
		if n++; n > 3 {
			fmt.Fprintf(r.stderr, "footfall: ... and %d more\n", len(skipped)-3)
			break
		}
		fmt.Fprintf(r.stderr, "footfall: %s is not traced: %s\n", site.Name(), why)
	}
	r.sayExitWays(t.session.ExitWays())
}

// sayExitWays says of how many functions the exits have no room for jumps.
func (r *recorder) sayExitWays(byReturn, not int) {
	if byReturn > 0 {
		fmt.Fprintf(r.stderr, "footfall: of %s no jump fits at some exit: return addresses are replaced\n", output.Count(byReturn, "function", "functions"))
	}
	if not > 0 {
		fmt.Fprintf(r.stderr, "footfall: of %s exits cannot be seen, entries are\n", output.Count(not, "function", "functions"))
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
			if err := r.check(); err != nil {
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

// check tells why the recording ends by itself.
func (r *recorder) check() error {
	if r.follows != nil {
		return r.follows.check()
	}
	return r.p.Check()
}

// ends tells whether the user wants the recording to end.
func (r *recorder) ends(ctx context.Context, begin, now time.Time) bool {
	return ctx.Err() != nil || r.o.Duration > 0 && now.Sub(begin) >= r.o.Duration || r.o.Events > 0 && r.given >= r.o.Events
}

// readNew takes what events there are, unless the newest are kept to the end.
func (r *recorder) readNew() int {
	if r.follows != nil {
		r.follow()
	}
	if r.o.Newest {
		return 0
	}
	n := r.read(false)
	if n > 0 && r.raw != nil && !r.ordered {
		r.raw.EndPass()
	}
	return n
}

// look makes room for new threads, and traces libraries that have been loaded
// meanwhile.
func (r *recorder) look() error {
	r.countStarted()
	for _, t := range r.programs {
		if err := r.lookAt(t); err != nil && (r.follows == nil || t.p.Check() == nil) {
			return err
		} // else only its children run
	}
	return nil
}

func (r *recorder) lookAt(t *traced) error {
	if err := t.session.Recycle(); err != nil {
		return err
	}
	if t.libraries.update(t.session, r.stderr) {
		r.addFunctions(t)
	}
	return nil
}

// read takes what events there are. At the end none are held back.
func (r *recorder) read(end bool) int {
	until := r.clock.Nanos(proc.Ticks())
	n := 0
	for _, t := range r.programs {
		n += r.readOf(t)
	}
	waits := slices.ContainsFunc(r.programs, func(t *traced) bool {
		_, waits := t.session.Noticed()
		return waits
	})
	if slices.ContainsFunc(r.programs, func(t *traced) bool { return t.lateSession() != nil }) {
		until -= min(until, settled)
	}
	if r.ordered && !waits {
		r.order(until, end)
	}
	return n
}

// readOf takes the events of one program.
func (r *recorder) readOf(t *traced) int {
	n := t.session.Read(func(thread proc.Thread, events []patch.Event) {
		r.take(r.thread(t, thread), r.convert(events, t.numbers))
	})
	n += r.readLate(t)
	r.total += uint64(n)
	return n
}

// convert returns events with the numbers of functions, until it is called again.
func (r *recorder) convert(events []patch.Event, numbers []int32) []trace.Event {
	if len(r.converted) < len(events) {
		r.converted = make([]trace.Event, len(events))
	}
	converted := r.converted[:len(events)]
	clock := *r.clock
	n := 0
	dropped := false
	for i := range events {
		e := &events[i]
		if e.ID&patch.WordFlag != 0 {
			if !dropped {
				converted[n] = trace.Event{Time: e.Time, Word: true}
				n++
			}
			continue
		}
		if e.ID&patch.GapFlag != 0 {
			converted[n] = trace.Event{Gap: true, Exit: e.ID&patch.ExitFlag != 0}
			n++
			continue
		}
		id := e.ID & patch.IDMask
		if dropped = int(id) >= len(numbers) || numbers[id] < 0; dropped {
			continue
		}
		converted[n] = trace.Event{
			Time: clock.Nanos(e.Time), Function: uint32(numbers[id]), Stack: e.Stack, Exit: e.ID&patch.ExitFlag != 0,
			NoExit: e.ID&patch.NoExitFlag != 0, Root: e.ID&patch.RootFlag != 0, Whole: e.ID&(patch.WholeFlag|patch.ExitFlag) == patch.WholeFlag,
			Jump: e.ID&(patch.JumpFlag|patch.ExitFlag) == patch.JumpFlag|patch.ExitFlag,
		}
		n++
	}
	return converted[:n]
}

// thread is one of a program. What has ended before anybody looked has the name of
// the program.
func (r *recorder) thread(t *traced, thread proc.Thread) trace.Thread {
	of := trace.Thread{ID: thread.ID, Name: cmp.Or(thread.Name, t.p.Name), Program: t.program, Exec: t.exec}
	if thread.Process != r.header.PID {
		of.Process = thread.Process
	}
	return of
}

// take gives events to the outputs, or keeps them until those of other threads
// which are earlier are there.
func (r *recorder) take(thread trace.Thread, events []trace.Event) {
	if !r.ordered {
		r.give(thread, events)
		return
	}
	q := r.queue(thread)
	for _, e := range events {
		q.add(e)
	}
}

func (r *recorder) give(t trace.Thread, events []trace.Event) {
	if len(r.programs) == 0 && !r.o.takesThread(t.ID, t.Name) { // else it is decided in the program
		return
	}
	if r.o.Events > 0 {
		if events = r.upTo(events); len(events) == 0 {
			return
		}
	}
	if r.raw != nil {
		r.raw.Add(t, events)
		r.recorded = r.recorded || len(events) > 0
	}
	if !r.onlyRaw {
		r.builder.Add(t, events)
	}
}

// takesThread tells whether the thread is one of those that --thread wants.
func (o *Options) takesThread(id int, name string) bool {
	return len(o.Threads) == 0 || slices.ContainsFunc(o.Threads, func(wanted string) bool {
		fits, _ := path.Match(wanted, name)
		return fits || wanted == strconv.Itoa(id)
	})
}

// upTo returns as many of the events as --events wants; words are not counted.
func (r *recorder) upTo(events []trace.Event) []trace.Event {
	for i, e := range events {
		if e.Word || e.Gap {
			continue
		}
		if r.given == r.o.Events {
			return events[:i]
		}
		r.given++
	}
	return events
}

// closePrograms restores the programs, if that has not been done, and closes them.
func (r *recorder) closePrograms() error {
	var failed []error
	for _, t := range r.programs {
		failed = append(failed, t.session.Close(), t.closeLate())
		t.libraries.Close()
		if t.p != r.p {
			t.p.Close()
		}
	}
	return errors.Join(failed...)
}

// countStarted counts the programs that children have become.
func (r *recorder) countStarted() {
	if r.watcher == nil {
		return
	}
	for _, e := range r.watcher.Read(true) {
		if e.Kind == proc.EventExec && e.PID != r.header.PID {
			r.started++
		}
	}
}

// sayChildren says what became of children.
func (r *recorder) sayChildren() {
	for _, t := range r.programs {
		r.addChildren(t)
	}
	if r.follows != nil {
		r.follows.say(r.stderr)
	}
	sayChildren(r.children[0], r.children[1], r.stderr)
	if r.countStarted(); r.started > 0 {
		fmt.Fprintf(r.stderr, "footfall: %s started meanwhile: not traced; --follow-exec traces them, too\n", output.Count(r.started, "program", "programs"))
	}
}

func (r *recorder) addChildren(t *traced) {
	followed, others := childrenOf(t.session)
	r.children[0] += followed
	r.children[1] += others
}

// childrenOf counts the children made by fork of a session: that have recorded, and
// that have not.
func childrenOf(s *patch.Session) (followed, others int) {
	if !s.Follows {
		others = s.Children
	}
	return s.Followed(), others
}

func sayChildren(followed, others int, stderr io.Writer) {
	if followed > 0 {
		fmt.Fprintf(stderr, "footfall: with the calls of %s made by fork\n", output.Count(followed, "child", "children"))
	}
	if others > 0 {
		fmt.Fprintf(stderr, "footfall: %s made by fork meanwhile: not recorded, and restored now\n", output.Count(others, "child", "children"))
	}
}

// end closes the outputs and says what is missing.
func (r *recorder) end(why string) error {
	for _, t := range r.programs {
		r.addLost(t)
	}
	r.sayPlaceless()
	r.sayWhy(why)
	return r.close(r.lost[0])
}

// sayPlaceless says what is missing since its threads found no place.
func (r *recorder) sayPlaceless() {
	if calls := r.lost[1]; calls > 0 {
		fmt.Fprintf(r.stderr, "footfall: %s not recorded: more than 1024 threads at once, or more that ended than could be read\n", output.Count(int(calls), "call was", "calls were"))
	}
	if calls := r.lost[2]; calls > 0 {
		fmt.Fprintf(r.stderr, "footfall: %s not recorded, of threads that have no thread pointer\n", output.Count(int(calls), "call was", "calls were"))
	}
	if calls := r.lost[3]; calls > 0 {
		fmt.Fprintf(r.stderr, "footfall: of %s the exit was not recorded: too many places call functions whose exits have no room; trace fewer functions\n", output.Count(int(calls), "call", "calls"))
	}
}

func (r *recorder) addLost(t *traced) {
	events, threads := t.session.Lost()
	r.lost[0] += events
	r.lost[1] += threads
	r.lost[2] += t.session.Pointerless()
	r.lost[3] += t.session.NoReturns()
	if late := t.lateSession(); late != nil {
		events, threads, _ := late.Lost()
		r.lost[0] += events
		r.lost[1] += threads
	}
}

// addCounts adds what --count has counted.
func (r *recorder) addCounts(t *traced) {
	r.numberFunctions(t) // those, too, of which some could not be switched on
	if t.lateSession() != nil {
		r.numberProbes(t.late)
	}
	r.counts = append(r.counts, make([]uint64, len(r.header.Functions)-len(r.counts))...)
	for id, n := range t.session.Counts() {
		r.counts[t.numbers[id]] += n
	}
	r.addLate(t)
	r.placeNamesakes(t)
}

// placeNamesakes finds the sources of functions that have a name in common, if some of
// them were called: of all functions it would take long.
func (r *recorder) placeNamesakes(t *traced) {
	type named struct{ image, name string }
	functions, called := make(map[named]int), make(map[named]bool)
	for i, f := range r.header.Functions {
		key := named{f.Image, f.Name}
		functions[key]++
		called[key] = called[key] || r.counts[i] > 0
	}
	sites := t.session.Sites()
	for id, number := range t.numbers {
		if number < 0 {
			continue
		}
		f := &r.header.Functions[number]
		if key := (named{f.Image, f.Name}); functions[key] > 1 && called[key] && f.File == "" && sites[uint32(id)] != nil {
			f.File, f.Line = sites[uint32(id)].Source(t.p)
		}
	}
}

// sayWhy says why the recording has ended by itself.
func (r *recorder) sayWhy(why string) {
	if why != "" && !r.launched {
		fmt.Fprintf(r.stderr, "footfall: process %d: %s\n", r.p.PID, why)
	}
}
