package profile

import (
	"fmt"
	"footfall/output"
	"io"
)

// mostEdges is how many callers or callees text shows of a function.
const mostEdges = 20

// printCallers writes a paragraph for each function: who called it, itself, and
// what it called, each with its part of the function's total time.
//
//	     <-  2.100s  70.0%    1200  main
//	work     3.000s  60.1%    1800  calls, 1.000s itself   work.c:12
//	     ->  1.000s  33.3%    3600  helper
func printCallers(w io.Writer, r *View) error {
	nodes, more := r.ranked()
	g := r.Graph
	fmt.Fprintf(w, "%s\n", r.summary())
	if g.CPU && !g.Sampled {
		fmt.Fprintf(w, "time of callees is an estimate: shared out among the callers by their calls\n")
	}
	for _, n := range nodes {
		t := &textTable{}
		t.left("")
		if g.CPU {
			t.head("", "")
		}
		if g.Calls {
			t.head("")
		}
		t.left("")
		r.edges(t, n, n.In, "<-", func(e *Edge) *Node { return e.Caller })
		t.cells("")
		if g.CPU {
			t.cells(r.time(n.Total), percent(n.Total, g.Total))
		}
		if g.Calls {
			t.cells(callCount(n.Calls))
		}
		name := n.shortName()
		if g.CPU {
			name += fmt.Sprintf(", %s in itself", r.time(n.Self))
		}
		if n.Inlined {
			name += ", inlined"
		}
		if place := r.place(n); place != "" {
			name += "  " + place
		}
		t.cells(name)
		t.end()
		self := len(t.rows)
		r.edges(t, n, n.Out, "->", func(e *Edge) *Node { return e.Callee })
		if err := t.write(w, func(i int) string {
			if r.Color && i == self-1 {
				return "\x1b[1m"
			}
			return ""
		}); err != nil {
			return err
		}
	}
	if more > 0 {
		fmt.Fprintf(w, "\n%s more; --top 0 shows all\n", output.Plural(more, "function"))
	}
	return nil
}

func (r *View) edges(t *textTable, n *Node, edges []*Edge, arrow string, other func(*Edge) *Node) {
	g := r.Graph
	rest := len(edges) - mostEdges
	if rest > 0 {
		edges = edges[:mostEdges]
	}
	for _, e := range edges {
		t.cells("  " + arrow)
		if g.CPU {
			t.cells(r.time(e.CPU), percent(e.CPU, n.Total))
		}
		if g.Calls {
			t.cells(callCount(e.Calls))
		}
		t.cells("  " + other(e).shortName())
		t.end()
	}
	if rest > 0 {
		t.cells("  " + arrow)
		for len(t.current) < len(t.titles)-1 {
			t.cells("")
		}
		t.cells(fmt.Sprintf("  and %d more", rest))
		t.end()
	}
}
