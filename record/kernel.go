//go:build linux

package record

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"

	"footfall/hook/ftrace"
	"footfall/process"
	"footfall/trace"
)

// kernel is functions of the kernel, recorded by its own tracers. The kernel chooses them by
// their names; which there are is known from their events.
type kernel struct {
	session   *ftrace.Tracer
	options   ftrace.Options
	mode      trace.Mode
	symbols   ftrace.Symbols
	functions *functions
	from      uint64 // when it began
	stopped   bool
	numbers   map[*ftrace.Symbol]int32
	threads   map[int]*kernelThread
	counts    map[int32]uint64
	chains    *kernelChains // nil: those are not counted
	one       [1]trace.Event
}

// A kernelThread is a thread, or what a CPU does when it has none.
type kernelThread struct {
	process.ThreadStatus
	stack []uint32 // what stands for the place on the stack, by depth
	last  uint32
	done  []kernelCall // calls that wait for the one around them
}

type kernelCall struct {
	function   uint32
	depth      int
	start, end uint64
}

// openKernel begins to record what happens after from. There are no functions, and no numbers,
// where chains are counted.
func openKernel(mode trace.Mode, options ftrace.Options, functions *functions, from uint64) (k *kernel, err error) {
	k = &kernel{
		options: options, mode: mode, functions: functions, from: from,
		numbers: make(map[*ftrace.Symbol]int32), threads: make(map[int]*kernelThread), counts: make(map[int32]uint64),
	}
	if k.symbols, err = ftrace.ReadSymbols(); err != nil {
		return nil, err
	}
	k.session, err = ftrace.Open(options)
	return k, err
}

func (k *kernel) Way() Way { return Kernel }

func (k *kernel) Add([]TracedFunction) (int, error) { return 0, errNoChange }

func (k *kernel) Switch([]TracedFunction) (on, off int, err error) { return 0, 0, errNoChange }

func (k *kernel) SetFilter(trace.Filter) error { return errNoChange }

// On returns how many functions have been seen.
func (k *kernel) On() int { return len(k.numbers) }

func (k *kernel) Read(give func(process.ThreadStatus, []trace.Event)) (int, error) {
	if k.mode == trace.Chains {
		return 0, nil
	}
	events, err := k.session.Read(k.stopped)
	for _, e := range events {
		if e.Kind == ftrace.Stack || e.Time < k.from {
			continue
		}
		number := k.number(e.Func)
		if k.mode == trace.Counts {
			if e.Kind == ftrace.Entry {
				k.counts[number]++
			}
			continue
		}
		t := k.thread(e)
		if k.options.MinDuration > 0 && k.options.Exits {
			k.complete(t, e, uint32(number), give)
			continue
		}
		k.one[0] = trace.Event{Time: e.Time - k.from, Function: uint32(number), Exit: e.Kind == ftrace.Exit, Stack: t.place(e)}
		give(t.ThreadStatus, k.one[:])
	}
	if k.stopped {
		for _, t := range k.threads {
			t.release(give)
		}
	}
	return len(events), err
}

// number returns that of the function at an address.
func (k *kernel) number(addr uint64) int32 {
	symbol := k.symbols.At(addr)
	number, ok := k.numbers[symbol]
	if ok {
		return number
	}
	f := trace.Function{Name: fmt.Sprintf("%#x", addr), Image: "kernel"}
	if symbol != nil {
		f.Name, f.Image = symbol.Name, cmp.Or(symbol.Module, "kernel")
	}
	number = k.functions.add(f)
	k.numbers[symbol] = number
	return number
}

// thread returns who did something. Idle CPUs have the numbers 0, -1, -2.
func (k *kernel) thread(e ftrace.KernelEvent) *kernelThread {
	id := e.TID
	if id == 0 {
		id = -e.CPU
	}
	t := k.threads[id]
	if t != nil {
		return t
	}
	t = &kernelThread{ThreadStatus: process.ThreadStatus{ID: id, Name: "?"}}
	if e.TID == 0 {
		t.Name = fmt.Sprintf("swapper/%d", e.CPU)
	} else if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id)); err == nil {
		t.Name = string(bytes.TrimSpace(comm))
	} else if name := k.session.Comm()[id]; name != "" {
		t.Name = name
	}
	k.threads[id] = t
	return t
}

// place returns what stands for a place on the stack: lower for calls that are
// deeper, and higher for a later call of the same depth, so that one whose exit
// was lost is known to have ended.
func (t *kernelThread) place(e ftrace.KernelEvent) uint32 {
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
func (k *kernel) complete(t *kernelThread, e ftrace.KernelEvent, number uint32, give func(process.ThreadStatus, []trace.Event)) {
	if e.Kind != ftrace.Exit {
		return
	}
	end := e.Time - k.from
	t.done = append(t.done, kernelCall{number, e.Depth, end - min(end, e.Duration), end})
	if e.Depth == 0 {
		t.release(give)
	}
}

// release gives the entries and exits of calls that are complete.
func (t *kernelThread) release(give func(process.ThreadStatus, []trace.Event)) {
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
		place := t.place(ftrace.KernelEvent{Kind: ftrace.Entry, Depth: len(open)})
		events = append(events, trace.Event{Time: c.start, Function: c.function, Stack: place})
		open = append(open, trace.Event{Time: c.end, Function: c.function, Exit: true, Stack: place})
	}
	leave(0)
	t.done = t.done[:0]
	if len(events) > 0 {
		give(t.ThreadStatus, events)
	}
}

func (k *kernel) Counts() (map[int32]uint64, error) { return k.counts, nil }

// Maintain keeps the kernel's buffers from being full.
func (k *kernel) Maintain() error {
	if k.chains == nil {
		return nil
	}
	return k.readChains()
}

func (k *kernel) Stop() error {
	k.stopped = true
	return k.session.Stop()
}

func (k *kernel) Lost() (l losses) {
	if !k.options.Newest { // else the oldest were to make room
		l[dropped] = k.session.Lost()
	}
	return l
}

func (k *kernel) Children() (recorded, others int) { return 0, 0 }

func (k *kernel) Close() error { return k.session.Close() }
