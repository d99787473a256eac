// Package record records the calls of functions of running programs, and of the kernel: it
// selects functions, has them switched into events by the packages of hook/, follows children
// and what is loaded later, brings events into order, and gives them to the outputs of package
// trace. It knows no flags: command/trace.go and command/callers.go have these.
package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"footfall/hook/patch"
	"footfall/output"
	"footfall/proc"
	"footfall/trace"
)

// Options are what footfall trace was asked for.
type Options struct {
	Targets []string // a process, or kernel; with List patterns after it
	// Program is to be started and traced; nil: a target is there.
	Program []string

	Functions, Notrace, GraphFrom, Args, Outputs, Threads []string
	Exits, Count, Newest, Follow, List, Repair            bool
	Set, Off, On, FollowExec                              bool
	Depth, Buffer                                         int
	MinDuration, Duration                                 time.Duration
	Sample, Read                                          string
	Events                                                uint64

	// Given tells whether an option was given, by the name of its flag.
	Given func(flag string) bool

	Stdout, Stderr io.Writer
}

// Check tells what of the options makes no sense.
func (o *Options) Check() error {
	_, err := o.options()
	return err
}

// CheckArguments tells what is wrong with a text of Args.
func CheckArguments(text string) error {
	_, err := parseArguments(text)
	return err
}

// launches tells whether the program is started for the trace.
func (o *Options) launches() bool { return o.Program != nil }

// Trace is footfall trace.
func Trace(o *Options) error {
	for _, wanted := range o.Threads {
		if _, err := path.Match(wanted, ""); err != nil {
			return output.UsageError(fmt.Errorf("--thread %q: %w", wanted, err))
		}
	}
	switch {
	case o.Read != "" && len(o.Targets)+len(o.Program) > 0:
		return output.UsageError(errors.New("--read needs no TARGET"))
	case o.Read != "":
		return o.replay()
	case o.launches() && len(o.Targets) > 0:
		return output.UsageError(errors.New("give either a TARGET or, after --, a program"))
	case !o.launches() && (len(o.Targets) == 0 || len(o.Targets) > 1 && !o.List):
		return output.UsageError(errors.New("give one TARGET: a process id or the name of a process; or a program after --"))
	case o.launches() && len(o.Program) == 0:
		return output.UsageError(errors.New("give a program after --"))
	case (o.On || o.Off) && !o.Set:
		return output.UsageError(errors.New("--on and --off need --set"))
	case o.Set && !o.launches() && o.Targets[0] == "kernel":
		return output.UsageError(errors.New("a trace of the kernel cannot be changed while it runs"))
	case o.Set && o.launches():
		return output.UsageError(errors.New("--set needs a TARGET that is traced"))
	case o.Set:
		return o.set(o.Targets[0])
	case !o.launches() && o.Targets[0] == "kernel":
		return o.kernel(o.Targets[1:])
	case o.Repair && o.launches():
		return output.UsageError(errors.New("--repair needs a TARGET that was traced"))
	case o.Repair:
		return o.repair(o.Targets[0])
	case o.List && !o.launches():
		return o.listTarget(o.Targets[0], o.Targets[1:])
	}
	options, err := o.options()
	if err != nil {
		return output.UsageError(err)
	}
	if o.FollowExec {
		return o.traceFollowing(options)
	}
	if !o.launches() {
		p, err := openTarget(o.Targets[0])
		if err != nil {
			return err
		}
		defer p.Close()
		return o.trace(p, options, func() error { return nil })
	}
	child := newChild(o.Program)
	p, release, err := proc.Launch(child)
	if err != nil {
		return notStarted(o.Program[0], err)
	}
	defer p.Close()
	if o.List {
		err := o.printSites(p, nil)
		_ = child.Process.Kill()
		_ = child.Wait()
		return err
	}
	return endOf(child, o.trace(p, options, release))
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
		return &output.ExitError{Status: cmp.Or(max(status, 0), 1)}
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

// repair is --repair.
func (o *Options) repair(target string) error {
	p, err := openTarget(target)
	if err != nil {
		return err
	}
	defer p.Close()
	n, err := patch.Repair(p)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Stderr, "footfall: process %d: %s restored\n", p.PID, output.Count(n, "function", "functions"))
	return nil
}

// options makes those of a session.
func (o *Options) options() (patch.Options, error) {
	p := patch.Options{Mode: patch.Entries, Newest: o.Newest, RingSize: o.Buffer << 20, Arguments: len(o.Args) > 0, Follow: o.Follow, Notices: true}
	if o.Buffer < 1 || o.Buffer > 1024 || o.Buffer&(o.Buffer-1) != 0 {
		return p, fmt.Errorf("--buffer %d: it must be a power of 2 from 1 to 1024", o.Buffer)
	}
	if o.Duration < 0 || o.MinDuration < 0 {
		return p, errors.New("--duration and --min-duration must not be negative")
	}
	if o.Depth < 0 || o.Depth > 1000 {
		return p, fmt.Errorf("--depth %d: it must be from 1 to 1000", o.Depth)
	}
	p.Filter.Depth, p.Filter.Roots = o.Depth, len(o.GraphFrom) > 0
	if o.Sample != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(o.Sample, "1/"), 10, 32)
		if err != nil || n == 0 {
			return p, fmt.Errorf("--sample %s: it must be 1/N", o.Sample)
		}
		p.Filter.Period = n
	}
	if o.Exits {
		p.Mode = patch.Exits
	}
	if p.Filter != (patch.Filter{}) || o.MinDuration > 0 || p.Arguments && o.Exits {
		p.Mode = patch.Filtered
	}
	if o.Count {
		if p.Mode == patch.Filtered {
			return p, errors.New("--count counts all calls: --graph-from, --depth, --min-duration and --sample do not go with it")
		}
		p.Mode = patch.Counts
	}
	return p, nil
}

// trace records until something ends it.
func (o *Options) trace(p *proc.Process, options patch.Options, release func() error) error {
	sites, libraries, err := o.sites(p, nil, awaitAll, o.Stderr)
	if none := (*noSites)(nil); errors.As(err, &none) {
		return o.traceProbes(p, options, none, release)
	}
	if err != nil {
		return err
	}
	r := o.newRecorder(&trace.Header{PID: p.PID, Program: p.Name}, options)
	r.p = p
	return r.record(func() error {
		_, err := r.open(p, sites, libraries)
		return err
	}, release)
}

// newRecorder returns one that has no programs yet.
func (o *Options) newRecorder(h *trace.Header, options patch.Options) *recorder {
	clock := patch.NewClock()
	options.Filter.MinTime = clock.Ticks(o.MinDuration)
	h.Start, h.Exits = clock.Start.UnixNano(), options.Mode == patch.Exits || options.Mode == patch.Filtered
	h.Filter = o.filter(options)
	r := &recorder{o: o, options: options, header: h, known: make(map[fileSite]int32), clock: clock, stderr: o.Stderr, launched: o.launches()}
	r.try = r.tryChange
	return r
}

// filter is what a recording leaves out.
func (o *Options) filter(options patch.Options) trace.Filter {
	f := options.Filter
	return trace.Filter{Roots: f.Roots, Depth: f.Depth, MinTime: uint64(o.MinDuration), Period: f.Period}
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
	if !r.o.Count {
		if err := r.openOutputs(ctx, r.o.Stdout); err != nil {
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
	if r.o.Count {
		for _, t := range r.programs {
			r.addCounts(t)
			r.addLost(t)
		}
		r.sayPlaceless()
		r.sayWhy(ended)
		return r.printCounts(r.o.Stdout, r.counts)
	}
	r.read(true)
	return r.end(ended)
}
