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
	sum := summing{g: g, nodes: make(map[uint64]*Node, len(p.Function)), edges: make(map[[2]*Node]*Edge), seen: make(map[*Node]bool), seenEdges: make(map[*Edge]bool)}
	for _, f := range p.Function {
		n := &Node{Func: f, Inlined: true}
		sum.nodes[f.ID] = n
		g.Nodes = append(g.Nodes, n)
	}
	for _, s := range p.Sample {
		chain := sum.chainOf(s.Location)
		if len(chain) == 0 {
			continue
		}
		if calls := s.Value[callsIndex]; calls != 0 {
			sum.addCalls(chain, calls)
		}
		if cpu := s.Value[cpuIndex]; cpu != 0 {
			g.Sampled = g.Sampled || len(s.Location) > 1
			sum.addTime(chain, cpu)
		}
	}
	if g.Calls {
		g.estimate()
	}
	if g.Calls && !g.Sampled {
		sum.useEstimates()
	}
	for _, n := range g.Nodes {
		slices.SortFunc(n.In, costlier)
		slices.SortFunc(n.Out, costlier)
	}
	g.findOverloads()
	return g
}

// summing is a graph to which samples are added.
type summing struct {
	g     *Graph
	nodes map[uint64]*Node // by the ids of their functions
	edges map[[2]*Node]*Edge

	// Of one sample, kept for the next.
	chain     []*Node
	seen      map[*Node]bool
	seenEdges map[*Edge]bool
}

// edge returns the one from caller to callee.
func (s *summing) edge(caller, callee *Node) *Edge {
	key := [2]*Node{caller, callee}
	e := s.edges[key]
	if e == nil {
		e = &Edge{Caller: caller, Callee: callee, order: len(s.edges)}
		s.edges[key] = e
		caller.Out = append(caller.Out, e)
		callee.In = append(callee.In, e)
	}
	return e
}

// chainOf returns the functions at the places of a sample, the innermost first, and notes where they are.
// It is valid until the next call.
func (s *summing) chainOf(places []*pprof.Location) []*Node {
	s.chain = s.chain[:0]
	for _, l := range places {
		for i, line := range l.Line {
			n := s.nodes[line.Function.ID]
			n.Image = imageName(l.Mapping)
			if n.addr == 0 || l.Address < n.addr {
				n.addr = l.Address
			}
			n.Inlined = n.Inlined && i < len(l.Line)-1
			s.chain = append(s.chain, n)
		}
	}
	return s.chain
}

// addCalls adds calls of the chain's first function by its second one.
func (s *summing) addCalls(chain []*Node, calls int64) {
	s.g.Calls = true
	chain[0].Calls += calls
	if len(chain) > 1 {
		s.edge(chain[1], chain[0]).Calls += calls
		if chain[0] == chain[1] {
			chain[0].recursive += calls
		}
	}
}

// addTime adds CPU time in the chain's first function, which counts once for each function and call of the chain.
func (s *summing) addTime(chain []*Node, cpu int64) {
	s.g.CPU = true
	s.g.Total += cpu
	chain[0].Self += cpu
	clear(s.seen)
	clear(s.seenEdges)
	for i, n := range chain {
		if !s.seen[n] {
			s.seen[n] = true
			n.Total += cpu
		}
		if i > 0 {
			if e := s.edge(n, chain[i-1]); !s.seenEdges[e] {
				s.seenEdges[e] = true
				e.CPU += cpu
			}
		}
	}
}

// useEstimates has times of callees be what is estimated of them, where nothing else is known.
func (s *summing) useEstimates() {
	for _, n := range s.g.Nodes {
		n.Total = s.g.nanoseconds(n.est.self + n.est.children)
		if countsCalls(n) {
			n.Total = n.Self // which the estimate leaves out
		}
	}
	for _, e := range s.edges {
		e.CPU = s.g.nanoseconds(e.est.self + e.est.children)
	}
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
