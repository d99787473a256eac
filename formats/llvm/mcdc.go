package llvm

import (
	"cmp"
	"slices"
)

// An MCDC is a decision of several conditions, and which of them were shown to decide it alone.
type MCDC struct {
	File               int // of the function's files
	Line, Column       uint32
	EndLine, EndColumn uint32
	Conditions         []MCDCCondition // that of id 0 first, the others as they came
	Vectors            []Vector        // those that ran, as llvm-cov orders them: first those that came out false
}

// An MCDCCondition is one operand of a decision.
type MCDCCondition struct {
	File         int
	Line, Column uint32
	EndLine, End uint32
	Folded       bool // it is constant
	Covered      bool
	Pair         [2]int // if so: the vectors that show it
}

// A Vector is values of the conditions, with which the decision came out as Result.
type Vector struct {
	Values []int8 // 0, 1, -1: not evaluated; as Conditions
	Result bool
}

// An openDecision waits for its conditions.
type openDecision struct {
	region     *region
	conditions []*region
	has        map[int]bool
	files      map[int]bool // that are expanded within it
	closed     bool
}

// decisions give conditions to decisions, as LLVM up to 22 does: a condition belongs to the first open one whose
// range holds it and that lacks its id.
type decisions struct {
	open   []*openDecision
	bitmap []byte
	rules  *Rules
}

// mostConditions a decision has in Clang; the limit can be raised, not above bits that are there.
const mostConditions = 1 << 10

// mostOpen is how many decisions wait for conditions at a time: they nest a few deep.
const mostOpen = 1 << 8

func (d *decisions) begin(g *region) {
	if g.conditions < 1 || g.conditions > mostConditions || len(d.open) == mostOpen {
		return
	}
	d.open = append(d.open, &openDecision{region: g, has: make(map[int]bool), files: make(map[int]bool)})
}

func (o *openDecision) holds(g *region) bool {
	if o.files[g.file] {
		return true
	}
	d := o.region
	return g.file == d.file && !g.start.less(d.start) && !d.end.less(g.end)
}

func (d *decisions) expansion(g *region) {
	for _, o := range d.open {
		if !o.closed && o.holds(g) {
			o.files[g.expanded] = true
		}
	}
}

// condition adds a condition, and the decision to the function if it is complete.
func (d *decisions) condition(g *region, f *Function) {
	for i, o := range d.open {
		if o.closed || !o.holds(g) || o.has[g.id] || g.id < 0 || g.id >= o.region.conditions {
			continue
		}
		o.has[g.id] = true
		o.conditions = append(o.conditions, g)
		if len(o.conditions) == o.region.conditions {
			o.closed = true
			d.open = slices.Delete(d.open, i, i+1)
			f.Decisions = append(f.Decisions, o.evaluate(d.bitmap, d.rules))
		}
		return
	}
}

// evaluate finds what ran.
func (o *openDecision) evaluate(bitmap []byte, rules *Rules) MCDC {
	g := o.region
	m := MCDC{File: g.file, Line: g.start.line, Column: g.start.column, EndLine: g.end.line, EndColumn: g.end.column}
	slices.SortStableFunc(o.conditions, func(a, b *region) int { return cmp.Compare(b2u(a.id != 0), b2u(b.id != 0)) })
	places := make([]int, len(o.conditions)) // of ids
	for i, c := range o.conditions {
		places[c.id] = i
		fold := c.count.isZero() && c.other.isZero()
		if rules.Version >= 21 {
			fold = c.count.isZero() || c.other.isZero()
		}
		m.Conditions = append(m.Conditions, MCDCCondition{
			File: c.file, Line: c.start.line, Column: c.start.column, EndLine: c.end.line, End: c.end.column, Folded: fold,
		})
	}
	nodes := make([]node, len(o.conditions))
	for _, c := range o.conditions {
		nodes[c.id].next = [2]int{c.ifFalse, c.ifTrue}
	}
	v := vectors{nodes: nodes, places: places, bitmap: bitmap, values: make([]int8, len(nodes))}
	for i := range v.values {
		v.values[i] = -1
	}
	if rules.OldBitmaps {
		v.base, v.limit = 8*g.bitmap, 1<<len(nodes)
		for id := range nodes {
			nodes[id].index[1] = 1 << min(id, 62)
		}
	} else if v.limit = number(nodes); v.limit > 0 && v.limit <= g.bitmap && g.bitmap <= 8*len(bitmap) {
		v.base = g.bitmap - v.limit
	} else {
		return m
	}
	if len(bitmap) > 0 {
		v.walk(0, 0, 0)
		slices.SortStableFunc(v.found, func(a, b numbered) int {
			byResult := cmp.Compare(b2u(a.Result), b2u(b.Result))
			if rules.Version < 22 { // as they were found
				return byResult
			}
			return cmp.Or(byResult, cmp.Compare(a.number, b.number))
		})
	}
	for _, found := range v.found {
		m.Vectors = append(m.Vectors, found.Vector)
	}
	m.judge()
	return m
}

// A node is a condition: where its outcomes lead, -1: to the end; and what they add to the number of the path.
type node struct {
	next  [2]int // if false, if true
	index [2]int
}

// number gives all paths from node 0 their numbers, and returns how many there are, 0 if the nodes are no graph
// without circles.
func number(nodes []node) int {
	incoming := make([]int, len(nodes))
	width := make([]int, len(nodes))
	for i := range nodes {
		for _, next := range nodes[i].next {
			if next >= len(nodes) || next < -1 {
				return 0
			}
			if next >= 0 {
				incoming[next]++
			}
		}
	}
	if incoming[0] > 0 {
		return 0
	}
	type way struct{ width, node, outcome int }
	var ends []way
	width[0] = 1
	const tooMany = 1 << 40
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		i := queue[0]
		for outcome, next := range nodes[i].next {
			if next < 0 {
				ends = append(ends, way{width[i], i, outcome})
				continue
			}
			nodes[i].index[outcome] = width[next]
			if width[next] += width[i]; width[next] > tooMany {
				return 0
			}
			if incoming[next]--; incoming[next] == 0 {
				queue = append(queue, next)
			}
		}
	}
	slices.SortStableFunc(ends, func(a, b way) int { return cmp.Compare(b.width, a.width) })
	n := 0
	for _, e := range ends {
		nodes[e.node].index[e.outcome] = n
		if n += e.width; n > tooMany {
			return 0
		}
	}
	return n
}

type numbered struct {
	Vector
	number int
}

// vectors finds the paths whose bits are set.
type vectors struct {
	nodes       []node
	places      []int
	bitmap      []byte
	base, limit int
	values      []int8
	found       []numbered
	steps       int
}

// Limits of what is walked and kept: a decision has as many paths as bits, those of real programs at most some
// hundred thousand.
const (
	mostSteps   = 1 << 22
	mostVectors = 1 << 12
)

func (v *vectors) walk(id, sum, depth int) {
	if v.steps++; v.steps > mostSteps || depth > len(v.nodes) || len(v.found) >= mostVectors {
		return
	}
	n := &v.nodes[id]
	for outcome, next := range n.next {
		v.values[v.places[id]] = int8(outcome)
		at := sum + n.index[outcome]
		switch {
		case next < 0:
			bit := v.base + at
			if at >= 0 && at < v.limit && bit >= 0 && bit/8 < len(v.bitmap) && v.bitmap[bit/8]>>(bit%8)&1 != 0 {
				v.found = append(v.found, numbered{Vector{slices.Clone(v.values), outcome == 1}, at})
			}
		case next < len(v.nodes):
			v.walk(next, at, depth+1)
		}
	}
	v.values[v.places[id]] = -1
}

// judge finds the conditions that were shown to decide alone: two vectors come out differently and differ in nothing
// else that both evaluated.
func (m *MCDC) judge() {
	for i := range m.Vectors {
		for j := range i {
			a, b := &m.Vectors[i], &m.Vectors[j]
			if a.Result == b.Result {
				continue
			}
			if k := onlyDifference(a.Values, b.Values); k >= 0 && !m.Conditions[k].Covered {
				m.Conditions[k].Covered, m.Conditions[k].Pair = true, [2]int{j, i}
			}
		}
	}
}

func onlyDifference(a, b []int8) int {
	found := -1
	for k := range a {
		if a[k] < 0 || b[k] < 0 || a[k] == b[k] {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = k
	}
	return found
}
