package gcov

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"footfall/coverage"
)

// This file solves the distinct functions and adds them up by source line.
//
// The count of a line is, for each function, that of the block on it which ran
// most, summed over the functions: a line ran as often as it was entered, not
// as often as control came back to it from a call in its middle. Where gcov
// differs, docs/rationale.md says why.

// tally solves all functions of the pool and returns their coverage.
func (c *collector) tally(objs []Object, workers int) *coverage.Set {
	tallies := make([]*tally, workers)
	var next atomic.Int32
	var wg sync.WaitGroup
	for i := range tallies {
		t := &tally{c: c, objs: objs, names: c.sources.cache(), byKey: make(map[functionKey]int32), conditions: make(map[conditionKey][]coverage.Term)}
		tallies[i] = t
		wg.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= len(c.pool.shards) {
					return
				}
				t.shard(&c.pool.shards[k])
				c.pool.shards[k] = shard{} // its memory is free for the sums
			}
		})
	}
	wg.Wait()
	sum := tallies[0]
	for _, t := range tallies[1:] {
		sum.merge(t)
	}
	c.stats.Distinct += sum.distinct
	c.stats.Inconsistent += sum.inconsistent
	return sum.set()
}

// A tally adds up functions by line, in one goroutine.
type tally struct {
	c     *collector
	objs  []Object
	names sourceCache
	dec   decoder
	fn    Function
	flow  flow

	files      []*fileTally // by number of the source
	functions  []functionTally
	byKey      map[functionKey]int32
	groups     []group
	arcs       []arcTally
	conditions map[conditionKey][]coverage.Term

	current                int32 // number of the function under way, from 1
	distinct, inconsistent int
}

// A fileTally has the lines of a file in pages, so that a far line costs no
// more than its page.
type fileTally struct {
	pages []*page
}

const (
	pageBits = 7
	maxLine  = 1 << 24 // more than any source; bounds the list of pages
)

type page [1 << pageBits]lineTally

// A lineTally is one line. Its count rises at once when a function brings a
// block that ran more often than those it brought before.
type lineTally struct {
	count      int64
	most       int64 // of the blocks of the current function
	current    int32 // that function
	group      int32 // first of tally.groups plus 1, 0 for none
	exists     bool
	reached    bool // not by exceptions alone
	unexecuted bool // in a function in which it ran, a block of it did not
	idle       bool // in the current function, a block of it did not run
}

// A group is the branches and calls that one function has on a line.
type group struct {
	function  int32 // in tally.functions, inlined for all others
	next      int32 // group of the line plus 1
	arcs, n   int32 // range of tally.arcs
	current   int32 // the function under way, which has brought
	at, block int32 // so many arcs, of so many blocks
}

// inlined is the function of the branches that were inlined from elsewhere:
// the copies are one.
const inlined = -1

type arcTally struct {
	count, returned         int64
	block                   int32 // number in the group
	evaluated, falls, throw bool
	exception, call         bool
}

// A functionKey tells functions of the source apart. The name is that of the
// linker where the position does not tell: in C, where a macro can make
// several functions, and before GCC 8, which knew no columns.
type functionKey struct {
	file         int32
	line, column uint32
	name         string
}

type functionTally struct {
	key                functionKey
	endLine, endColumn uint32
	instances          []coverage.Instance
}

type conditionKey struct {
	file     int32
	line     uint32
	function int32
	number   int32
}

func (t *tally) shard(sh *shard) {
	for i := range sh.list {
		d := &sh.list[i]
		u := &t.c.pool.units[d.unit]
		r := reader{b: sh.raw[d.block][d.at : d.at+d.size], base: d.base, big: u.big, bytes: u.version.byteLengths()}
		t.dec.version = u.version
		if err := t.dec.function(&t.fn, r); err != nil {
			t.c.problem(Damaged, t.objs[d.object].Notes, err.Offset, "%s; function left out, build the object anew", err.Msg)
			continue
		}
		t.names.setDir(u.cwd)
		t.distinct++
		t.function(u.version, sh.counters[d.counters:][:d.arcs+d.conditions], int(d.arcs), d.executed)
	}
}

// function solves the current function and adds it up.
func (t *tally) function(v Version, counters []int64, arcs int, executed bool) {
	g := &t.flow
	g.build(&t.fn, v)
	if executed && !g.solve(counters[:arcs]) {
		t.inconsistent++
		g.repair()
	}
	t.current++
	file, _ := t.names.id([]byte(t.fn.Source))
	number := int32(inlined)
	if file != dropped {
		number = t.declare(file)
	}
	for i := 0; i < len(t.fn.Locations); {
		block := t.fn.Locations[i].Block
		var line *lineTally
		var at conditionKey
		own := false
		for ; i < len(t.fn.Locations) && t.fn.Locations[i].Block == block; i++ {
			l := &t.fn.Locations[i]
			at.file = file
			if l.Source != "" && l.Source != t.fn.Source {
				at.file, _ = t.names.id([]byte(l.Source))
			}
			for _, at.line = range l.Lines {
				own = at.file == file && at.line >= t.fn.StartLine && (at.line <= t.fn.EndLine || t.fn.EndLine == 0)
				line = t.line(at.file, at.line, &g.blocks[block])
			}
		}
		if line == nil || block == 0 || int(block) == g.exit {
			continue
		}
		at.function = number
		if !own {
			at.function = inlined
		}
		t.branches(line, at.function, int(block))
		t.terms(at, block, counters[arcs:])
	}
}

// repair makes counts that threads have torn fit to be shown: one that came
// out negative is replaced by the largest counter beside it, 0 if there is
// none.
func (g *flow) repair() {
	for i := range g.arcs {
		g.arcs[i].count = max(g.arcs[i].count, 0)
	}
	for i := range g.blocks {
		b := &g.blocks[i]
		if b.count >= 0 {
			continue
		}
		b.count = 0
		for _, list := range [2][]int32{g.succs(i), g.preds(i)} {
			for _, k := range list {
				b.count = max(b.count, g.arcs[k].count)
			}
		}
	}
}

// declare adds the current function to the functions of its file and returns
// its number.
func (t *tally) declare(file int32) int32 {
	fn, g := &t.fn, &t.flow
	key := functionKey{file: file, line: fn.StartLine, column: fn.StartColumn}
	if !strings.HasPrefix(fn.Name, "_Z") || fn.StartColumn == 0 {
		key.name, _, _ = strings.Cut(fn.Name, ".") // a clone of GCC's: name.part.0
	}
	in := coverage.Instance{Name: fn.Name}
	for i := range g.blocks {
		if i == 0 || i == g.exit {
			continue
		}
		in.Blocks++
		if g.blocks[i].count != 0 {
			in.BlocksExecuted++
		}
	}
	if len(g.blocks) > 0 {
		in.Count = g.blocks[0].count
	}
	return t.instance(key, fn.EndLine, fn.EndColumn, in)
}

func (t *tally) instance(key functionKey, endLine, endColumn uint32, in ...coverage.Instance) int32 {
	number, ok := t.byKey[key]
	if !ok {
		number = int32(len(t.functions))
		t.byKey[key] = number
		t.functions = append(t.functions, functionTally{key: key, endLine: endLine, endColumn: endColumn})
	}
	f := &t.functions[number]
	f.instances = append(f.instances, in...)
	return number
}

// line adds a block to a line, and returns the line; nil when its file is left
// out.
func (t *tally) line(file int32, n uint32, b *flowBlock) *lineTally {
	if file == dropped || n >= maxLine {
		return nil
	}
	l := t.at(file, n)
	if l.current != t.current {
		l.current, l.most, l.idle = t.current, 0, false
	}
	l.exists = true
	if !b.exceptional {
		l.reached = true
		l.idle = l.idle || b.count == 0
	}
	if b.count > l.most {
		l.count += b.count - l.most
		l.most = b.count
	}
	if l.idle && l.most > 0 {
		l.unexecuted = true
	}
	return l
}

// at returns the line, made if need be.
func (t *tally) at(file int32, n uint32) *lineTally {
	for int(file) >= len(t.files) {
		t.files = append(t.files, new(fileTally))
	}
	f, k := t.files[file], int(n>>pageBits)
	for k >= len(f.pages) {
		f.pages = append(f.pages, nil)
	}
	if f.pages[k] == nil {
		f.pages[k] = new(page)
	}
	return &f.pages[k][n&(1<<pageBits-1)]
}

// branches adds the branches and calls of a block that ends on the line. The
// instances of a function are built alike, so their branches correspond by
// their order on the line.
func (t *tally) branches(l *lineTally, function int32, block int) {
	g := &t.flow
	b := &g.blocks[block]
	ways := int32(0) // other than exceptions
	some := false
	for _, k := range g.succs(block) {
		a := &g.arcs[k]
		if !a.nonReturn && !a.throw {
			ways++
		}
		some = some || a.nonReturn || !a.unconditional
	}
	if !some {
		return
	}
	gr := &t.groups[t.group(l, function)]
	if gr.current != t.current {
		gr.current, gr.at, gr.block = t.current, 0, 0
	}
	for _, k := range g.succs(block) {
		a := &g.arcs[k]
		if a.unconditional {
			continue
		}
		t.add(gr, arcTally{
			count: a.count, returned: b.count - a.count, block: gr.block, evaluated: b.count > 0,
			falls: a.falls(), throw: a.throw, exception: a.throw || ways < 2, call: a.nonReturn,
		})
	}
	gr.block++
}

// group is the index of the function's group on the line, made if need be.
func (t *tally) group(l *lineTally, function int32) int32 {
	last := &l.group
	for *last != 0 {
		gr := &t.groups[*last-1]
		if gr.function == function {
			return *last - 1
		}
		last = &gr.next
	}
	*last = int32(len(t.groups) + 1)
	t.groups = append(t.groups, group{function: function})
	return int32(len(t.groups) - 1)
}

// add adds the next arc of the current function to the group.
func (t *tally) add(gr *group, a arcTally) {
	if gr.at < gr.n {
		sum := &t.arcs[gr.arcs+gr.at]
		sum.count += a.count
		sum.returned += a.returned
		sum.evaluated = sum.evaluated || a.evaluated
		gr.at++
		return
	}
	if int(gr.arcs+gr.n) != len(t.arcs) { // make room for one more at the end
		moved := int32(len(t.arcs))
		t.arcs = append(t.arcs, t.arcs[gr.arcs:gr.arcs+gr.n]...)
		gr.arcs = moved
	}
	t.arcs = append(t.arcs, a)
	gr.n++
	gr.at++
}

// terms adds the conditions that the block decides. The masks hold for each
// condition a bit for each term that was shown to decide it by being true, and
// by being false.
func (t *tally) terms(at conditionKey, block uint32, masks []int64) {
	for k, c := range t.fn.Conditions {
		if c.Block != block || len(masks) < 2*k+2 {
			continue
		}
		at.number = int32(k)
		terms := t.conditions[at]
		for len(terms) < int(min(c.Terms, 64)) {
			terms = append(terms, coverage.Term{})
		}
		for i := range terms {
			terms[i].True = terms[i].True || masks[2*k]>>i&1 != 0
			terms[i].False = terms[i].False || masks[2*k+1]>>i&1 != 0
		}
		t.conditions[at] = terms
	}
}

// merge adds another tally of the same collector.
func (t *tally) merge(o *tally) {
	t.distinct += o.distinct
	t.inconsistent += o.inconsistent
	numbers := make([]int32, len(o.functions))
	for i := range o.functions {
		f := &o.functions[i]
		numbers[i] = t.instance(f.key, f.endLine, f.endColumn, f.instances...)
	}
	number := func(n int32) int32 {
		if n == inlined {
			return n
		}
		return numbers[n]
	}
	for file, f := range o.files {
		for k, p := range f.pages {
			if p == nil {
				continue
			}
			for i := range p {
				if p[i].exists {
					t.mergeLine(t.at(int32(file), uint32(k<<pageBits|i)), &p[i], o, number)
				}
			}
		}
	}
	for at, terms := range o.conditions {
		at.function = number(at.function)
		sum := t.conditions[at]
		for i, term := range terms {
			if i == len(sum) {
				sum = append(sum, coverage.Term{})
			}
			sum[i].True = sum[i].True || term.True
			sum[i].False = sum[i].False || term.False
		}
		t.conditions[at] = sum
	}
}

func (t *tally) mergeLine(l, from *lineTally, o *tally, number func(int32) int32) {
	l.exists = true
	l.count += from.count
	l.reached = l.reached || from.reached
	l.unexecuted = l.unexecuted || from.unexecuted
	for next := from.group; next != 0; {
		src := &o.groups[next-1]
		gr := &t.groups[t.group(l, number(src.function))]
		gr.at = 0
		for _, a := range o.arcs[src.arcs : src.arcs+src.n] {
			t.add(gr, a)
		}
		next = src.next
	}
}

// set turns the tally into a Set.
func (t *tally) set() *coverage.Set {
	set := new(coverage.Set)
	files := make([]*coverage.File, len(t.files))
	for i, f := range t.files {
		if lines := t.lines(f); len(lines) > 0 {
			files[i] = &coverage.File{Name: t.c.sources.list[i], Lines: lines}
		}
	}
	for i := range t.functions {
		f := &t.functions[i]
		for int(f.key.file) >= len(files) {
			files = append(files, nil)
		}
		if files[f.key.file] == nil {
			files[f.key.file] = &coverage.File{Name: t.c.sources.list[f.key.file]}
		}
		file := files[f.key.file]
		file.Functions = append(file.Functions, f.function())
	}
	t.addConditions(files)
	for _, f := range files {
		if f == nil {
			continue
		}
		slices.SortFunc(f.Functions, func(a, b *coverage.Function) int {
			return cmp.Or(cmp.Compare(a.StartLine, b.StartLine), cmp.Compare(a.StartColumn, b.StartColumn), strings.Compare(a.Name, b.Name))
		})
		set.Files = append(set.Files, f)
	}
	slices.SortFunc(set.Files, func(a, b *coverage.File) int { return strings.Compare(a.Name, b.Name) })
	return set
}

func (t *tally) lines(f *fileTally) []coverage.Line {
	n := 0
	for _, p := range f.pages {
		if p != nil {
			for i := range p {
				if p[i].exists {
					n++
				}
			}
		}
	}
	lines := make([]coverage.Line, 0, n)
	for k, p := range f.pages {
		if p == nil {
			continue
		}
		for i := range p {
			l := &p[i]
			if !l.exists {
				continue
			}
			out := coverage.Line{Number: int32(k<<pageBits | i), Count: l.count, Unexecuted: l.unexecuted, Exceptional: !l.reached}
			t.ways(&out, l)
			lines = append(lines, out)
		}
	}
	return lines
}

// ways fills in the branches and calls of a line, function by function in the
// order of the source.
func (t *tally) ways(out *coverage.Line, l *lineTally) {
	var store [8]int32
	groups := store[:0]
	branches, calls := 0, 0
	for next := l.group; next != 0; next = t.groups[next-1].next {
		groups = append(groups, next-1)
		gr := &t.groups[next-1]
		for i := range t.arcs[gr.arcs : gr.arcs+gr.n] {
			if t.arcs[int(gr.arcs)+i].call {
				calls++
			} else {
				branches++
			}
		}
	}
	if len(groups) == 0 {
		return
	}
	slices.SortFunc(groups, func(a, b int32) int { return t.order(t.groups[a].function, t.groups[b].function) })
	if branches > 0 {
		out.Branches = make([]coverage.Branch, 0, branches)
	}
	if calls > 0 {
		out.Calls = make([]coverage.Call, 0, calls)
	}
	block := int32(-1)
	for _, k := range groups {
		gr := &t.groups[k]
		last := int32(-1)
		for _, a := range t.arcs[gr.arcs : gr.arcs+gr.n] {
			if a.call {
				out.Calls = append(out.Calls, coverage.Call{Count: a.count + a.returned, Returned: a.returned})
				continue
			}
			if a.block != last {
				last = a.block
				block++
			}
			out.Branches = append(out.Branches, coverage.Branch{Block: block, Count: a.count, Evaluated: a.evaluated, Fallthrough: a.falls, Throw: a.throw, Exception: a.exception})
		}
	}
}

// order compares functions by their place in the source; what was inlined
// comes last.
func (t *tally) order(a, b int32) int {
	if a == inlined || b == inlined {
		return cmp.Compare(b, a)
	}
	x, y := &t.functions[a].key, &t.functions[b].key
	return cmp.Or(cmp.Compare(x.file, y.file), cmp.Compare(x.line, y.line), cmp.Compare(x.column, y.column), strings.Compare(x.name, y.name))
}

// function is the sum of a function's instances.
func (f *functionTally) function() *coverage.Function {
	slices.SortFunc(f.instances, func(a, b coverage.Instance) int { return strings.Compare(a.Name, b.Name) })
	out := &coverage.Function{
		StartLine: int32(f.key.line), StartColumn: int32(f.key.column),
		EndLine: int32(f.endLine), EndColumn: int32(f.endColumn),
	}
	list := f.instances[:0]
	for _, in := range f.instances {
		if n := len(list); n > 0 && list[n-1].Name == in.Name { // compiled in different ways
			list[n-1].Count += in.Count
			list[n-1].BlocksExecuted = max(list[n-1].BlocksExecuted, in.BlocksExecuted)
			list[n-1].Blocks = max(list[n-1].Blocks, in.Blocks)
			continue
		}
		list = append(list, in)
	}
	out.Instances = list
	out.Name = list[0].Name
	for i, in := range list {
		out.Count += in.Count
		if i == 0 || in.BlocksExecuted > out.BlocksExecuted {
			out.Blocks, out.BlocksExecuted = in.Blocks, in.BlocksExecuted
		}
	}
	return out
}

func (t *tally) addConditions(files []*coverage.File) {
	keys := make([]conditionKey, 0, len(t.conditions))
	for at := range t.conditions {
		keys = append(keys, at)
	}
	slices.SortFunc(keys, func(a, b conditionKey) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), t.order(a.function, b.function), cmp.Compare(a.number, b.number))
	})
	for _, at := range keys {
		lines := files[at.file].Lines
		i, ok := slices.BinarySearchFunc(lines, int32(at.line), func(l coverage.Line, n int32) int { return cmp.Compare(l.Number, n) })
		if ok {
			lines[i].Conditions = append(lines[i].Conditions, coverage.Condition{Terms: t.conditions[at]})
		}
	}
}
