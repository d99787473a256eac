package profile

import (
	"cmp"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"
)

// A Graph is the functions of a profile and the calls between them.
type Graph struct {
	Nodes []*Node // in the order of the profile's functions
	// Calls and CPU tell which values the profile has.
	Calls, CPU bool
	// Sampled: the times are of whole chains of calls, so that Total is measured.
	// Otherwise it is estimated: a callee's time is shared out among its callers
	// by their number of calls. Without calls it is the function's own time.
	Sampled bool
	Total   int64 // CPU time of all, in nanoseconds

	tick      float64                     // of estimates, in nanoseconds
	ticks     map[*pprof.Function]float64 // exact ones, nil: as Self has them
	estimated float64                     // sum of all that are, in ticks
}

// A Node is a function.
type Node struct {
	Func  *pprof.Function
	Image string // the file it is in
	Calls int64
	Self  int64 // CPU time in it, in nanoseconds
	Total int64 // CPU time in it and in what it called
	// Inlined: all of its code that was seen is part of other functions.
	Inlined bool
	In, Out []*Edge // most time first, then most calls

	overloaded bool   // other functions in the graph have the same name, with other arguments
	recursive  int64  // of Calls: by itself
	addr       uint64 // the lowest that was seen of its code; 0: none
	est        estimate
}

// An Edge is the calls from one function to another.
type Edge struct {
	Caller, Callee *Node
	Calls          int64
	CPU            int64 // time of the callee and what it called, when called so

	order int // of its first appearance
	est   edgeEstimate
}

// NewGraph adds up a profile.
func NewGraph(p *Profile) *Graph {
	g := &Graph{tick: p.tick()}
	if p.symbols != nil {
		g.ticks = p.symbols.ticks
	}
	nodes := make(map[uint64]*Node, len(p.Function))
	for _, f := range p.Function {
		n := &Node{Func: f, Inlined: true}
		nodes[f.ID] = n
		g.Nodes = append(g.Nodes, n)
	}
	edges := make(map[[2]*Node]*Edge)
	edge := func(caller, callee *Node) *Edge {
		key := [2]*Node{caller, callee}
		e := edges[key]
		if e == nil {
			e = &Edge{Caller: caller, Callee: callee, order: len(edges)}
			edges[key] = e
			caller.Out = append(caller.Out, e)
			callee.In = append(callee.In, e)
		}
		return e
	}
	var chain []*Node
	seen, seenEdges := make(map[*Node]bool), make(map[*Edge]bool)
	for _, s := range p.Sample {
		chain = chain[:0]
		for _, l := range s.Location {
			for i, line := range l.Line {
				n := nodes[line.Function.ID]
				n.Image = imageName(l.Mapping)
				if n.addr == 0 || l.Address < n.addr {
					n.addr = l.Address
				}
				n.Inlined = n.Inlined && i < len(l.Line)-1
				chain = append(chain, n)
			}
		}
		if len(chain) == 0 {
			continue
		}
		calls, cpu := s.Value[callsIndex], s.Value[cpuIndex]
		if calls != 0 {
			g.Calls = true
			chain[0].Calls += calls
			if len(chain) > 1 {
				edge(chain[1], chain[0]).Calls += calls
				if chain[0] == chain[1] {
					chain[0].recursive += calls
				}
			}
		}
		if cpu == 0 {
			continue
		}
		g.CPU = true
		g.Total += cpu
		g.Sampled = g.Sampled || len(s.Location) > 1
		chain[0].Self += cpu
		clear(seen)
		clear(seenEdges)
		for i, n := range chain {
			if !seen[n] {
				seen[n] = true
				n.Total += cpu
			}
			if i > 0 {
				if e := edge(n, chain[i-1]); !seenEdges[e] {
					seenEdges[e] = true
					e.CPU += cpu
				}
			}
		}
	}
	if g.Calls {
		g.estimate()
	}
	if g.Calls && !g.Sampled {
		for _, n := range g.Nodes {
			n.Total = g.nanoseconds(n.est.self + n.est.children)
			if countsCalls(n) {
				n.Total = n.Self // which the estimate leaves out
			}
		}
		for _, e := range edges {
			e.CPU = g.nanoseconds(e.est.self + e.est.children)
		}
	}
	for _, n := range g.Nodes {
		slices.SortFunc(n.In, costlier)
		slices.SortFunc(n.Out, costlier)
	}
	g.findOverloads()
	return g
}

// findOverloads marks the functions that share a name.
func (g *Graph) findOverloads() {
	first := make(map[string]*Node)
	for _, n := range g.Nodes {
		if n.Calls == 0 && n.Total == 0 {
			continue
		}
		name := n.Func.Name
		if other := first[name]; other == nil {
			first[name] = n
		} else if other.Func.SystemName != n.Func.SystemName {
			other.overloaded, n.overloaded = true, true
		}
	}
}

func costlier(a, b *Edge) int {
	return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.order, b.order))
}

// Ranked returns the functions that ran, those with the most time first, then
// those with the most calls.
func (g *Graph) Ranked() []*Node {
	var nodes []*Node
	for _, n := range g.Nodes {
		if n.Calls != 0 || n.Self != 0 || n.Total != 0 {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), cmp.Compare(b.Calls, a.Calls),
			strings.Compare(a.Func.Name, b.Func.Name))
	})
	return nodes
}
