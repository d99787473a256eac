package listing

import "slices"

// Prime paths are numbered in the order of their blocks, and nothing but these
// numbers is in the files, so every reader must find the paths that gcov finds. Gcov
// does not always find what the definition says: it puts paths together from
// parts, strongly connected component by component (S. Fazli and M. Afsharchi, A
// Time and Space-Efficient Compositional Method for Prime and Test Paths
// Generation, 2019), and drops those that are part of others with a trie. Where
// a function does not end, because of a loop without exit or of a call that does not
// return, parts are missing; and a part stays where the trie stopped looking before it
// came to it. This file takes the same steps in the same order.

// A pathTrie is a set of paths, in the order of their blocks.
type pathTrie struct {
	nodes []pathNode
	first map[int32]int32 // those behind the root, by block
	grown int             // how many insertions added a path
	room  *int            // for how many more nodes there is room, in all tries together
}

// A pathNode is where all paths with the same beginning stand.
type pathNode struct {
	block    int32
	child    int32 // the first of the nodes behind it, which are by ascending block; 0 for none
	sibling  int32 // the next node behind the same one
	inserted bool  // on a path, and not only on what one ends in
	end      bool  // a path ends here
}

// nodeSteps is how many steps a node counts for, because it stays in memory.
const nodeSteps = 8

// A pathFrame is a node on the way, and which of those behind it comes next.
type pathFrame struct{ node, next int32 }

func (w *pathFinder) newTrie() *pathTrie {
	return &pathTrie{nodes: []pathNode{{inserted: true}}, first: make(map[int32]int32), room: &w.budget}
}

// step returns the node behind another one for a block, 0 for none.
func (t *pathTrie) step(node, block int32) int32 {
	if node == 0 {
		return t.first[block]
	}
	for n := t.nodes[node].child; n != 0; n = t.nodes[n].sibling {
		if t.nodes[n].block == block {
			return n
		}
	}
	return 0
}

// append adds a node behind another one.
func (t *pathTrie) append(node, block int32, inserted bool) int32 {
	n := int32(len(t.nodes))
	*t.room -= nodeSteps
	t.nodes = append(t.nodes, pathNode{block: block, inserted: inserted})
	at := &t.nodes[node].child
	for *at != 0 && t.nodes[*at].block < block {
		at = &t.nodes[*at].sibling
	}
	t.nodes[n].sibling, *at = *at, n
	if node == 0 {
		t.first[block] = n
	}
	return n
}

// frame is where a walk enters a node.
func (t *pathTrie) frame(node int32) pathFrame { return pathFrame{node, t.nodes[node].child} }

// insert adds a path, unless all of it stands there already.
func (t *pathTrie) insert(path []int32) bool {
	return t.add(path, true)
}

// insertAll adds a path also where it is the beginning of another one.
func (t *pathTrie) insertAll(path []int32) {
	t.add(path, false)
}

func (t *pathTrie) add(path []int32, single bool) bool {
	node, fresh := int32(0), false
	for _, b := range path {
		t.nodes[node].inserted = true
		next := t.step(node, b)
		if next == 0 {
			if single && !fresh {
				t.nodes[node].end = false
			}
			next, fresh = t.append(node, b, true), true
		}
		node = next
	}
	if fresh {
		t.grown++
	}
	if fresh || !single {
		t.nodes[node].end = true
	}
	return fresh
}

// insertWithEnds adds a path, so that none of its ends counts as one. It stops at an
// end that stands there already.
func (t *pathTrie) insertWithEnds(path []int32) {
	for fresh := t.insert(path); fresh && len(path) > 1 && *t.room > 0; {
		path = path[1:]
		node := int32(0)
		fresh = false
		for _, b := range path {
			if !fresh {
				t.nodes[node].end = false
			}
			next := t.step(node, b)
			if next == 0 {
				next, fresh = t.append(node, b, false), true
			}
			node = next
		}
		if !fresh {
			t.nodes[node].end = false
		}
	}
}

// each calls f with each path. One that others go on from in several ways comes
// several times.
func (t *pathTrie) each(f func(path []int32)) {
	var path []int32
	stack := []pathFrame{t.frame(0)}
	told := false
	for {
		top := &stack[len(stack)-1]
		n := &t.nodes[top.node]
		if n.end && !told && (top.next != 0 || n.child == 0) {
			told = true
			f(path)
			continue
		}
		told = false
		if next := top.next; next != 0 {
			top.next = t.nodes[next].sibling
			if t.nodes[next].inserted {
				path = append(path, t.nodes[next].block)
				stack = append(stack, t.frame(next))
			}
			continue
		}
		if stack = stack[:len(stack)-1]; len(stack) == 0 {
			return
		}
		path = path[:len(path)-1]
	}
}

// eachBefore calls f with the beginnings of paths up to block limit, which is not
// among them. Of the steps behind the one to limit none is taken.
func (t *pathTrie) eachBefore(limit int32, f func(path []int32)) {
	var path []int32
	stack := []pathFrame{t.frame(0)}
	told := false
	for {
		top := &stack[len(stack)-1]
		if next := top.next; next != 0 && !told {
			n := &t.nodes[next]
			top.next = n.sibling
			switch {
			case !n.inserted || n.block == limit && len(path) == 0:
			case n.block == limit:
				told = true
				f(path)
			default:
				path = append(path, n.block)
				stack = append(stack, t.frame(next))
			}
			continue
		}
		told = false
		if stack = stack[:len(stack)-1]; len(stack) == 0 {
			return
		}
		path = path[:len(path)-1]
	}
}

// eachEnd calls f with what paths, and ends of paths, that begin with block go
// on with.
func (t *pathTrie) eachEnd(block int32, f func(path []int32)) {
	first := t.step(0, block)
	if first == 0 {
		return
	}
	var path []int32
	stack := []pathFrame{t.frame(first)}
	for {
		top := &stack[len(stack)-1]
		if next := top.next; next != 0 {
			top.next = t.nodes[next].sibling
			path = append(path, t.nodes[next].block)
			stack = append(stack, t.frame(next))
			continue
		}
		if t.nodes[top.node].child == 0 {
			f(path)
		}
		if stack = stack[:len(stack)-1]; len(stack) == 0 {
			return
		}
		path = path[:len(path)-1]
	}
}

func (t *pathTrie) list() [][]int32 {
	var all [][]int32
	t.each(func(p []int32) { all = append(all, slices.Clone(p)) })
	return all
}

// A pathFinder finds the prime paths of a graph.
type pathFinder struct {
	succs, preds [][]int32
	component    []int32
	members      [][]int32   // of each component, ascending
	inner        [][][]int32 // the prime paths within each component
	through      [][][]int32 // the ways through each component, from where it is entered to where it is left
	budget       int         // how many more steps may be taken, and nodes made
}

// primePaths returns the prime paths as gcov finds them, nil where there are so
// many that it would take more than about budget steps and nodes of tries.
func primePaths(succs [][]int32, budget int) [][]int32 {
	w := &pathFinder{succs: succs, preds: make([][]int32, len(succs)), budget: budget}
	for b := range succs {
		for _, dst := range succs[b] {
			w.preds[dst] = append(w.preds[dst], int32(b))
		}
	}
	w.findComponents()
	entries, exits := w.newTrie(), w.newTrie()
	for c := range w.members {
		t := w.newTrie()
		inside := func(from int32) []int32 { return w.within(from) }
		for _, b := range w.members[c] {
			w.simple(b, inside, t)
		}
		w.inner = append(w.inner, t.list())
		w.through = append(w.through, w.ways(c))
	}
	for b := range succs {
		w.enter(int32(b), entries)
		w.leave(int32(b), exits)
	}
	complete := w.complete()
	leaving := w.continued(exits, complete)
	entering := w.newTrie()
	w.begun(entries, complete, entering)
	w.begun(entries, leaving, entering)
	if w.budget <= 0 {
		return nil
	}
	all := uniteTries(complete, entering, leaving)
	for _, paths := range w.inner {
		for _, p := range paths {
			all.insertWithEnds(p)
		}
	}
	if w.budget <= 0 {
		return nil
	}
	return all.list()
}

// spend takes steps off the budget, and tells whether there is some left.
func (w *pathFinder) spend(steps int) bool {
	w.budget -= steps
	return w.budget > 0
}

// findComponents numbers the strongly connected components, those first that lead to no
// other: first against the arcs, then along them.
func (w *pathFinder) findComponents() {
	n := len(w.succs)
	order := make([]int32, 0, n)
	seen := make([]bool, n)
	back := make([][]int32, n) // the arc that was added last comes first
	for b := range w.preds {
		back[b] = slices.Clone(w.preds[b])
		slices.Reverse(back[b])
	}
	for b := range n {
		depthFirst(int32(b), back, seen, func(b int32) { order = append(order, b) })
	}
	clear(seen)
	w.component = make([]int32, n)
	for _, b := range slices.Backward(order) {
		if seen[b] {
			continue
		}
		c := int32(len(w.members))
		var members []int32
		depthFirst(b, w.succs, seen, func(b int32) {
			w.component[b] = c
			members = append(members, b)
		})
		slices.Sort(members)
		w.members = append(w.members, members)
	}
}

// depthFirst calls f with the blocks that can be reached and were not seen, each
// behind those that can be reached from it.
func depthFirst(from int32, next [][]int32, seen []bool, f func(b int32)) {
	if seen[from] {
		return
	}
	seen[from] = true
	stack := []pathFrame{{node: from}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if int(top.next) == len(next[top.node]) {
			f(top.node)
			stack = stack[:len(stack)-1]
			continue
		}
		b := next[top.node][top.next]
		top.next++
		if !seen[b] {
			seen[b] = true
			stack = append(stack, pathFrame{node: b})
		}
	}
}

// within are the successors of a block in its component.
func (w *pathFinder) within(b int32) []int32 {
	var in []int32
	for _, s := range w.succs[b] {
		if w.component[s] == w.component[b] {
			in = append(in, s)
		}
	}
	return in
}

// simple adds all paths from a node that have no node twice, but for one that
// closes a cycle.
func (w *pathFinder) simple(from int32, succs func(int32) []int32, t *pathTrie) {
	type frame struct {
		succs []int32
		next  int
	}
	path := []int32{from}
	on := map[int32]bool{from: true}
	stack := []frame{{succs: succs(from)}}
	for len(stack) > 0 && w.spend(1) {
		top := &stack[len(stack)-1]
		if top.next == len(top.succs) {
			if len(top.succs) == 0 {
				w.spend(len(path))
				t.insert(path)
			}
			on[path[len(path)-1]] = false
			path = path[:len(path)-1]
			stack = stack[:len(stack)-1]
			continue
		}
		dst := top.succs[top.next]
		top.next++
		switch {
		case !on[dst]:
			on[dst] = true
			path = append(path, dst)
			stack = append(stack, frame{succs: succs(dst)})
		case dst == from:
			w.spend(len(path))
			t.insert(append(path, dst))
		default:
			w.spend(len(path))
			t.insert(path)
		}
	}
}

// isEntry tells whether the component of a block is entered there.
func (w *pathFinder) isEntry(b int32) bool {
	return len(w.preds[b]) == 0 || slices.ContainsFunc(w.preds[b], func(p int32) bool { return w.component[p] != w.component[b] })
}

// isExit tells whether the component of a block is left there.
func (w *pathFinder) isExit(b int32) bool {
	return len(w.succs[b]) == 0 || slices.ContainsFunc(w.succs[b], func(s int32) bool { return w.component[s] != w.component[b] })
}

// ways returns the ways through a component.
func (w *pathFinder) ways(c int) [][]int32 {
	t := w.newTrie()
	for _, entry := range w.members[c] {
		if !w.isEntry(entry) {
			continue
		}
		for _, exit := range w.members[c] {
			switch {
			case !w.isExit(exit):
			case entry == exit:
				t.insertAll([]int32{entry})
			default:
				for _, p := range w.inner[c] {
					if from, to := slices.Index(p, entry), slices.Index(p, exit); from >= 0 && to > from && w.spend(to-from) {
						t.insertAll(p[from : to+1])
					}
				}
			}
		}
	}
	return t.list()
}

func isCycle(p []int32, b int32) bool { return p[0] == b && p[len(p)-1] == b }

// enter adds the paths within a component that begin at block b, where it is
// entered.
func (w *pathFinder) enter(b int32, t *pathTrie) {
	if !w.isEntry(b) {
		return
	}
	for _, p := range w.inner[w.component[b]] {
		if i := slices.Index(p, b); i >= 0 && !isCycle(p, b) && w.spend(len(p)-i) {
			t.insert(p[i:])
		}
	}
}

// leave adds the paths within a component that end at block b, where it is left.
func (w *pathFinder) leave(b int32, t *pathTrie) {
	if !w.isExit(b) {
		return
	}
	longest := w.newTrie()
	for _, p := range w.inner[w.component[b]] {
		if i := slices.Index(p, b); i >= 0 && !isCycle(p, b) && w.spend(i) {
			longest.insertWithEnds(p[:i+1])
		}
	}
	longest.each(t.insertAll)
}

// complete returns the paths through the whole graph.
func (w *pathFinder) complete() *pathTrie {
	next := make([][]int32, len(w.members)) // between components
	entered := make([]bool, len(w.members))
	for b := range w.succs {
		from := w.component[b]
		for _, s := range w.succs[b] {
			if to := w.component[s]; to != from && !slices.Contains(next[from], to) {
				next[from] = append(next[from], to)
				entered[to] = true
			}
		}
	}
	chains, all := w.newTrie(), w.newTrie()
	for c := range next {
		if !entered[c] {
			w.simple(int32(c), func(c int32) []int32 { return next[c] }, chains)
		}
	}
	chains.each(func(chain []int32) { w.extend(chain, nil, all) })
	return all
}

// extend goes on with a path through a chain of components.
func (w *pathFinder) extend(chain, path []int32, t *pathTrie) {
	if len(chain) == 0 {
		t.insertWithEnds(path)
		return
	}
	for _, way := range w.through[chain[0]] {
		if (len(path) == 0 || slices.Contains(w.succs[path[len(path)-1]], way[0])) && w.spend(len(path)+len(way)) {
			w.extend(chain[1:], append(path, way...), t)
		}
	}
}

// continued goes on from where components are left as complete paths do.
func (w *pathFinder) continued(exits, complete *pathTrie) *pathTrie {
	t := w.newTrie()
	exits.each(func(head []int32) {
		last := head[len(head)-1]
		complete.eachEnd(last, func(rest []int32) {
			if len(rest) > 0 && w.component[rest[0]] != w.component[last] && w.spend(len(head)+len(rest)) {
				t.insert(slices.Concat(head, rest))
			}
		})
	})
	return t
}

// begun adds the paths that come into components as the given ones do, and end
// there.
func (w *pathFinder) begun(entries, paths, t *pathTrie) {
	entries.each(func(tail []int32) {
		first := tail[0]
		paths.eachBefore(first, func(head []int32) {
			last := head[len(head)-1]
			if w.component[last] != w.component[first] && slices.Contains(w.succs[last], first) && w.spend(len(head)+len(tail)) {
				t.insertWithEnds(slices.Concat(head, tail))
			}
		})
	})
}

// uniteTries adds the smaller sets to the largest one.
func uniteTries(complete, entering, leaving *pathTrie) *pathTrie {
	to, others := leaving, []*pathTrie{complete, entering}
	a, b, c := complete.grown, entering.grown, leaving.grown
	switch {
	case a >= b && a >= c:
		to, others = complete, []*pathTrie{entering, leaving}
	case b >= a && b >= c:
		to, others = entering, []*pathTrie{complete, leaving}
	}
	for _, o := range others {
		o.each(to.insertWithEnds)
	}
	return to
}
