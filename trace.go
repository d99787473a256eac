package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	pprof "github.com/google/pprof/profile"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"footfall/patch"
	"footfall/proc"
	"footfall/profile"
	"footfall/trace"
)

func newTraceCommand() *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use:   "trace TARGET | -- PROGRAM [ARGUMENT...]",
		Short: "Show the calls of functions in a running program, as they happen",
		Long: `Trace switches functions of a running program into events: each call is
recorded with its time, by code that is put into the program from outside, and
when footfall ends everything is as before. The program is not restarted and
loads no library. TARGET is a process id or the name of one process, or kernel;
after --, a program is started and traced from its beginning.

It should be compiled so that its functions begin with room for a jump, which
costs it little while it is not traced (x86-64):

  gcc -fpatchable-function-entry=5                        or 16,11; clang too,
                                                          or its -fxray-instrument
  gcc -pg -mfentry -mnop-mcount -mrecord-mcount -fno-pie -no-pie

Where there is no such function that fits, functions are traced by uprobes of the
kernel: as root, and a hundred times as slow. The kernel itself is traced by its
own tracers: as root, -f GLOB or MODULE:GLOB says which functions.

Entries are recorded; with --exits also exits, so that there are durations. Which
functions: --function (default: all) and --notrace, which wins. A PATTERN is

  GLOB            a name as in C++ or as the linker has it, * and ? are special
  FILE:GLOB       in that source file       LIBRARY:GLOB   in that library
  /EXPRESSION/    a regular expression

Calls are selected in the program itself, before they cost more: --graph-from,
--depth, --min-duration and --sample, all of which switch --exits on.

Outputs, any number of them, each FORMAT or FORMAT=FILE ("-" is standard output):

  graph       text, as function_graph of ftrace writes it (the default)
  stats       a table: calls, total, self, average and longest time
  perfetto    for ui.perfetto.dev           chrome    for chrome://tracing
  pprof       a profile with calls and wall time, for go tool pprof
  html        a page with a flame graph and a table, for any browser
  collapsed   chains of calls and their time, for flame graphs
  json        all calls, see docs/trace.md
  raw         the events; --read makes any other output of them

Events that come faster than they are read are dropped, counted and said;
--flight-recorder keeps the newest ones instead and shows them at the end.

With --args the arguments of a function are recorded with its calls: all that the
debug information tells of, or those that are named, argN for the Nth integer or
pointer (1 to 6 are in registers), farg1 for floating point:

  --args open_file --args 'log_line:arg1/d,arg3/s,farg1'

/d and /u are decimal, /x hexadecimal, /p a pointer, /c a character, /s a string
of which 48 bytes are kept; a number of bits may follow, as in /d64. A pointer to
nowhere does no harm.

Children made by fork are traced too, until they become other programs by exec.
Libraries that are loaded meanwhile are traced, after a moment.

A trace that runs is changed from another terminal by --set: other functions,
filters, --off and --on. What is given replaces what was.

If footfall is killed the program goes on, slower; --repair restores it, and so
does the next trace of it.`,
		Example: `  # which functions can be traced?
  footfall trace --list redis-server 'dict*'

  # what happens in a second, with durations
  footfall trace redis-server -f 'dict*' -n dictHashKey --exits --duration 1s

  # where does the time of slow commands go?
  footfall trace redis-server --graph-from processCommand --min-duration 100us

  # which keys?
  footfall trace redis-server -f dictSdsHash --args 'dictSdsHash:arg1/s'

  # a program from its beginning, for Perfetto, and a table
  footfall trace --exits --output perfetto=prog.pftrace --output stats -- ./prog

  # other functions, now
  footfall trace --set redis-server -f 'zset*' -n zsetLength

  # what does the kernel do in a read?
  footfall trace kernel --graph-from ksys_read --depth 4 --duration 100ms

  # record now, look later
  footfall trace redis-server --exits --duration 5s --output raw=redis.trace
  footfall trace --read redis.trace --output stats`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.functions, "function", "f", nil, "trace functions that fit `PATTERN`; may be repeated (default: all)")
	f.StringArrayVarP(&o.notrace, "notrace", "n", nil, "do not trace functions that fit `PATTERN`; may be repeated")
	f.BoolVar(&o.exits, "exits", false, "record exits too: durations")
	f.BoolVar(&o.count, "count", false, "only count calls: the cheapest way")
	f.StringArrayVar(&o.graphFrom, "graph-from", nil, "record only what is called by functions that fit `PATTERN`, and these")
	f.IntVar(&o.depth, "depth", 0, "record at most `N` calls within each other")
	f.DurationVar(&o.minDuration, "min-duration", 0, "record only calls that take at least this `TIME`, such as 10us")
	f.StringVar(&o.sample, "sample", "", "record only one of N outermost calls: `1/N`")
	f.DurationVar(&o.duration, "duration", 0, "end after this `TIME` (default: when interrupted or the program ends)")
	f.Uint64Var(&o.events, "events", 0, "end after about `N` events")
	f.StringArrayVar(&o.outputs, "output", []string{"graph"}, "write `FORMAT[=FILE]`; may be repeated")
	f.BoolVar(&o.newest, "flight-recorder", false, "keep the newest events of each thread and write them at the end")
	f.IntVar(&o.buffer, "buffer", 4, "memory for events of each thread, in `MB`; a power of 2")
	f.BoolVar(&o.list, "list", false, "list the functions of TARGET that can be traced, or those that fit the PATTERNs after it")
	f.BoolVar(&o.repair, "repair", false, "restore a TARGET whose footfall was killed")
	f.StringVar(&o.read, "read", "", "read a `FILE` that was written with --output raw=FILE")
	f.BoolVar(&o.setRunning, "set", false, "change a trace that runs: functions, filters, --off, --on")
	f.BoolVar(&o.off, "off", false, "with --set: switch all functions off, until --on")
	f.BoolVar(&o.on, "on", false, "with --set: switch them on again")
	f.StringArrayVar(&o.args, "args", nil, "record arguments of `FUNCTION[:arg1/s,arg2/x...]`; may be repeated")
	f.BoolVar(&o.follow, "follow", true, "record the calls of children made by fork, too")
	cmd.MarkFlagsMutuallyExclusive("list", "repair", "read", "set")
	cmd.MarkFlagsMutuallyExclusive("off", "on")
	cmd.MarkFlagsMutuallyExclusive("count", "exits")
	cmd.MarkFlagsMutuallyExclusive("count", "args")
	cmd.MarkFlagsMutuallyExclusive("count", "output")
	cmd.MarkFlagsMutuallyExclusive("count", "flight-recorder")
	cmd.MarkFlagsMutuallyExclusive("duration", "repair")
	return cmd
}

type traceOptions struct {
	functions, notrace, graphFrom, args, outputs []string
	exits, count, newest, follow, list, repair   bool
	setRunning, off, on                          bool
	depth, buffer                                int
	minDuration, duration                        time.Duration
	sample, read                                 string
	events                                       uint64
}

func (o *traceOptions) run(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case o.read != "" && len(args) > 0:
		return usageError(errors.New("--read needs no TARGET"))
	case o.read != "":
		return o.replay(cmd)
	case dash > 0:
		return usageError(errors.New("give either a TARGET or, after --, a program"))
	case dash < 0 && (len(args) == 0 || len(args) > 1 && !o.list):
		return usageError(errors.New("give one TARGET: a process id or the name of a process; or a program after --"))
	case (o.on || o.off) && !o.setRunning:
		return usageError(errors.New("--on and --off need --set"))
	case o.setRunning && dash >= 0:
		return usageError(errors.New("--set needs a TARGET that is traced"))
	case o.setRunning:
		return o.set(cmd, args[0])
	case dash < 0 && args[0] == "kernel":
		return o.kernel(cmd, args[1:])
	case o.repair:
		return repairTarget(cmd, args[0])
	case o.list && dash < 0:
		return o.printSites(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], args[1:])
	}
	options, err := o.options()
	if err != nil {
		return usageError(err)
	}
	if dash < 0 {
		p, err := openTarget(args[0])
		if err != nil {
			return err
		}
		defer p.Close()
		return o.trace(cmd, p, options, func() error { return nil })
	}
	child := exec.Command(args[0], args[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	p, release, err := proc.Launch(child)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	defer p.Close()
	if err := o.trace(cmd, p, options, release); err != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
		return err
	}
	// Not before: whoever waits would be told of stops, too.
	var exit *exec.ExitError
	if err := child.Wait(); errors.As(err, &exit) {
		return &exitError{status: cmp.Or(max(exit.ExitCode(), 0), 1)}
	}
	return nil
}

// openTarget opens the one process that target means.
func openTarget(target string) (*proc.Process, error) {
	if pid, err := strconv.Atoi(target); err == nil {
		return proc.Open(pid)
	}
	pids, err := proc.Find(target)
	if err != nil {
		return nil, err
	}
	if len(pids) > 1 {
		return nil, fmt.Errorf("%d processes are called %q: give the id of one: %s", len(pids), target, strings.Trim(fmt.Sprint(pids), "[]"))
	}
	return proc.Open(pids[0])
}

func repairTarget(cmd *cobra.Command, target string) error {
	p, err := openTarget(target)
	if err != nil {
		return err
	}
	defer p.Close()
	n, err := patch.Repair(p)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "footfall: process %d: %s restored\n", p.PID, counted(n, "function", "functions"))
	return nil
}

// options makes those of a session.
func (o *traceOptions) options() (patch.Options, error) {
	p := patch.Options{Mode: patch.Entries, Newest: o.newest, RingSize: o.buffer << 20, Arguments: len(o.args) > 0, Follow: o.follow}
	if o.buffer < 1 || o.buffer > 1024 || o.buffer&(o.buffer-1) != 0 {
		return p, fmt.Errorf("--buffer %d: it must be a power of 2 from 1 to 1024", o.buffer)
	}
	if o.depth < 0 || o.depth > 1000 {
		return p, fmt.Errorf("--depth %d: it must be from 1 to 1000", o.depth)
	}
	p.Filter.Depth, p.Filter.Roots = o.depth, len(o.graphFrom) > 0
	if o.sample != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(o.sample, "1/"), 10, 32)
		if err != nil || n == 0 {
			return p, fmt.Errorf("--sample %s: it must be 1/N", o.sample)
		}
		p.Filter.Period = n
	}
	if o.exits {
		p.Mode = patch.Exits
	}
	if p.Filter != (patch.Filter{}) || o.minDuration > 0 || p.Arguments && o.exits {
		p.Mode = patch.Filtered
	}
	if o.count {
		if p.Mode == patch.Filtered {
			return p, errors.New("--count counts all calls: --graph-from, --depth, --min-duration and --sample do not go with it")
		}
		p.Mode = patch.Counts
	}
	return p, nil
}

// sites finds and selects those of the process, now and, by what it returns
// besides, of libraries that are loaded later.
func (o *traceOptions) sites(p *proc.Process, only []string, stderr io.Writer) ([]*patch.Site, *libraries, error) {
	chosen, err := newSelection(append(slices.Clone(o.functions), only...), o.notrace, o.graphFrom, o.args)
	if err != nil {
		return nil, nil, usageError(err)
	}
	modules, problem := patch.OpenModules(p)
	l := &libraries{p: p, Modules: modules, selection: chosen, described: make(map[*patch.Site][]trace.Argument), stderr: stderr}
	sites, all, unusable, err := l.sites(modules.All())
	switch {
	case err != nil:
	case len(sites) > 0:
		return sites, l, nil
	case all > 0:
		err = fmt.Errorf("process %d: none of its %d functions that can be traced fits; --list lists them", p.PID, all)
	case unusable > 0:
		err = fmt.Errorf("process %d: its calls of mcount are no nops: compile with -mnop-mcount too", p.PID)
	default:
		err = errors.Join(fmt.Errorf("process %d: no functions that can be traced: compile with -fpatchable-function-entry=5", p.PID), problem)
	}
	l.Close()
	return nil, nil, &noSites{err}
}

// noSites tells that no function has room for a jump.
type noSites struct{ error }

// libraries are those of a process, and what to trace of them.
type libraries struct {
	*patch.Modules
	p         *proc.Process
	selection selection
	described map[*patch.Site][]trace.Argument
	stderr    io.Writer
	paused    bool // nothing is to be switched on
	next      time.Time
}

// sites selects sites of images. all is the number of those that there are,
// unusable that of entries without room.
func (l *libraries) sites(images []*patch.Image) (sites []*patch.Site, all, unusable int, err error) {
	for _, i := range images {
		found, n, err := i.Sites()
		if err != nil {
			return nil, 0, 0, err
		}
		all, unusable = all+len(found), unusable+n
		for _, s := range found {
			if l.selection.takes(l.p, s) {
				l.describeArguments(s)
				sites = append(sites, s)
			}
		}
	}
	return sites, all, unusable, nil
}

// update switches sites on of libraries that have been loaded meanwhile, and
// says so; it returns whether there are any. It is to be called often: it looks
// only now and then.
func (l *libraries) update(session *patch.Session, stderr io.Writer) bool {
	begin := time.Now()
	if begin.Before(l.next) {
		return false
	}
	// A large memory map must not keep the process from changing it.
	defer func() { l.next = time.Now().Add(max(50*time.Millisecond, 20*time.Since(begin))) }()
	for _, image := range session.Gone() {
		l.Forget(image)
	}
	fresh, changed, _ := l.Look() // some files are not programs
	if !changed {
		return false
	}
	var names []string
	for _, i := range fresh {
		names = append(names, filepath.Base(i.Path))
	}
	sites, _, _, err := l.sites(fresh)
	n := 0
	if err == nil && !l.paused {
		n, err = session.Add(sites)
	}
	if err != nil && l.p.Check() == nil {
		fmt.Fprintf(stderr, "footfall: the functions of %s, loaded meanwhile, are not traced: %v\n", strings.Join(names, ", "), err)
	} else if n > 0 {
		fmt.Fprintf(stderr, "footfall: %s loaded: tracing %s\n", strings.Join(names, ", "), counted(n, "more function", "more functions"))
	}
	return n > 0
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

// A selection says which sites are traced.
type selection struct {
	take, leave, roots []patch.Pattern
	arguments          []argumentsOf
}

func newSelection(take, leave, roots, arguments []string) (s selection, err error) {
	parse := func(texts []string) (patterns []patch.Pattern) {
		for _, text := range texts {
			p, parseErr := patch.ParsePattern(text)
			err = errors.Join(err, parseErr)
			patterns = append(patterns, p)
		}
		return patterns
	}
	s = selection{take: parse(take), leave: parse(leave), roots: parse(roots)}
	for _, text := range arguments {
		a, parseErr := parseArguments(text)
		err = errors.Join(err, parseErr)
		s.arguments = append(s.arguments, a)
		if len(s.take) > 0 {
			s.take = append(s.take, a.pattern)
		}
	}
	return s, err
}

func (s selection) takes(p *proc.Process, site *patch.Site) bool {
	fits := func(patterns []patch.Pattern) bool {
		return slices.ContainsFunc(patterns, func(pattern patch.Pattern) bool { return pattern.Matches(p, site) })
	}
	if fits(s.leave) {
		return false
	}
	site.Root = fits(s.roots)
	return len(s.take) == 0 || site.Root || fits(s.take)
}

// printSites is --list.
func (o *traceOptions) printSites(w, stderr io.Writer, target string, only []string) error {
	p, err := openTarget(target)
	if err != nil {
		return err
	}
	defer p.Close()
	sites, libraries, err := o.sites(p, only, stderr)
	if none := (*noSites)(nil); errors.As(err, &none) {
		return o.printProbes(w, p, only, none)
	}
	if err != nil {
		return err
	}
	defer libraries.Close()
	listSites(w, p, sites)
	return nil
}

func listSites(w io.Writer, p *proc.Process, sites []*patch.Site) {
	fmt.Fprintf(w, "%-14s %4s %7s  %-40s %s\n", "ADDRESS", "ROOM", "SIZE", "FUNCTION", "SOURCE")
	for _, s := range sites {
		file, line := s.Source(p)
		source := filepath.Base(s.Image.Path)
		if file != "" {
			source = fmt.Sprintf("%s:%d", file, line)
		}
		fmt.Fprintf(w, "%-14x %4d %7d  %-40s %s\n", s.Addr, s.Site.Size, s.Function.Size, s.Name(), source)
	}
}

// trace records until something ends it.
func (o *traceOptions) trace(cmd *cobra.Command, p *proc.Process, options patch.Options, release func() error) (err error) {
	sites, libraries, err := o.sites(p, nil, cmd.ErrOrStderr())
	if none := (*noSites)(nil); errors.As(err, &none) {
		return o.traceProbes(cmd, p, none, release)
	}
	if err != nil {
		return err
	}
	defer libraries.Close()
	clock := patch.NewClock()
	options.Filter.MinTime = clock.Ticks(o.minDuration)
	r := &recorder{o: o, p: p, known: make(map[fileSite]int32), libraries: libraries, clock: clock, stderr: cmd.ErrOrStderr(), launched: cmd.ArgsLenAtDash() >= 0}
	r.header = &trace.Header{PID: p.PID, Program: p.Name, Start: clock.Start.UnixNano(), Exits: options.Mode == patch.Exits || options.Mode == patch.Filtered}
	// Signals must not end footfall before it has restored the program.
	ctx, cancel := signal.NotifyContext(context.Background(), endSignals...)
	defer cancel()
	if r.session, err = patch.Open(p, sites, options); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.session.Close()) }()
	requests, control, err := serveControl(p.PID)
	if err != nil {
		fmt.Fprintf(r.stderr, "footfall: %v\n", err)
	} else {
		defer control.Close()
	}
	r.requests = requests
	r.numberFunctions()
	if !o.count {
		if err := r.openOutputs(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	r.begin(len(sites))
	if err := release(); err != nil {
		return err
	}
	ended := r.run(ctx, options)
	if err := r.session.SwitchOff(); err != nil {
		return err
	}
	sayChildren(r.session, r.stderr)
	if o.count {
		return r.printCounts(cmd.OutOrStdout(), r.session.Counts())
	}
	r.read(true)
	return r.end(ended)
}

// endSignals end a recording. With SIGPIPE the reader of the output has gone.
var endSignals = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE}

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
	stderr  io.Writer
	// launched: the program was started for the trace, so that its end is no news.
	launched  bool
	libraries *libraries
	requests  chan request // of --set
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

// openOutputs opens what --output asks for.
func (r *recorder) openOutputs(stdout io.Writer) error {
	var outputs []trace.Output
	for _, text := range r.o.outputs {
		format, file, _ := strings.Cut(text, "=")
		w := stdout
		if file != "" && file != "-" {
			f, err := os.Create(file)
			if err != nil {
				return err
			}
			r.files = append(r.files, f)
			w = f
		}
		r.ordered = r.ordered || format == "graph" || format == "json"
		if format == "raw" {
			if w == stdout && file != "-" {
				return usageError(errors.New("--output raw needs a file: raw=FILE"))
			}
			r.raw = trace.NewRawWriter(w, r.header)
			continue
		}
		if format == "html" {
			page := &htmlPage{w: w, program: r.header.Program}
			page.Output, _ = trace.NewOutput("pprof", &page.profile, r.header)
			outputs = append(outputs, page)
			continue
		}
		out, err := trace.NewOutput(format, w, r.header)
		if err != nil {
			return usageError(err)
		}
		outputs = append(outputs, out)
	}
	r.builder = trace.NewBuilder(r.header, outputs...)
	return nil
}

// An htmlPage makes a page of what pprof gets.
type htmlPage struct {
	trace.Output
	w       io.Writer
	program string
	profile bytes.Buffer
}

func (h *htmlPage) Close(s trace.Summary) error {
	if err := h.Output.Close(s); err != nil {
		return err
	}
	p, err := pprof.ParseData(h.profile.Bytes())
	if err != nil {
		return err
	}
	return profile.PrintChains(h.w, h.program, false, p)
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
// not ask for it.
func (r *recorder) run(ctx context.Context, options patch.Options) (why string) {
	begin, last := time.Now(), time.Now()
	for {
		n := 0
		if !options.Newest {
			n = r.read(false)
		}
		now := time.Now()
		switch {
		case ctx.Err() != nil, r.o.duration > 0 && now.Sub(begin) >= r.o.duration, r.o.events > 0 && r.total >= r.o.events:
			return ""
		case now.Sub(last) > 50*time.Millisecond:
			last = now
			if r.builder != nil && r.builder.Flush() != nil {
				return "" // Close tells it again
			}
			if err := r.p.Check(); err != nil {
				return err.Error()
			}
			if err := r.session.Recycle(); err != nil {
				return err.Error()
			}
			r.update()
		}
		select {
		case request := <-r.requests:
			request.answer <- r.change(&request.traceChange)
		default:
			if n == 0 {
				time.Sleep(200 * time.Microsecond)
			}
		}
	}
}

// update traces libraries that have been loaded meanwhile.
func (r *recorder) update() {
	if r.libraries.update(r.session, r.stderr) {
		r.addFunctions()
	}
}

// addFunctions makes functions known that have been switched on.
func (r *recorder) addFunctions() {
	before := len(r.header.Functions)
	r.numberFunctions()
	if more := r.header.Functions[before:]; len(more) > 0 && r.raw != nil {
		r.raw.AddFunctions(more)
	}
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
	if r.ordered {
		r.order(until, end)
	}
	return n
}

func (r *recorder) give(t trace.Thread, events []trace.Event) {
	if r.raw != nil {
		r.raw.Add(t, events)
	}
	r.builder.Add(t, events)
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

// end closes the outputs and says what is missing.
func (r *recorder) end(why string) error {
	events, threads := r.session.Lost()
	if threads > 0 {
		fmt.Fprintf(r.stderr, "footfall: %d calls were not recorded: more than 1024 threads at once\n", threads)
	}
	if why != "" && !r.launched {
		fmt.Fprintf(r.stderr, "footfall: process %d: %s\n", r.p.PID, why)
	}
	return r.close(events)
}

// close closes the outputs and says what is missing; lost events were dropped.
func (r *recorder) close(lost uint64) error {
	var rawErr error
	if r.raw != nil {
		rawErr = r.raw.Close(lost)
	}
	err := errors.Join(rawErr, closeTrace(r.builder, lost, r.o.newest, r.stderr))
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	if errors.Is(err, unix.EPIPE) {
		return nil // who read has seen enough
	}
	return err
}

// closeTrace ends the outputs and says what is missing.
func closeTrace(b *trace.Builder, lost uint64, newest bool, stderr io.Writer) error {
	s, err := b.Close(lost)
	if s.Calls == 0 {
		fmt.Fprintln(stderr, "footfall: no calls")
	}
	if s.Lost > 0 {
		fmt.Fprintf(stderr, "footfall: %d events were dropped: they came faster than they could be read; select fewer functions, use --sample, or a larger --buffer\n", s.Lost)
	}
	if s.Unmatched > 0 && !newest {
		fmt.Fprintf(stderr, "footfall: %d exits had no entry: of calls that were dropped, or on other stacks\n", s.Unmatched)
	}
	if s.Cut > 0 {
		fmt.Fprintf(stderr, "footfall: of %d calls the exit was not seen: longjmp, exceptions, still running, or dropped; they count without time\n", s.Cut)
	}
	return err
}

// printCounts is what --count shows.
func (r *recorder) printCounts(w io.Writer, byID map[uint32]uint64) error {
	functions := r.header.Functions
	counts := make([]uint64, len(functions))
	total := uint64(0)
	for id, n := range byID {
		counts[r.numbers[id]] += n
		total += n
	}
	var called []int
	for i, n := range counts {
		if n > 0 {
			called = append(called, i)
		}
	}
	slices.SortFunc(called, func(a, b int) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(functions[a].Name, functions[b].Name))
	})
	fmt.Fprintf(w, "%15s  %s\n", "calls", "function")
	for _, i := range called {
		fmt.Fprintf(w, "%15d  %s\n", counts[i], functions[i].Name)
	}
	_, err := fmt.Fprintf(w, "%15d  %s\n", total, "total")
	return err
}

// replay is --read.
func (o *traceOptions) replay(cmd *cobra.Command) error {
	f, err := os.Open(o.read)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := trace.NewRawReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", o.read, err)
	}
	r := &recorder{o: o, header: &in.Header, stderr: cmd.ErrOrStderr()}
	if err := r.openOutputs(cmd.OutOrStdout()); err != nil {
		return err
	}
	lost, err := in.Read(r.give)
	if err != nil {
		err = fmt.Errorf("%s: %w", o.read, err)
	}
	if r.raw != nil {
		err = errors.Join(err, r.raw.Close(lost))
	}
	err = errors.Join(err, closeTrace(r.builder, lost, false, r.stderr))
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
