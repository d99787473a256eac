package listing

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"footfall/formats/gcov"
)

// A pathCoverage tells which prime paths of a function were taken. A prime path
// is a path without a block twice, or a cycle, that is part of no longer one.
type pathCoverage struct {
	total, covered int
	taken          []uint64 // a bit for each
	paths          []int32  // the blocks of one behind the other
	ends           []int32  // of each in paths
	exit           int32
	succs          [][]pathArc
	blocks         []pathBlock
}

// pathSteps is how many steps finding the paths of a function may take, whose notes tell how many
// paths there are about. The default of -fpath-coverage-limit is 250,000.
func pathSteps(paths uint32) int { return 1<<20 + 1<<10*int(min(paths, 1<<18)) }

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
func newPathCoverage(g *gcov.Flow, source int32, taken []uint64, s *sharer, find bool) *pathCoverage {
	p := &pathCoverage{taken: taken, exit: int32(g.Exit)}
	for _, w := range taken {
		p.covered += bits.OnesCount64(w)
	}
	if !find {
		return p
	}
	p.succs = make([][]pathArc, len(g.Blocks))
	for b := range g.Blocks {
		for _, k := range g.Succs(b) {
			a := &g.Arcs[k]
			if list := p.succs[b]; !a.Fake() && (len(list) == 0 || list[len(list)-1].dst != a.Dst) {
				p.succs[b] = append(list, pathArc{a.Dst, a.Flags, a.Throw})
			}
		}
	}
	p.blocks = make([]pathBlock, len(g.Blocks))
	for i := range g.Fn.Locations {
		l := &g.Fn.Locations[i]
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
	if g.Fn.Paths > 0 {
		p.find(g.Fn.Paths)
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

// each calls f with each path in order.
func (p *pathCoverage) each(f func(n int, path []int32)) {
	from := int32(0)
	for n, end := range p.ends {
		f(n, p.paths[from:end])
		from = end
	}
}

// find finds all paths of the graph, about as many as the notes say, without its entry and exit blocks.
func (p *pathCoverage) find(paths uint32) {
	succs := make([][]int32, len(p.succs))
	for b, arcs := range p.succs {
		for _, a := range arcs {
			succs[b] = append(succs[b], a.dst)
		}
	}
	into := make([]bool, len(succs))
	for b := range succs {
		for _, dst := range succs[b] {
			into[dst] = true
		}
	}
	for _, path := range primePaths(succs, pathSteps(paths)) {
		if b := path[0]; len(path) == 1 && len(succs[b]) == 0 && !into[b] {
			continue // setjmp, for one
		}
		if path[0] == 0 {
			path = path[1:]
		}
		if len(path) > 0 && path[len(path)-1] == p.exit {
			path = path[:len(path)-1]
		}
		if len(path) > 0 {
			p.paths = append(p.paths, path...)
			p.ends = append(p.ends, int32(len(p.paths)))
		}
	}
	p.total = len(p.ends)
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
	case a.flags&gcov.ArcTrue != 0:
		return "(true)"
	case a.flags&gcov.ArcFalse != 0:
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
	c.each(func(n int, path []int32) {
		if covered := c.is(n); p.pathLines.has(covered) {
			p.pathByLines(f, n, path, covered)
		}
	})
	c.each(func(n int, path []int32) {
		if covered := c.is(n); p.pathSource.has(covered) {
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
		b, err := gcov.ReadSourceFile(p.owners, src.name)
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
