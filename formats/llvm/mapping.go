package llvm

import (
	"fmt"
	"slices"

	"footfall/formats/cursor"
)

// A RegionKind is what a region is.
type RegionKind uint8

// The kinds, in the order in which they are preferred where two cover the same.
const (
	Code RegionKind = iota
	Expansion
	Skipped
	Gap
	Branch
	Decision
	Condition // a branch that is part of a decision
)

// A counter is how a count is computed: its low 2 bits tell the kind, the others which.
type counter uint64

const (
	zeroCounter = iota
	countCounter
	differenceCounter // left minus right of an expression
	sumCounter
)

func (c counter) kind() int    { return int(c & 3) }
func (c counter) index() int   { return int(min(c>>2, 1<<31)) }
func (c counter) isZero() bool { return c.kind() == zeroCounter }

// An expression is two counters that are added or subtracted.
type expression struct{ left, right counter }

// A place is a line and column, from 1.
type place struct{ line, column uint32 }

func (p place) less(o place) bool {
	return p.line < o.line || p.line == o.line && p.column < o.column
}

// A region is a part of a source, and how often it ran.
type region struct {
	kind           RegionKind
	file, expanded int // indices of files of the function; expanded of an Expansion
	start, end     place
	count, other   counter // other is that of the false way of a branch
	// Of a Condition: numbers within its decision, -1: that way it ends.
	id, ifTrue, ifFalse int
	// Of a Decision.
	bitmap, conditions int
}

// A mapping is what the regions of a function are, and how their counts are computed.
type mapping struct {
	files       []int // of the unit
	expressions []expression
	regions     []region
}

// The numbers that begin a region.
const (
	expansionBit  = 1 << 2
	codeNeverRun  = 0
	skippedCode   = 2
	branchCode    = 4
	decisionCode  = 5
	conditionCode = 6
	gapBit        = 1 << 31
)

// fileIndices reads which files of the unit are those of a function.
func (d *reader) fileIndices(files []int, u *unit) []int {
	for range d.Count("files", 1) {
		i := d.Uleb()
		if i >= uint64(len(u.files)) {
			d.Fail("file %d of %d", i, len(u.files))
		}
		if d.Err != nil {
			return nil
		}
		files = append(files, int(i))
	}
	return files
}

// decode reads the mapping of a function:
//
//	number of files ULEB, which of the unit's; number of expressions, two counters each
//	for each file: number of regions, regions
func (r *Record) decode() (*mapping, error) {
	m := new(mapping)
	return m, r.decodeInto(m)
}

// decodeInto decodes into a mapping that was used before, whose room is used again.
func (r *Record) decodeInto(m *mapping) error {
	d := &reader{cursor.Reader{B: r.mapping}}
	m.files, m.regions = d.fileIndices(m.files[:0], r.unit), m.regions[:0]
	n := d.Count("expressions", 2)
	m.expressions = slices.Grow(m.expressions[:0], int(n))
	for range n {
		m.expressions = append(m.expressions, expression{counter(d.Uleb()), counter(d.Uleb())})
	}
	for file := range m.files {
		d.regions(m, file)
	}
	if d.Err != nil {
		return d.Err
	}
	m.countExpansions()
	return nil
}

// Limits of what is believed: lines of a file, and of a region, each of which becomes a line of the report.
const (
	mostLines       = 1 << 24
	mostRegionLines = 1 << 17
)

func (d *reader) regions(m *mapping, file int) {
	line := uint64(0)
	n := d.Count("regions", 5)
	m.regions = slices.Grow(m.regions, int(n))
	for range n {
		g := region{file: file}
		d.regionHead(&g, len(m.files))
		line += d.Uleb()
		column, lines, end := d.Uleb(), d.Uleb(), d.Uleb()
		if d.Err == nil && (line > mostLines || lines > mostRegionLines || column > 1<<32-1 || end > 1<<32-1) {
			d.Fail("a region at line %d of %d lines", line, lines)
		}
		if d.Err != nil {
			return
		}
		if end&gapBit != 0 {
			g.kind = Gap
			end &^= gapBit
		}
		if column == 0 && end == 0 { // whole lines
			column, end = 1, 1<<32-1
		}
		g.start, g.end = place{uint32(line), uint32(column)}, place{uint32(line + lines), uint32(end)}
		m.regions = append(m.regions, g)
	}
}

// regionHead reads what a region is, and its counters.
func (d *reader) regionHead(g *region, files int) {
	first := d.Uleb()
	if first&3 != 0 {
		g.count = counter(first)
		return
	}
	if first&expansionBit != 0 {
		g.kind, g.expanded = Expansion, int(min(first>>3, 1<<30))
		if g.expanded >= files {
			d.Fail("an expansion of file %d of %d", g.expanded, files)
		}
		return
	}
	small := func(what string) int {
		n := d.Uleb()
		if n > 1<<31 {
			d.Fail("%s %d", what, n)
		}
		return int(n)
	}
	switch first >> 3 {
	case codeNeverRun:
	case skippedCode:
		g.kind = Skipped
	case branchCode:
		g.kind, g.count, g.other = Branch, counter(d.Uleb()), counter(d.Uleb())
	case decisionCode:
		g.kind, g.bitmap, g.conditions = Decision, small("bitmap"), small("conditions")
	case conditionCode:
		g.kind, g.count, g.other = Condition, counter(d.Uleb()), counter(d.Uleb())
		g.id, g.ifTrue, g.ifFalse = small("condition")-1, small("condition")-1, small("condition")-1
	default:
		d.Fail("a region of kind %d: known are 0, 2, 4, 5 and 6", first>>3)
	}
}

// countExpansions gives expansions the counter of the first region of their file, of expansions in these too.
func (m *mapping) countExpansions() {
	if !slices.ContainsFunc(m.regions, func(g region) bool { return g.kind == Expansion }) {
		return
	}
	first := make([]int, len(m.files)) // index of the region + 1
	for i, g := range m.regions {
		if first[g.file] == 0 {
			first[g.file] = i + 1
		}
	}
	const (
		open = iota
		visited
		done
	)
	state := make([]uint8, len(m.regions))
	var chain []int
	for i := range m.regions {
		at := i
		for m.regions[at].kind == Expansion && state[at] == open {
			state[at] = visited
			chain = append(chain, at)
			next := first[m.regions[at].expanded]
			if next == 0 {
				break
			}
			at = next - 1
		}
		for ; len(chain) > 0; chain = chain[:len(chain)-1] {
			g := &m.regions[chain[len(chain)-1]]
			if next := first[g.expanded]; next > 0 {
				g.count = m.regions[next-1].count
			}
			state[chain[len(chain)-1]] = done
		}
	}
}

// An evaluation computes counts of one function.
type evaluation struct {
	expressions []expression
	counts      []uint64
	known       []int64
	state       []uint8 // of expressions: open, being computed, known
	stack       []counter
}

// begin has it compute counts of a function, in the room of the one before.
func (e *evaluation) begin(expressions []expression, counts []uint64) {
	n := len(expressions)
	e.expressions, e.counts = expressions, counts
	e.state, e.known = slices.Grow(e.state[:0], n)[:n], slices.Grow(e.known[:0], n)[:n]
	clear(e.state)
}

const (
	unknownExpression = iota
	openExpression
	knownExpression
)

// value is the count of a counter: a number that wraps. Expressions nest deeply, so there is a stack.
func (e *evaluation) value(c counter) (int64, error) {
	if c.kind() < differenceCounter {
		return e.simple(c)
	}
	e.stack = append(e.stack[:0], c)
	for len(e.stack) > 0 {
		c := e.stack[len(e.stack)-1]
		i := c.index()
		if i >= len(e.expressions) {
			return 0, fmt.Errorf("expression %d of %d", i, len(e.expressions))
		}
		if e.state[i] == knownExpression {
			e.stack = e.stack[:len(e.stack)-1]
			continue
		}
		x := e.expressions[i]
		again := e.state[i] == openExpression
		e.state[i] = openExpression
		waits := false
		for _, part := range []counter{x.left, x.right} {
			if part.kind() < differenceCounter || part.index() < len(e.expressions) && e.state[part.index()] == knownExpression {
				continue
			}
			if again {
				return 0, fmt.Errorf("expression %d is part of itself", i)
			}
			e.stack = append(e.stack, part)
			waits = true
		}
		if waits {
			continue
		}
		left, err := e.simple(x.left)
		if err != nil {
			return 0, err
		}
		right, err := e.simple(x.right)
		if err != nil {
			return 0, err
		}
		if c.kind() == differenceCounter {
			right = -right
		}
		e.known[i], e.state[i] = left+right, knownExpression
		e.stack = e.stack[:len(e.stack)-1]
	}
	return e.known[c.index()], nil
}

// simple is the value of a counter that needs no computing any more.
func (e *evaluation) simple(c counter) (int64, error) {
	switch {
	case c.isZero():
		return 0, nil
	case c.kind() != countCounter:
		return e.known[c.index()], nil
	case c.index() >= len(e.counts):
		return 0, fmt.Errorf("counter %d of %d", c.index(), len(e.counts))
	}
	return int64(e.counts[c.index()]), nil
}
