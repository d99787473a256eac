//go:build linux

// Package ftrace traces functions of the kernel by its tracers "function" and
// "function_graph", in the file system tracefs.
//
// Whatever can be is done in an instance of tracefs, which has settings and
// buffers of its own and of which nothing is left when it is removed. What is
// there once for the whole kernel is put back: the graph tracer itself before
// Linux 6.11, and where it begins, how deep it goes, and from which duration on.
// It is written to a file before it is changed, so that another footfall can put
// it back if this one is killed.
//
// Functions are chosen by the kernel's own globs. Events are read as the kernel
// has them, not as text.
package ftrace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options say what to trace.
type Options struct {
	// Functions, Notrace and From are names, globs, or MODULE:GLOB. From is where
	// recording begins.
	Functions, Notrace, From []string
	Exits                    bool // entries and exits, not only entries
	Stacks                   bool // without Exits: with chains of callers
	Depth                    int  // with Exits: at most so many calls within each other; 0: any
	// MinDuration is, with Exits, how long a call must take. Then there are no
	// entries: exits tell when they were.
	MinDuration time.Duration
	BufferSize  int  // bytes for each CPU
	Newest      bool // nothing is read until the end, and the newest events are kept
}

// A KernelEventKind says what an event is.
type KernelEventKind int

// Kinds of events.
const (
	Entry KernelEventKind = iota
	Exit
	Stack
)

// A KernelEvent is something that a CPU did.
type KernelEvent struct {
	Kind     KernelEventKind
	Time     uint64 // nanoseconds of the monotonic clock
	TID, CPU int
	Func     uint64 // its address; not of stacks
	Parent   uint64 // of an Entry: where it was called from; 0: not known
	Depth    int    // of the graph tracer: calls around it
	Duration uint64 // of an Exit, in nanoseconds
	Stack    []uint64
}

// A Tracer is the kernel's tracer while we use it: an instance of tracefs, or the kernel's own.
type Tracer struct {
	tree     *tree
	settings *settings
	instance string // below tracefs; "": the kernel's own
	options  Options
	layouts  map[uint16]*layout
	kinds    map[uint16]KernelEventKind
	cpus     []*cpu
	held     []KernelEvent
	lost     uint64 // before we began
}

// A cpu has a buffer of its own.
type cpu struct {
	number int
	fd     int
	last   uint64 // time of its last event
}

// Open begins to trace.
func Open(o Options) (*Tracer, error) {
	t, err := openTree()
	if err != nil {
		return nil, err
	}
	s := &Tracer{tree: t, options: o}
	if _, err = t.repair(stateFile); err == nil {
		err = s.begin()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Tracer) begin() (err error) {
	if s.settings, err = newSettings(s.tree); err != nil {
		return err
	}
	if err := s.readLayouts(); err != nil {
		return err
	}
	if err := s.place(); err != nil {
		return err
	}
	if err := s.choose(); err != nil {
		return err
	}
	if err := s.openBuffers(); err != nil {
		return err
	}
	return s.set("tracing_on", "1")
}

// place makes an instance or, where the tracer does not work in one, takes what
// is there for all, if nobody uses it.
func (s *Tracer) place() error {
	instance := filepath.Join("instances", prefix+s.settings.Owner)
	if err := os.Mkdir(filepath.Join(s.tree.dir, instance), 0o755); err != nil {
		return s.tree.failed("make", instance, err)
	}
	s.instance = instance
	tracers, err := s.tree.read(instance + "/available_tracers")
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(tracers), s.tracer()) {
		return nil
	}
	if tracers, err = s.tree.read("available_tracers"); err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(tracers), s.tracer()) {
		return fmt.Errorf("kernel: it has no tracer %q, only %s: it was built without CONFIG_FUNCTION_TRACER or CONFIG_FUNCTION_GRAPH_TRACER", s.tracer(), tracers)
	}
	if err := errors.Join(s.tree.removeInstance(instance), s.mayTakeAll()); err != nil {
		return err
	}
	s.instance = ""
	return nil
}

func (s *Tracer) tracer() string {
	if s.options.Exits {
		return "function_graph"
	}
	return "function"
}

// mayTakeAll tells whether nobody else traces with the kernel's own buffer, or
// has left something in it.
func (s *Tracer) mayTakeAll() error {
	s.instance = ""
	if err := s.settings.alone(); err != nil {
		return err
	}
	switch now, err := s.tree.read("current_tracer"); {
	case err != nil:
		return err
	case now != "nop":
		return fmt.Errorf("kernel: somebody uses its tracer %q: echo nop > %s/current_tracer", now, usual[0])
	}
	n, err := s.statistic("entries")
	if err == nil && n > 0 {
		err = fmt.Errorf("kernel: its buffer holds %d events of somebody, which would be lost: echo > %s/trace", n, usual[0])
	}
	return err
}

// set changes a file of the instance, or saves and changes that of the kernel.
func (s *Tracer) set(file, value string) error {
	if s.instance == "" {
		return s.settings.set(file, value)
	}
	return s.tree.write(filepath.Join(s.instance, file), value)
}

// global changes what is there once, if it is not so already.
func (s *Tracer) global(file, value string) error {
	now, err := s.tree.read(file)
	if err == nil && clean(file, now) == value {
		return nil
	}
	return errors.Join(err, s.settings.set(file, value))
}

// choose sets everything up but the last switch.
func (s *Tracer) choose() error {
	o := s.options
	overwrite := "0"
	if o.Newest {
		overwrite = "1"
	}
	functions := o.Functions
	if len(functions) > 0 {
		functions = append(slices.Clone(functions), o.From...)
	}
	steps := []func() error{
		func() error { return s.set("tracing_on", "0") },
		func() error { return s.set("trace_clock", "mono") },
		func() error { return s.set("buffer_size_kb", strconv.Itoa(max(o.BufferSize>>10, 4))) },
		func() error { return s.set("options/overwrite", overwrite) },
		func() error { return s.list("set_ftrace_filter", functions, s.set) },
		s.notTooMany,
		func() error { return s.list("set_ftrace_notrace", o.Notrace, s.set) },
		s.leaveOurselvesOut,
	}
	if o.Exits {
		steps = append(steps, s.chooseGraph)
	}
	steps = append(steps, func() error { return s.set("current_tracer", s.tracer()) })
	if o.Stacks {
		steps = append(steps, s.takeStacks)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// chooseGraph sets up what all graph tracers share. Somebody may have left
// something there.
func (s *Tracer) chooseGraph() error {
	thresh := s.options.MinDuration.Microseconds()
	if s.options.MinDuration > 0 {
		thresh = max(thresh, 1)
	}
	return errors.Join(
		s.list("set_graph_function", s.options.From, s.global),
		s.list("set_graph_notrace", nil, s.global),
		s.global("max_graph_depth", strconv.Itoa(s.options.Depth)),
		s.global("tracing_thresh", strconv.FormatInt(thresh, 10)))
}

// takeStacks switches stacks on in the instance; older kernels have one switch
// for all.
func (s *Tracer) takeStacks() error {
	const file = "options/func_stack_trace"
	if _, err := os.Stat(filepath.Join(s.tree.dir, file)); err == nil {
		if err := s.settings.remember(file); err != nil {
			return err
		}
	}
	return s.set(file, "1")
}

// list sets a list of functions.
func (s *Tracer) list(file string, patterns []string, set func(file, value string) error) error {
	if len(patterns) == 0 {
		return set(file, "")
	}
	var globs []string
	for _, p := range patterns {
		if module, name, ok := strings.Cut(p, ":"); ok {
			p = name + ":mod:" + module
		}
		globs = append(globs, p)
	}
	err := set(file, strings.Join(globs, "\n"))
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("kernel: no function that can be traced fits %s; --list kernel lists them", strings.Join(patterns, " "))
	}
	return err
}

// mostStacks is how many functions may have their stacks taken: that of each call
// of everything would stop the machine.
const mostStacks = 32

func (s *Tracer) notTooMany() error {
	if !s.options.Stacks {
		return nil
	}
	text, err := s.tree.read(filepath.Join(s.instance, "set_ftrace_filter"))
	if n := strings.Count(text, "\n") + 1; err == nil && n > mostStacks {
		err = fmt.Errorf("kernel: %d functions fit, the callers of at most %d are counted at once", n, mostStacks)
	}
	return err
}

// leaveOurselvesOut keeps the tracer from tracing who reads it. Who was on the
// list before must not be any more when threads begin to inherit that, or theirs
// would be saved as somebody's.
func (s *Tracer) leaveOurselvesOut() error {
	return errors.Join(
		s.leaveOut(),
		s.set("options/function-fork", "1"),
		s.leaveOut()) // threads that were made meanwhile
}

func (s *Tracer) leaveOut() error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	var pids []string
	for _, t := range tasks {
		pids = append(pids, t.Name())
	}
	return s.set("set_ftrace_notrace_pid", strings.Join(pids, "\n"))
}

func (s *Tracer) readLayouts() error {
	s.layouts, s.kinds = make(map[uint16]*layout), make(map[uint16]KernelEventKind)
	for name, kind := range map[string]KernelEventKind{"function": Entry, "kernel_stack": Stack, "funcgraph_entry": Entry, "funcgraph_exit": Exit} {
		text, err := s.tree.read("events/ftrace/" + name + "/format")
		if err != nil {
			if strings.HasPrefix(name, "funcgraph") && !s.options.Exits {
				continue
			}
			return err
		}
		l, err := parseLayout(text)
		if err != nil {
			return fmt.Errorf("kernel: %s: %w", name, err)
		}
		s.layouts[l.id], s.kinds[l.id] = l, kind
	}
	return nil
}

func (s *Tracer) openBuffers() error {
	names, err := filepath.Glob(filepath.Join(s.tree.dir, s.instance, "per_cpu/cpu[0-9]*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(name), "cpu"))
		if err != nil {
			continue
		}
		file := filepath.Join(name, "trace_pipe_raw")
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return s.tree.failed("read", "trace_pipe_raw", err)
		}
		s.cpus = append(s.cpus, &cpu{number: number, fd: fd})
	}
	s.lost, err = s.missing()
	return err
}

// pagesAtOnce are read of one CPU before the next one's turn.
const pagesAtOnce = 512

// pageSize is more than the largest page of a ring buffer.
const pageSize = 1 << 20

// Read returns, in the order of time, the events until a moment ago, with end all
// events.
func (s *Tracer) Read(end bool) ([]KernelEvent, error) {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	until := uint64(now.Nano()) - uint64(2*time.Millisecond)
	page := make([]byte, pageSize)
	for again := true; again; {
		again = false
		for _, c := range s.cpus {
			more, err := s.readCPU(c, page)
			if err != nil {
				return nil, err
			}
			switch {
			case more && end:
				again = true
			case more:
				until = min(until, c.last)
			}
		}
	}
	slices.SortStableFunc(s.held, func(a, b KernelEvent) int {
		switch {
		case a.Time < b.Time:
			return -1
		case a.Time > b.Time:
			return 1
		}
		return 0
	})
	n := len(s.held)
	if !end {
		for n > 0 && s.held[n-1].Time >= until {
			n--
		}
	}
	events := slices.Clone(s.held[:n])
	s.held = append(s.held[:0], s.held[n:]...)
	return events, nil
}

// readCPU reads what a CPU has, and tells whether there is more.
func (s *Tracer) readCPU(c *cpu, page []byte) (more bool, err error) {
	for range pagesAtOnce {
		n, err := unix.Read(c.fd, page)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return false, nil
		case err != nil:
			return false, fmt.Errorf("kernel: buffer of CPU %d: %w", c.number, err)
		}
		err = readPage(page[:n], func(time uint64, event []byte) {
			c.last = time
			if e, ok := s.event(event); ok {
				e.Time, e.CPU = time, c.number
				s.held = append(s.held, e)
			}
		})
		if err != nil {
			return false, fmt.Errorf("kernel: buffer of CPU %d: %w", c.number, err)
		}
	}
	return true, nil
}

// event decodes one; ok is false for those of others.
func (s *Tracer) event(b []byte) (e KernelEvent, ok bool) {
	if len(b) < 2 {
		return e, false
	}
	id := uint16(b[0]) | uint16(b[1])<<8
	l := s.layouts[id]
	if l == nil {
		return e, false
	}
	e.Kind = s.kinds[id]
	e.TID = int(int32(l.number(b, "common_pid")))
	switch e.Kind {
	case Stack:
		e.Stack = l.words(b, "caller", "size")
	case Entry:
		e.Func, e.Parent = l.number(b, "func"), l.number(b, "parent_ip")
		if e.Func == 0 {
			e.Func = l.number(b, "ip")
		}
	case Exit:
		e.Func = l.number(b, "func")
		if from, to := l.number(b, "calltime"), l.number(b, "rettime"); to > from {
			e.Duration = to - from
		}
	}
	e.Depth = int(int32(l.number(b, "depth")))
	return e, true
}

// statistic adds up a number over all CPUs, from lines such as "overrun: 17".
func (s *Tracer) statistic(names ...string) (total uint64, err error) {
	files, err := filepath.Glob(filepath.Join(s.tree.dir, s.instance, "per_cpu/cpu[0-9]*/stats"))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(b)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); slices.Contains(names, name) {
				n, _ := strconv.ParseUint(value, 10, 64)
				total += n
			}
		}
	}
	return total, nil
}

func (s *Tracer) missing() (uint64, error) {
	return s.statistic("overrun", "commit overrun", "dropped events")
}

// Lost returns how many events found no room.
func (s *Tracer) Lost() uint64 {
	n, _ := s.missing()
	return n - min(n, s.lost)
}

// Comm returns the names of threads that the kernel remembers.
func (s *Tracer) Comm() map[int]string {
	names := make(map[int]string)
	text, _ := s.tree.read("saved_cmdlines")
	for line := range strings.Lines(text) {
		if pid, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			if n, err := strconv.Atoi(pid); err == nil && name != "<...>" {
				names[n] = name
			}
		}
	}
	return names
}

// Stop ends tracing; what there is can still be read.
func (s *Tracer) Stop() error { return s.set("tracing_on", "0") }

// Close puts everything back.
func (s *Tracer) Close() error {
	for _, c := range s.cpus { // before, or the tracer is busy
		unix.Close(c.fd)
	}
	s.cpus = nil
	var failed []error
	if s.instance == "" && s.settings != nil && len(s.settings.Saved) > 0 {
		// What there is in the buffer is ours.
		failed = append(failed, s.tree.write("tracing_on", "0"), s.tree.write("current_tracer", "nop"), s.tree.write("trace", ""))
	}
	if s.settings != nil {
		failed = append(failed, s.settings.restore())
	}
	if s.instance != "" {
		failed = append(failed, s.tree.removeInstance(s.instance))
		s.instance = ""
	}
	s.tree.close()
	return errors.Join(failed...)
}

// List returns the functions that can be traced, as the kernel has them: a name,
// and the module in brackets if it is in one.
func List() ([]string, error) {
	t, err := openTree()
	if err != nil {
		return nil, err
	}
	defer t.close()
	text, err := t.read("available_filter_functions")
	if err != nil {
		return nil, err
	}
	return strings.Split(text, "\n"), nil
}
