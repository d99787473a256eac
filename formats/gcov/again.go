package gcov

import (
	"cmp"
	"slices"
	"sync"

	"footfall/coverage"
)

// This file looks at counters again. Few have changed since the last look, so only the
// functions are solved whose counters have, and those that share lines with them; all
// other lines and functions stay.
//
// What is said of a line depends on the functions that name it, and on no others; what
// is said of a function, on those that begin on the same line. A line that a changed
// function names, or on which it begins, is stale. All functions that name a stale line
// are added up anew, and of what comes out the stale lines are taken over, and the
// functions that begin on them.

// looks is what a Program keeps of the last look.
type looks struct {
	used []int32 // the objects
	set  *coverage.Set

	distinct int // functions
	mu       sync.Mutex
	torn     map[distinctID]bool     // counters contradict each other
	inlined  map[int32][]inlinedLine // by source
	raised   map[int32][]int32       // by source, what countInlined returned

	// Of the second look and later ones.
	ranks   []int32            // of sources
	extents map[int32][]extent // by source
	users   map[distinctID][]user
	tally   *tally
	stale   map[int32]lineSet // by source
	lines   unpacked
}

// An extent is the lines that a function names of a source.
type extent struct {
	id          distinctID
	first, last uint32
}

// A user is function number of an object.
type user struct{ unit, number int32 }

func newLooks(used []int32) *looks {
	return &looks{used: used, torn: make(map[distinctID]bool), inlined: make(map[int32][]inlinedLine), raised: make(map[int32][]int32)}
}

// keep keeps what is known of a source beside its file.
func (l *looks) keep(file int32, inlined []inlinedLine, raised []int32) {
	if len(inlined) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inlined[file], l.raised[file] = slices.Clone(inlined), raised
}

// note notes functions of which the counters contradict each other. Nobody looks again if l is nil.
func (l *looks) note(torn []distinctID) {
	if l == nil {
		return
	}
	for _, id := range torn {
		l.torn[id] = true
	}
}

// A lineSet has a bit for each line.
type lineSet []uint64

func (s *lineSet) add(n uint32) {
	for int(n/64) >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[n/64] |= 1 << (n % 64)
}

func (s lineSet) has(n uint32) bool { return int(n/64) < len(s) && s[n/64]>>(n%64)&1 != 0 }

// within tells whether there may be lines from first to last.
func (s lineSet) within(first, last uint32) bool {
	for i := int(first / 64); i <= int(last/64) && i < len(s); i++ {
		if s[i] != 0 {
			return true
		}
	}
	return false
}

// again brings the set up to date with the functions whose counters have changed, which
// are in the pool already. It returns false if it is not worth while.
func (c *collector) again(changed []distinctID) bool {
	l := c.looks
	l.mark(c, changed)
	refs := l.sharing(c)
	if len(refs) > l.distinct/2 {
		return false
	}
	if l.tally == nil {
		l.tally = newTally(c.sources)
		l.tally.looks = l
	}
	t := l.tally
	t.reset()
	t.contradict = t.contradict[:0]
	t.add(c.pool, refs)
	c.settleDisputes(t, batch{refs: refs}, 1)
	t.list(1)
	var files []*coverage.File
	for file, lines := range l.stale {
		var part *coverage.File
		var inlined []inlinedLine
		if int(file) < len(t.files) && t.files[file] != nil {
			part, inlined = t.files[file].made, t.files[file].inlined
		}
		f := l.patched(c.sources.list[file], part, lines)
		if f == nil {
			return false
		}
		l.patchInlined(f, file, inlined, lines)
		files = append(files, f)
	}
	for _, r := range refs {
		delete(l.torn, r.id)
	}
	l.note(t.contradict)
	l.set = l.set.With(nil, files...)
	return true
}

// all tells whether all functions that name a line are being added up.
func (l *looks) all(file int32, line uint32) bool { return l.stale == nil || l.stale[file].has(line) }

// mark makes the lines stale that functions name.
func (l *looks) mark(c *collector, changed []distinctID) {
	if l.extents == nil {
		l.index(c)
	}
	l.stale = make(map[int32]lineSet)
	for _, id := range changed {
		l.lines.each(c.pool.bytes(id), func(file int32, line uint32) {
			s := l.stale[file]
			s.add(line)
			l.stale[file] = s
		})
	}
}

// each calls f for each line that a packed function names, and for that on which it begins.
func (u *unpacked) each(packed []byte, f func(file int32, line uint32)) {
	u.unpackLines(packed)
	if u.file != dropped && u.fn.StartLine > 0 {
		f(u.file, u.fn.StartLine)
	}
	for i := range u.places {
		p := &u.places[i]
		if p.file == dropped {
			continue
		}
		for _, n := range u.lines[p.line:p.last] {
			f(p.file, n)
		}
	}
}

// index finds out which functions name which lines.
func (l *looks) index(c *collector) {
	l.ranks, _ = c.sources.ranks()
	l.extents = make(map[int32][]extent)
	seen := make(map[distinctID]bool)
	for _, unit := range l.used {
		for _, id := range c.units[unit] {
			if seen[id] {
				continue
			}
			seen[id] = true
			l.lines.each(c.pool.bytes(id), func(file int32, line uint32) {
				list := l.extents[file]
				if n := len(list); n == 0 || list[n-1].id != id {
					list = append(list, extent{id, line, line})
					l.extents[file] = list
					return
				}
				e := &list[len(list)-1]
				e.first, e.last = min(e.first, line), max(e.last, line)
			})
		}
	}
}

// sharing returns the functions that may name stale lines, ordered as in batches.
func (l *looks) sharing(c *collector) []ref {
	var refs []ref
	seen := make(map[distinctID]bool)
	for file, lines := range l.stale {
		for _, e := range l.extents[file] {
			if seen[e.id] || !lines.within(e.first, e.last) {
				continue
			}
			seen[e.id] = true
			d := c.pool.at(e.id)
			refs = append(refs, newRef(l.ranks[d.home], e.id, d))
		}
	}
	return sortRefs(refs)
}

// patched is a copy of a file with the stale lines of part, and its functions that begin
// on them. nil: part has not what it should.
func (l *looks) patched(name string, part *coverage.File, stale lineSet) *coverage.File {
	before := l.set.File(name)
	if before == nil || part == nil {
		return nil
	}
	f := *before
	f.Lines, f.Functions = slices.Clone(before.Lines), slices.Clone(before.Functions)
	k := 0
	for i := range part.Lines {
		n := part.Lines[i].Number
		if !stale.has(uint32(n)) {
			continue
		}
		for k < len(f.Lines) && f.Lines[k].Number < n {
			k++
		}
		if k == len(f.Lines) || f.Lines[k].Number != n {
			return nil
		}
		f.Lines[k] = part.Lines[i]
	}
	k = 0
	for _, fn := range part.Functions {
		if !stale.has(uint32(fn.StartLine)) {
			continue
		}
		for k < len(f.Functions) && f.Functions[k].StartLine < fn.StartLine {
			k++
		}
		if k == len(f.Functions) || f.Functions[k].StartLine != fn.StartLine || f.Functions[k].Name != fn.Name {
			return nil
		}
		f.Functions[k] = fn
		k++
	}
	return &f
}

// patchInlined gives functions of a patched file the counts of lines where they were
// inlined. inlined are those that were added up anew.
func (l *looks) patchInlined(f *coverage.File, file int32, inlined []inlinedLine, stale lineSet) {
	list := slices.DeleteFunc(slices.Clone(l.inlined[file]), func(in inlinedLine) bool { return stale.has(uint32(in.number)) })
	for _, in := range inlined {
		if stale.has(uint32(in.number)) {
			list = append(list, in)
		}
	}
	if len(list)+len(l.inlined[file]) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b inlinedLine) int { return cmp.Compare(a.number, b.number) })
	zero := make(map[int32]bool)
	for _, i := range l.raised[file] {
		zero[i] = !stale.has(uint32(f.Functions[i].StartLine)) // else its count is that of calls again
	}
	for i, fn := range f.Functions {
		if fn.Count != 0 && !zero[int32(i)] {
			continue
		}
		own := *fn
		own.Instances = slices.Clone(fn.Instances)
		if zero[int32(i)] {
			own.Count, own.Instances[0].Count = 0, 0
		}
		f.Functions[i] = &own
	}
	l.inlined[file], l.raised[file] = list, countInlined(f.Functions, list)
}

// recount adds up the counters of a function anew.
func (c *collector) recount(id distinctID) {
	l := c.looks
	if l.users == nil {
		l.users = make(map[distinctID][]user)
		for _, unit := range l.used {
			if of := c.kept[unit]; of != nil {
				for i := range of.functions {
					l.users[of.functions[i].id] = append(l.users[of.functions[i].id], user{unit, int32(i)})
				}
			}
		}
	}
	c.pool.forget(id)
	for _, u := range l.users[id] {
		c.takeOne(u.unit, u.number)
	}
}

// forget has a function have run never.
func (p *pool) forget(id distinctID) {
	sh, d := &p.shards[id.shard()], p.at(id)
	clear(sh.countersOf(d))
	for d.runs >= 0 {
		sh.free = append(sh.free, d.runs)
		d.runs = sh.runs[d.runs].next
	}
}
