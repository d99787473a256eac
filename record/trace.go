//go:build linux

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
	"slices"
	"strconv"
	"strings"
	"time"

	"footfall/hook/patch"
	"footfall/hook/uprobe"
	"footfall/output"
	"footfall/process"
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

	// Ways are the names of ways into functions that are permitted; none: all.
	Ways   []string
	Events uint64

	// Given tells whether an option was given, by the name of its flag.
	Given func(flag string) bool

	Stdout, Stderr io.Writer
}

// Check tells what of the options makes no sense.
func (o *Options) Check() error {
	_, err := o.settings()
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
	if _, err := o.requests(); err != nil {
		return err
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
	set, err := o.settings()
	if err != nil {
		return output.UsageError(err)
	}
	ways, err := parseWays(o.Ways)
	if err != nil {
		return output.UsageError(err)
	}
	if err := patch.Known(); err != nil {
		return err
	}
	if o.FollowExec {
		return o.traceFollowing(set, ways)
	}
	if !o.launches() {
		p, err := openTarget(o.Targets[0])
		if err != nil {
			return err
		}
		defer p.Close()
		return o.trace(p, set, ways, func() error { return nil })
	}
	child := newChild(o.Program)
	p, release, err := process.StartAtEntry(child)
	if err != nil {
		return NotStarted(o.Program[0], err)
	}
	defer p.Close()
	if o.List {
		err := o.printSites(p, ways, nil)
		_ = child.Process.Kill()
		_ = child.Wait()
		return err
	}
	return endOf(child, o.trace(p, set, ways, release))
}

// newChild is a program that is started with our input and output.
func newChild(args []string) *exec.Cmd {
	child := exec.Command(args[0], args[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	return child
}

// NotStarted is the error of a program that could not be started.
func NotStarted(program string, err error) error {
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
	if status, _, known := output.ProgramStatus(child.Wait()); known {
		return &output.ExitError{Status: cmp.Or(max(status, 0), 1)}
	}
	return nil
}

// openTarget opens the one process that target means.
func openTarget(target string) (*process.Process, error) {
	selector, err := process.ParseSelector(target)
	if err != nil {
		return nil, err
	}
	pids, err := selector.Find()
	if err != nil {
		return nil, err
	}
	if len(pids) > 1 {
		return nil, fmt.Errorf("%d processes are %s: give the id of one: %s", len(pids), target, strings.Trim(fmt.Sprint(pids), "[]"))
	}
	return process.Open(pids[0])
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
	left, err := uprobe.Repair(p)
	if err != nil {
		return err
	}
	n += left
	fmt.Fprintf(o.Stderr, "footfall: process %d: %s restored\n", p.PID, output.Count(n, "function", "functions"))
	return nil
}

// settings makes those of a recording.
func (o *Options) settings() (*settings, error) {
	set := &settings{mode: trace.Entries, newest: o.Newest, buffer: o.Buffer, arguments: len(o.Args) > 0, follow: o.Follow, threads: o.Threads}
	if o.Buffer < 1 || o.Buffer > 1024 || o.Buffer&(o.Buffer-1) != 0 {
		return nil, fmt.Errorf("--buffer %d: it must be a power of 2 from 1 to 1024", o.Buffer)
	}
	if o.Duration < 0 || o.MinDuration < 0 {
		return nil, errors.New("--duration and --min-duration must not be negative")
	}
	if o.Depth < 0 || o.Depth > 1000 {
		return nil, fmt.Errorf("--depth %d: it must be from 1 to 1000", o.Depth)
	}
	set.filter = trace.Filter{Depth: o.Depth, MinTime: uint64(o.MinDuration), Roots: len(o.GraphFrom) > 0}
	if o.Sample != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(o.Sample, "1/"), 10, 32)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("--sample %s: it must be 1/N", o.Sample)
		}
		set.filter.Period = n
	}
	if o.Exits {
		set.mode = trace.Exits
	}
	if set.filters() || set.arguments && o.Exits {
		set.mode = trace.Filtered
	}
	if o.Count {
		if set.mode == trace.Filtered {
			return nil, errors.New("--count counts all calls: --graph-from, --depth, --min-duration and --sample do not go with it")
		}
		set.mode = trace.Counts
	}
	return set, nil
}

// selection reads which functions are wanted, and also those of more patterns.
func (o *Options) selection(more ...string) (selection, error) {
	return newSelection(append(slices.Clone(o.Functions), more...), o.Notrace, o.GraphFrom, o.Args)
}

// newProgram returns a program of the recording.
func (r *recorder) newProgram(p *process.Process, s selection, ways ways, stderr io.Writer) *program {
	t := newProgram(p, s, ways, r.settings, stderr)
	t.functions, t.time = r.functions, r.time
	return t
}

// trace records until something ends it; release lets a program go that has been started.
func (o *Options) trace(p *process.Process, set *settings, ways ways, release func() error) error {
	s, err := o.selection()
	if err != nil {
		return err
	}
	r := o.newRecorder(&trace.Header{PID: p.PID, Program: p.Name}, set)
	r.p = p
	t := r.newProgram(p, s, ways, o.Stderr)
	c, none := t.find(awaitAll)
	if without := (*noSites)(nil); none != nil && !errors.As(none, &without) {
		t.images.Close()
		return none
	}
	if none == nil && ways.jump() {
		r.time.measure()
	}
	r.programs = append(r.programs, t)
	return r.record(func() error {
		err := t.open(&c, none, o.launches())
		r.header.Probes = t.probes != nil && t.sites == nil
		return err
	}, release)
}

// traceKernel is footfall trace kernel.
func (o *Options) traceKernel() error {
	options, err := o.kernelOptions()
	if err != nil {
		return err
	}
	set := &settings{mode: trace.Entries, newest: o.Newest, threads: o.Threads}
	switch {
	case o.Count:
		set.mode = trace.Counts
	case options.Exits:
		set.mode = trace.Exits
	}
	r := o.newRecorder(&trace.Header{Program: "kernel"}, set)
	t := &program{settings: set, stderr: o.Stderr}
	r.programs = append(r.programs, t)
	return r.record(func() (err error) {
		begin := time.Now()
		r.time.begin()
		if t.kernel, err = openKernel(set.mode, options, r.functions, r.time.start); err != nil {
			t.kernel = nil
			return err
		}
		fmt.Fprintf(r.stderr, "footfall: kernel: tracing; switching on took %v\n", time.Since(begin).Round(time.Millisecond))
		return nil
	}, func() error { return nil })
}
