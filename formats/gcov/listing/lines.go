package listing

import (
	"math/bits"
	"slices"
	"sort"

	"footfall/formats/gcov"
)

// A listFunction is what listings and summaries need to know of a function.
// The graph itself is not kept.
type listFunction struct {
	name, plain     string // plain: demangled, where that was asked for
	source          int32  // in the operand's sources, then in the listing's
	start, end      uint32 // lines
	startColumn     uint32
	endColumn       uint32
	artificial      bool
	instrumented    bool // has counters
	group           bool // another function starts on the same line
	faults          fault
	blocks          int
	blocksExecuted  int
	called          int64
	returned        int64
	shares          []lineShare
	arcs            []listArc     // of all shares, in their order
	members         []listBlock   // the same for blocks
	visits          []visit       // in order, with -f
	counts          []blockCount  // of all blocks, with -D
	outcomes        gcov.Outcomes // of all its arcs, with -f
	conditions      int           // outcomes of all its conditions, and how many were shown
	conditionsShown int
	paths           *pathCoverage
	own             *lineTable // the lines that it shares with no other function, in a group
}

// faults are what is wrong with a function's graph.
type fault uint8

const (
	lacksEnds fault = 1 << iota
	arcsToEntry
	arcsFromExit
	lacksLines
)

// A lineShare is what one function contributes to one source line.
type lineShare struct {
	source        int32
	line          uint32
	unexceptional bool  // some block on it is reached without exceptions
	unexecuted    bool  // some such block never ran
	exists        bool  // some block names it
	attached      bool  // blocks are attached to it
	sum           int64 // of the counts of all blocks that name the line
	count         int64 // how often the attached blocks were entered
	firstArc      int32 // range of listFunction.arcs
	arcs          int32
	firstBlock    int32 // range of listFunction.members
	blocks        int32
	entering      *gcov.Outcomes // of the arcs into its blocks, where gcov counts those: with -a before GCC 8
}

// A blockCount is the count of a block.
type blockCount struct {
	id    int32
	count int64
}

// A visit is one mention of a line by a block.
type visit struct {
	share int32
	count int64
}

// A listBlock is a block attached to a line.
type listBlock struct {
	id            int32
	arcs          int32 // how many of the share's arcs leave it
	count         int64
	exceptional   bool
	callReturn    bool
	terms         uint32 // of its condition
	truev, falsev uint64 // which of them decided it
}

// A listArc is an arc out of a block attached to a line.
type listArc struct {
	count, total  int64 // of the arc, of the block that it leaves
	src, dst      int32
	call          bool // a call that may not return
	unconditional bool
	fallthru      bool
	throw         bool
	toCallReturn  bool
}

// detail tells what of the blocks and arcs on a line is to be kept.
type detail struct {
	arcs, blocks, visits, counts bool
	entries                      bool // the count of a line is how often it was entered
	propagates                   bool // blocks without lines belong to the line mentioned last
}

// countsEntries tells whether the count of a line is how often the blocks attached
// to it were entered; else it is the sum of all that name it, attached or not.
func (o *options) countsEntries(v gcov.Version) bool { return v.CountsEntries() || o.allBlocks }

// A sharer computes the shares of functions, one after the other.
type sharer struct {
	detail
	line        gcov.LineGraph
	index       shareIndex
	attached    []attachment
	heads       []int32 // for each share: its first and last attachment
	tails       []int32
	blocks      []int32
	conditionOf []int32 // for each block, from 1
	sources     map[string]int32
	names       []string // of the sources, in the order in which they are mentioned
}

// An attachment puts a block on the line of a share.
type attachment struct {
	block int32
	next  int32 // the next one of the same share, -1 at the end
}

// source returns the number of a source of the operand.
func (s *sharer) source(name string) int32 {
	switch name {
	case "":
		name = "<unknown>"
	case gcov.EmptyName:
		name = ""
	}
	i, ok := s.sources[name]
	if !ok {
		if s.sources == nil {
			s.sources = make(map[string]int32)
		}
		i = int32(len(s.names))
		s.sources[name] = i
		s.names = append(s.names, name)
	}
	return i
}

// mention notes the sources of a function in their order.
func (s *sharer) mention(fn *gcov.FunctionGraph) int32 {
	source := s.source(fn.Source)
	last := ""
	for i := range fn.Locations {
		if l := &fn.Locations[i]; l.Source != "" && l.Source != last {
			s.source(l.Source)
			last = l.Source
		}
	}
	return source
}

// share fills in the shares of f from its solved graph.
func (s *sharer) share(f *listFunction, conditions []conditionCounts) {
	g := s.line.Flow
	fn := g.Fn
	s.index.reset()
	s.attached = s.attached[:0]
	s.heads, s.tails = s.heads[:0], s.tails[:0]
	byBlock := func(a, b gcov.Location) int { return int(a.Block) - int(b.Block) }
	if !slices.IsSortedFunc(fn.Locations, byBlock) {
		slices.SortStableFunc(fn.Locations, byBlock)
	}
	if s.propagates {
		s.attachAll(f)
	} else {
		s.attachLocated(f)
	}
	if len(fn.Locations) == 0 {
		f.faults |= lacksLines
	}
	s.total(f, conditions)
}

// attachLocated attaches blocks to the last line of each of their locations.
func (s *sharer) attachLocated(f *listFunction) {
	g := s.line.Flow
	last, lastBlock := int32(-1), uint32(0) // the share of the line mentioned last, in which block
	for i := range g.Fn.Locations {
		l := &g.Fn.Locations[i]
		if l.Block != lastBlock {
			last, lastBlock = -1, l.Block
		}
		last = s.mentionLines(f, l, last)
		if last >= 0 && gcov.Attaches(int(l.Block), len(g.Blocks)) {
			s.attach(last, int32(l.Block))
		}
	}
}

// attachAll attaches each block to the line mentioned last, be it by a block before it.
// With -a those before the first line are attached to that of the function.
func (s *sharer) attachAll(f *listFunction) {
	g := s.line.Flow
	last := int32(-1)
	locations := g.Fn.Locations
	for b := range g.Blocks {
		for len(locations) > 0 && int(locations[0].Block) == b {
			last = s.mentionLines(f, &locations[0], last)
			locations = locations[1:]
		}
		switch {
		case !gcov.Attaches(b, len(g.Blocks)):
		case last >= 0:
			s.attach(last, int32(b))
		case s.entries:
			s.attach(s.shareOf(f, f.source, f.start), int32(b))
		}
	}
}

// mentionLines notes the lines of a location, and returns the share of the last one, last if
// it has none.
func (s *sharer) mentionLines(f *listFunction, l *gcov.Location, last int32) int32 {
	source := f.source
	if l.Source != "" {
		source = s.source(l.Source)
	}
	if !s.propagates && !slices.IsSorted(l.Lines) {
		slices.Sort(l.Lines)
	}
	for _, line := range l.Lines {
		if line > maxLine {
			break
		}
		last = s.mentionLine(f, source, line, &s.line.Blocks[l.Block])
	}
	return last
}

// shareOf returns the share of a line, a new one if need be.
func (s *sharer) shareOf(f *listFunction, source int32, line uint32) int32 {
	i, fresh := s.index.find(source, line, int32(len(f.shares)))
	if fresh {
		f.shares = append(f.shares, lineShare{source: source, line: line})
		s.heads = append(s.heads, -1)
		s.tails = append(s.tails, -1)
	}
	return i
}

func (s *sharer) mentionLine(f *listFunction, source int32, line uint32, b *gcov.FlowBlock) int32 {
	i := s.shareOf(f, source, line)
	sh := &f.shares[i]
	sh.exists = true
	if !b.Exceptional {
		sh.unexceptional = true
		if b.Count == 0 {
			sh.unexecuted = true
		}
	}
	sh.sum += b.Count
	if s.visits {
		f.visits = append(f.visits, visit{i, b.Count})
	}
	return i
}

func (s *sharer) attach(share, block int32) {
	at := int32(len(s.attached))
	s.attached = append(s.attached, attachment{block, -1})
	if s.heads[share] < 0 {
		s.heads[share] = at
	} else {
		s.attached[s.tails[share]].next = at
	}
	s.tails[share] = at
}

// total counts the lines that have blocks attached and keeps the detail that
// was asked for.
func (s *sharer) total(f *listFunction, conditions []conditionCounts) {
	if len(conditions) > 0 {
		s.findConditions(conditions)
	}
	for i := range f.shares {
		if s.heads[i] < 0 {
			continue
		}
		s.blocks = s.blocks[:0]
		for at := s.heads[i]; at >= 0; at = s.attached[at].next {
			s.blocks = append(s.blocks, s.attached[at].block)
		}
		sh := &f.shares[i]
		sh.attached = true
		if s.entries {
			sh.count = s.line.Count(s.blocks)
		}
		sh.firstArc, sh.firstBlock = int32(len(f.arcs)), int32(len(f.members))
		if s.arcs && s.entries && s.propagates {
			sh.entering = s.line.Entering(s.blocks)
		}
		for _, b := range s.blocks {
			if s.arcs {
				f.arcs = s.appendArcs(f.arcs, b)
			}
			if s.detail.blocks {
				f.members = append(f.members, s.member(b, conditions))
			}
		}
		sh.arcs, sh.blocks = int32(len(f.arcs))-sh.firstArc, int32(len(f.members))-sh.firstBlock
	}
}

func (s *sharer) appendArcs(arcs []listArc, b int32) []listArc {
	g := s.line.Flow
	for _, k := range g.Succs(int(b)) {
		a := &g.Arcs[k]
		arcs = append(arcs, listArc{
			count: a.Count, total: g.Blocks[b].Count, src: a.Src, dst: a.Dst,
			call: a.NonReturn, unconditional: a.Unconditional, fallthru: a.Falls(), throw: a.Throw,
			toCallReturn: g.Blocks[a.Dst].CallReturn,
		})
	}
	return arcs
}

func (s *sharer) member(b int32, conditions []conditionCounts) listBlock {
	fb := &s.line.Blocks[b]
	m := listBlock{id: shownID(s.line.Flow, int(b)), arcs: fb.SuccEnd - fb.Succ, count: fb.Count, exceptional: fb.Exceptional, callReturn: fb.CallReturn}
	if len(conditions) > 0 {
		if c := s.conditionOf[b]; c > 0 {
			m.terms, m.truev, m.falsev = s.line.Fn.Conditions[c-1].Terms, conditions[c-1].truev, conditions[c-1].falsev
		}
	}
	return m
}

// findConditions notes for each block the condition in it, counted from 1. Of
// several the last one stands for all.
func (s *sharer) findConditions(conditions []conditionCounts) {
	s.conditionOf = gcov.Resize(s.conditionOf, len(s.line.Blocks))
	for i, c := range s.line.Fn.Conditions {
		if k := s.conditionOf[c.Block]; k > 0 {
			conditions[i].truev |= conditions[k-1].truev
			conditions[i].falsev |= conditions[k-1].falsev
		}
		s.conditionOf[c.Block] = int32(i + 1)
	}
}

// conditionCounts are the outcomes of a condition that were shown: a bit for
// each term.
type conditionCounts struct{ truev, falsev uint64 }

// covered is how many outcomes of the condition were shown.
func (b *listBlock) covered() int { return bits.OnesCount64(b.truev) + bits.OnesCount64(b.falsev) }

// A shareIndex finds the share of a line within one function. It is emptied by
// counting generations.
type shareIndex struct {
	slots      []shareSlot
	generation uint32
	used       int
}

type shareSlot struct {
	key        uint64
	generation uint32
	share      int32
}

func (x *shareIndex) reset() {
	x.generation++
	x.used = 0
	if len(x.slots) == 0 || x.generation == 0 {
		x.slots = make([]shareSlot, 256)
		x.generation = 1
	}
}

// find returns the share of the line, next when it has none yet.
func (x *shareIndex) find(source int32, line uint32, next int32) (share int32, fresh bool) {
	if 2*x.used >= len(x.slots) {
		x.grow()
	}
	s := x.slot(uint64(source)<<32 | uint64(line))
	if s.generation == x.generation {
		return s.share, false
	}
	x.used++
	*s = shareSlot{uint64(source)<<32 | uint64(line), x.generation, next}
	return next, true
}

func (x *shareIndex) slot(key uint64) *shareSlot {
	mask := uint64(len(x.slots) - 1)
	for h := key * 0x9e3779b97f4a7c15 >> 20; ; h++ {
		s := &x.slots[h&mask]
		if s.generation != x.generation || s.key == key {
			return s
		}
	}
}

func (x *shareIndex) grow() {
	old := x.slots
	x.slots = make([]shareSlot, 2*len(old))
	for _, s := range old {
		if s.generation == x.generation {
			*x.slot(s.key) = s
		}
	}
}

// A listLine is a line of a source, or of one function of a group.
type listLine struct {
	number        uint32
	exists        bool
	unexceptional bool
	unexecuted    bool
	attached      bool
	count         int64 // once totalled; before, the sum over blocks
	entered       int64
	shares        []lineRef // those with blocks attached, where detail is kept
}

// A lineRef is the share of a function in a line.
type lineRef struct {
	fn *listFunction
	sh *lineShare
}

func (r lineRef) arcs() []listArc {
	return r.fn.arcs[r.sh.firstArc : r.sh.firstArc+r.sh.arcs]
}

func (r lineRef) blocks() []listBlock {
	return r.fn.members[r.sh.firstBlock : r.sh.firstBlock+r.sh.blocks]
}

func (l *listLine) add(f *listFunction, sh *lineShare, keep bool) {
	l.exists = l.exists || sh.exists
	l.unexceptional = l.unexceptional || sh.unexceptional
	l.unexecuted = l.unexecuted || sh.unexecuted
	l.count += sh.sum
	if sh.attached {
		l.attached = true
		l.entered += sh.count
		if keep {
			l.shares = append(l.shares, lineRef{f, sh})
		}
	}
}

// A lineTable has the lines of a source, or of a function of a group, by
// number. It is as large as the largest number, unless the lines are few and
// far between, as in damaged files.
type lineTable struct {
	size   uint32     // one more than the largest number; 0 when there are none
	lines  []listLine // by number from base, or sparse
	base   uint32
	sparse bool // only lines that exist, in ascending order
}

// maxGap is how much larger than the number of its shares a table may be.
const maxGap = 1 << 12

// maxLine is the largest line number that is listed. Only damaged files have
// larger ones.
const maxLine = gcov.LineLimit - 1

func newLineTable(base, size uint32, shares []lineRef, keep bool) *lineTable {
	t := &lineTable{size: size, base: base}
	if size > base && uint64(size-base) > uint64(len(shares))*16+maxGap {
		t.sparse = true
		sort.SliceStable(shares, func(i, j int) bool { return shares[i].sh.line < shares[j].sh.line })
	} else if size > base {
		t.lines = make([]listLine, size-base)
		for i := range t.lines {
			t.lines[i].number = base + uint32(i)
		}
	}
	for _, r := range shares {
		if t.sparse && (len(t.lines) == 0 || t.lines[len(t.lines)-1].number != r.sh.line) {
			t.lines = append(t.lines, listLine{number: r.sh.line})
		}
		l := &t.lines[len(t.lines)-1]
		if !t.sparse {
			l = &t.lines[r.sh.line-base]
		}
		l.add(r.fn, r.sh, keep)
	}
	return t
}

// noLine stands for the lines of a sparse table that do not exist.
var noLine listLine

// at returns line n, which is less than size.
func (t *lineTable) at(n uint32) *listLine {
	if !t.sparse {
		return &t.lines[n-t.base]
	}
	i := sort.Search(len(t.lines), func(i int) bool { return t.lines[i].number >= n })
	if i < len(t.lines) && t.lines[i].number == n {
		return &t.lines[i]
	}
	return &noLine
}

// reserve makes room for the lines of others that are to be added.
func (t *lineTable) reserve(others []*lineTable) {
	if !t.sparse {
		return
	}
	var late []listLine
	for _, o := range others {
		for i := range o.lines {
			if o.lines[i].exists && t.at(o.lines[i].number) == &noLine {
				late = append(late, listLine{number: o.lines[i].number})
			}
		}
	}
	t.lines = append(t.lines, late...)
	byNumber := func(a, b listLine) int { return int(a.number) - int(b.number) }
	slices.SortStableFunc(t.lines, byNumber)
	t.lines = slices.CompactFunc(t.lines, func(a, b listLine) bool { return a.number == b.number })
}
