package tracefiles

import (
	"cmp"
	"slices"

	"footfall/coverage"
)

// A builder makes a coverage.File of what a format tells. Its memory is used
// again for the next one.
type builder struct {
	file      coverage.File
	functions []coverage.Function // room for those of file
	instances []coverage.Instance // and for theirs
	ways      []way
	branches  []coverage.Branch // and for those of the lines
	uncounted []coverage.Line   // that must be put among those of file
	checksums []LineChecksum
	many      int // lines from which on they are merged, see line
}

// A way is a branch as a format tells it.
type way struct {
	line int32
	// Ways of one decision have the same block and the same from; index orders
	// them, and tells them apart.
	block, from, index int64
	count              int64
	evaluated          bool
	falls, throw       bool
	guessed            bool
	undivided          bool // if there is only one such block, that may be several decisions
	list               bool // it is said that they may be
}

func (b *builder) reset() {
	clear(b.file.Lines)
	b.file = coverage.File{Functions: b.file.Functions[:0], Lines: b.file.Lines[:0]}
	b.functions, b.instances = b.functions[:0], b.instances[:0]
	b.ways = b.ways[:0]
	b.branches = b.branches[:0]
	b.checksums = b.checksums[:0]
	b.many = 0
}

// some is how many records of a kind a source may have before those that come
// again are made one. After that it is done whenever there are twice as many as
// were left: memory grows with what a source has, not with what a file says of it.
const some = 1 << 14

func (b *builder) line(number int32, count int64) {
	if len(b.file.Lines) >= max(b.many, some) {
		b.file.Normalize()
		b.many = 2 * len(b.file.Lines)
	}
	b.file.Lines = append(b.file.Lines, coverage.Line{Number: number, Count: max(count, 0)})
}

func (w *way) compare(o *way) int {
	return cmp.Or(cmp.Compare(w.line, o.line), cmp.Compare(w.block, o.block), cmp.Compare(w.from, o.from), cmp.Compare(w.index, o.index))
}

// addWays gives the ways to the lines, which must be in order. Lines that are
// not there are added as not counted.
func (b *builder) addWays() {
	ordered := true
	for i := 1; i < len(b.ways) && ordered; i++ {
		ordered = b.ways[i-1].compare(&b.ways[i]) < 0
	}
	if !ordered {
		b.ways = sumWays(b.ways)
	}
	b.branches = slices.Grow(b.branches[:0], len(b.ways))
	lines := b.file.Lines
	for from := 0; from < len(b.ways); {
		to := from + 1
		for to < len(b.ways) && b.ways[to].line == b.ways[from].line {
			to++
		}
		n := b.ways[from].line
		for len(lines) > 0 && lines[0].Number < n {
			lines = lines[1:]
		}
		branches := b.lineBranches(b.ways[from:to])
		if len(lines) > 0 && lines[0].Number == n {
			lines[0].Branches = branches
		} else {
			b.uncountedLine(n)[0].Branches = branches
		}
		from = to
	}
	b.addUncounted()
}

// uncountedLine returns a line without a count, and nothing behind it. Lines are
// asked for in ascending order.
func (b *builder) uncountedLine(number int32) []coverage.Line {
	n := len(b.uncounted)
	if n == 0 || b.uncounted[n-1].Number != number {
		b.uncounted = append(b.uncounted, coverage.Line{Number: number, Uncounted: true})
		n++
	}
	return b.uncounted[n-1:]
}

// addUncounted puts the lines without counts among the others.
func (b *builder) addUncounted() {
	if len(b.uncounted) > 0 {
		b.file.Lines = append(b.file.Lines, b.uncounted...)
		slices.SortFunc(b.file.Lines, func(x, y coverage.Line) int { return cmp.Compare(x.Number, y.Number) })
	}
	clear(b.uncounted)
	b.uncounted = b.uncounted[:0]
}

// sumWays puts ways in order, and makes one of those that are the same.
func sumWays(ways []way) []way {
	slices.SortStableFunc(ways, func(x, y way) int { return x.compare(&y) })
	out := ways[:0]
	for _, w := range ways {
		if n := len(out); n > 0 && out[n-1].compare(&w) == 0 {
			last := &out[n-1]
			last.count = add(last.count, w.count)
			last.evaluated = last.evaluated || w.evaluated
			last.throw = last.throw && w.throw
			last.falls = last.falls && w.falls
			continue
		}
		out = append(out, w)
	}
	return out
}

// lineBranches makes branches of the ways of one line.
func (b *builder) lineBranches(ways []way) []coverage.Branch {
	start := len(b.branches)
	undivided := 0
	for i := range ways {
		if ways[i].undivided {
			undivided++
		}
	}
	block := int32(0)
	for from := 0; from < len(ways); block++ {
		to, others, throws, evaluated := from, 0, 0, false
		for ; to < len(ways) && ways[to].block == ways[from].block && ways[to].from == ways[from].from; to++ {
			if ways[to].throw {
				throws++
			} else {
				others++
			}
			evaluated = evaluated || ways[to].evaluated
		}
		isList := ways[from].list || undivided == to-from && ways[from].undivided && throws == 0 && undivided > 1
		for _, w := range ways[from:to] {
			b.branches = append(b.branches, coverage.Branch{
				Block: block, List: isList, Guessed: w.guessed, Count: max(w.count, 0), Evaluated: evaluated && (!isList || w.evaluated),
				Fallthrough: w.falls, Throw: w.throw, Exception: w.throw || throws > 0 && others < 2 && !isList,
			})
		}
		from = to
	}
	return b.branches[start:len(b.branches):len(b.branches)]
}

// function adds a function with its instances, which the builder keeps.
func (b *builder) function(f coverage.Function) {
	slices.SortFunc(f.Instances, func(x, y coverage.Instance) int { return cmp.Compare(x.Name, y.Name) })
	merged := f.Instances[:0]
	for _, in := range f.Instances {
		if n := len(merged); n > 0 && merged[n-1].Name == in.Name {
			merged[n-1].Count = add(merged[n-1].Count, in.Count)
			merged[n-1].Lines = merged[n-1].Lines.Merge(in.Lines)
			continue
		}
		merged = append(merged, in)
	}
	f.Instances = merged
	f.Name, f.Count = merged[0].Name, 0
	for _, in := range merged {
		f.Count = add(f.Count, in.Count)
		if in.BlocksExecuted > f.BlocksExecuted || f.Blocks == 0 {
			f.Blocks, f.BlocksExecuted = in.Blocks, in.BlocksExecuted
		}
	}
	b.functions = append(b.functions, f)
}

// add is the sum of two counts, or the largest number.
func add(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > 1<<63-1-b {
		return 1<<63 - 1
	}
	return a + b
}
