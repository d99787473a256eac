package trace

import (
	"bufio"
	"fmt"
	"io"
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
}

func newGraph(w io.Writer, h *Header) Output {
	return &graph{w: bufio.NewWriterSize(w, 1<<16), h: h, pending: make(map[*Thread]*Call)}
}

func (g *graph) Enter(t *Thread, c *Call) {
	g.settle(t)
	if !g.h.Exits {
		g.line(t, c.Start, "", c.Depth, g.called(c))
		return
	}
	copied := *c
	g.pending[t] = &copied
}

// called writes a call as source does. A name of C++ has its parameters already;
// arguments take their place.
func (g *graph) called(c *Call) string {
	name := g.h.Functions[c.Function].Name
	open := parametersAt(name)
	switch {
	case open >= 0 && len(c.Words) == 0:
		return name
	case open >= 0:
		name = name[:open]
	}
	return name + g.h.written(c)
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

// settle writes the entry that waited for its exit.
func (g *graph) settle(t *Thread) {
	if c := g.pending[t]; c != nil {
		g.line(t, c.Start, "", c.Depth, g.called(c)+" {")
		delete(g.pending, t)
	}
}

func (g *graph) Leave(t *Thread, c *Call) {
	if !g.h.Exits {
		return
	}
	duration := span(c.End - c.Start)
	if c.Cut {
		duration = "?"
	}
	if p := g.pending[t]; p != nil && p.Depth == c.Depth {
		delete(g.pending, t)
		g.line(t, c.Start, duration, c.Depth, g.called(c)+";")
		return
	}
	g.settle(t)
	g.line(t, c.End, duration, c.Depth, "} /* "+g.h.Functions[c.Function].Name+" */")
}

func (g *graph) line(t *Thread, time uint64, duration string, depth int, text string) {
	if !g.begun {
		g.begun = true
		fmt.Fprintf(g.w, "# %-22s %12s %14s   %s\n", "thread", "time", "duration", "calls")
	}
	if g.last != t && g.last != nil {
		fmt.Fprintln(g.w, strings.Repeat("-", 24))
	}
	g.last = t
	fmt.Fprintf(g.w, "%7d %-16.16s %5d.%06d %14s | %s%s\n", t.ID, t.Name, time/1e9, time/1e3%1e6, duration, strings.Repeat("  ", min(depth, 100)), text)
}

// span writes a duration with ftrace's marks of long ones.
func span(ns uint64) string {
	mark := ' '
	for _, m := range []struct {
		from uint64
		mark rune
	}{{1e4, '+'}, {1e5, '!'}, {1e6, '#'}, {1e7, '*'}, {1e8, '@'}, {1e9, '$'}} {
		if ns > m.from {
			mark = m.mark
		}
	}
	return fmt.Sprintf("%c %.3f us", mark, float64(ns)/1e3)
}

func (g *graph) Flush() error { return g.w.Flush() }

func (g *graph) Close(Summary) error { return g.w.Flush() }
