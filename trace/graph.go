package trace

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"footfall/demangle"
	"footfall/output"
)

// graph is text as ftrace's function_graph has it:
//
//	# thread         time   duration       calls
//	   21877     0.000104              |  handle() {
//	   21877     0.000105     0.044 us |    parse();
//	   21877     0.001213 # 1109.2  us |  }
type graph struct {
	w      *bufio.Writer
	h      *Header
	begun  bool
	stacks map[*Thread]*graphStack
	at     *graphStack // that was looked for last
	last   *Thread     // in the text
	many   bool        // processes

	on                       map[int]*graphStack // where threads are that have several
	names                    []graphName         // of functions
	buffer, duration, number []byte
}

// A graphStack is a stack of a thread.
type graphStack struct {
	thread *Thread
	prefix string       // of its lines
	entry  FunctionCall // if waiting: one that may be a leaf
	waits  bool
}

// A graphName is what a function is called.
type graphName struct {
	called string // without arguments
	short  string
}

var (
	notSeen = []byte("?")
	blanks  = strings.Repeat("  ", mostIndented)
)

const mostIndented = 100

func newGraph(w io.Writer, h *Header) CallWriter {
	return &graph{w: bufio.NewWriterSize(w, 1<<16), h: h, stacks: make(map[*Thread]*graphStack), on: make(map[int]*graphStack), number: make([]byte, 0, 20)}
}

// stack returns that of calls of a thread.
func (g *graph) stack(t *Thread) *graphStack {
	if g.at != nil && g.at.thread == t {
		return g.at
	}
	s := g.stacks[t]
	if s == nil {
		s = &graphStack{thread: t, prefix: fmt.Sprintf("%7d %-16.16s ", t.ID, output.Printable(t.Name))}
		if t.Stack > 0 {
			s.prefix = fmt.Sprintf("%7d %-16.16s ", t.ID, fmt.Sprintf("%.11s/%d", output.Printable(t.Name), t.Stack))
		}
		g.stacks[t] = s
	}
	g.at = s
	return s
}

func (g *graph) Enter(t *Thread, c *FunctionCall) {
	s := g.stack(t)
	g.goTo(s)
	g.settle(s)
	if !g.h.Exits {
		g.end(g.call(g.line(s, c.Start, nil, c.Depth), c))
		return
	}
	s.entry, s.waits = *c, true
}

// call appends a call as source has it.
func (g *graph) call(b []byte, c *FunctionCall) []byte {
	if len(c.Words) > 0 {
		return append(b, g.called(c)...)
	}
	return append(b, g.name(c.Function).called...)
}

// called writes a call as source does. A name of C++ has its parameters already;
// arguments take their place.
func (g *graph) called(c *FunctionCall) string {
	name := forPeople(g.h.Functions[c.Function].Name)
	open := parametersAt(name)
	switch {
	case open >= 0 && len(c.Words) == 0:
		return name
	case open >= 0:
		name = name[:open]
	}
	return name + g.h.written(c)
}

// name returns what a function is called.
func (g *graph) name(function uint32) *graphName {
	for i := len(g.names); i < len(g.h.Functions); i++ {
		g.names = append(g.names, graphName{g.called(&FunctionCall{Function: uint32(i)}), ShortName(forPeople(g.h.Functions[i].Name))})
	}
	return &g.names[function]
}

// forPeople is a name with std::string for what that stands for.
func forPeople(name string) string {
	return strings.ReplaceAll(output.Printable(name), "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string")
}

// ShortName is a name without parameters.
func ShortName(name string) string {
	if open := parametersAt(name); open > 0 {
		return name[:open]
	}
	return name
}

// parametersAt returns where the parameters in a name begin, -1 if it has none.
func parametersAt(name string) int {
	end := strings.LastIndexByte(name, ')')
	if end < 0 || strings.HasPrefix(name[end:], ")::") {
		return -1
	}
	return demangle.Opening(name[:end+1])
}

// goTo settles the stack that a thread leaves for another.
func (g *graph) goTo(s *graphStack) {
	t := s.thread
	if t.Stack == 0 && len(g.on) == 0 {
		return
	}
	from := g.on[t.ID]
	if from == nil { // its first other stack
		for _, other := range g.stacks {
			if other.waits && other.thread.ID == t.ID && other != s {
				from = other
			}
		}
	}
	if from != nil && from != s {
		g.settle(from)
	}
	g.on[t.ID] = s
}

// settle writes the entry that waited for its exit.
func (g *graph) settle(s *graphStack) {
	if s.waits {
		s.waits = false
		g.end(append(g.call(g.line(s, s.entry.Start, nil, s.entry.Depth), &s.entry), " {"...))
	}
}

func (g *graph) Leave(t *Thread, c *FunctionCall) {
	if !g.h.Exits {
		return
	}
	s := g.stack(t)
	g.goTo(s)
	duration := notSeen
	if !c.Cut {
		duration = g.span(c.End - c.Start)
	}
	if s.waits && s.entry.Depth == c.Depth {
		s.waits = false
		g.end(append(g.call(g.line(s, c.Start, duration, c.Depth), c), ';'))
		return
	}
	g.settle(s)
	b := append(g.line(s, c.End, duration, c.Depth), "} /* "...)
	g.end(append(append(b, g.name(c.Function).short...), " */"...))
}

// line begins a line, which end writes.
func (g *graph) line(s *graphStack, time uint64, duration []byte, depth int) []byte {
	if !g.begun {
		g.begun = true
		fmt.Fprintf(g.w, "# %-22s %12s %14s   %s\n", "thread", "time", "duration", "calls")
	}
	if g.last != s.thread {
		g.change(s.thread)
	}
	b := append(g.buffer[:0], s.prefix...)
	b = right(b, strconv.AppendUint(g.number[:0], time/1e9, 10), 5)
	b = append(fraction(b, time/1e3%1e6, 1e6), ' ')
	b = right(b, duration, 14)
	b = append(b, " | "...)
	return append(b, blanks[:2*min(depth, mostIndented)]...)
}

func (g *graph) end(line []byte) {
	g.buffer = append(line, '\n')
	g.w.Write(g.buffer)
}

// change begins lines of another thread. Once there are several processes or
// programs it says which one.
func (g *graph) change(t *Thread) {
	g.many = g.many || t.Process != 0 || t.Exec != 0
	switch {
	case g.many:
		fmt.Fprintf(g.w, "%s process %d (%s)\n", strings.Repeat("-", 24), g.h.process(t), g.h.program(t))
	case g.last != nil:
		fmt.Fprintln(g.w, strings.Repeat("-", 24))
	}
	g.last = t
}

// right appends text with blanks before it.
func right(b, text []byte, width int) []byte {
	if n := width - len(text); n > 0 {
		b = append(b, blanks[:n]...)
	}
	return append(b, text...)
}

// fraction appends a point and n, of which one is the power of 10 that unit is.
func fraction(b []byte, n, unit uint64) []byte {
	at := len(b)
	b = strconv.AppendUint(b, n+unit, 10)
	b[at] = '.' // it was 1
	return b
}

// marks are ftrace's, of durations from 10 microseconds on.
const marks = "+!#*@$"

// span writes a duration with ftrace's marks of long ones.
func (g *graph) span(ns uint64) []byte {
	mark := byte(' ')
	if ns > 1e4 {
		for i, from := 0, uint64(1e4); i < len(marks) && ns > from; i, from = i+1, from*10 {
			mark = marks[i]
		}
	}
	b := append(g.duration[:0], mark, ' ')
	b = strconv.AppendUint(b, ns/1e3, 10)
	b = append(fraction(b, ns%1e3, 1e3), " us"...)
	g.duration = b
	return b
}

func (g *graph) Flush() error { return g.w.Flush() }

func (g *graph) Close(CallSummary) error { return g.w.Flush() }
