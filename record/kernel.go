package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"footfall/hook/ftrace"
	"footfall/hook/patch"
	"footfall/output"
	"footfall/trace"
)

// kernelGlobs makes globs of the kernel of patterns: of /EXPRESSION/ the names
// that fit.
func kernelGlobs(patterns []string) ([]string, error) {
	var globs []string
	for _, p := range patterns {
		if len(p) < 3 || p[0] != '/' || p[len(p)-1] != '/' {
			if p == "" || strings.ContainsAny(p, " \n") {
				return nil, output.UsageError(fmt.Errorf("pattern %q names no function", p))
			}
			globs = append(globs, p)
			continue
		}
		names, err := kernelFunctions([]string{p})
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("kernel: no function that can be traced fits %s; --list kernel lists them", p)
		}
		for _, name := range names {
			name, _, _ = strings.Cut(name, " ")
			globs = append(globs, name)
		}
	}
	return globs, nil
}

// kernelFunctions lists functions of the kernel that can be traced and fit one
// of the patterns, or all.
func kernelFunctions(patterns []string) ([]string, error) {
	var fit []*regexp.Regexp
	for _, p := range patterns {
		module := ""
		if i := strings.Index(p, ":"); i > 0 && p[0] != '/' {
			module, p = p[:i], p[i+1:]
		}
		text := `^` + globText(p) + `( \[.*\])?$`
		if module != "" {
			text = `^` + globText(p) + ` \[` + globText(module) + `\]$`
		}
		if len(p) > 2 && p[0] == '/' && p[len(p)-1] == '/' {
			text = p[1 : len(p)-1]
		}
		e, err := regexp.Compile(text)
		if err != nil {
			return nil, output.UsageError(fmt.Errorf("pattern %q: %w", p, err))
		}
		fit = append(fit, e)
	}
	all, err := ftrace.List()
	if err != nil || len(fit) == 0 {
		return all, err
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return !slices.ContainsFunc(fit, func(e *regexp.Regexp) bool { return e.MatchString(name) })
	}), nil
}

// globText makes a regular expression of a glob.
func globText(glob string) string {
	return strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(glob))
}

// kernel is footfall trace of the kernel.
func (o *Options) kernel(patterns []string) error {
	switch {
	case o.Repair:
		return repairKernel(o.Stderr)
	case o.List:
		return o.listKernel(o.Stdout, patterns)
	}
	return o.traceKernel()
}

// listKernel is --list kernel.
func (o *Options) listKernel(w io.Writer, patterns []string) error {
	names, err := kernelFunctions(append(slices.Clone(o.Functions), patterns...))
	if err != nil {
		return err
	}
	slices.Sort(names)
	_, err = fmt.Fprintln(w, strings.Join(names, "\n"))
	return err
}

// repairKernel is --repair kernel.
func repairKernel(stderr io.Writer) error {
	n, err := ftrace.Repair()
	if err == nil {
		fmt.Fprintf(stderr, "footfall: kernel: %s restored\n", output.Count(n, "setting or instance", "settings and instances"))
	}
	return err
}

// kernelOptions makes those of a session.
func (o *Options) kernelOptions() (f ftrace.Options, err error) {
	switch {
	case o.Sample != "":
		return f, output.UsageError(errors.New("the kernel's tracers know no --sample"))
	case o.Count && len(o.Threads) > 0:
		return f, output.UsageError(errors.New("the kernel's tracers count the calls of all threads: --count and --thread do not go together"))
	case len(o.Args) > 0:
		return f, output.UsageError(errors.New("the kernel's tracers know no --args"))
	case o.FollowExec:
		return f, output.UsageError(errors.New("--follow-exec is for programs; the kernel's functions are traced for all of them"))
	case len(o.Functions) == 0 && len(o.GraphFrom) == 0:
		return f, output.UsageError(errors.New("say which functions of the kernel: -f GLOB, or --graph-from FUNCTION; -f '*' is all of them, many millions of calls a second"))
	case o.Buffer < 1 || o.Buffer > 1024:
		return f, output.UsageError(fmt.Errorf("--buffer %d: it must be from 1 to 1024", o.Buffer))
	}
	f = ftrace.Options{Depth: o.Depth, MinDuration: o.MinDuration, BufferSize: o.Buffer << 20, Newest: o.Newest}
	f.Exits = o.Exits || o.Depth > 0 || o.MinDuration > 0 || len(o.GraphFrom) > 0
	var errs [3]error
	f.Functions, errs[0] = kernelGlobs(o.Functions)
	f.Notrace, errs[1] = kernelGlobs(o.Notrace)
	f.From, errs[2] = kernelGlobs(o.GraphFrom)
	return f, errors.Join(errs[:]...)
}

// A kernelRecorder takes events of the kernel to the outputs.
type kernelRecorder struct {
	recorder
	session   *ftrace.Session
	options   ftrace.Options
	symbols   ftrace.Symbols
	from      uint64 // when it began
	functions map[*ftrace.Symbol]uint32
	threads   map[int]*kernelThread
	counts    map[uint32]uint64
}

// A kernelThread is a thread, or what a CPU does when it has none.
type kernelThread struct {
	trace.Thread
	stack []uint32 // what stands for the place on the stack, by depth
	last  uint32
	done  []kernelCall // calls that wait for the one around them
}

type kernelCall struct {
	function   uint32
	depth      int
	start, end uint64
}

// traceKernel is footfall trace kernel.
func (o *Options) traceKernel() (err error) {
	options, err := o.kernelOptions()
	if err != nil {
		return err
	}
	symbols, err := ftrace.ReadSymbols()
	if err != nil {
		return err
	}
	ctx, cancel := untilSignal()
	defer cancel()
	r := &kernelRecorder{options: options, symbols: symbols, functions: make(map[*ftrace.Symbol]uint32), threads: make(map[int]*kernelThread), counts: make(map[uint32]uint64)}
	r.recorder = recorder{o: o, stderr: o.Stderr}
	r.header = &trace.Header{Program: "kernel", Start: time.Now().UnixNano(), Exits: options.Exits}
	r.from = monotonic()
	if !o.Count {
		if err := r.openOutputs(ctx, o.Stdout); err != nil {
			return err
		}
		defer r.discard()
	}
	begin := time.Now()
	if r.session, err = ftrace.Open(options); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.session.Close()) }()
	fmt.Fprintf(r.stderr, "footfall: kernel: tracing; switching on took %v\n", time.Since(begin).Round(time.Millisecond))
	if err := errors.Join(r.run(ctx), r.session.Stop(), r.read(true)); err != nil {
		return err
	}
	lost := r.session.Lost()
	if o.Newest {
		lost = 0 // the oldest were to make room
	}
	if o.Count {
		if lost > 0 {
			fmt.Fprintf(r.stderr, "footfall: %d calls are missing: they came faster than they could be read; use a larger --buffer\n", lost)
		}
		counts := make([]uint64, len(r.header.Functions))
		for number, n := range r.counts {
			counts[number] = n
		}
		return r.printCounts(o.Stdout, counts)
	}
	return r.close(lost)
}

// run reads until the recording is to end.
func (r *kernelRecorder) run(ctx context.Context) error {
	begin := time.Now()
	for {
		if !r.o.Newest {
			if err := r.read(false); err != nil {
				return err
			}
		}
		if r.ends(ctx, begin, time.Now()) {
			return nil
		}
		if r.builder != nil && r.builder.Flush() != nil {
			return nil // Close tells it again
		}
		wait := 20 * time.Millisecond
		if r.o.Duration > 0 {
			wait = min(wait, r.o.Duration)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// read takes what events there are.
func (r *kernelRecorder) read(end bool) error {
	events, err := r.session.Read(end)
	if err != nil {
		return err
	}
	r.total += uint64(len(events))
	for _, e := range events {
		if e.Kind == ftrace.Stack || e.Time < r.from {
			continue
		}
		number := r.function(e.Func)
		if r.o.Count {
			if e.Kind == ftrace.Entry {
				r.counts[number]++
			}
			continue
		}
		t := r.thread(e)
		if r.options.MinDuration > 0 && r.options.Exits {
			r.complete(t, e, number)
			continue
		}
		r.give(t.Thread, []trace.Event{{Time: e.Time - r.from, Function: number, Exit: e.Kind == ftrace.Exit, Stack: t.place(e)}})
	}
	if end {
		for _, t := range r.threads {
			r.release(t)
		}
	}
	return nil
}

// function returns the number of the function at an address.
func (r *kernelRecorder) function(addr uint64) uint32 {
	symbol := r.symbols.At(addr)
	number, ok := r.functions[symbol]
	if ok {
		return number
	}
	f := trace.Function{Name: fmt.Sprintf("%#x", addr), Image: "kernel"}
	if symbol != nil {
		f.Name, f.Image = symbol.Name, cmp.Or(symbol.Module, "kernel")
	}
	number = uint32(len(r.header.Functions))
	r.functions[symbol] = number
	r.header.Functions = append(r.header.Functions, f)
	r.tellFunctions(int(number))
	return number
}

// thread returns who did something. Idle CPUs have the numbers 0, -1, -2.
func (r *kernelRecorder) thread(e ftrace.Event) *kernelThread {
	id := e.TID
	if id == 0 {
		id = -e.CPU
	}
	t := r.threads[id]
	if t != nil {
		return t
	}
	t = &kernelThread{Thread: trace.Thread{ID: id, Name: "?"}}
	if e.TID == 0 {
		t.Name = fmt.Sprintf("swapper/%d", e.CPU)
	} else if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id)); err == nil {
		t.Name = string(bytes.TrimSpace(comm))
	} else if name := r.session.Comm()[id]; name != "" {
		t.Name = name
	}
	r.threads[id] = t
	return t
}

// place returns what stands for a place on the stack: lower for calls that are
// deeper, and higher for a later call of the same depth, so that one whose exit
// was lost is known to have ended.
func (t *kernelThread) place(e ftrace.Event) uint32 {
	const top, step = 0xf0000000, 1 << 20
	depth := min(max(e.Depth, 0), 1000)
	for len(t.stack) <= depth {
		t.stack = append(t.stack, top-uint32(len(t.stack))*step)
	}
	if e.Kind == ftrace.Entry {
		t.last = (t.last + 1) % step
		t.stack[depth] = top - uint32(depth)*step + t.last
	}
	return t.stack[depth]
}

// complete takes an exit that had no entry. The one around it comes later, if it
// is not the outermost: it takes at least as long.
func (r *kernelRecorder) complete(t *kernelThread, e ftrace.Event, number uint32) {
	if e.Kind != ftrace.Exit {
		return
	}
	end := e.Time - r.from
	t.done = append(t.done, kernelCall{number, e.Depth, end - min(end, e.Duration), end})
	if e.Depth == 0 {
		r.release(t)
	}
}

// release gives the entries and exits of calls that are complete.
func (r *kernelRecorder) release(t *kernelThread) {
	slices.SortStableFunc(t.done, func(a, b kernelCall) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.depth, b.depth))
	})
	var events []trace.Event
	var open []trace.Event // the exits to come
	leave := func(depth int) {
		for len(open) > depth {
			events = append(events, open[len(open)-1])
			open = open[:len(open)-1]
		}
	}
	for _, c := range t.done {
		inside := len(open)
		for inside > 0 && open[inside-1].Time < c.end {
			inside--
		}
		leave(inside)
		place := t.place(ftrace.Event{Kind: ftrace.Entry, Depth: len(open)})
		events = append(events, trace.Event{Time: c.start, Function: c.function, Stack: place})
		open = append(open, trace.Event{Time: c.end, Function: c.function, Exit: true, Stack: place})
	}
	leave(0)
	t.done = t.done[:0]
	if len(events) > 0 {
		r.give(t.Thread, events)
	}
}

// countKernel is footfall callers kernel.
func (o *CallersOptions) countKernel(function string) (err error) {
	globs, err := kernelGlobs([]string{function})
	if err != nil {
		return err
	}
	symbols, err := ftrace.ReadSymbols()
	if err != nil {
		return err
	}
	ctx, cancel := untilSignal()
	defer cancel()
	begin, stderr := time.Now(), o.Stderr
	session, err := ftrace.Open(ftrace.Options{Functions: globs, Stacks: true, BufferSize: o.Buffer << 20})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "footfall: kernel: counting; switching on took %v\n", time.Since(begin).Round(time.Millisecond))
	defer func() { err = errors.Join(err, session.Close()) }()
	k := &kernelChains{session: session, symbols: symbols, depth: o.Depth, pending: make(map[int][]ftrace.Event), counts: make(map[string]uint64)}
	k.callers = &callers{function: function[strings.Index(function, ":")+1:], images: func() []*patch.Image { return nil }, top: o.Top, places: make(map[uint64][]place), begin: time.Now()}
	if err := o.wait(ctx, k.callers, o.Stdout, func() error { return k.read(false) }, k.chains); err != nil {
		return err
	}
	if err := errors.Join(session.Stop(), k.read(true), k.finish(k.chains)); err != nil {
		return err
	}
	if lost := session.Lost(); lost > 0 {
		fmt.Fprintf(stderr, "footfall: up to %d calls are missing: they came faster than they could be read; use a larger --buffer\n", lost)
	}
	k.sayLost(0, stderr)
	return o.write(k.callers, o.Stdout)
}

// kernelChains counts chains of callers in the kernel.
type kernelChains struct {
	*callers
	session *ftrace.Session
	symbols ftrace.Symbols
	depth   int
	pending map[int][]ftrace.Event // by CPU: calls whose stack has not come yet
	counts  map[string]uint64      // by the addresses of a chain
}

// mostPending calls on a CPU interrupt each other.
const mostPending = 16

// read takes what events there are: an entry, then the stack there. Between the
// two may be those of an interrupt.
func (k *kernelChains) read(end bool) error {
	events, err := k.session.Read(end)
	if err != nil {
		return err
	}
	for _, e := range events {
		pending := k.pending[e.CPU]
		switch {
		case e.Kind == ftrace.Entry:
			if len(pending) == mostPending {
				pending = pending[1:]
			}
			pending = append(pending, e)
		case e.Kind == ftrace.Stack && len(pending) > 0:
			k.count(pending[len(pending)-1], e.Stack)
			pending = pending[:len(pending)-1]
		}
		k.pending[e.CPU] = pending
	}
	return nil
}

// count counts the chain of a call. The stack begins in the tracer, or at the
// function itself.
func (k *kernelChains) count(e ftrace.Event, stack []uint64) {
	function := k.symbols.At(e.Func)
	for i, addr := range stack {
		if i < 8 && k.symbols.At(addr) == function {
			stack = stack[i+1:]
			break
		}
	}
	if e.Parent != 0 && (len(stack) == 0 || k.symbols.At(stack[0]) != k.symbols.At(e.Parent)) {
		stack = append([]uint64{e.Parent}, stack...)
	}
	var key []byte
	for _, addr := range stack[:min(len(stack), k.depth)] {
		key = binary.LittleEndian.AppendUint64(key, addr)
	}
	k.counts[string(key)]++
}

// chains makes the chains of what was counted, the most frequent first.
func (k *kernelChains) chains() error {
	k.callers.chains = k.callers.chains[:0]
	for key, n := range k.counts {
		chain := patch.Chain{Count: n}
		for b := []byte(key); len(b) > 0; b = b[8:] {
			addr := binary.LittleEndian.Uint64(b)
			chain.Addresses = append(chain.Addresses, addr)
			k.name(addr)
		}
		k.callers.chains = append(k.callers.chains, chain)
	}
	slices.SortFunc(k.callers.chains, func(a, b patch.Chain) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.Addresses, b.Addresses))
	})
	return nil
}

func (k *kernelChains) name(addr uint64) {
	if _, ok := k.places[addr]; ok {
		return
	}
	at := place{Function: fmt.Sprintf("%#x", addr), Address: addr}
	if symbol := k.symbols.At(addr - 1); symbol != nil {
		at.Function, at.Image = symbol.Name, symbol.Module
	}
	k.places[addr] = []place{at}
}
