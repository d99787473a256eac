package gcov

import (
	"math/rand/v2"
	"testing"
)

// A random graph is walked many times; the arcs off a spanning tree keep their
// counts, and solving must bring back all others.
func TestSolveRandomGraphs(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fn, want := walkedGraph(rng)
		var counters []int64
		for i, a := range fn.Arcs {
			if a.Flags&ArcTree == 0 {
				counters = append(counters, want[i])
			}
		}
		var g Flow
		g.Build(fn, MakeVersion(12, 2))
		if !g.Solve(counters) {
			t.Errorf("seed %d: possible counts called impossible", seed)
		}
		for i := range g.Arcs {
			if g.Arcs[i].Count != want[i] {
				t.Fatalf("seed %d: arc %d -> %d: count %d, walked %d times", seed, g.Arcs[i].Src, g.Arcs[i].Dst, g.Arcs[i].Count, want[i])
			}
		}
	}
}

// walkedGraph makes a graph from which every walk reaches the exit, and the
// number of times that each arc was walked.
func walkedGraph(rng *rand.Rand) (*FunctionGraph, []int64) {
	blocks := 3 + rng.IntN(40)
	fn := &FunctionGraph{Blocks: blocks, hasBlocks: true}
	first := make([]int, blocks+1)
	for b := range blocks {
		first[b] = len(fn.Arcs)
		if b == 1 { // the exit
			continue
		}
		forward := 1
		if b+1 < blocks {
			forward = b + 1
			if b == 0 {
				forward = 2
			}
		}
		seen := map[int]bool{forward: true}
		fn.Arcs = append(fn.Arcs, Arc{uint32(b), uint32(forward), 0})
		for range rng.IntN(3) {
			dst := 1 + rng.IntN(blocks-1)
			if b != 0 && !seen[dst] {
				seen[dst] = true
				fn.Arcs = append(fn.Arcs, Arc{uint32(b), uint32(dst), 0})
			}
		}
	}
	first[blocks] = len(fn.Arcs)
	counts := make([]int64, len(fn.Arcs))
	for range 1 + rng.IntN(50) {
		for at, step := 0, 0; at != 1; step++ {
			k := first[at]
			if step < 1000 {
				k += rng.IntN(first[at+1] - first[at])
			}
			counts[k]++
			at = int(fn.Arcs[k].Dst)
		}
	}
	spanTree(rng, fn)
	return fn, counts
}

// spanTree puts a random spanning tree on the arcs, of which the compiler's arc
// from the exit back to the entry is always one.
func spanTree(rng *rand.Rand, fn *FunctionGraph) {
	parent := make([]int, fn.Blocks)
	for i := range parent {
		parent[i] = i
	}
	var find func(int) int
	find = func(i int) int {
		if parent[i] != i {
			parent[i] = find(parent[i])
		}
		return parent[i]
	}
	parent[1] = 0
	for _, i := range rng.Perm(len(fn.Arcs)) {
		a := &fn.Arcs[i]
		if x, y := find(int(a.Src)), find(int(a.Dst)); x != y {
			parent[x] = y
			a.Flags |= ArcTree
		}
	}
}

func TestSolveTornCounters(t *testing.T) {
	// entry 0 -> 2 -> 3 -> exit 1, and 2 -> exit: the tree arc 2 -> exit gets
	// what is left, less than nothing when a thread lost a count of 0 -> 2.
	fn := &FunctionGraph{Blocks: 4, Arcs: []Arc{{0, 2, 0}, {2, 1, ArcTree}, {2, 3, 0}, {3, 1, ArcTree}}}
	var g Flow
	g.Build(fn, MakeVersion(12, 2))
	if g.Solve([]int64{5, 7}) {
		t.Error("solve: impossible counts not noticed")
	}
	if got := g.Arcs[1].Count; got != -2 {
		t.Errorf("arc 2 -> 1: count %d, want -2 as gcov has it", got)
	}
	g.settle()
	if got := g.Blocks[2].Count; got != 7 {
		t.Errorf("block 2: count %d when settled, want the 7 that went on to block 3", got)
	}
	if got := g.Arcs[1].Count; got != 0 {
		t.Errorf("arc 2 -> 1: count %d when settled, want 0", got)
	}
}

func TestSolveCallsAndExceptions(t *testing.T) {
	// 2 calls: falls through to 3, may not return (fake arc), or throws to 4.
	fn := &FunctionGraph{Blocks: 5, Arcs: []Arc{
		{0, 2, ArcFallthrough}, {2, 1, ArcFake | ArcTree}, {2, 3, ArcFallthrough}, {2, 4, 0}, {3, 1, ArcTree}, {4, 1, ArcTree},
	}}
	var g Flow
	g.Build(fn, MakeVersion(12, 2))
	g.Solve([]int64{9, 6, 2})
	if !g.Blocks[2].callSite || !g.Arcs[1].NonReturn || !g.Arcs[3].Throw {
		t.Errorf("call not recognised: %+v", g.Arcs)
	}
	if g.Arcs[1].Count != 1 {
		t.Errorf("calls that did not return: %d, want 1", g.Arcs[1].Count)
	}
	for b, want := range []bool{false, true, false, false, true} {
		if b != 1 && g.Blocks[b].Exceptional != want {
			t.Errorf("block %d: exceptional %v", b, g.Blocks[b].Exceptional)
		}
	}
}
