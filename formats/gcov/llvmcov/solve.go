package llvmcov

import "footfall/formats/gcov"

// solve gives the arcs of the spanning tree their counts: what flows into a
// block flows out of it. For that the flow is closed with an arc from the exit
// to the entry.
func (fn *llvmFunc) solve(exit int) {
	fn.addArc(exit, 0, gcov.ArcTree)
	if fn.solved == nil {
		fn.solved = make([]bool, len(fn.blocks))
	}
	for i := range fn.blocks {
		fn.propagate(int32(i))
	}
	for _, i := range fn.tree[:len(fn.tree)-1] {
		arc := &fn.arcs[i]
		fn.blocks[arc.src].count += arc.count
	}
}

const (
	noArc    int32 = -1
	startArc int32 = -2 // of the block where a search started
)

// propagate walks the tree from a block, depth first, and sets each arc of it
// to the excess of the part behind it. A block is entered once, even when the
// arcs are no tree.
func (fn *llvmFunc) propagate(root int32) {
	type visit struct {
		block   int32
		from    int32 // arc that led here
		forward bool  // along the arc
		next    int   // arc to look at: those in, then those out
		excess  uint64
	}
	if fn.solved[root] {
		return
	}
	fn.solved[root] = true
	stack := []visit{{block: root, from: noArc}}
	for len(stack) > 0 {
		u := &stack[len(stack)-1]
		b := &fn.blocks[u.block]
		if u.next == len(b.pred)+len(b.succ) {
			done := *u
			stack = stack[:len(stack)-1]
			if int64(done.excess) < 0 {
				done.excess = -done.excess
			}
			if done.from != noArc {
				fn.arcs[done.from].count = done.excess
			}
			if len(stack) == 0 {
				return
			}
			if done.forward {
				done.excess = -done.excess
			}
			stack[len(stack)-1].excess += done.excess
			continue
		}
		forward := u.next >= len(b.pred)
		var i int32
		if forward {
			i = b.succ[u.next-len(b.pred)]
		} else {
			i = b.pred[u.next]
		}
		u.next++
		if i == u.from {
			continue
		}
		arc := &fn.arcs[i]
		if arc.flags&gcov.ArcTree != 0 {
			to := arc.src
			if forward {
				to = arc.dst
			}
			if !fn.solved[to] {
				fn.solved[to] = true
				stack = append(stack, visit{block: to, from: i, forward: forward})
			}
		} else if forward {
			u.excess -= arc.count
		} else {
			u.excess += arc.count
		}
	}
}

// An llvmRef is a block of a function.
type llvmRef struct {
	fn    *llvmFunc
	block int32
}

func (r llvmRef) get() *llvmBlock { return &r.fn.blocks[r.block] }

// llvmLineCount is how often a line ran that these blocks are on: what flows
// in from other lines, and the cycles within.
func llvmLineCount(blocks []llvmRef) uint64 {
	for _, r := range blocks {
		r.get().open = true
	}
	var count uint64
	for _, r := range blocks {
		b := r.get()
		if b.number == 0 {
			// What the exit sends back to the entry is wrong after fork or
			// exit, so llvm-cov takes what leaves the entry.
			for _, i := range b.succ {
				count += r.fn.arcs[i].count
			}
		} else {
			count += r.fn.inflow(b)
		}
		for _, i := range b.succ {
			r.fn.arcs[i].left = r.fn.arcs[i].count
		}
	}
	return count + llvmCycles(blocks)
}

// inflow is the sum of the arcs into a block from blocks that are not open.
func (fn *llvmFunc) inflow(b *llvmBlock) uint64 {
	var count uint64
	for _, i := range b.pred {
		if arc := &fn.arcs[i]; !fn.blocks[arc.src].open {
			count += arc.count
		}
	}
	return count
}

// llvmCycles finds a cycle among the blocks, takes the smallest count off its
// arcs, and so on until there is none; it returns the sum of what it took.
func llvmCycles(blocks []llvmRef) uint64 {
	var count uint64
	var stack []llvmStep
	for {
		for _, r := range blocks {
			b := r.get()
			b.open, b.incoming = true, noArc
		}
		var taken uint64
		for _, r := range blocks {
			if r.get().open {
				if taken, stack = r.fn.cancelCycle(r.block, stack[:0]); taken > 0 {
					break
				}
			}
		}
		if taken == 0 {
			return count
		}
		count += taken
	}
}

// An llvmStep is a block on the path of a search and the next of its arcs.
type llvmStep struct {
	block int32
	next  int
}

// cancelCycle looks for a cycle that can be reached from a block over open
// blocks and arcs with a count left. Blocks that it has left are closed.
func (fn *llvmFunc) cancelCycle(start int32, stack []llvmStep) (uint64, []llvmStep) {
	stack = append(stack, llvmStep{block: start})
	fn.blocks[start].incoming = startArc
	for len(stack) > 0 {
		u := &stack[len(stack)-1]
		b := &fn.blocks[u.block]
		if u.next == len(b.succ) {
			b.open = false
			stack = stack[:len(stack)-1]
			continue
		}
		arc := &fn.arcs[b.succ[u.next]]
		u.next++
		dst := &fn.blocks[arc.dst]
		if arc.left == 0 || !dst.open || arc.dst == u.block {
			continue
		}
		if dst.incoming == noArc {
			dst.incoming = b.succ[u.next-1]
			stack = append(stack, llvmStep{block: arc.dst})
			continue
		}
		least := arc.left
		for v := u.block; v != arc.dst; v = fn.arcs[fn.blocks[v].incoming].src {
			least = min(least, fn.arcs[fn.blocks[v].incoming].left)
		}
		arc.left -= least
		for v := u.block; v != arc.dst; v = fn.arcs[fn.blocks[v].incoming].src {
			fn.arcs[fn.blocks[v].incoming].left -= least
		}
		return least, stack
	}
	return 0, stack
}

// llvmOldLineCount is llvmLineCount as it was until LLVM 11: blocks without a
// way in count by themselves, and cycles are taken in the order in which an
// enumeration of all elementary ones (Hawick and James) comes to them.
func llvmOldLineCount(blocks []llvmRef) uint64 {
	for _, r := range blocks {
		r.get().open = true
	}
	var count uint64
	for _, r := range blocks {
		b := r.get()
		if len(b.pred) == 0 {
			count += b.count
		} else {
			count += r.fn.inflow(b)
		}
		for _, i := range b.succ {
			r.fn.arcs[i].left = r.fn.arcs[i].count
		}
	}
	budget := 1 << 24
	for _, r := range blocks {
		var taken uint64
		taken, budget = r.fn.enumerateCycles(r.block, budget)
		count += taken
	}
	if budget <= 0 {
		// llvm-cov would need longer than anyone waits.
		count += llvmCycles(blocks)
	}
	for _, r := range blocks {
		r.get().open = false
	}
	return count
}

// enumerateCycles takes the counts of the cycles that run through start over
// open blocks from start on. Cycles with an arc that has no count left add
// nothing and are not followed; the others each use up an arc, so that there
// are no more of them than arcs.
func (fn *llvmFunc) enumerateCycles(start int32, budget int) (count uint64, left int) {
	path := []llvmStep{{block: start}}
	onPath := map[int32]bool{start: true}
	for len(path) > 0 && budget > 0 {
		u := &path[len(path)-1]
		b := &fn.blocks[u.block]
		if u.next == len(b.succ) {
			delete(onPath, u.block)
			path = path[:len(path)-1]
			continue
		}
		arc := &fn.arcs[b.succ[u.next]]
		u.next++
		budget--
		if arc.left == 0 || arc.dst < start || !fn.blocks[arc.dst].open {
			continue
		}
		if arc.dst != start {
			if !onPath[arc.dst] && fn.reaches(arc.dst, start, onPath, &budget) {
				onPath[arc.dst] = true
				path = append(path, llvmStep{block: arc.dst})
			}
			continue
		}
		least := arc.left
		for _, s := range path {
			least = min(least, fn.stepArc(s).left)
		}
		keep := len(path)
		for i := len(path) - 1; i >= 0; i-- {
			a := fn.stepArc(path[i])
			if a.left -= least; a.left == 0 {
				keep = i + 1
			}
		}
		for _, s := range path[keep:] {
			delete(onPath, s.block)
		}
		path = path[:keep]
		count += least
	}
	return count, budget
}

// stepArc is the arc by which the path leaves that block.
func (fn *llvmFunc) stepArc(s llvmStep) *llvmArc {
	return &fn.arcs[fn.blocks[s.block].succ[s.next-1]]
}

// reaches tells whether a way with counts left leads from a block to start
// that avoids the path.
func (fn *llvmFunc) reaches(from, start int32, onPath map[int32]bool, budget *int) bool {
	seen := map[int32]bool{from: true}
	todo := []int32{from}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, i := range fn.blocks[v].succ {
			arc := &fn.arcs[i]
			*budget--
			if arc.left == 0 || arc.dst < start || !fn.blocks[arc.dst].open {
				continue
			}
			if arc.dst == start {
				return true
			}
			if !onPath[arc.dst] && !seen[arc.dst] {
				seen[arc.dst] = true
				todo = append(todo, arc.dst)
			}
		}
	}
	return false
}
