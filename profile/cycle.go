package profile

import (
	"cmp"
	"math"
	"slices"
)

// gprof's model of a program that has call counts and, apart from them, times:
// functions that call each other in circles are one, a cycle, and each call of
// a function costs the same, whoever makes it.
//
// What is equal but for the last bit of a sum is shown in another order. So sums are made
// in the order in which gprof makes them: functions by address, calls from the last one
// that the profile has to the first, callees before callers.

// An estimate is what a function costs by that model, in ticks of the clock.
type estimate struct {
	hist       float64 // time in it
	below      float64 // time in what it called
	fraction   float64 // of its time, that its callers get
	self       float64 // what of hist they get
	children   float64 // what of below
	external   int64   // calls, but by itself
	cycle      *cycle  // that it belongs to; its own if it is in none
	in, out    []*Edge // those that were counted
	head, next *Node   // of the list of functions of its cycle; head is itself in none
	visited    bool
	order      int // callees before callers; 0: not known yet
}

type edgeEstimate struct {
	self, children float64 // of the callee's time
}

// A cycle is a function, or several that call each other in circles.
type cycle struct {
	members        []*Node // in the order in which they were found
	number         int     // of those with several members, from 1
	hist, below    float64
	fraction       float64
	self, children float64
	external       int64 // calls from outside
	internal       int64 // calls within, but by a member of itself
}

// tick is what a tick of the clock stands for, in nanoseconds.
func (p *Profile) tick() float64 { return float64(cmp.Or(p.Period, 1e7)) }

// estimate shares the times out.
func (g *Graph) estimate() {
	nodes := slices.Clone(g.Nodes)
	slices.SortStableFunc(nodes, func(a, b *Node) int { return cmp.Compare(a.addr, b.addr) })
	counted := func(edges []*Edge) []*Edge {
		edges = slices.DeleteFunc(slices.Clone(edges), func(e *Edge) bool { return e.Calls == 0 })
		slices.SortFunc(edges, func(a, b *Edge) int { return cmp.Compare(b.order, a.order) })
		return edges
	}
	for _, n := range nodes {
		n.est = estimate{external: n.Calls - n.recursive, head: n, in: counted(n.In), out: counted(n.Out)}
		switch ticks, ok := g.ticks[n.Func]; {
		case countsCalls(n):
		case ok:
			n.est.hist = ticks
		default:
			n.est.hist = float64(n.Self) / g.tick
		}
	}
	v := &visitor{}
	for _, n := range nodes {
		v.visit(n)
	}
	number := 0
	for _, n := range nodes {
		if n.est.head == n {
			n.link()
			if len(n.est.cycle.members) > 1 {
				number++
				n.est.cycle.number = number
			}
		}
	}
	for _, n := range nodes {
		n.est.cycle.count(n)
	}
	// Callees before callers.
	slices.SortStableFunc(nodes, func(a, b *Node) int { return cmp.Compare(a.est.order, b.est.order) })
	g.estimated = 0
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		if i == len(nodes)-1 || n.est.cycle != nodes[i+1].est.cycle {
			n.est.cycle.inherit()
		}
		switch {
		case countsCalls(n):
			n.est.fraction = 0
		case n.est.fraction == 0:
			n.est.fraction = 1 // nobody calls it
		}
		n.est.self = n.est.hist * n.est.fraction
		g.estimated += n.est.self
	}
	for _, n := range nodes {
		if c := n.est.cycle; n.est.head == n {
			c.sum()
		}
	}
	for _, n := range nodes {
		n.collect()
	}
}

// A visitor puts functions in an order in which callees come before callers, and finds those
// that call each other in circles.
type visitor struct {
	stack []visit
	last  int
}

type visit struct {
	n    *Node
	next int // of its calls
}

// visit goes to the function and all that it calls. It keeps its own stack: programs may
// call very deep.
func (v *visitor) visit(root *Node) {
	if root.est.visited {
		return
	}
	root.est.visited = true
	v.stack = append(v.stack[:0], visit{n: root})
	for len(v.stack) > 0 {
		at := &v.stack[len(v.stack)-1]
		if at.next < len(at.n.est.out) {
			callee := at.n.est.out[at.next].Callee
			at.next++
			switch {
			case callee.est.order != 0:
			case callee.est.visited:
				v.circle(callee)
			default:
				callee.est.visited = true
				v.stack = append(v.stack, visit{n: callee})
			}
			continue
		}
		if n := at.n; n.est.head == n {
			v.last++
			for m := n; m != nil; m = m.est.next {
				m.est.order = v.last
			}
		}
		v.stack = v.stack[:len(v.stack)-1]
	}
}

// circle makes one cycle of a function that is called again and all that were called since.
func (v *visitor) circle(again *Node) {
	top := len(v.stack) - 1
	for top >= 0 && v.stack[top].n != again && (again.est.head == again || again.est.head != v.stack[top].n) {
		top--
	}
	if top < 0 || top == len(v.stack)-1 {
		return // it calls itself
	}
	head := v.stack[top].n
	tail := head
	for tail.est.next != nil {
		tail = tail.est.next
	}
	head = head.est.head
	for _, at := range v.stack[top+1:] {
		if at.n.est.head != at.n {
			continue // it is there, with all that are in its list
		}
		tail.est.next = at.n
		for tail != nil && tail.est.next != nil {
			tail = tail.est.next
			tail.est.head = head
		}
	}
}

// link makes the cycle of a head.
func (n *Node) link() {
	c := &cycle{}
	for m := n; m != nil; m = m.est.next {
		c.members = append(c.members, m)
		m.est.cycle = c
	}
}

// count adds the calls of a member.
func (c *cycle) count(n *Node) {
	if len(c.members) == 1 {
		c.external = n.est.external
		return
	}
	for _, e := range n.est.in {
		switch {
		case e.Caller == n:
		case e.Caller.est.cycle == c:
			c.internal += e.Calls
		default:
			c.external += e.Calls
		}
	}
}

// inherit has the parts of a cycle's time add up that its callers get.
func (c *cycle) inherit() {
	c.fraction = 0
	for _, n := range c.members {
		for _, e := range n.est.in {
			if e.Caller.est.cycle != c && c.external != 0 {
				c.fraction += e.Caller.est.fraction * (float64(e.Calls) / float64(c.external))
			}
		}
	}
	for _, n := range c.members {
		n.est.fraction = c.fraction
	}
}

// sum adds up the times of the members.
func (c *cycle) sum() {
	if len(c.members) == 1 {
		n := c.members[0]
		c.hist, c.fraction, c.self = n.est.hist, n.est.fraction, n.est.self
		return
	}
	for _, n := range c.members {
		if n.est.fraction != 0 {
			c.hist += n.est.hist
		}
	}
	c.self = c.fraction * c.hist
}

// collect gives the function its part of the times of what it calls.
func (n *Node) collect() {
	own := n.est.cycle
	if n.est.fraction == 0 {
		return
	}
	for _, e := range n.est.out {
		c := e.Callee.est.cycle
		if c == own || e.Callee.est.fraction == 0 || c.external == 0 {
			continue
		}
		part := float64(e.Calls) / float64(c.external)
		self, below := c.hist*part, c.below*part
		share := self + below
		n.est.below += share
		n.est.children += n.est.fraction * share
		e.est.self, e.est.children = self*n.est.fraction, below*n.est.fraction
		own.below += share
		own.children += n.est.fraction * share
	}
}

// nanoseconds are those of ticks.
func (g *Graph) nanoseconds(ticks float64) int64 { return int64(math.Round(ticks * g.tick)) }
