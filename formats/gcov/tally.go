package gcov

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"footfall/coverage"
)

// This file solves the distinct functions and adds them up by source line.
//
// A line ran if gcov says so, see verdict.go. Its count is, for each function,
// that of the block on it which ran most, summed over the functions: a line ran
// as often as it was entered, not as often as control came back to it from a
// call in its middle. Where gcov's number differs, docs/rationale.md says why.

// tally solves the functions of batches and returns their coverage. A batch that is
// most of the work is divided among all workers, of the others each takes one after the other.
func (c *collector) tally(workers int, batches []batch) *coverage.Set {
	total := 0
	for i := range batches {
		total += batches[i].size
		c.stats.Distinct += len(batches[i].refs)
	}
	var set coverage.Builder
	var small []batch
	for _, b := range batches {
		if workers == 1 || b.size < total/(2*workers) {
			small = append(small, b)
			continue
		}
		t := c.together(workers, b)
		c.stats.Inconsistent += t.inconsistent
		c.looks.note(t.contradict)
		set.Add(t.made(workers)...)
	}
	var mu sync.Mutex
	var next atomic.Int32
	var wg sync.WaitGroup
	for range min(workers, len(small)) {
		wg.Go(func() {
			t := newTally(c.sources)
			t.looks = c.looks
			for i := int(next.Add(1)) - 1; i < len(small); i = int(next.Add(1)) - 1 {
				t.add(c.pool, small[i].refs)
				c.settleDisputes(t, small[i], 1)
				files := t.made(1)
				t.reset()
				mu.Lock()
				set.Add(files...)
				mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			c.stats.Inconsistent += t.inconsistent
			c.looks.note(t.contradict)
		})
	}
	wg.Wait()
	if c.kept == nil {
		c.pool.shards, c.pool.packed, c.units = [shardCount]shard{}, nil, nil // no longer needed, and large
	}
	return set.Set()
}

// each calls f(0) to f(n-1): in parallel, unless one worker is all that there is for them.
func each(workers, n int, f func(i int)) {
	if workers > 1 {
		coverage.Parallel(n, f)
		return
	}
	for i := range n {
		f(i)
	}
}

// together is the tally of a batch, of which each worker adds up a part.
func (c *collector) together(workers int, b batch) *tally {
	tallies := make([]*tally, workers)
	parts := b.split(workers)
	coverage.Parallel(workers, func(i int) {
		tallies[i] = newTally(c.sources)
		tallies[i].looks = c.looks
		tallies[i].add(c.pool, parts[i])
	})
	sum := tallies[0]
	for _, t := range tallies[1:] {
		sum.merge(t)
	}
	c.settleDisputes(sum, b, workers)
	return sum
}

// A tally adds up functions by line, in one goroutine.
type tally struct {
	sources *sources
	unpacked
	flow Flow

	files      []*fileTally // by number of the source
	used       []int32      // numbers of those that are there
	spare      []*fileTally // of batches before
	functions  map[functionKey]*functionTally
	tallies    arena[functionTally]
	pages      arena[page]
	groups     arena[group]
	branchRoom arena[branchTally]
	callRoom   arena[coverage.Call]
	conditions map[conditionKey][]coverage.Term

	current      int32 // number of the function under way, from 1
	torn         bool  // its counters contradict each other
	evidence     evidence
	own          []uint32 // its lines, see ownLines
	listed       bool     // own has them
	declared     *functionTally
	first, last  uint32        // see extent
	idle         coverage.Hits // its lines if it never ran; nil: not made yet
	hitRoom      []byte        // of lines of instances, with room for more
	ends         []int32       // of its blocks: the last line, 0 if that is in another file
	inconsistent int

	instances []coverage.Instance // results, many in one piece of memory

	// Of a Program only.
	looks      *looks       // keeps what the next look needs; nil: there is none
	contradict []distinctID // functions of which the counters contradict each other
}

func newTally(s *sources) *tally {
	return &tally{sources: s, functions: make(map[functionKey]*functionTally), conditions: make(map[conditionKey][]coverage.Term)}
}

// reset makes the tally ready for another batch.
func (t *tally) reset() {
	for _, file := range t.used {
		f := t.files[file]
		f.reset()
		t.spare, t.files[file] = append(t.spare, f), nil
	}
	t.used = t.used[:0]
	clear(t.functions)
	clear(t.conditions)
	t.current, t.declared, t.shape = 0, nil, nil
	t.tallies.reset()
	t.pages.reset()
	t.groups.reset()
	t.branchRoom.reset()
	t.callRoom.reset()
}

// add adds up functions.
func (t *tally) add(p *pool, refs []ref) {
	for _, ref := range refs {
		t.function(p, ref.id)
	}
}

// A fileTally has the lines of a file in small pages by their number, so that
// neither a far line nor many files cost more than a few pages.
type fileTally struct {
	pages *arena[page]
	near  []*page          // by number; nil: there is none
	far   map[uint32]*page // those from nearPages on
	last  *page            // the page asked for last, mostly asked for again
	lastN uint32

	passed    bool             // some line was passed by a block that ran
	disputes  []uint64         // a bit for each line in dispute
	functions []*functionTally // that stand in the file, in no order

	inlined []inlinedLine // those that fileTally.list found, in order
	made    *coverage.File
}

// reset makes it ready for another file.
func (f *fileTally) reset() {
	clear(f.near)
	*f = fileTally{pages: f.pages, near: f.near[:0], disputes: f.disputes[:0], functions: f.functions[:0], inlined: f.inlined[:0]}
}

const (
	pageBits  = 4
	nearPages = 1 << 14
	LineLimit = 1 << 24 // more lines than any source has
)

type page [1 << pageBits]lineTally

// at returns line n, made if need be.
func (f *fileTally) at(n uint32) *lineTally {
	k := n >> pageBits
	if f.last == nil || f.lastN != k {
		f.last, f.lastN = f.page(k), k
	}
	return &f.last[n&(1<<pageBits-1)]
}

// page returns page k, made if need be.
func (f *fileTally) page(k uint32) *page {
	p := f.have(k)
	if p != nil {
		return p
	}
	p = &f.pages.take(1)[0]
	switch {
	case k >= nearPages && f.far == nil:
		f.far = map[uint32]*page{k: p}
	case k >= nearPages:
		f.far[k] = p
	default:
		if n := int(k) + 1; n > len(f.near) {
			f.near = slices.Grow(f.near, n-len(f.near))[:n]
		}
		f.near[k] = p
	}
	return p
}

// have returns page k, nil if there is none.
func (f *fileTally) have(k uint32) *page {
	if k < uint32(len(f.near)) {
		return f.near[k]
	}
	return f.far[k]
}

// all yields the pages in order.
func (f *fileTally) all(yield func(k uint32, p *page) bool) {
	for k, p := range f.near {
		if p != nil && !yield(uint32(k), p) {
			return
		}
	}
	for _, k := range slices.Sorted(maps.Keys(f.far)) {
		if !yield(k, f.far[k]) {
			return
		}
	}
}

// A lineTally is one line. Its count rises at once when a function brings a
// block that ran more often than those it brought before.
type lineTally struct {
	count      int64
	most       int64  // of the blocks of the current function
	current    int32  // that function; 0: no code is on the line
	passed     int32  // functions of which blocks ran that name the line, and none ends there
	group      *group // the first of the line
	attached   bool   // some block ends there
	ran        bool   // and ran
	ends       bool   // of the current function some block ends there
	passing    bool   // it counts in passed
	reached    bool   // not by exceptions alone
	unexecuted bool   // in a function in which it ran, a block of it did not
	idle       bool   // in the current function, a block of it did not run
	inlined    bool   // it ran as part of a function that it does not stand in
}

// A group is the branches and calls that one function has on a line.
type group struct {
	function *functionTally // nil for the branches that were inlined from elsewhere: the copies are one
	next     *group         // of the line
	current  int32          // the function under way, which has brought
	branch   int32          // so many branches,
	call     int32          // so many calls,
	block    int32          // of so many blocks
	branches []branchTally
	calls    []coverage.Call
}

type branchTally struct {
	count                              int64
	block                              int32 // number in the group
	to                                 int32 // see coverage.Branch
	evaluated, falls, throw, exception bool
}

// A functionKey tells functions of the source apart. The name is that of the
// linker where the position does not tell: in C, where a macro can make
// several functions, and before GCC 8, which knew no columns. In C++ a macro's have
// what coverage.Function.SourceName says.
type functionKey struct {
	file         int32
	line, column uint32
	name         string
}

type functionTally struct {
	key                functionKey
	endLine, endColumn uint32
	instances          []coverage.Instance
	same               *functionTally // this one was merged into
}

type conditionKey struct {
	file     int32
	line     uint32
	function *functionTally
	number   int32
}

// function solves a function of the pool and adds it up.
func (t *tally) function(p *pool, id distinctID) {
	d := p.at(id)
	counters := p.shards[id.shard()].countersOf(d)
	g := &t.flow
	again := t.unpack(p.bytes(id), g)
	t.torn = false
	if d.executed() {
		if t.torn = !g.Solve(counters[:d.arcs]); t.torn {
			t.inconsistent++
			if t.looks != nil {
				t.contradict = append(t.contradict, id)
			}
			if t.clang {
				g.solveAsClang()
			}
			t.evidence.note(&t.unpacked, g)
		}
		g.settle()
	}
	t.current++
	var declared *functionTally
	if t.file != dropped && t.fn.StartLine > 0 { // Clang's initializers of globals stand nowhere
		declared = t.declare()
	}
	if !again {
		t.first, t.last = t.extent()
		t.lastLines(len(g.Blocks))
		t.listed, t.idle = false, nil
	}
	d.first, d.last = t.first, t.last
	// An instance that never ran adds nothing to the lines of one that is built alike.
	adds := !again || declared != t.declared || d.executed() || d.conditions > 0
	t.declared = declared
	if adds {
		t.addLines(declared, counters[d.arcs:])
	}
	if declared != nil && strings.HasPrefix(t.fn.Name, "_Z") {
		declared.instances[len(declared.instances)-1].Lines = t.ownLines(d.executed())
	}
}

// addLines adds the current function to its lines, with the masks of its conditions.
func (t *tally) addLines(declared *functionTally, masks []int64) {
	g := &t.flow
	mentions := t.mentions()
	for i := 0; i < len(t.places); {
		block := t.places[i].block
		attaches := t.attaches(block)
		// What the block decides belongs to the last of its lines, as with gcov. An
		// inlined function may stand further down in the notes: they mention a
		// line once a block, so their order does not tell where the block ends.
		var line *lineTally
		var at conditionKey
		own := false // the line stands in the function
		for ; i < len(t.places) && t.places[i].block == block; i++ {
			last := uint32(0)
			p := &t.places[i]
			end := t.end(p)
			for _, n := range t.lines[p.line:p.last] {
				within := t.contains(p.file, n)
				l := t.line(p.file, n, block, within, attaches && n == end || mentions)
				if n >= last {
					last, line, own = n, l, within
					at.file, at.line = p.file, n
				}
			}
		}
		if line == nil || block == 0 || int(block) == g.Exit {
			continue
		}
		at.function = nil
		if own {
			at.function = declared
		}
		t.branches(line, at.function, int(block))
		t.terms(at, block, masks)
	}
}

// listOwn lists the lines within the current function.
func (t *tally) listOwn() {
	t.own, t.listed = t.own[:0], true
	for i := range t.places {
		p := &t.places[i]
		for _, n := range t.lines[p.line:p.last] {
			if t.contains(p.file, n) {
				t.own = append(t.own, n)
			}
		}
	}
	slices.Sort(t.own)
	t.own = slices.Compact(t.own)
}

// ownLines are the lines within the current function, which were added, and what it
// added to their counts.
func (t *tally) ownLines(ran bool) coverage.Hits {
	if !ran && t.idle != nil {
		return t.idle
	}
	if !t.listed {
		t.listOwn()
	}
	var lines *fileTally
	if ran {
		lines = t.source(t.file)
	}
	last := int32(0)
	hits := coverage.Hits(t.hitRoom[len(t.hitRoom):])
	for _, n := range t.own {
		most := int64(0)
		if ran {
			most = lines.at(n).most
		}
		hits = hits.Add(&last, int32(n), most)
	}
	hits = t.keepHits(hits)
	if !ran {
		t.idle = hits
	}
	return hits
}

// keepHits keeps hits that were appended to t.hitRoom: most are short, and there are
// many, so they share blocks of memory.
func (t *tally) keepHits(hits coverage.Hits) coverage.Hits {
	if cap(t.hitRoom)-len(t.hitRoom) < len(hits) {
		t.hitRoom = make([]byte, 0, 1<<16)
		if len(hits) > 1<<12 {
			return hits
		}
		t.hitRoom = append(t.hitRoom, hits...)
		return coverage.Hits(t.hitRoom[:len(hits):len(hits)])
	}
	begin := len(t.hitRoom)
	t.hitRoom = t.hitRoom[:begin+len(hits)]
	return coverage.Hits(t.hitRoom[begin:len(t.hitRoom):len(t.hitRoom)])
}

// lastLines notes where the blocks of the current function end.
func (t *tally) lastLines(blocks int) {
	t.ends = slices.Grow(t.ends[:0], blocks)[:blocks]
	clear(t.ends)
	for i := range t.places {
		p := &t.places[i]
		switch {
		case p.file != t.file:
			t.ends[p.block] = 0
		case p.last > p.line:
			t.ends[p.block] = int32(t.lines[p.last-1])
		}
	}
}

// extent returns the first and the last line that the function names, 0 if it names lines
// of other sources than its own.
func (f *unpacked) extent() (first, last uint32) {
	if len(f.lines) == 0 || slices.ContainsFunc(f.places, func(p place) bool { return p.file != f.file && p.last > p.line }) {
		return 0, 0
	}
	return slices.Min(f.lines), slices.Max(f.lines)
}

// settle makes counts fit to be shown where no flow explains them: threads have
// torn the counters, or control went where the graph has no arc, as Clang's has
// none for longjmp and exit, and lacks some of branches. An arc has no less than nothing, a block what
// came in or went out, whichever is more.
func (g *Flow) settle() {
	for i := range g.Blocks {
		g.Blocks[i].Count = 0
	}
	for i := range g.Arcs {
		a := &g.Arcs[i]
		a.Count = max(a.Count, 0)
		g.Blocks[a.Src].Count += a.Count
	}
	for i := range g.Blocks {
		in := int64(0)
		for _, k := range g.Preds(i) {
			in += g.Arcs[k].Count
		}
		g.Blocks[i].Count = max(g.Blocks[i].Count, in)
	}
}

// declare adds the current function to the functions of its file.
func (t *tally) declare() *functionTally {
	fn, g := &t.fn, &t.flow
	key := functionKey{file: t.file, line: fn.StartLine, column: fn.StartColumn}
	switch {
	case !strings.HasPrefix(fn.Name, "_Z") || fn.StartColumn == 0:
		key.name, _, _ = strings.Cut(fn.Name, ".") // a clone of GCC's: name.part.0
	case fn.StartLine == fn.EndLine && fn.StartColumn == fn.EndColumn: // in a macro
		key.name = (&coverage.Function{
			Name: fn.Name, StartLine: int32(fn.StartLine), StartColumn: int32(fn.StartColumn),
			EndLine: int32(fn.EndLine), EndColumn: int32(fn.EndColumn),
		}).SourceName()
	}
	in := coverage.Instance{Name: fn.Name}
	for i := range g.Blocks {
		if i == 0 || i == g.Exit {
			continue
		}
		in.Blocks++
		if g.Blocks[i].Count != 0 {
			in.BlocksExecuted++
		}
	}
	if len(g.Blocks) > 0 {
		in.Count = g.called()
	}
	f := t.functions[key]
	if f == nil {
		f = &t.tallies.take(1)[0]
		f.key, f.endLine, f.endColumn = key, fn.EndLine, fn.EndColumn
		f.instances = t.piece() // most have one
		t.functions[key] = f
	}
	f.instances = append(f.instances, in)
	return f
}

// piece returns room for one instance, which is not used again.
func (t *tally) piece() []coverage.Instance {
	const many = 64
	n := len(t.instances)
	if n == cap(t.instances) {
		t.instances, n = make([]coverage.Instance, 0, many), 0
	}
	t.instances = t.instances[:n+1]
	return t.instances[n : n : n+1]
}

// line adds a block to a line, on which it ends or not, and returns the line; nil
// when its file is left out.
func (t *tally) line(file int32, n, block uint32, own, ends bool) *lineTally {
	if file == dropped {
		return nil
	}
	b := &t.flow.Blocks[block]
	f := t.source(file)
	l := f.at(n)
	if l.current != t.current {
		l.current, l.most, l.idle, l.ends, l.passing = t.current, 0, false, false, false
	}
	if !b.Exceptional {
		l.reached = true
		l.idle = l.idle || b.Count == 0
	}
	ran := b.Count > 0
	if t.torn {
		ran = t.blockRan(position{file, n}, block, ends)
	}
	l.verdict(ends, ran)
	f.passed = f.passed || l.passing
	if b.Count > l.most && ends == l.ends {
		l.inlined = l.inlined || !own
		l.count += b.Count - l.most
		l.most = b.Count
	}
	if l.idle && l.most > 0 {
		l.unexecuted = true
	}
	return l
}

// source returns the lines of a file, made if need be.
func (t *tally) source(file int32) *fileTally {
	for int(file) >= len(t.files) {
		t.files = append(t.files, nil)
	}
	if t.files[file] == nil {
		t.use(file)
	}
	return t.files[file]
}

func (t *tally) use(file int32) {
	f := &fileTally{pages: &t.pages}
	if last := len(t.spare) - 1; last >= 0 {
		f, t.spare = t.spare[last], t.spare[:last]
	}
	t.files[file], t.used = f, append(t.used, file)
}

// branches adds the branches and calls of a block that ends on the line. The
// instances of a function are built alike, so their branches correspond by
// their order on the line.
func (t *tally) branches(l *lineTally, function *functionTally, block int) {
	g := &t.flow
	b := &g.Blocks[block]
	ways := int32(0) // other than exceptions
	some := false
	for _, k := range g.Succs(block) {
		a := &g.Arcs[k]
		if !a.NonReturn && !a.Throw {
			ways++
		}
		some = some || a.NonReturn || !a.Unconditional
	}
	if !some {
		return
	}
	gr := t.group(l, function)
	if gr.current != t.current {
		gr.current, gr.branch, gr.call, gr.block = t.current, 0, 0, 0
	}
	for _, k := range g.Succs(block) {
		switch a := &g.Arcs[k]; {
		case a.NonReturn:
			t.addCall(gr, coverage.Call{Count: b.Count, Returned: max(0, b.Count-a.Count)})
		case !a.Unconditional:
			t.addBranch(gr, branchTally{
				count: a.Count, block: gr.block, to: t.ends[a.Dst], evaluated: b.Count > 0,
				falls: a.Falls(), throw: a.Throw, exception: a.Throw || ways < 2,
			})
		}
	}
	gr.block++
}

// group is the function's group on the line, made if need be.
func (t *tally) group(l *lineTally, function *functionTally) *group {
	last := &l.group
	for *last != nil {
		if (*last).function == function {
			return *last
		}
		last = &(*last).next
	}
	*last = &t.groups.take(1)[0]
	(*last).function = function
	return *last
}

// addBranch adds the next branch of the current function to the group.
func (t *tally) addBranch(gr *group, b branchTally) {
	if int(gr.branch) < len(gr.branches) {
		sum := &gr.branches[gr.branch]
		sum.count += b.count
		sum.evaluated = sum.evaluated || b.evaluated
	} else {
		gr.branches = push(&t.branchRoom, gr.branches, b)
	}
	gr.branch++
}

// addCall adds the next call of the current function to the group.
func (t *tally) addCall(gr *group, c coverage.Call) {
	if int(gr.call) < len(gr.calls) {
		gr.calls[gr.call].Count += c.Count
		gr.calls[gr.call].Returned += c.Returned
	} else {
		gr.calls = push(&t.callRoom, gr.calls, c)
	}
	gr.call++
}

// push appends to a list. Most lists are short and there are many, so they
// share blocks of memory.
func push[T any](room *arena[T], list []T, x T) []T {
	if n := len(list); n == cap(list) {
		list = append(room.take(max(2, 2*n))[:0], list...)
	}
	return append(list, x)
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
