// Package trace makes calls of entries into functions and exits from them, in
// the order in which they happened, and writes them in several formats.
//
// A [Builder] takes the events of each thread and finds out which call is
// within which. Outputs are told of each call when it begins and when it ends:
// graph.go (text as ftrace's function_graph), stats.go, tree.go (pprof and
// collapsed chains), chrome.go, perfetto.go, json.go; raw.go keeps the events
// themselves and reads them again.
//
// It knows nothing of processes: events may come from a file.
package trace

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"footfall/output"
)

// A Function is one whose calls are recorded.
type Function struct {
	Name  string `json:"name"`
	Image string `json:"image"` // the program or library
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
	// Arguments are those that are recorded.
	Arguments []Argument `json:"arguments,omitempty"`
}

// A Thread is one of the process, or of a child made by fork.
type Thread struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Process int    `json:"process,omitempty"` // the child; 0: none
	// Program is what it runs, if that is another program than that of the
	// recording.
	Program string `json:"program,omitempty"`
	// Exec counts the programs that its process has become meanwhile: then it is
	// another thread, with the same ID.
	Exec int `json:"exec,omitempty"`
	// Stack is 0 for the thread's own stack, else a number of another one: of a
	// coroutine, or of signals. Each is told to outputs as a thread of its own.
	Stack int `json:"-"`
}

// same tells whether two are one thread; names may change.
func (t *Thread) same(other *Thread) bool {
	return t.ID == other.ID && t.Process == other.Process && t.Exec == other.Exec
}

// An Event is an entry or an exit.
type Event struct {
	Time     uint64 // nanoseconds since the recording began
	Function uint32 // number of it
	Exit     bool
	// Word marks what is no event: Time is a word of the arguments of the entry
	// before, see Argument.
	Word bool
	// NoExit marks an entry that has no exit of its own: a tail call, where its place on
	// the stack is that of an entry which has one, else a call on a stack where exits are
	// not seen; and an exit of a call that was seen to be left.
	NoExit bool
	// Root marks an entry of a function from which on calls were to be recorded, and Whole
	// one that no filter of the recording has seen: see Header.Filter.
	Root, Whole bool
	// Jump marks an exit by a jump to another function which is recorded. If the next
	// event of the thread is the entry there, the call goes on until that one ends.
	Jump bool
	// Gap marks what is no event: from here on to the next one with Exit set events of
	// the thread have been dropped, somewhere.
	Gap   bool
	Stack uint32 // low half of the address at which the return address is
}

// A Header tells what a recording is of.
type Header struct {
	PID     int    `json:"pid"`
	Program string `json:"program"`
	Start   int64  `json:"start"` // nanoseconds since 1970
	// Exits tells whether exits are seen. Else calls have no duration, and
	// which is within which is concluded from where they are on the stack.
	Exits bool `json:"exits"`
	// Probes tells that the kernel's uprobes have recorded it, which see no exits of calls
	// deep within others.
	Probes bool `json:"probes,omitempty"`
	// Filter is what the recording was to leave out. Where a thread has several stacks
	// that has yet to be done. It may change while calls come.
	Filter Filter `json:"filter,omitzero"`
	// Functions may be added to while calls come: of libraries that are loaded.
	Functions []Function `json:"functions"`
}

// process returns that of a thread.
func (h *Header) process(t *Thread) int {
	if t.Process != 0 {
		return t.Process
	}
	return h.PID
}

// program returns that of a thread.
func (h *Header) program(t *Thread) string { return cmp.Or(t.Program, h.Program) }

// Names returns the names of the functions for people. Functions of one name are told
// apart by the program or library and, within that, by the place in the source.
func (h *Header) Names() []string {
	type namesakes struct {
		first          *Function
		images, places bool // there are several
	}
	all := make(map[string]*namesakes)
	for i := range h.Functions {
		f := &h.Functions[i]
		s := all[f.Name]
		if s == nil {
			s = &namesakes{first: f}
			all[f.Name] = s
		}
		s.images = s.images || f.Image != s.first.Image
		s.places = s.places || f.Image == s.first.Image && (f.File != s.first.File || f.Line != s.first.Line)
	}
	names := make([]string, len(h.Functions))
	for i := range h.Functions {
		f := &h.Functions[i]
		names[i] = forPeople(f.Name)
		var where []string
		if all[f.Name].images {
			where = append(where, output.Printable(path.Base(f.Image)))
		}
		if all[f.Name].places && f.File != "" {
			where = append(where, fmt.Sprintf("%s:%d", output.Printable(path.Base(f.File)), f.Line))
		}
		if len(where) > 0 {
			names[i] += " [" + strings.Join(where, " ") + "]"
		}
	}
	return names
}

// processNames are those of processes, of one that has become other programs with
// all of them.
type processNames map[int]*processName

type processName struct{ text, last string }

// add returns the name of a thread's process, and whether it is new or has changed.
func (p processNames) add(h *Header, t *Thread) (name string, changed bool) {
	pid := h.process(t)
	known := p[pid]
	switch {
	case known == nil && pid == h.PID:
		p[pid] = &processName{h.program(t), t.Program}
	case known == nil:
		p[pid] = &processName{cmp.Or(t.Program, t.Name), t.Program}
	case known.last != t.Program && t.Program != "":
		known.text += ", " + t.Program
		known.last = t.Program
	default:
		return known.text, false
	}
	return p[pid].text, true
}

// A CallSummary tells, at the end, what is missing.
type CallSummary struct {
	Calls     uint64 `json:"calls"`     // entries that were seen
	Lost      uint64 `json:"lost"`      // events that came faster than they were read
	Unmatched uint64 `json:"unmatched"` // exits without an entry
	Cut       uint64 `json:"cut"`       // calls of which it is not known when they ended
	Left      uint64 `json:"left"`      // calls that longjmp or an exception has ended
}

// A FunctionCall is a call of a function.
type FunctionCall struct {
	Function uint32
	Depth    int // calls around it
	Start    uint64
	End      uint64 // once it has ended
	// Cut tells, once it has ended, that nothing shows when: the exit was lost, is not
	// recorded, or yet to come. Then End is the latest possible time.
	Cut bool
	// Left tells that it did not return: longjmp or an exception has ended it. End is the
	// time of the thread's next event, by then it was back in a function around it.
	Left bool
	// Words are the arguments.
	Words []uint64

	inner  uint64 // duration of the calls within
	stack  uint32
	unsure bool // without an exit nothing is known about its end
	jumped bool // it has ended by a jump, at End
	root   bool // as the event has it
	whole  bool
}

// Self is the duration of a call without that of the calls within.
func (c *FunctionCall) Self() uint64 {
	total := c.End - c.Start
	return total - min(total, c.inner)
}

// A CallWriter writes calls. Enter and Leave come in the order of time for each
// thread.
type CallWriter interface {
	Enter(t *Thread, c *FunctionCall)
	Leave(t *Thread, c *FunctionCall)
	// Flush writes what is known so far.
	Flush() error
	// Close writes the rest; it does not close the writer.
	Close(s CallSummary) error
}

// A Builder makes calls of events.
type Builder struct {
	header  *Header
	outputs []CallWriter
	threads map[int]*thread
	summary CallSummary
	whole   bool // outputs filter calls that the recording has not filtered
}

// NewBuilder returns one that tells the outputs.
func NewBuilder(h *Header, outputs ...CallWriter) *Builder {
	return &Builder{header: h, outputs: outputs, threads: make(map[int]*thread)}
}

// Add takes events of a thread, which follow those before. Those of functions
// that the header does not have are left out.
func (b *Builder) Add(id Thread, events []Event) {
	t := b.threads[id.ID]
	if t != nil && !t.same(&id) {
		b.leaveAll(t)
		t = nil
	}
	if t == nil {
		t = &thread{stack: &stack{Thread: id}}
		b.threads[id.ID] = t
	}
	functions, exits := uint32(len(b.header.Functions)), b.header.Exits
	for i := range events {
		e := &events[i]
		if e.Word || e.Function >= functions || e.Gap {
			if e.Gap {
				t.gap(!e.Exit)
			}
			continue
		}
		// Events of a signal handler may come before an earlier one.
		t.last = max(e.Time, t.last)
		if t.jumped {
			b.settleJump(t, !e.Exit && e.Stack == t.open[len(t.open)-1].stack)
		}
		n := len(t.open) - 1
		if e.Exit {
			if n >= 0 && t.open[n].stack == e.Stack && t.open[n].Function == e.Function && !e.Jump && (n == 0 || !t.open[n-1].jumped) {
				b.leave(t, e.ending())
				if n == 0 {
					b.leaveStack(t)
				}
			} else {
				b.exit(t, e)
			}
			continue
		}
		if e.Whole && !b.whole {
			b.filterRecorded()
		}
		// Most calls are just below the one around them, or follow one that was there.
		switch {
		case n < 0:
			if len(t.others) > 0 {
				b.makeRoom(t, e)
			}
		case t.open[n].stack-e.Stack-1 < nearStack:
		case t.open[n].stack == e.Stack && !exits:
			b.leave(t, left)
		default:
			b.makeRoom(t, e)
		}
		var arguments []uint64
		if i+1 < len(events) && events[i+1].Word {
			arguments = words(events[i+1:])
		}
		b.enter(t, e, arguments)
	}
}

// words returns those that the events begin with.
func words(events []Event) (words []uint64) {
	for _, e := range events {
		if !e.Word {
			break
		}
		words = append(words, e.Time)
	}
	return words
}

// Calls returns the number of calls so far.
func (b *Builder) Calls() uint64 { return b.summary.Calls }

// enter begins a call within those that are open.
func (b *Builder) enter(t *thread, e *Event, words []uint64) {
	b.summary.Calls++
	n := len(t.open)
	if n < cap(t.open) {
		t.open = t.open[:n+1]
	} else {
		t.open = append(t.open, FunctionCall{})
	}
	c := &t.open[n]
	c.Function, c.Depth, c.Start, c.End, c.Cut, c.Left, c.inner, c.stack, c.unsure = e.Function, n, t.last, 0, false, false, 0, e.Stack, t.lossy
	c.jumped = false
	c.root, c.whole = e.Root, e.Whole
	if e.NoExit || b.header.Probes {
		tail := n > 0 && t.open[n-1].stack == e.Stack
		c.unsure = t.lossy || b.header.Probes || !tail || t.open[n-1].unsure
	}
	if c.Words != nil || words != nil {
		c.Words = words
	}
	for _, o := range b.outputs {
		o.Enter(&t.stack.Thread, c)
	}
}

// makeRoom ends what must have been left when a call begins. The stack grows
// down: what is open at lower addresses has been left. Of a tail call the caller
// is at the same address, and both end together; the same function there has
// come back to itself by tail calls: then what was before ends with that.
func (b *Builder) makeRoom(t *thread, e *Event) {
	function, stack := e.Function, e.Stack
	if b.header.PID != 0 { // of the kernel places are made up
		b.findStack(t, stack)
	}
	for n := len(t.open); n > 0; n = len(t.open) {
		if top := &t.open[n-1]; top.stack > stack || top.stack == stack && (top.jumped || b.isTailCall(e)) {
			break
		}
		b.leave(t, left)
	}
	for i := len(t.open) - 1; i >= 0 && t.open[i].stack == stack; i-- {
		if t.open[i].Function == function {
			how := returned
			if t.open[i].unsure {
				how = unseen
			}
			b.leaveTo(t, i, how)
			break
		}
	}
}

// isTailCall tells whether an entry at the place of the innermost call is a tail call
// of that. Where exits are not seen it is taken for one.
func (b *Builder) isTailCall(e *Event) bool {
	return b.header.Exits && (e.NoExit || b.header.Probes || b.header.PID == 0)
}

// exit ends the call at the address of an exit.
func (b *Builder) exit(t *thread, e *Event) {
	function, stack := e.Function, e.Stack
	if b.header.PID != 0 && !t.has(function, stack) && !b.resumeFor(t, function, stack) && !t.near(stack) {
		b.unmatched(t)
		return
	}
	for n := len(t.open); n > 0 && t.open[n-1].stack < stack; n = len(t.open) {
		b.leave(t, left)
	}
	for i := len(t.open) - 1; i >= 0 && t.open[i].stack == stack; i-- {
		if t.open[i].Function == function {
			b.leaveTo(t, i+1, returned)
			if e.Jump {
				t.open[i].jumped, t.open[i].End, t.jumped = true, t.last, true
				return
			}
			b.leave(t, e.ending())
			b.leaveJumped(t, stack)
			b.leaveStack(t)
			return
		}
	}
	b.unmatched(t)
}

// leaveJumped ends the innermost calls that have ended by a jump at that address.
func (b *Builder) leaveJumped(t *thread, stack uint32) {
	for n := len(t.open); n > 0 && t.open[n-1].jumped && t.open[n-1].stack == stack; n = len(t.open) {
		b.leave(t, returned)
	}
}

// settleJump decides what the jump was by which the innermost call has just ended: a tail
// call, or what ended it when it was done.
func (b *Builder) settleJump(t *thread, tailCall bool) {
	t.jumped = false
	if tailCall {
		return
	}
	now, top := t.last, &t.open[len(t.open)-1]
	t.last = top.End
	b.leaveJumped(t, top.stack)
	t.last = now
	b.leaveStack(t)
}

// unmatched counts an exit without an entry. Where no call is open it is that of one which
// began before it was traced.
func (b *Builder) unmatched(t *thread) {
	if t.Process == 0 && len(t.open) > 0 { // a child leaves what its parent has entered
		b.summary.Unmatched++
	}
}

// An ending is how a call ends.
type ending int

const (
	returned ending = iota
	left            // by longjmp or an exception
	unseen          // it is not known when
)

// ending is what an exit tells.
func (e *Event) ending() ending {
	if e.NoExit {
		return left
	}
	return returned
}

// leaveTo ends calls down to number i.
func (b *Builder) leaveTo(t *thread, i int, how ending) {
	for len(t.open) > i {
		b.leave(t, how)
	}
}

// leave ends the innermost call.
func (b *Builder) leave(t *thread, how ending) {
	n := len(t.open) - 1
	c := &t.open[n]
	c.End = t.last
	within := c.End - c.Start
	if how != returned {
		if c.Left = how == left && !c.unsure && b.header.Exits && b.header.PID != 0; c.Left { // the kernel has neither
			b.summary.Left++
		} else {
			c.Cut, within = true, c.inner
			b.summary.Cut++
		}
	}
	if n > 0 {
		t.open[n-1].inner += within
	}
	for _, o := range b.outputs {
		o.Leave(&t.stack.Thread, c)
	}
	t.open = t.open[:n]
}

// Flush writes what is known so far.
func (b *Builder) Flush() error {
	var failed []error
	for _, o := range b.outputs {
		failed = append(failed, o.Flush())
	}
	return errors.Join(failed...)
}

// Close ends the calls that are open, and the outputs. lost is the number of
// events that were dropped.
func (b *Builder) Close(lost uint64) (CallSummary, error) {
	b.summary.Lost = lost
	var ids []int
	for id := range b.threads {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t := b.threads[id]
		b.leaveAll(t)
	}
	if !b.header.Exits {
		b.summary.Cut = 0 // none was expected
	}
	var failed []error
	for _, o := range b.outputs {
		failed = append(failed, o.Close(b.summary))
	}
	s := b.summary
	if len(b.outputs) > 0 {
		if f, ok := b.outputs[0].(*filtered); ok && f.recorded {
			s = f.summary(s)
		}
	}
	return s, errors.Join(failed...)
}
