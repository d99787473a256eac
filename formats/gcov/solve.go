package gcov

import (
	"math"
	"slices"
)

// A Flow is the graph of one function made ready for solving. It is meant to
// be used again and again: build lays out a function, solve gives it counts.
//
// A compiler counts only the arcs off a spanning tree. What flows into a block
// flows out of it, so the others follow; the order of the steps below is that
// of gcov, because with counters torn by threads the result depends on it.
type Flow struct {
	Fn     *FunctionGraph
	Blocks []FlowBlock
	Arcs   []flowArc // the same order as fn.Arcs
	lists  []int32   // indices of arcs: the successors of block 0, of block 1, ..., then, once it is solved, the predecessors
	Exit   int       // the exit block
	throws bool      // some arc leads to a catch handler
	solved bool      // there are counts, and lists of predecessors

	known, open []int32 // work lists of blocks, last in first out
}

// A FlowBlock is a block of the graph.
type FlowBlock struct {
	Count                int64
	Succ, SuccEnd        int32 // range of flow.lists, by ascending destination
	Pred, PredEnd        int32 // range of flow.lists, in file order
	OpenSucc, OpenPred   int32 // arcs that have no count yet; many for the outside of entry and exit
	valid                bool  // count is known
	onKnown, onOpen      bool  // stands on that work list
	callSite, CallReturn bool
	nonlocal             bool // longjmp returns here
	Exceptional          bool // reached by exceptions alone
}

// A flowArc is an arc of the graph.
type flowArc struct {
	Src, Dst      int32
	Count         int64
	Flags         uint32 // those of the file
	valid         bool   // count is known
	Throw         bool   // to a catch handler
	NonReturn     bool   // a call that does not return
	Unconditional bool
}

func (a *flowArc) Fake() bool  { return a.Flags&ArcFake != 0 }
func (a *flowArc) tree() bool  { return a.Flags&ArcTree != 0 }
func (a *flowArc) Falls() bool { return a.Flags&ArcFallthrough != 0 }

// Succs are the indices in arcs of the arcs out of block b.
func (g *Flow) Succs(b int) []int32 { return g.lists[g.Blocks[b].Succ:g.Blocks[b].SuccEnd] }

// called is how often the function was. Of the ways out of its entry those that are
// not real lead to where GCC's flow graph misses ways within: labels that computed gotos
// arrive at, and second returns of setjmp. gcov takes these arrivals for calls.
func (g *Flow) called() int64 {
	count := g.Blocks[0].Count
	for _, i := range g.Succs(0) {
		if a := &g.Arcs[i]; a.Fake() {
			count -= a.Count
		}
	}
	return max(count, 0)
}

// Preds are the indices in arcs of the arcs into block b, of a flow that was solved.
func (g *Flow) Preds(b int) []int32 { return g.lists[g.Blocks[b].Pred:g.Blocks[b].PredEnd] }

// Counters is the number of arcs that have one.
func (fn *FunctionGraph) Counters() int {
	n := 0
	for i := range fn.Arcs {
		if fn.Arcs[i].Flags&ArcTree == 0 {
			n++
		}
	}
	return n
}

// Build lays out the graph of fn, which must not change while it is in use.
func (g *Flow) Build(fn *FunctionGraph, v Version) {
	g.begin(fn, v, len(fn.Arcs))
	for i, a := range fn.Arcs {
		g.arc(i, a.Src, a.Dst, a.Flags)
	}
	g.finish()
}

// begin makes room for the blocks of fn and so many arcs.
func (g *Flow) begin(fn *FunctionGraph, v Version, arcs int) {
	g.Fn, g.throws, g.solved = fn, false, false
	g.Exit = fn.Blocks - 1
	if v.exitIsSecond() {
		g.Exit = 1
	}
	g.Blocks = Resize(g.Blocks, fn.Blocks)
	g.Arcs = slices.Grow(g.Arcs[:0], arcs)[:arcs] // arc and link set all of them
	g.lists = slices.Grow(g.lists[:0], 2*arcs)[:2*arcs]
}

// arc sets an arc, which is counted at its blocks.
func (g *Flow) arc(i int, src, dst, flags uint32) {
	g.Arcs[i] = flowArc{Src: int32(src), Dst: int32(dst), Flags: flags}
	g.Blocks[src].OpenSucc++
	g.Blocks[dst].OpenPred++
}

// finish is to be called when all arcs are there.
func (g *Flow) finish() {
	g.link()
	g.calls()
	g.catches()
}

// Resize returns s with n zero elements, in the same memory if it has room.
func Resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	s = s[:n]
	clear(s)
	return s
}

// link fills the lists of successors, and makes room for those of predecessors.
func (g *Flow) link() {
	succ, pred := int32(0), int32(len(g.Arcs))
	for i := range g.Blocks {
		b := &g.Blocks[i]
		b.Succ, b.SuccEnd = succ, succ
		b.Pred = pred
		succ += b.OpenSucc
		pred += b.OpenPred
		b.PredEnd = pred
	}
	for i := range g.Arcs {
		src := &g.Blocks[g.Arcs[i].Src]
		g.lists[src.SuccEnd] = int32(i)
		src.SuccEnd++
	}
}

// linkBack fills the lists of predecessors. Most functions of a report never ran, and do without.
func (g *Flow) linkBack() {
	for i := range g.Blocks {
		g.Blocks[i].PredEnd = g.Blocks[i].Pred
	}
	for i := range g.Arcs {
		dst := &g.Blocks[g.Arcs[i].Dst]
		g.lists[dst.PredEnd] = int32(i)
		dst.PredEnd++
	}
}

// unsolve takes back the counts of a flow, which can be solved with others then.
func (g *Flow) unsolve() {
	if !g.solved {
		return
	}
	for i := range g.Arcs {
		g.Arcs[i].Count, g.Arcs[i].valid = 0, false
	}
	for i := range g.Blocks {
		b := &g.Blocks[i]
		b.Count, b.valid, b.onKnown, b.onOpen = 0, false, false, false
		b.OpenSucc, b.OpenPred = b.SuccEnd-b.Succ, b.PredEnd-b.Pred
	}
}

// calls finds the blocks that call, by their fake arc to the exit, and what
// follows from it.
func (g *Flow) calls() {
	for i := range g.Arcs {
		a := &g.Arcs[i]
		switch {
		case !a.Fake():
		case a.Src != 0:
			g.Blocks[a.Src].callSite = true
			a.NonReturn = true
		default:
			g.Blocks[a.Dst].nonlocal = true
		}
	}
	for i := range g.Blocks {
		b := &g.Blocks[i]
		succs := g.lists[b.Succ:b.SuccEnd]
		real, last, dst, sorted := 0, int32(0), int32(0), true
		for _, k := range succs {
			a := &g.Arcs[k]
			sorted = sorted && dst <= a.Dst
			dst = a.Dst
			if a.Fake() {
				continue
			}
			real++
			last = k
			if b.callSite && !a.Falls() {
				a.Throw = true
				g.throws = true
			}
		}
		if real == 1 {
			a := &g.Arcs[last]
			a.Unconditional = true
			if dst := &g.Blocks[a.Dst]; b.callSite && a.Falls() && dst.PredEnd-dst.Pred == 1 {
				dst.CallReturn = true
			}
		}
		switch {
		case sorted: // as compilers write nearly all
		case len(succs) == 2:
			succs[0], succs[1] = succs[1], succs[0]
		default:
			slices.SortStableFunc(succs, func(x, y int32) int { return int(g.Arcs[x].Dst - g.Arcs[y].Dst) })
		}
	}
}

// catches marks the blocks that only exceptions reach.
func (g *Flow) catches() {
	if !g.throws || len(g.Blocks) == 0 {
		return
	}
	for i := range g.Blocks {
		g.Blocks[i].Exceptional = true
	}
	g.Blocks[0].Exceptional = false
	todo := append(g.known[:0], 0)
	for len(todo) > 0 {
		b := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, k := range g.Succs(int(b)) {
			a := &g.Arcs[k]
			if dst := &g.Blocks[a.Dst]; !a.Fake() && !a.Throw && dst.Exceptional {
				dst.Exceptional = false
				todo = append(todo, a.Dst)
			}
		}
	}
	g.known = todo
}

// outside is the number of unknown arcs that lead into the entry and out of
// the exit: their counts are never inferred from there.
const outside = math.MaxInt32

// Solve sets the counts of all arcs and blocks from the counters of the arcs
// off the tree, in file order; nil stands for zeros. Sums wrap in 64 bits. It
// reports whether the counts are possible: none is negative.
func (g *Flow) Solve(counters []int64) bool {
	if !g.solved {
		g.linkBack()
		g.solved = true
	}
	if len(g.Blocks) >= 2 {
		if g.Blocks[0].OpenPred == 0 {
			g.Blocks[0].OpenPred = outside
		}
		if g.Blocks[g.Exit].OpenSucc == 0 {
			g.Blocks[g.Exit].OpenSucc = outside
		}
	}
	for i := range g.Arcs {
		a := &g.Arcs[i]
		if a.tree() {
			continue
		}
		if len(counters) > 0 {
			a.Count, counters = counters[0], counters[1:]
		}
		a.valid = true
		g.Blocks[a.Src].OpenSucc--
		g.Blocks[a.Dst].OpenPred--
	}
	g.open = g.open[:0]
	for i := range g.Blocks {
		g.open = append(g.open, int32(i))
		g.Blocks[i].onOpen = true
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
func (g *Flow) sum() {
	i := g.open[len(g.open)-1]
	g.open = g.open[:len(g.open)-1]
	b := &g.Blocks[i]
	b.onOpen = false
	var side []int32
	switch {
	case b.OpenSucc == 0:
		side = g.Succs(int(i))
	case b.OpenPred == 0:
		side = g.Preds(int(i))
	default:
		return
	}
	b.Count = 0
	for _, k := range side {
		b.Count += g.Arcs[k].Count
	}
	b.valid, b.onKnown = true, true
	g.known = append(g.known, i)
}

// infer takes the last known block and gives a count to the only arc on a side
// that has none.
func (g *Flow) infer() {
	i := g.known[len(g.known)-1]
	g.known = g.known[:len(g.known)-1]
	b := &g.Blocks[i]
	b.onKnown = false
	if b.OpenSucc == 1 {
		if a := g.rest(b.Count, g.Succs(int(i))); a != nil {
			b.OpenSucc--
			dst := &g.Blocks[a.Dst]
			dst.OpenPred--
			g.push(a.Dst, dst.OpenPred)
		}
	}
	if b.OpenPred == 1 {
		if a := g.rest(b.Count, g.Preds(int(i))); a != nil {
			b.OpenPred--
			src := &g.Blocks[a.Src]
			src.OpenSucc--
			g.push(a.Src, src.OpenSucc)
		}
	}
}

// rest gives the arc of the list that has no count what the others leave of
// total, and returns it.
func (g *Flow) rest(total int64, list []int32) *flowArc {
	var last *flowArc
	for _, k := range list {
		a := &g.Arcs[k]
		total -= a.Count
		if !a.valid {
			last = a
		}
	}
	if last != nil {
		last.valid = true
		last.Count = total
	}
	return last
}

// push puts block i, which now has open unknown arcs on one side, on the work
// list where that can lead to something.
func (g *Flow) push(i, open int32) {
	b := &g.Blocks[i]
	switch {
	case b.valid && open == 1 && !b.onKnown:
		b.onKnown = true
		g.known = append(g.known, i)
	case !b.valid && open == 0 && !b.onOpen:
		b.onOpen = true
		g.open = append(g.open, i)
	}
}

func (g *Flow) possible() bool {
	for i := range g.Arcs {
		if g.Arcs[i].Count < 0 {
			return false
		}
	}
	for i := range g.Blocks {
		if g.Blocks[i].Count < 0 {
			return false
		}
	}
	return true
}

// solveAsClang gives the arcs of the tree their counts as llvm-cov does, where the
// counters contradict each other: each has what is left over on one side of it, whichever
// way that would have to flow. The tree is closed by an arc from the exit to the entry.
func (g *Flow) solveAsClang() {
	type visit struct {
		block, from int32 // the arc that led here; -1: none
		forward     bool  // along the arc
		next        int32
		excess      int64
	}
	closing := int32(len(g.Arcs))
	for i := range g.Blocks {
		g.Blocks[i].valid = false
	}
	for root := range g.Blocks {
		if g.Blocks[root].valid {
			continue
		}
		g.Blocks[root].valid = true
		for stack := []visit{{block: int32(root), from: -1}}; len(stack) > 0; {
			u := &stack[len(stack)-1]
			k, forward := g.around(u.block, u.next, closing)
			u.next++
			var a flowArc
			switch {
			case k < 0:
				done := *u
				stack = stack[:len(stack)-1]
				if done.excess < 0 {
					done.excess = -done.excess
				}
				if done.from >= 0 && done.from != closing {
					g.Arcs[done.from].Count = done.excess
				}
				if done.forward {
					done.excess = -done.excess
				}
				if len(stack) > 0 {
					stack[len(stack)-1].excess += done.excess
				}
				continue
			case k == u.from:
				continue
			case k == closing:
				a = flowArc{Src: int32(g.Exit), Flags: ArcTree}
			default:
				a = g.Arcs[k]
			}
			to := a.Src
			if forward {
				to = a.Dst
			}
			switch {
			case a.tree() && !g.Blocks[to].valid:
				g.Blocks[to].valid = true
				stack = append(stack, visit{block: to, from: k, forward: forward})
			case a.tree():
			case forward:
				u.excess -= a.Count
			default:
				u.excess += a.Count
			}
		}
	}
}

// around returns the n-th arc at a block, and whether it leads away: those in, then those
// out, with one that closes the flow. After the last it returns -1.
func (g *Flow) around(block, n, closing int32) (arc int32, forward bool) {
	in, out := g.Preds(int(block)), g.Succs(int(block))
	if n < int32(len(in)) {
		return in[n], false
	}
	n -= int32(len(in))
	if block == 0 {
		if n == 0 {
			return closing, false
		}
		n--
	}
	switch {
	case n < int32(len(out)):
		return out[n], true
	case n == int32(len(out)) && int(block) == g.Exit:
		return closing, true
	}
	return -1, false
}
