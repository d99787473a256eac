package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"
)

// A node is a chain of calls from the outermost one on.
type node struct {
	function uint32
	parent   *node
	children map[uint32]*node
	last     *node // the child that was looked for last
	calls    uint64
	self     uint64
}

func (n *node) child(function uint32) *node {
	if n.last != nil && n.last.function == function {
		return n.last
	}
	c := n.children[function]
	if c == nil {
		if n.children == nil {
			n.children = make(map[uint32]*node)
		}
		c = &node{function: function, parent: n}
		n.children[function] = c
	}
	n.last = c
	return c
}

// walk calls do for all chains, in an order that does not change.
func (n *node) walk(do func(*node)) {
	if n.parent != nil {
		do(n)
	}
	var children []*node
	for _, c := range n.children {
		children = append(children, c)
	}
	slices.SortFunc(children, func(a, b *node) int { return cmp.Compare(a.function, b.function) })
	for _, c := range children {
		c.walk(do)
	}
}

// tree adds up calls by their chains.
type tree struct {
	w     io.Writer
	h     *Header
	roots map[string]*node // by the program
	at    map[*Thread]*openNodes
	last  *openNodes // that were looked for last
	print func(*tree, CallSummary) error
}

func newPprof(w io.Writer, h *Header) CallWriter {
	return &tree{w: w, h: h, roots: make(map[string]*node), at: make(map[*Thread]*openNodes), print: (*tree).printPprof}
}

func newCollapsed(w io.Writer, h *Header) CallWriter {
	return &tree{w: w, h: h, roots: make(map[string]*node), at: make(map[*Thread]*openNodes), print: (*tree).printCollapsed}
}

// walk calls do for all chains, with the program if there are several.
func (t *tree) walk(do func(n *node, program string)) {
	for _, program := range slices.Sorted(maps.Keys(t.roots)) {
		name := ""
		if len(t.roots) > 1 || program != "" {
			name = cmp.Or(program, t.h.Program)
		}
		t.roots[program].walk(func(n *node) { do(n, name) })
	}
}

// openNodes are the open calls of a thread.
type openNodes struct {
	thread *Thread
	nodes  []*node
}

func (t *tree) open(th *Thread) *openNodes {
	if t.last == nil || t.last.thread != th {
		if t.last = t.at[th]; t.last == nil {
			t.last = &openNodes{thread: th}
			t.at[th] = t.last
		}
	}
	return t.last
}

func (t *tree) Enter(th *Thread, c *FunctionCall) {
	open := t.open(th)
	var from *node
	if c.Depth > 0 {
		from = open.nodes[c.Depth-1]
	} else if from = t.roots[th.Program]; from == nil {
		from = new(node)
		t.roots[th.Program] = from
	}
	n := from.child(c.Function)
	n.calls++
	open.nodes = append(open.nodes[:c.Depth], n)
}

func (t *tree) Leave(th *Thread, c *FunctionCall) {
	if t.h.Exits && !c.Cut {
		t.open(th).nodes[c.Depth].self += c.Self()
	}
}

func (t *tree) Flush() error { return nil }

func (t *tree) Close(s CallSummary) error { return t.print(t, s) }

// printCollapsed writes a line for each chain, for flame graphs: its time in
// nanoseconds without that of the calls within or, without exits, its calls. Of
// several programs a chain begins with the program.
func (t *tree) printCollapsed(CallSummary) error {
	w := bufio.NewWriter(t.w)
	t.walk(func(n *node, program string) {
		value := n.self
		if !t.h.Exits {
			value = n.calls
		}
		if value == 0 {
			return
		}
		var names []string
		for c := n; c.parent != nil; c = c.parent {
			names = append(names, strings.ReplaceAll(t.h.Functions[c.function].Name, ";", ":"))
		}
		if program != "" {
			names = append(names, strings.ReplaceAll(program, ";", ":"))
		}
		slices.Reverse(names)
		fmt.Fprintf(w, "%s %d\n", strings.Join(names, ";"), value)
	})
	return w.Flush()
}

// printPprof writes a profile with the values calls and wall.
func (t *tree) printPprof(s CallSummary) error {
	p := &pprof.Profile{
		SampleType: []*pprof.ValueType{{Type: "calls", Unit: "count"}},
		TimeNanos:  t.h.Start,
	}
	if t.h.Exits {
		p.SampleType = append(p.SampleType, &pprof.ValueType{Type: "wall", Unit: "nanoseconds"})
		p.DefaultSampleType = "wall"
	}
	if s.Lost > 0 {
		p.Comments = append(p.Comments, fmt.Sprintf("%d events were lost", s.Lost))
	}
	locations := make(map[uint32]*pprof.Location)
	mappings := make(map[string]*pprof.Mapping)
	location := func(function uint32) *pprof.Location {
		if l := locations[function]; l != nil {
			return l
		}
		f := t.h.Functions[function]
		m := mappings[f.Image]
		if m == nil {
			m = &pprof.Mapping{ID: uint64(len(mappings) + 1), File: f.Image, HasFunctions: true}
			mappings[f.Image] = m
			p.Mapping = append(p.Mapping, m)
		}
		id := uint64(len(locations) + 1)
		fn := &pprof.Function{ID: id, Name: f.Name, SystemName: f.Name, Filename: f.File, StartLine: int64(f.Line)}
		l := &pprof.Location{ID: id, Mapping: m, Line: []pprof.Line{{Function: fn, Line: int64(f.Line)}}}
		p.Function, p.Location = append(p.Function, fn), append(p.Location, l)
		locations[function] = l
		return l
	}
	t.walk(func(n *node, program string) {
		sample := &pprof.Sample{Value: []int64{int64(n.calls), int64(n.self)}[:len(p.SampleType)]}
		for c := n; c.parent != nil; c = c.parent {
			sample.Location = append(sample.Location, location(c.function))
		}
		if program != "" {
			sample.Label = map[string][]string{"program": {program}}
		}
		p.Sample = append(p.Sample, sample)
	})
	return p.Write(t.w)
}
