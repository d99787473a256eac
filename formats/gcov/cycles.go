package gcov

import "math"

// A lineGraph is the part of a flow graph that stands on one source line: the
// blocks attached to it. Its count is how often control entered the line, plus
// how often it went round within the line.
type lineGraph struct {
	*flow
	old    bool    // cycles are those that gcov finds before GCC 8
	on     []int32 // for each block: the mark of the line it is attached to
	mark   int32
	left   []int64 // for each arc: what the cycles found so far left of its count
	first  int32   // the block where cycles begin
	path   []int32 // arcs from first to here
	dead   int     // index in path of the first arc that has no count left
	frames []frame
	held   []bool    // blocks that wait for a cycle to go through them
	waits  [][]int32 // for each held block: those to let go with it
	todo   []int32
}

// A frame is a block on the path, and how far its arcs were followed.
type frame struct {
	block int32
	next  int32 // index in flow.lists
	found bool  // a cycle goes through the block
}

// count returns the count of the line whose attached blocks are given, in
// order and possibly more than once.
func (l *lineGraph) count(blocks []int32) int64 {
	if len(l.on) < len(l.blocks) {
		l.on = make([]int32, len(l.blocks)+len(l.blocks)/2)
		l.mark = 0
	}
	l.mark++
	for _, b := range blocks {
		l.on[b] = l.mark
	}
	var count int64
	back := false // some arc could close a cycle
	for _, b := range blocks {
		for _, k := range l.preds(int(b)) {
			a := &l.arcs[k]
			if l.on[a.src] != l.mark {
				count += a.count
			} else if a.src >= a.dst && a.count > 0 {
				back = true
			}
		}
	}
	if !back {
		return count
	}
	l.begin(blocks)
	if l.old {
		if n, ok := l.oldCycles(blocks); ok {
			return count + n
		}
		l.begin(blocks)
	}
	return count + l.cycles(blocks)
}

// begin lets all arcs of the blocks have their counts.
func (l *lineGraph) begin(blocks []int32) {
	if len(l.left) < len(l.arcs) {
		l.left = make([]int64, len(l.arcs)+len(l.arcs)/2)
	}
	if len(l.held) < len(l.blocks) {
		l.held = make([]bool, len(l.blocks)+len(l.blocks)/2)
		l.waits = make([][]int32, len(l.held))
	}
	for _, b := range blocks {
		l.on[b] = l.mark
		l.held[b] = false
		for _, k := range l.succs(int(b)) {
			l.left[k] = l.arcs[k].count
		}
	}
}

// cycles adds up the elementary cycles among the blocks, in the order in which
// gcov finds them (K. A. Hawick and H. A. James, Enumerating Circuits and Loops
// in Graphs with Self-Arcs and Multiple-Arcs, 2008): each takes the smallest
// remaining count of its arcs off all of them.
func (l *lineGraph) cycles(blocks []int32) int64 {
	var count int64
	for _, b := range blocks {
		l.first = b
		count += l.search()
		for _, b := range blocks {
			l.held[b] = false
			l.waits[b] = l.waits[b][:0]
		}
	}
	return count
}

// usable tells whether a cycle that begins at l.first can go along the arc.
func (l *lineGraph) usable(k int32) bool {
	a := &l.arcs[k]
	return a.dst >= l.first && l.left[k] > 0 && l.on[a.dst] == l.mark
}

// search finds the cycles through l.first and blocks behind it, depth first.
// It keeps its own stack, for a line can have very many blocks.
func (l *lineGraph) search() (count int64) {
	l.path = l.path[:0]
	l.frames = l.frames[:0]
	l.dead = math.MaxInt
	l.enter(l.first)
	for len(l.frames) > 0 {
		f := &l.frames[len(l.frames)-1]
		if f.next == l.blocks[f.block].succEnd {
			l.leave()
			continue
		}
		k := l.lists[f.next]
		f.next++
		if !l.usable(k) {
			continue
		}
		dst := l.arcs[k].dst
		if dst == l.first {
			l.path = append(l.path, k)
			count += l.take()
			l.pop()
			f.found = true
		} else if !l.held[dst] && l.dead >= len(l.path) {
			l.path = append(l.path, k)
			l.enter(dst)
		}
	}
	return count
}

func (l *lineGraph) enter(b int32) {
	l.held[b] = true
	l.frames = append(l.frames, frame{block: b, next: l.blocks[b].succ})
}

// leave goes back from the last block of the path.
func (l *lineGraph) leave() {
	f := l.frames[len(l.frames)-1]
	l.frames = l.frames[:len(l.frames)-1]
	if f.found {
		l.release(f.block)
	} else {
		for _, k := range l.succs(int(f.block)) {
			if l.usable(k) {
				l.wait(l.arcs[k].dst, f.block)
			}
		}
	}
	if len(l.frames) > 0 {
		l.pop()
		if f.found {
			l.frames[len(l.frames)-1].found = true
		}
	}
}

// wait lets block b go when held does.
func (l *lineGraph) wait(held, b int32) {
	for _, w := range l.waits[held] {
		if w == b {
			return
		}
	}
	l.waits[held] = append(l.waits[held], b)
}

// release lets a block go and all that wait for it.
func (l *lineGraph) release(b int32) {
	l.todo = append(l.todo[:0], b)
	for len(l.todo) > 0 {
		b := l.todo[len(l.todo)-1]
		l.todo = l.todo[:len(l.todo)-1]
		if l.held[b] {
			l.held[b] = false
			l.todo = append(l.todo, l.waits[b]...)
			l.waits[b] = l.waits[b][:0]
		}
	}
}

// take takes the cycle that the path has closed.
func (l *lineGraph) take() int64 {
	least := l.left[l.path[0]]
	for _, k := range l.path {
		least = min(least, l.left[k])
	}
	for i, k := range l.path {
		l.left[k] -= least
		if l.left[k] <= 0 {
			l.dead = min(l.dead, i)
		}
	}
	return least
}

// pop takes the last arc off the path.
func (l *lineGraph) pop() {
	l.path = l.path[:len(l.path)-1]
	if l.dead >= len(l.path) {
		l.dead = math.MaxInt
	}
}

const (
	// spent is what is left of an arc that no further cycle goes along.
	spent = math.MinInt64
	// oldSteps is how many arcs oldCycles follows at most. Gcov took any time.
	oldSteps = 1 << 26
)

// oldCycles adds up cycles as cycles does, but by J. C. Tiernan, An Efficient Search
// Algorithm to Find the Elementary Circuits of a Graph, 1970: from each block in turn along all
// arcs, and each cycle found takes its smallest arc away. ok is false if that takes too long.
func (l *lineGraph) oldCycles(blocks []int32) (count int64, ok bool) {
	steps := oldSteps
	for _, b := range blocks {
		l.first = b
		l.path = l.path[:0]
		l.frames = append(l.frames[:0], frame{block: b, next: l.blocks[b].succ})
		for len(l.frames) > 0 {
			if steps--; steps < 0 {
				return 0, false
			}
			f := &l.frames[len(l.frames)-1]
			if f.next == l.blocks[f.block].succEnd {
				l.back()
				continue
			}
			k := l.lists[f.next]
			f.next++
			dst := l.arcs[k].dst
			switch {
			case l.left[k] == spent || l.on[dst] != l.mark || l.held[dst]:
			case dst == b:
				count += l.cut(k)
			default:
				l.held[dst] = true
				l.path = append(l.path, k)
				l.frames = append(l.frames, frame{block: dst, next: l.blocks[dst].succ})
			}
		}
		l.on[b] = l.mark - 1
	}
	return count, true
}

// back goes back from the last block of the path.
func (l *lineGraph) back() {
	n := len(l.frames) - 1
	if n > 0 {
		l.held[l.frames[n].block] = false
		l.path = l.path[:n-1]
	}
	l.frames = l.frames[:n]
}

// cut takes the cycle that arc k closes, and goes back to where its smallest arc
// begins.
func (l *lineGraph) cut(k int32) int64 {
	smallest := k
	for i := len(l.path) - 1; i >= 0; i-- {
		if l.left[l.path[i]] < l.left[smallest] {
			smallest = l.path[i]
		}
	}
	least := l.left[smallest]
	l.left[k] -= least
	for _, p := range l.path {
		l.left[p] -= least
	}
	l.left[smallest] = spent
	for l.frames[len(l.frames)-1].block != l.arcs[smallest].src {
		l.back()
	}
	return least
}

// entering are the outcomes of the arcs into the blocks.
func (l *lineGraph) entering(blocks []int32) *outcomes {
	o := new(outcomes)
	for _, b := range blocks {
		for _, k := range l.preds(int(b)) {
			a := &l.arcs[k]
			o.add(a.nonReturn, a.unconditional, l.blocks[a.src].count, a.count)
		}
	}
	return o
}
