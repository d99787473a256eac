package gcov

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
)

// A pathCoverage tells which prime paths of a function were taken. A prime path
// is a path without a block twice, or a cycle, that is part of no longer one.
// They are numbered in the order of their blocks; notes and data have only how
// many there are and a bit for each, so every reader must find the same ones.
type pathCoverage struct {
	total, covered int
	taken          []uint64 // a bit for each
	exit           int32
	succs          [][]pathArc
	blocks         []pathBlock
}

// A pathArc leads to a block.
type pathArc struct {
	dst   int32
	flags uint32
	throw bool
}

// A pathBlock has the lines of a block.
type pathBlock struct{ locations []pathLocation }

type pathLocation struct {
	block  int32
	source int32
	lines  []uint32
}

// newPathCoverage counts the paths that were taken in a solved graph, and keeps
// what is needed to find all paths.
func newPathCoverage(g *flow, source int32, taken []uint64, s *sharer, find bool) *pathCoverage {
	p := &pathCoverage{taken: taken, exit: int32(g.exit)}
	for _, w := range taken {
		p.covered += bits.OnesCount64(w)
	}
	if !find {
		return p
	}
	p.total = int(g.fn.Paths)
	p.succs = make([][]pathArc, len(g.blocks))
	for b := range g.blocks {
		for _, k := range g.succs(b) {
			a := &g.arcs[k]
			if list := p.succs[b]; !a.fake() && (len(list) == 0 || list[len(list)-1].dst != a.dst) {
				p.succs[b] = append(list, pathArc{a.dst, a.flags, a.throw})
			}
		}
	}
	p.blocks = make([]pathBlock, len(g.blocks))
	for i := range g.fn.Locations {
		l := &g.fn.Locations[i]
		if len(l.Lines) == 0 {
			continue
		}
		b := &p.blocks[l.Block]
		at := source
		if l.Source != "" {
			at = s.source(l.Source)
		}
		b.locations = append(b.locations, pathLocation{int32(l.Block), at, slices.Clone(l.Lines)})
	}
	return p
}

// number replaces the operand's numbers of sources by those of the listing.
func (p *pathCoverage) number(ids []int32) {
	if p == nil {
		return
	}
	for b := range p.blocks {
		for i := range p.blocks[b].locations {
			l := &p.blocks[b].locations[i]
			l.source = ids[l.source]
		}
	}
}

// is tells whether path number n was taken.
func (p *pathCoverage) is(n int) bool {
	return n/64 < len(p.taken) && p.taken[n/64]>>(n%64)&1 != 0
}

// each calls f with each path in order, until there are as many as the notes
// say.
func (p *pathCoverage) each(f func(n int, path []int32)) {
	w := pathWalk{pathCoverage: p, on: make([]bool, len(p.blocks)), preds: make([][]int32, len(p.blocks)), report: f}
	for b := range p.succs {
		for _, a := range p.succs[b] {
			w.preds[a.dst] = append(w.preds[a.dst], int32(b))
		}
	}
	for b := range p.blocks {
		if w.n < p.total {
			w.from(int32(b))
		}
	}
}

// A pathWalk looks for prime paths depth first. Every path that cannot be
// continued is the end of a prime path, so that there are not many more.
type pathWalk struct {
	*pathCoverage
	on     []bool // for each block: it is on the path
	preds  [][]int32
	path   []int32
	next   []int // for each block of the path: the arc to follow next
	open   []bool
	n      int
	report func(n int, path []int32)
}

// from finds the prime paths that begin with a block.
func (w *pathWalk) from(first int32) {
	w.push(first)
	for len(w.path) > 0 && w.n < w.total {
		top := len(w.path) - 1
		b := w.path[top]
		if w.next[top] == len(w.succs[b]) {
			if !w.open[top] && !w.precedes(first, b) {
				w.found(w.path)
			}
			w.pop()
			continue
		}
		dst := w.succs[b][w.next[top]].dst
		w.next[top]++
		switch {
		case dst == first:
			w.open[top] = true
			w.found(append(w.path, first))
		case !w.on[dst]:
			w.open[top] = true
			w.push(dst)
		}
	}
	for len(w.path) > 0 {
		w.pop()
	}
}

func (w *pathWalk) push(b int32) {
	w.on[b] = true
	w.path = append(w.path, b)
	w.next = append(w.next, 0)
	w.open = append(w.open, false)
}

func (w *pathWalk) pop() {
	top := len(w.path) - 1
	w.on[w.path[top]] = false
	w.path, w.next, w.open = w.path[:top], w.next[:top], w.open[:top]
}

// precedes tells whether the path could begin before its first block.
func (w *pathWalk) precedes(first, last int32) bool {
	for _, u := range w.preds[first] {
		if !w.on[u] || u == last {
			return true
		}
	}
	return false
}

// found reports a path without the entry and exit blocks.
func (w *pathWalk) found(path []int32) {
	if len(path) < 2 {
		return // a block that nothing leads to
	}
	if path[0] == 0 {
		path = path[1:]
	}
	if len(path) > 0 && path[len(path)-1] == w.exit {
		path = path[:len(path)-1]
	}
	if len(path) > 0 {
		w.report(w.n, path)
		w.n++
	}
}

// arc returns the arc between two blocks of a path.
func (p *pathCoverage) arc(src, dst int32) pathArc {
	for _, a := range p.succs[src] {
		if a.dst == dst {
			return a
		}
	}
	return pathArc{}
}

// kind is how the arc is shown in text.
func (a pathArc) kind() string {
	switch {
	case a.flags&ArcTrue != 0:
		return "(true)"
	case a.flags&ArcFalse != 0:
		return "(false)"
	case a.throw:
		return "(throw)"
	}
	return ""
}

// printPaths prints how many paths of a function are covered, and those that
// are asked for.
func (p *printer) printPaths(f *listFunction) {
	c := f.paths
	if c == nil || c.total == 0 {
		p.text("path coverage omitted\n")
		return
	}
	p.text("paths covered ", strconv.Itoa(c.covered), " of ", strconv.Itoa(c.total), "\n")
	if (p.pathLines == pathChoice{} && p.pathSource == pathChoice{}) {
		return
	}
	c.each(func(n int, path []int32) {
		covered := c.is(n)
		if p.pathLines.has(covered) {
			p.pathByLines(f, n, path, covered)
		}
		if p.pathSource.has(covered) {
			p.pathBySource(n, path, f, covered)
		}
	})
}

func (c pathChoice) has(covered bool) bool {
	if covered {
		return c.covered
	}
	return c.uncovered
}

func pathTitle(n int, covered bool) string {
	if covered {
		return fmt.Sprintf("path %d covered:", n)
	}
	return fmt.Sprintf("path %d not covered:", n)
}

// pathByLines prints the last line of each location on a path.
func (p *printer) pathByLines(f *listFunction, n int, path []int32, covered bool) {
	p.text(pathTitle(n, covered), " lines")
	p.eachLocation(f, path, func(l *pathLocation, kind string) {
		p.text(" ")
		if l.source != f.source {
			p.text(p.sources[l.source].shown, ":")
		}
		p.text(strconv.Itoa(int(l.lines[len(l.lines)-1])), kind)
	})
	p.text("\n")
}

// eachLocation calls show with the locations on a path, and how the
// path goes on behind their block.
func (p *printer) eachLocation(f *listFunction, path []int32, show func(l *pathLocation, kind string)) {
	for i, b := range path {
		kind := ""
		if i+1 < len(path) {
			kind = f.paths.arc(b, path[i+1]).kind()
		}
		locations := f.paths.blocks[b].locations
		for k := range locations {
			show(&locations[k], kind)
		}
	}
}

// pathBySource prints the source lines on a path. Those of other files are set
// apart.
func (p *printer) pathBySource(n int, path []int32, f *listFunction, covered bool) {
	p.text(pathTitle(n, covered), "\n")
	source := f.source
	p.eachLocation(f, path, func(l *pathLocation, kind string) {
		switch {
		case l.source == source:
		case l.source == f.source:
			p.text(separator)
		default:
			p.text("== inlined from ", p.sources[l.source].shown, " ==\n")
		}
		source = l.source
		lines := p.linesOf(source)
		for j, line := range l.lines {
			k := ""
			if j == len(l.lines)-1 {
				k = kind
			}
			p.out = fmt.Appendf(p.out, "BB %2d: %-7s %3d:", l.block, k, line)
			if int(line) <= len(lines) {
				p.out = append(p.out, lines[line-1]...)
			}
			p.out = append(p.out, '\n')
		}
	})
	p.text("\n")
}

// linesOf returns the lines of a source, this one or another.
func (p *printer) linesOf(source int32) [][]byte {
	src := p.sources[source]
	if src == p.src {
		return p.lines
	}
	lines, ok := p.others[src]
	if !ok {
		b, err := readSourceFile(src.name)
		if err != nil {
			p.errors = append(p.errors, "Cannot open source file "+src.name+"\n"...)
			return nil
		}
		if p.others == nil {
			p.others = make(map[*listSource][][]byte)
		}
		lines = splitLines(b)
		p.others[src] = lines
	}
	return lines
}
