package legacy

import "footfall/formats/gcov"

// A legacyFlow is a solved graph: the counts of its arcs and blocks.
type legacyFlow struct {
	*gcov.LegacyGraph
	arcs   []int64 // as Arcs
	blocks []int64
	out    [][]int32 // indices of arcs by block
	solved bool      // false: some counts could not be found, and are 0
}

// solveGraph finds the counts of all arcs and blocks from those of the counted arcs.
// The arc from the exit to the entry makes every block one into which flows as
// much as out of it. In graphs that were not torn the order does not matter;
// this is that of gcov.
func solveGraph(g *gcov.LegacyGraph, values []int64) *legacyFlow {
	f := &legacyFlow{LegacyGraph: g, arcs: make([]int64, len(g.Arcs)), blocks: make([]int64, g.Blocks), out: make([][]int32, g.Blocks), solved: true}
	known := make([]bool, len(g.Arcs))
	in := make([][]int32, g.Blocks)
	openOut, openIn := make([]int, g.Blocks), make([]int, g.Blocks)
	for i, a := range g.Arcs {
		f.out[a.Src] = append(f.out[a.Src], int32(i))
		in[a.Dst] = append(in[a.Dst], int32(i))
		if a.Flags&gcov.ArcTree != 0 {
			openOut[a.Src]++
			openIn[a.Dst]++
			continue
		}
		known[i] = true
		if len(values) > 0 {
			f.arcs[i], values = values[0], values[1:]
		}
	}
	sum := func(list []int32) (total int64) {
		for _, i := range list {
			total += f.arcs[i]
		}
		return total
	}
	// settle gives the only unknown arc of a side what is left.
	settle := func(block int, list []int32) {
		left := f.blocks[block] - sum(list)
		for _, i := range list {
			if !known[i] {
				known[i] = true
				f.arcs[i] = left
				openOut[g.Arcs[i].Src]--
				openIn[g.Arcs[i].Dst]--
				return
			}
		}
	}
	done := make([]bool, g.Blocks)
	for changed := true; changed; {
		changed = false
		for b := g.Blocks - 1; b >= 0; b-- {
			if !done[b] && (openOut[b] == 0 || openIn[b] == 0) {
				if openOut[b] == 0 {
					f.blocks[b] = sum(f.out[b])
				} else {
					f.blocks[b] = sum(in[b])
				}
				done[b], changed = true, true
			}
			if done[b] && openOut[b] == 1 {
				settle(b, f.out[b])
				changed = true
			}
			if done[b] && openIn[b] == 1 {
				settle(b, in[b])
				changed = true
			}
		}
	}
	for b := range done {
		if openOut[b] != 0 || openIn[b] != 0 {
			f.solved = false
		}
	}
	return f
}
