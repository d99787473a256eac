package gcov

import "math"

// A LineGraph is the part of a flow graph that stands on one source line: the
// blocks attached to it. Its count is how often control entered the line, plus
// how often it went round within the line.
type LineGraph struct {
	*Flow
	Old    bool    // cycles are those that gcov finds before GCC 8
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

// Count returns the count of the line whose attached blocks are given, in
// order and possibly more than once.
func (l *LineGraph) Count(blocks []int32) int64 {
	if len(l.on) < len(l.Blocks) {
		l.on = make([]int32, len(l.Blocks)+len(l.Blocks)/2)
		l.mark = 0
	}
	l.mark++
	for _, b := range blocks {
		l.on[b] = l.mark
	}
	var count int64
	back := false // some arc could close a cycle
	for _, b := range blocks {
		for _, k := range l.Preds(int(b)) {
			a := &l.Arcs[k]
			if l.on[a.Src] != l.mark {
				count += a.Count
			} else if a.Src >= a.Dst && a.Count > 0 {
				back = true
			}
		}
	}
	if !back {
		return count
	}
	l.begin(blocks)
	if l.Old {
		if n, ok := l.oldCycles(blocks); ok {
			return count + n
		}
		l.begin(blocks)
	}
	return count + l.cycles(blocks)
}

// begin lets all arcs of the blocks have their counts.
func (l *LineGraph) begin(blocks []int32) {
	if len(l.left) < len(l.Arcs) {
		l.left = make([]int64, len(l.Arcs)+len(l.Arcs)/2)
	}
	if len(l.held) < len(l.Blocks) {
		l.held = make([]bool, len(l.Blocks)+len(l.Blocks)/2)
		l.waits = make([][]int32, len(l.held))
	}
	for _, b := range blocks {
		l.on[b] = l.mark
		l.held[b] = false
		for _, k := range l.Succs(int(b)) {
			l.left[k] = l.Arcs[k].Count
		}
	}
}

// cycles adds up the elementary cycles among the blocks, in the order in which
// gcov finds them (K. A. Hawick and H. A. James, Enumerating Circuits and Loops
// in Graphs with Self-Arcs and Multiple-Arcs, 2008): each takes the smallest
// remaining count of its arcs off all of them.
func (l *LineGraph) cycles(blocks []int32) int64 {
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
func (l *LineGraph) usable(k int32) bool {
	a := &l.Arcs[k]
	return a.Dst >= l.first && l.left[k] > 0 && l.on[a.Dst] == l.mark
}

// search finds the cycles through l.first and blocks behind it, depth first.
// It keeps its own stack, for a line can have very many blocks.
func (l *LineGraph) search() (count int64) {
	l.path = l.path[:0]
	l.frames = l.frames[:0]
	l.dead = math.MaxInt
	l.enter(l.first)
	for len(l.frames) > 0 {
		f := &l.frames[len(l.frames)-1]
		if f.next == l.Blocks[f.block].SuccEnd {
			l.leave()
			continue
		}
		k := l.lists[f.next]
		f.next++
		if !l.usable(k) {
			continue
		}
		dst := l.Arcs[k].Dst
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

func (l *LineGraph) enter(b int32) {
	l.held[b] = true
	l.frames = append(l.frames, frame{block: b, next: l.Blocks[b].Succ})
}

// leave goes back from the last block of the path.
func (l *LineGraph) leave() {
	f := l.frames[len(l.frames)-1]
	l.frames = l.frames[:len(l.frames)-1]
	if f.found {
		l.release(f.block)
	} else {
		for _, k := range l.Succs(int(f.block)) {
			if l.usable(k) {
				l.wait(l.Arcs[k].Dst, f.block)
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
func (l *LineGraph) wait(held, b int32) {
	for _, w := range l.waits[held] {
		if w == b {
			return
		}
	}
	l.waits[held] = append(l.waits[held], b)
}

// release lets a block go and all that wait for it.
func (l *LineGraph) release(b int32) {
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
func (l *LineGraph) take() int64 {
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
func (l *LineGraph) pop() {
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
func (l *LineGraph) oldCycles(blocks []int32) (count int64, ok bool) {
	steps := oldSteps
	for _, b := range blocks {
		l.first = b
		l.path = l.path[:0]
		l.frames = append(l.frames[:0], frame{block: b, next: l.Blocks[b].Succ})
		for len(l.frames) > 0 {
			if steps--; steps < 0 {
				return 0, false
			}
			f := &l.frames[len(l.frames)-1]
			if f.next == l.Blocks[f.block].SuccEnd {
				l.back()
				continue
			}
			k := l.lists[f.next]
			f.next++
			dst := l.Arcs[k].Dst
			switch {
			case l.left[k] == spent || l.on[dst] != l.mark || l.held[dst]:
			case dst == b:
				count += l.cut(k)
			default:
				l.held[dst] = true
				l.path = append(l.path, k)
				l.frames = append(l.frames, frame{block: dst, next: l.Blocks[dst].Succ})
			}
		}
		l.on[b] = l.mark - 1
	}
	return count, true
}

// back goes back from the last block of the path.
func (l *LineGraph) back() {
	n := len(l.frames) - 1
	if n > 0 {
		l.held[l.frames[n].block] = false
		l.path = l.path[:n-1]
	}
	l.frames = l.frames[:n]
}

// cut takes the cycle that arc k closes, and goes back to where its smallest arc
// begins.
func (l *LineGraph) cut(k int32) int64 {
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
	for l.frames[len(l.frames)-1].block != l.Arcs[smallest].Src {
		l.back()
	}
	return least
}

// Entering are the outcomes of the arcs into the blocks.
func (l *LineGraph) Entering(blocks []int32) *Outcomes {
	o := new(Outcomes)
	for _, b := range blocks {
		for _, k := range l.Preds(int(b)) {
			a := &l.Arcs[k]
			o.Add(a.NonReturn, a.Unconditional, l.Blocks[a.Src].Count, a.Count)
		}
	}
	return o
}

// Outcomes count branches and calls.
type Outcomes struct {
	Branches, Executed, Taken int
	Calls, CallsExecuted      int
}

// Add counts an arc that leaves a block with the count total.
func (o *Outcomes) Add(call, unconditional bool, total, count int64) {
	switch {
	case call:
		o.Calls++
		if total != 0 {
			o.CallsExecuted++
		}
	case !unconditional:
		o.Branches++
		if total != 0 {
			o.Executed++
		}
		if count != 0 {
			o.Taken++
		}
	}
}

func (o *Outcomes) Sum(p *Outcomes) {
	o.Branches += p.Branches
	o.Executed += p.Executed
	o.Taken += p.Taken
	o.Calls += p.Calls
	o.CallsExecuted += p.CallsExecuted
}

// Attaches tells whether gcov attaches a block, of so many, to a line: not the entry, nor the
// last one, the exit until GCC 4.7.
func Attaches(block, blocks int) bool { return block != 0 && block != blocks-1 }
