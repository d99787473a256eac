package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"footfall/hook/patch"
	"footfall/output"
	"footfall/proc"
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
costs it little while it is not traced (x86-64; on arm64 2 instead of 5 is enough):

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
  json        all calls, see docs/tracing.md
  raw         the events; --read makes any other output of them, or of some of
              them: --function, --notrace, --graph-from, --depth, --min-duration

Events that come faster than they are read are dropped, counted and said;
--flight-recorder keeps the newest ones instead and shows them at the end.

With --args the arguments of a function are recorded with its calls: all that the
debug information tells of, or those that are named, argN for the Nth integer or
pointer (1 to 6 are in registers, on arm64 1 to 8), farg1 for floating point:

  --args open_file --args 'log_line:arg1/d,arg3/s,farg1'

/d and /u are decimal, /x hexadecimal, /p a pointer, /c a character, /s a string
of which 48 bytes are kept; a number of bits may follow, as in /d64. A pointer to
nowhere does no harm.

Children made by fork are traced too, until they become other programs by exec.
With --follow-exec the programs that the process and its children become are
traced as well, each from its beginning, with the same functions and filters; a
program without any is left alone. Libraries that are loaded meanwhile are
traced from their constructors on.

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

  # all programs of a build or a test
  footfall trace --follow-exec -f 'parse_*' --output stats -- make test

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
	f.StringVar(&o.sample, "sample", "", "record of outermost calls only one in N, at random: `1/N`")
	f.DurationVar(&o.duration, "duration", 0, "end after this `TIME` (default: when interrupted or the program ends)")
	f.StringArrayVar(&o.threads, "thread", nil, "record only threads whose id or name fits `THREAD`; may be repeated (default: all)")
	f.Uint64Var(&o.events, "events", 0, "end after `N` events")
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
	f.BoolVar(&o.followExec, "follow-exec", false, "trace the programs, too, that the process or its children become by exec")
	cmd.MarkFlagsMutuallyExclusive("list", "repair", "read", "set")
	for _, recording := range []string{"exits", "count", "sample", "args", "duration", "buffer", "flight-recorder", "follow"} {
		cmd.MarkFlagsMutuallyExclusive("read", recording)
	}
	cmd.MarkFlagsMutuallyExclusive("off", "on")
	cmd.MarkFlagsMutuallyExclusive("count", "exits")
	cmd.MarkFlagsMutuallyExclusive("count", "args")
	cmd.MarkFlagsMutuallyExclusive("count", "output")
	cmd.MarkFlagsMutuallyExclusive("count", "flight-recorder")
	cmd.MarkFlagsMutuallyExclusive("count", "events")
	cmd.MarkFlagsMutuallyExclusive("flight-recorder", "events")
	cmd.MarkFlagsMutuallyExclusive("duration", "repair")
	for _, other := range []string{"list", "repair", "read", "set"} {
		cmd.MarkFlagsMutuallyExclusive("follow-exec", other)
	}
	return cmd
}

type traceOptions struct {
	functions, notrace, graphFrom, args, outputs, threads []string
	exits, count, newest, follow, list, repair            bool
	setRunning, off, on, followExec                       bool
	depth, buffer                                         int
	minDuration, duration                                 time.Duration
	sample, read                                          string
	events                                                uint64
}

func (o *traceOptions) run(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	for _, wanted := range o.threads {
		if _, err := path.Match(wanted, ""); err != nil {
			return usageError(fmt.Errorf("--thread %q: %w", wanted, err))
		}
	}
	switch {
	case o.read != "" && len(args) > 0:
		return usageError(errors.New("--read needs no TARGET"))
	case o.read != "":
		return o.replay(cmd)
	case dash > 0:
		return usageError(errors.New("give either a TARGET or, after --, a program"))
	case dash < 0 && (len(args) == 0 || len(args) > 1 && !o.list):
		return usageError(errors.New("give one TARGET: a process id or the name of a process; or a program after --"))
	case dash == 0 && len(args) == 0:
		return usageError(errors.New("give a program after --"))
	case (o.on || o.off) && !o.setRunning:
		return usageError(errors.New("--on and --off need --set"))
	case o.setRunning && dash < 0 && args[0] == "kernel":
		return usageError(errors.New("a trace of the kernel cannot be changed while it runs"))
	case o.setRunning && dash >= 0:
		return usageError(errors.New("--set needs a TARGET that is traced"))
	case o.setRunning:
		return o.set(cmd, args[0])
	case dash < 0 && args[0] == "kernel":
		return o.kernel(cmd, args[1:])
	case o.repair && dash >= 0:
		return usageError(errors.New("--repair needs a TARGET that was traced"))
	case o.repair:
		return repairTarget(cmd, args[0])
	case o.list && dash < 0:
		return o.listTarget(cmd, args[0], args[1:])
	}
	options, err := o.options()
	if err != nil {
		return usageError(err)
	}
	if o.followExec {
		return o.traceFollowing(cmd, args, options)
	}
	if dash < 0 {
		p, err := openTarget(args[0])
		if err != nil {
			return err
		}
		defer p.Close()
		return o.trace(cmd, p, options, func() error { return nil })
	}
	child := newChild(args)
	p, release, err := proc.Launch(child)
	if err != nil {
		return notStarted(args[0], err)
	}
	defer p.Close()
	if o.list {
		err := o.printSites(cmd, p, nil)
		_ = child.Process.Kill()
		_ = child.Wait()
		return err
	}
	return endOf(child, o.trace(cmd, p, options, release))
}

// newChild is a program that is started with our input and output.
func newChild(args []string) *exec.Cmd {
	child := exec.Command(args[0], args[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	return child
}

// notStarted is the error of a program that could not be started.
func notStarted(program string, err error) error {
	var failed *os.PathError // "fork/exec"
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Errorf("%s: %w", program, err)
}

// endOf waits for the end of a program that was started for a trace, which has
// ended with err. Not before that: whoever waits would be told of stops, too.
func endOf(child *exec.Cmd, err error) error {
	if err != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
		return err
	}
	var exit *exec.ExitError
	if err := child.Wait(); errors.As(err, &exit) {
		status := exit.ExitCode()
		if ended, ok := exit.Sys().(syscall.WaitStatus); ok && ended.Signaled() {
			status = 128 + int(ended.Signal()) // as shells do
		}
		return &exitError{status: cmp.Or(max(status, 0), 1)}
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
	fmt.Fprintf(cmd.ErrOrStderr(), "footfall: process %d: %s restored\n", p.PID, output.Count(n, "function", "functions"))
	return nil
}

// options makes those of a session.
func (o *traceOptions) options() (patch.Options, error) {
	p := patch.Options{Mode: patch.Entries, Newest: o.newest, RingSize: o.buffer << 20, Arguments: len(o.args) > 0, Follow: o.follow, Notices: true}
	if o.buffer < 1 || o.buffer > 1024 || o.buffer&(o.buffer-1) != 0 {
		return p, fmt.Errorf("--buffer %d: it must be a power of 2 from 1 to 1024", o.buffer)
	}
	if o.duration < 0 || o.minDuration < 0 {
		return p, errors.New("--duration and --min-duration must not be negative")
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

// trace records until something ends it.
func (o *traceOptions) trace(cmd *cobra.Command, p *proc.Process, options patch.Options, release func() error) error {
	sites, libraries, err := o.sites(p, nil, awaitAll, cmd.ErrOrStderr())
	if none := (*noSites)(nil); errors.As(err, &none) {
		return o.traceProbes(cmd, p, options, none, release)
	}
	if err != nil {
		return err
	}
	r := o.newRecorder(cmd, &trace.Header{PID: p.PID, Program: p.Name}, options)
	r.p = p
	return r.record(cmd, func() error {
		_, err := r.open(p, sites, libraries)
		return err
	}, release)
}

// newRecorder returns one that has no programs yet.
func (o *traceOptions) newRecorder(cmd *cobra.Command, h *trace.Header, options patch.Options) *recorder {
	clock := patch.NewClock()
	options.Filter.MinTime = clock.Ticks(o.minDuration)
	h.Start, h.Exits = clock.Start.UnixNano(), options.Mode == patch.Exits || options.Mode == patch.Filtered
	h.Filter = o.filter(options)
	r := &recorder{o: o, options: options, header: h, known: make(map[fileSite]int32), clock: clock, stderr: cmd.ErrOrStderr(), launched: cmd.ArgsLenAtDash() >= 0}
	r.try = r.tryChange
	return r
}

// filter is what a recording leaves out.
func (o *traceOptions) filter(options patch.Options) trace.Filter {
	f := options.Filter
	return trace.Filter{Roots: f.Roots, Depth: f.Depth, MinTime: uint64(o.minDuration), Period: f.Period}
}

// record switches on by open, lets go by release what has been started, and records
// until something ends it.
func (r *recorder) record(cmd *cobra.Command, open, release func() error) (err error) {
	// Signals must not end footfall before it has restored the program.
	ctx, cancel := untilSignal()
	defer cancel()
	defer func() { err = errors.Join(err, r.closePrograms()) }()
	if err := open(); err != nil {
		return err
	}
	if r.p != nil {
		sayTracers(r.p, r.stderr)
	}
	requests, control, err := serveControl(r.header.PID)
	if err != nil {
		fmt.Fprintf(r.stderr, "footfall: %v\n", err)
	} else {
		defer control.Close()
	}
	r.requests = requests
	if r.follows == nil {
		if r.watcher, _ = proc.NewWatcher(r.header.PID); r.watcher != nil { // else it is not permitted
			defer r.watcher.Close()
		}
		r.notices = r.programs[0].session.Notices()
	}
	if !r.o.count {
		if err := r.openOutputs(ctx, cmd.OutOrStdout()); err != nil {
			return err
		}
		defer r.discard()
	}
	for _, t := range r.programs {
		r.begin(t)
	}
	if err := release(); err != nil {
		return err
	}
	ended := r.run(ctx, r.readNew, r.look, 200*time.Microsecond)
	if r.follows != nil {
		r.follows.end()
	}
	for _, t := range r.programs {
		if err := errors.Join(t.session.SwitchOff(), t.detachLate(r.stderr)); err != nil {
			return err
		}
		t.libraries.sayUnanswered(t.session)
	}
	r.sayChildren()
	if r.o.count {
		for _, t := range r.programs {
			r.addCounts(t)
			r.addLost(t)
		}
		r.sayPlaceless()
		r.sayWhy(ended)
		return r.printCounts(cmd.OutOrStdout(), r.counts)
	}
	r.read(true)
	return r.end(ended)
}
