package profile

import (
	"cmp"
	"slices"
)

// gprof's model of a program that has call counts and, apart from them, times:
// functions that call each other in circles are one, a cycle, and each call of
// a function costs the same, whoever makes it.

// An estimate is what a function costs by that model.
type estimate struct {
	self, children float64 // nanoseconds
	external       int64   // calls, but by itself
	cycle          *cycle  // that it belongs to; its own if it is in none

	// for Tarjan's algorithm
	index, low int
	onStack    bool
}

type edgeEstimate struct {
	self, children float64 // of the callee's time
}

// A cycle is a function, or several that call each other in circles.
type cycle struct {
	members        []*Node
	number         int // of those with several members, from 1
	self, children float64
	external       int64 // calls from outside
	internal       int64 // calls within, but by a member of itself
}

// estimate shares the times out. A callee comes before its callers.
func (g *Graph) estimate() {
	cycles := g.cycles()
	for _, n := range g.Nodes {
		n.est.self = float64(n.Self)
		n.est.external = n.Calls - n.recursive
	}
	for _, c := range cycles {
		for _, n := range c.members {
			c.self += n.est.self
			c.external += n.est.external
			for _, e := range n.In {
				if e.Calls > 0 && e.Caller.est.cycle == c && e.Caller != n {
					c.internal += e.Calls
					c.external -= e.Calls
				}
			}
		}
		for _, n := range c.members {
			for _, e := range n.Out {
				callee := e.Callee.est.cycle
				if e.Calls == 0 || callee == c || callee.external == 0 {
					continue
				}
				part := float64(e.Calls) / float64(callee.external)
				e.est.self, e.est.children = callee.self*part, callee.children*part
				n.est.children += e.est.self + e.est.children
				c.children += e.est.self + e.est.children
			}
		}
	}
	// As gprof does, whatever took time by chance: in the order of the code.
	number := 0
	nodes := slices.Clone(g.Nodes)
	slices.SortStableFunc(nodes, func(a, b *Node) int { return cmp.Compare(a.addr, b.addr) })
	for _, n := range nodes {
		if c := n.est.cycle; len(c.members) > 1 && c.number == 0 {
			number++
			c.number = number
		}
	}
}

// cycles returns the strongly connected parts of the graph, callees first, by
// Tarjan's algorithm. It keeps its own stack: programs may call very deep.
func (g *Graph) cycles() []*cycle {
	var (
		found []*cycle
		stack []*Node
		last  int
	)
	type visit struct {
		n    *Node
		next int // of n.Out
	}
	for _, root := range g.Nodes {
		if root.est.index != 0 {
			continue
		}
		visits := []visit{{n: root}}
		for len(visits) > 0 {
			v := &visits[len(visits)-1]
			n := v.n
			if v.next == 0 && n.est.index == 0 {
				last++
				n.est.index, n.est.low, n.est.onStack = last, last, true
				stack = append(stack, n)
			}
			if v.next < len(n.Out) {
				e := n.Out[v.next]
				v.next++
				switch callee := e.Callee; {
				case e.Calls == 0:
				case callee.est.index == 0:
					visits = append(visits, visit{n: callee})
				case callee.est.onStack:
					n.est.low = min(n.est.low, callee.est.index)
				}
				continue
			}
			visits = visits[:len(visits)-1]
			if len(visits) > 0 {
				caller := visits[len(visits)-1].n
				caller.est.low = min(caller.est.low, n.est.low)
			}
			if n.est.low != n.est.index {
				continue
			}
			c := &cycle{}
			at := slices.Index(stack, n)
			c.members = slices.Clone(stack[at:])
			stack = stack[:at]
			for _, m := range c.members {
				m.est.cycle, m.est.onStack = c, false
			}
			found = append(found, c)
		}
	}
	return found
}
