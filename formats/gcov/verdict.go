package gcov

import "slices"

// This file decides whether a line ran: as the gcov of the compiler's version
// says of one unit, and over all units if it says so of any.
//
// Since GCC 8, gcov attaches a block to the line that it ends on, in each source
// that it names. A line ran if a block that is attached to it did, from whichever function of the
// unit; only where none is attached, blocks that name it in passing decide.
// (The lines of functions that begin together, as instances of a template do, are
// each function's own.) Before GCC 8, and with Clang, all blocks decide that name it.
//
// Most lines need no more than what distinct functions say. For the others see
// dispute.go.

// mentions tells whether all blocks that name a line decide about it.
func (f *unpacked) mentions() bool { return f.clang || !f.version.CountsEntries() }

// attaches tells whether gcov attaches the block to lines at all.
func (f *unpacked) attaches(block uint32) bool { return Attaches(int(block), f.fn.Blocks) }

// contains tells whether a line stands in the function, as far as is known: old notes do not
// tell where it ends.
func (f *unpacked) contains(file int32, line uint32) bool {
	return file == f.file && line >= f.fn.StartLine && (line <= f.fn.EndLine || f.fn.EndLine == 0)
}

// end is the line that the place ends on.
func (f *unpacked) end(p *place) uint32 {
	if p.line == p.last {
		return 0
	}
	return slices.Max(f.lines[p.line:p.last])
}

// verdict adds what a block of the function under way says of the line.
func (l *lineTally) verdict(ends, ran bool) {
	switch {
	case ends:
		l.attached = true
		l.ran = l.ran || ran
		if !l.ends { // what passes here is of no account
			l.ends = true
			l.count -= l.most
			l.most = 0
			if l.passing {
				l.passing = false
				l.passed--
			}
		}
	case ran && !l.ends && !l.passing:
		l.passing = true
		l.passed++
	}
}

// denied tells that gcov says that the line did not run. Blocks on it may have.
func (l *lineTally) denied() bool { return !l.ran && (l.attached || l.passed == 0) }

// blockRan tells whether the block says that the line ran, where counters contradict each other.
func (t *tally) blockRan(at position, block uint32, ends bool) bool {
	switch {
	case t.clang:
		return t.evidence.entered[at]
	case t.mentions():
		return t.flow.Blocks[block].Count > 0
	case ends:
		return t.evidence.entered[at]
	}
	return t.evidence.counts[block] > 0
}

// evidence is what gcov makes of the graph of a function of which the counters
// contradict each other. Else a line was entered if a block on it ran.
type evidence struct {
	graph   LineGraph
	ends    map[position][]int32 // the blocks that end on a line; with Clang, all that are on it
	entered map[position]bool    // they were entered, less what counters lost
	counts  []int64              // of the blocks
}

// note keeps what settle changes.
func (e *evidence) note(f *unpacked, g *Flow) {
	if e.graph.Flow == nil {
		e.graph.Flow, e.ends, e.entered = g, make(map[position][]int32), make(map[position]bool)
	}
	clear(e.ends)
	clear(e.entered)
	e.counts = e.counts[:0]
	for i := range g.Blocks {
		e.counts = append(e.counts, g.Blocks[i].Count)
	}
	for i := range f.places {
		p := &f.places[i]
		switch {
		case f.clang:
			for _, n := range f.lines[p.line:p.last] {
				at := position{p.file, n}
				e.ends[at] = append(e.ends[at], int32(p.block))
			}
		case p.line != p.last && f.attaches(p.block):
			at := position{p.file, f.end(p)}
			e.ends[at] = append(e.ends[at], int32(p.block))
		}
	}
	for at, blocks := range e.ends {
		e.entered[at] = e.graph.Count(blocks) > 0
	}
}

// A position is a line of a source.
type position struct {
	file int32
	line uint32
}
