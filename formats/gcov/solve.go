package gcov

import (
	"math"
	"slices"
)

// A flow is the graph of one function made ready for solving. It is meant to
// be used again and again: build lays out a function, solve gives it counts.
//
// A compiler counts only the arcs off a spanning tree. What flows into a block
// flows out of it, so the others follow; the order of the steps below is that
// of gcov, because with counters torn by threads the result depends on it.
type flow struct {
	fn     *Function
	blocks []flowBlock
	arcs   []flowArc // the same order as fn.Arcs
	lists  []int32   // indices of arcs: the successors of block 0, of block 1, ..., then the predecessors
	exit   int       // the exit block
	throws bool      // some arc leads to a catch handler

	known, open []int32 // work lists of blocks, last in first out
}

// A flowBlock is a block of the graph.
type flowBlock struct {
	count                int64
	succ, succEnd        int32 // range of flow.lists, by ascending destination
	pred, predEnd        int32 // range of flow.lists, in file order
	openSucc, openPred   int32 // arcs that have no count yet; many for the outside of entry and exit
	valid                bool  // count is known
	onKnown, onOpen      bool  // stands on that work list
	callSite, callReturn bool
	nonlocal             bool // longjmp returns here
	exceptional          bool // reached by exceptions alone
}

// A flowArc is an arc of the graph.
type flowArc struct {
	src, dst      int32
	count         int64
	flags         uint32 // those of the file
	valid         bool   // count is known
	throw         bool   // to a catch handler
	nonReturn     bool   // a call that does not return
	unconditional bool
}

func (a *flowArc) fake() bool  { return a.flags&ArcFake != 0 }
func (a *flowArc) tree() bool  { return a.flags&ArcTree != 0 }
func (a *flowArc) falls() bool { return a.flags&ArcFallthrough != 0 }

// succs are the indices in arcs of the arcs out of block b.
func (g *flow) succs(b int) []int32 { return g.lists[g.blocks[b].succ:g.blocks[b].succEnd] }

// called is how often the function was. Of the ways out of its entry those that are
// not real lead to where GCC's flow graph misses ways within: labels that computed gotos
// arrive at, and second returns of setjmp. gcov takes these arrivals for calls.
func (g *flow) called() int64 {
	count := g.blocks[0].count
	for _, i := range g.succs(0) {
		if a := &g.arcs[i]; a.fake() {
			count -= a.count
		}
	}
	return max(count, 0)
}

// preds are the indices in arcs of the arcs into block b.
func (g *flow) preds(b int) []int32 { return g.lists[g.blocks[b].pred:g.blocks[b].predEnd] }

// counters is the number of arcs that have one.
func (fn *Function) counters() int {
	n := 0
	for i := range fn.Arcs {
		if fn.Arcs[i].Flags&ArcTree == 0 {
			n++
		}
	}
	return n
}

// build lays out the graph of fn, which must not change while it is in use.
func (g *flow) build(fn *Function, v Version) {
	g.fn, g.throws = fn, false
	g.exit = fn.Blocks - 1
	if v.exitIsSecond() {
		g.exit = 1
	}
	g.blocks = resize(g.blocks, fn.Blocks)
	g.arcs = resize(g.arcs, len(fn.Arcs))
	g.lists = resize(g.lists, 2*len(fn.Arcs))
	for i, a := range fn.Arcs {
		g.arcs[i] = flowArc{src: int32(a.Src), dst: int32(a.Dst), flags: a.Flags}
		g.blocks[a.Src].openSucc++
		g.blocks[a.Dst].openPred++
	}
	g.link()
	g.calls()
	g.catches()
}

// resize returns s with n zero elements, in the same memory if it has room.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	s = s[:n]
	clear(s)
	return s
}

// link fills the lists of successors and predecessors.
func (g *flow) link() {
	at := int32(0)
	for i := range g.blocks {
		b := &g.blocks[i]
		b.succ, b.succEnd = at, at
		at += b.openSucc
	}
	for i := range g.blocks {
		b := &g.blocks[i]
		b.pred, b.predEnd = at, at
		at += b.openPred
	}
	for i := range g.arcs {
		src, dst := &g.blocks[g.arcs[i].src], &g.blocks[g.arcs[i].dst]
		g.lists[src.succEnd] = int32(i)
		src.succEnd++
		g.lists[dst.predEnd] = int32(i)
		dst.predEnd++
	}
}

// calls finds the blocks that call, by their fake arc to the exit, and what
// follows from it.
func (g *flow) calls() {
	for i := range g.arcs {
		a := &g.arcs[i]
		switch {
		case !a.fake():
		case a.src != 0:
			g.blocks[a.src].callSite = true
			a.nonReturn = true
		default:
			g.blocks[a.dst].nonlocal = true
		}
	}
	for i := range g.blocks {
		succs := g.succs(i)
		real, last := 0, int32(0)
		for _, k := range succs {
			a := &g.arcs[k]
			if !a.fake() {
				real++
				last = k
			}
			if g.blocks[i].callSite && !a.fake() && !a.falls() {
				a.throw = true
				g.throws = true
			}
		}
		if real == 1 {
			a := &g.arcs[last]
			a.unconditional = true
			if dst := &g.blocks[a.dst]; g.blocks[i].callSite && a.falls() && dst.predEnd-dst.pred == 1 {
				dst.callReturn = true
			}
		}
		// Compilers write nearly all arcs by ascending destination.
		byDst := func(x, y int32) int { return int(g.arcs[x].dst - g.arcs[y].dst) }
		if !slices.IsSortedFunc(succs, byDst) {
			slices.SortStableFunc(succs, byDst)
		}
	}
}

// catches marks the blocks that only exceptions reach.
func (g *flow) catches() {
	if !g.throws || len(g.blocks) == 0 {
		return
	}
	for i := range g.blocks {
		g.blocks[i].exceptional = true
	}
	g.blocks[0].exceptional = false
	todo := append(g.known[:0], 0)
	for len(todo) > 0 {
		b := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, k := range g.succs(int(b)) {
			a := &g.arcs[k]
			if dst := &g.blocks[a.dst]; !a.fake() && !a.throw && dst.exceptional {
				dst.exceptional = false
				todo = append(todo, a.dst)
			}
		}
	}
	g.known = todo
}

// outside is the number of unknown arcs that lead into the entry and out of
// the exit: their counts are never inferred from there.
const outside = math.MaxInt32

// solve sets the counts of all arcs and blocks from the counters of the arcs
// off the tree, in file order; nil stands for zeros. Sums wrap in 64 bits. It
// reports whether the counts are possible: none is negative.
func (g *flow) solve(counters []int64) bool {
	if len(g.blocks) >= 2 {
		if g.blocks[0].openPred == 0 {
			g.blocks[0].openPred = outside
		}
		if g.blocks[g.exit].openSucc == 0 {
			g.blocks[g.exit].openSucc = outside
		}
	}
	for i := range g.arcs {
		a := &g.arcs[i]
		if a.tree() {
			continue
		}
		if len(counters) > 0 {
			a.count, counters = counters[0], counters[1:]
		}
		a.valid = true
		g.blocks[a.src].openSucc--
		g.blocks[a.dst].openPred--
	}
	g.open = g.open[:0]
	for i := range g.blocks {
		g.open = append(g.open, int32(i))
		g.blocks[i].onOpen = true
	}
	g.known = g.known[:0]
	for len(g.open) > 0 || len(g.known) > 0 {
		for len(g.open) > 0 {
			g.sum()
		}
		for len(g.known) > 0 {
			g.infer()
		}
	}
	return g.possible()
}

// sum takes the last open block; if all arcs on one side of it have counts, it
// has one too.
func (g *flow) sum() {
	i := g.open[len(g.open)-1]
	g.open = g.open[:len(g.open)-1]
	b := &g.blocks[i]
	b.onOpen = false
	var side []int32
	switch {
	case b.openSucc == 0:
		side = g.succs(int(i))
	case b.openPred == 0:
		side = g.preds(int(i))
	default:
		return
	}
	b.count = 0
	for _, k := range side {
		b.count += g.arcs[k].count
	}
	b.valid, b.onKnown = true, true
	g.known = append(g.known, i)
}

// infer takes the last known block and gives a count to the only arc on a side
// that has none.
func (g *flow) infer() {
	i := g.known[len(g.known)-1]
	g.known = g.known[:len(g.known)-1]
	b := &g.blocks[i]
	b.onKnown = false
	if b.openSucc == 1 {
		if a := g.rest(b.count, g.succs(int(i))); a != nil {
			b.openSucc--
			dst := &g.blocks[a.dst]
			dst.openPred--
			g.push(a.dst, dst.openPred)
		}
	}
	if b.openPred == 1 {
		if a := g.rest(b.count, g.preds(int(i))); a != nil {
			b.openPred--
			src := &g.blocks[a.src]
			src.openSucc--
			g.push(a.src, src.openSucc)
		}
	}
}

// rest gives the arc of the list that has no count what the others leave of
// total, and returns it.
func (g *flow) rest(total int64, list []int32) *flowArc {
	var last *flowArc
	for _, k := range list {
		a := &g.arcs[k]
		total -= a.count
		if !a.valid {
			last = a
		}
	}
	if last != nil {
		last.valid = true
		last.count = total
	}
	return last
}

// push puts block i, which now has open unknown arcs on one side, on the work
// list where that can lead to something.
func (g *flow) push(i, open int32) {
	b := &g.blocks[i]
	switch {
	case b.valid && open == 1 && !b.onKnown:
		b.onKnown = true
		g.known = append(g.known, i)
	case !b.valid && open == 0 && !b.onOpen:
		b.onOpen = true
		g.open = append(g.open, i)
	}
}

func (g *flow) possible() bool {
	for i := range g.arcs {
		if g.arcs[i].count < 0 {
			return false
		}
	}
	for i := range g.blocks {
		if g.blocks[i].count < 0 {
			return false
		}
	}
	return true
}
