package trace

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// graph is text as ftrace's function_graph has it:
//
//	# thread         time   duration       calls
//	   21877     0.000104              |  handle() {
//	   21877     0.000105     0.044 us |    parse();
//	   21877     0.001213 # 1109.2  us |  }
type graph struct {
	w       *bufio.Writer
	h       *Header
	begun   bool
	pending map[*Thread]*Call // entries that may be leaves
	last    *Thread
	many    bool // processes

	on                       map[int]*Thread // the stacks of threads that have several
	prefixes                 map[*Thread]string
	names                    []string // of functions
	buffer, duration, number []byte
}

var unseen = []byte("?")

func newGraph(w io.Writer, h *Header) Output {
	return &graph{w: bufio.NewWriterSize(w, 1<<16), h: h, pending: make(map[*Thread]*Call), on: make(map[int]*Thread), prefixes: make(map[*Thread]string), number: make([]byte, 0, 20)}
}

func (g *graph) Enter(t *Thread, c *Call) {
	g.goTo(t)
	g.settle(t)
	if !g.h.Exits {
		g.line(t, c.Start, nil, c.Depth, g.called(c))
		return
	}
	copied := *c
	g.pending[t] = &copied
}

// called writes a call as source does. A name of C++ has its parameters already;
// arguments take their place.
func (g *graph) called(c *Call) string {
	name := g.name(c.Function)
	open := parametersAt(name)
	switch {
	case open >= 0 && len(c.Words) == 0:
		return name
	case open >= 0:
		name = name[:open]
	}
	return name + g.h.written(c)
}

// name returns what a function is called, for people.
func (g *graph) name(function uint32) string {
	for i := len(g.names); i < len(g.h.Functions); i++ {
		g.names = append(g.names, forPeople(g.h.Functions[i].Name))
	}
	return g.names[function]
}

// forPeople is a name with std::string for what that stands for.
func forPeople(name string) string {
	return strings.ReplaceAll(name, "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string")
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
	depth := 0
	for i := end; i >= 0; i-- {
		switch name[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// goTo settles the stack that a thread leaves for another.
func (g *graph) goTo(t *Thread) {
	if t.Stack == 0 && len(g.on) == 0 {
		return
	}
	from := g.on[t.ID]
	if from == nil { // its first other stack
		for other := range g.pending {
			if other.ID == t.ID && other != t {
				from = other
			}
		}
	}
	if from != nil && from != t {
		g.settle(from)
	}
	g.on[t.ID] = t
}

// settle writes the entry that waited for its exit.
func (g *graph) settle(t *Thread) {
	if c := g.pending[t]; c != nil {
		g.line(t, c.Start, nil, c.Depth, g.called(c)+" {")
		delete(g.pending, t)
	}
}

func (g *graph) Leave(t *Thread, c *Call) {
	if !g.h.Exits {
		return
	}
	g.goTo(t)
	duration := g.span(c.End - c.Start)
	if c.Cut {
		duration = unseen
	}
	if p := g.pending[t]; p != nil && p.Depth == c.Depth {
		delete(g.pending, t)
		g.line(t, c.Start, duration, c.Depth, g.called(c)+";")
		return
	}
	g.settle(t)
	g.line(t, c.End, duration, c.Depth, "} /* "+ShortName(g.name(c.Function))+" */")
}

func (g *graph) line(t *Thread, time uint64, duration []byte, depth int, text string) {
	if !g.begun {
		g.begun = true
		fmt.Fprintf(g.w, "# %-22s %12s %14s   %s\n", "thread", "time", "duration", "calls")
	}
	if g.last != t {
		g.change(t)
	}
	b := append(g.buffer[:0], g.prefix(t)...)
	b = right(b, strconv.AppendUint(g.number[:0], time/1e9, 10), 5)
	b = append(b, '.')
	b = digits(b, time/1e3%1e6, 6)
	b = append(b, ' ')
	b = right(b, duration, 14)
	b = append(b, " | "...)
	for range min(depth, 100) {
		b = append(b, "  "...)
	}
	b = append(append(b, text...), '\n')
	g.w.Write(b)
	g.buffer = b
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

// prefix is what all lines of a thread begin with.
func (g *graph) prefix(t *Thread) string {
	p := g.prefixes[t]
	if p == "" {
		p = fmt.Sprintf("%7d %-16.16s ", t.ID, t.Name)
		if t.Stack > 0 {
			p = fmt.Sprintf("%7d %-16.16s ", t.ID, fmt.Sprintf("%.11s/%d", t.Name, t.Stack))
		}
		g.prefixes[t] = p
	}
	return p
}

// right appends text with blanks before it.
func right(b, text []byte, width int) []byte {
	for range width - len(text) {
		b = append(b, ' ')
	}
	return append(b, text...)
}

// digits appends a number with zeros before it.
func digits(b []byte, n uint64, width int) []byte {
	for least := uint64(10); width > 1; width, least = width-1, least*10 {
		if n < least {
			b = append(b, "0000000000"[:width-1]...)
			break
		}
	}
	return strconv.AppendUint(b, n, 10)
}

// span writes a duration with ftrace's marks of long ones.
func (g *graph) span(ns uint64) []byte {
	mark := byte(' ')
	for _, m := range []struct {
		from uint64
		mark byte
	}{{1e4, '+'}, {1e5, '!'}, {1e6, '#'}, {1e7, '*'}, {1e8, '@'}, {1e9, '$'}} {
		if ns > m.from {
			mark = m.mark
		}
	}
	b := append(g.duration[:0], mark, ' ')
	b = strconv.AppendUint(b, ns/1e3, 10)
	b = append(b, '.')
	b = append(digits(b, ns%1e3, 3), " us"...)
	g.duration = b
	return b
}

func (g *graph) Flush() error { return g.w.Flush() }

func (g *graph) Close(Summary) error { return g.w.Flush() }
