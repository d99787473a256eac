//go:build linux

package live

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"unsafe"

	"footfall/formats/gcov"
	"footfall/process"
)

// This file is what processes of one program have in common: where the counters of an image
// lie in the file's memory is found out once, and is the same wherever it is mapped.
// To look at one more process then takes its memory map and one reading.

// A layout is where the counters of an image are: the image as it was found in one process, and a
// plan for reading it alone. The plan's buffer is the form in which counters
// of several processes are added up: word by word.
type layout struct {
	*image
	file    string // process.MappedFile.File
	named   uint64 // behind this part of the image, from its start, there is no file
	plan    *plan
	marks   []mark   // what is not to be added up as if it were one number
	sums    []mark   // where counters are that are sums
	regions []region // of memory that have those
	heads   []head
	// inOrder are the indexes of the units, in the order in which their data files are written.
	inOrder []int
	last    int // of those on libgcov's list
	// resetsForks tells that the image has libgcov's wrapper of fork, by which counters begin from
	// zero in the child: its own, and those of images that it is joined with.
	resetsForks bool

	free   sync.Pool // of *words
	lately inheritedPages
}

// Words are the buffer of a plan.
type words []uint64

func (w words) bytes() []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 8*len(w))
}

// A mark is a range of words, in ascending order, that are no sums.
type mark struct {
	from, to int
	or       bool // bits; else lists and the like, of which nothing is kept
}

// A region is memory with counters that are sums, close to each other.
type region struct {
	addr     uint64 // where the image was found
	from, to int    // in words, as in the buffer
	sums     []mark // of the layout
}

// A head is a structure whose pointers are those of the place of the image.
type head struct {
	at       int // in the buffer
	bytes    []byte
	pointers []int // in bytes
}

var errUnaligned = errors.New("its counters cannot be added up over processes: they are not aligned, or of another byte order")

// newLayout makes one of an image that was found.
func newLayout(im *image, mapped *process.MappedFile) (*layout, error) {
	pl, err := newPlan([]*image{im}, nearby)
	if err != nil {
		return nil, err
	}
	l := &layout{image: im, file: mapped.File(), plan: pl, named: mapped.Parts[len(mapped.Parts)-1].End - mapped.Start}
	if im.order != binary.LittleEndian {
		return nil, errUnaligned
	}
	if im.root != 0 {
		l.heads = append(l.heads, head{im.rootAt, im.first, []int{0}})
	}
	for _, u := range im.units {
		l.heads = append(l.heads, head{u.headAt, u.head, u.pointers(im.pointer)})
		for i := range u.funcs {
			for _, a := range u.funcs[i].arrays {
				if a.length > 0 && a.at%8 != 0 {
					return nil, errUnaligned
				}
				sum, or := u.version.AddsUp(a.kind)
				if sum && a.length > 0 {
					l.sums = append(l.sums, mark{a.at / 8, a.at/8 + a.length, false})
				}
				if !sum && a.length > 0 {
					l.marks = append(l.marks, mark{a.at / 8, a.at/8 + a.length, or})
				}
			}
		}
	}
	l.inOrder, l.last = im.inListOrder()
	l.sums = joinedMarks(l.sums)
	l.regions = l.regionsOf(l.sums)
	slices.SortFunc(l.marks, func(a, b mark) int { return a.from - b.from })
	return l, nil
}

// regionsOf are the regions that have sums, which are in ascending order. What follows each other in the buffer may be far apart in
// memory: where a range of the plan ends, so does a region.
func (l *layout) regionsOf(sums []mark) (regions []region) {
	const near = 4096 / 8 // as far apart are pages
	sums = slices.Clone(sums)
	at := 0
	for _, r := range l.plan.ranges {
		at = (at + 7) &^ 7
		first, end := at/8, (at+len(r.Bytes))/8
		at += len(r.Bytes)
		var within []mark
		within, sums = cutMarks(sums, end)
		for len(within) > 0 {
			n := 1
			for n < len(within) && within[n].from-within[n-1].to < near {
				n++
			}
			from := within[0].from
			regions = append(regions, region{r.Addr + uint64(from-first)*8, from, within[n-1].to, within[:n:n]})
			within = within[n:]
		}
	}
	return regions
}

// addressOf is where a sum is that is in a word of the buffer, in the process where the image was found.
func (l *layout) addressOf(word int) (addr uint64, is bool) {
	for _, r := range l.regions {
		if r.from <= word && word < r.to {
			return r.addr + uint64(word-r.from)*8, true
		}
	}
	return 0, false
}

// joinedMarks joins the ranges that follow each other.
func joinedMarks(marks []mark) (joined []mark) {
	slices.SortFunc(marks, func(a, b mark) int { return a.from - b.from })
	for _, m := range marks {
		if n := len(joined); n > 0 && m.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, m.to)
			continue
		}
		joined = append(joined, m)
	}
	return joined
}

// cutMarks divides marks, which are in ascending order, into those before a word and those from it on, in place.
func cutMarks(marks []mark, at int) (before, after []mark) {
	n := 0
	for n < len(marks) && marks[n].to <= at {
		n++
	}
	before, after = marks[:n:n], marks[n:]
	if len(after) > 0 && after[0].from < at {
		before = append(before, mark{after[0].from, at, after[0].or})
		after[0].from = at
	}
	return before, after
}

// inListOrder returns the indexes of the units in the order of libgcov's list, and the last one of that: there may be units of other
// compilers.
func (im *image) inListOrder() (order []int, last int) {
	index := make(map[uint64]int)
	for i, u := range im.units {
		index[u.addr] = i
	}
	next := uint64(0)
	if im.first != nil {
		next = word(im.order, im.first, im.pointer)
	}
	for range im.units {
		i, known := index[next]
		if !known {
			break
		}
		order, last = append(order, i), i
		next = im.units[i].next
	}
	if len(order) < len(im.units) {
		order = order[:0]
		for i := range im.units {
			order = append(order, i)
		}
	}
	return order, last
}

// pointers are where those are in a gcov_info that hold an address of the image.
func (u *unit) pointers(size int) []int {
	if u.clang {
		return nil
	}
	name := 3 * size
	if size == 4 && u.version.HasObjectChecksum() {
		name += 4
	}
	at := []int{size, name}
	for i := name + size; i+size <= len(u.head); i += size {
		at = append(at, i) // merge functions, the number of functions, their table
	}
	return slices.DeleteFunc(at, func(i int) bool {
		return i == len(u.head)-2*size // the number of functions
	})
}

func (l *layout) size() int { return (len(l.plan.buf) + 7) / 8 }

func (l *layout) buffer() words {
	if w, ok := l.free.Get().(*words); ok {
		return *w
	}
	return make(words, l.size())
}

func (l *layout) release(w words) { l.free.Put(&w) }

// read reads the counters of the image where it is mapped at start.
func (l *layout) read(p *process.Process, start uint64, to words) error {
	err := l.readAtOnce(p, start, to)
	if !errors.Is(err, process.ErrAbsent) {
		return err
	}
	if err := p.AwaitTouched(l.ranges(start, to), start+l.named); err != nil {
		return err
	}
	return l.check(start, to)
}

// readAtOnce is read, but waits for nothing: what it would have to wait for is process.ErrAbsent.
func (l *layout) readAtOnce(p *process.Process, start uint64, to words) error {
	if err := p.ReadTouched(l.ranges(start, to), start+l.named); err != nil {
		return err
	}
	return l.check(start, to)
}

// ranges are where the counters are, and where in a buffer they go.
func (l *layout) ranges(start uint64, to words) []process.MemoryRange {
	b := to.bytes()
	ranges := make([]process.MemoryRange, len(l.plan.ranges))
	at := 0
	for i, r := range l.plan.ranges {
		at = (at + 7) &^ 7
		ranges[i] = process.MemoryRange{Addr: r.Addr + start - l.start, Bytes: b[at : at+len(r.Bytes)]}
		at += len(r.Bytes)
	}
	return ranges
}

func (l *layout) check(start uint64, to words) error {
	if !l.unmovedAt(to.bytes(), start-l.start) {
		return errMoved
	}
	return nil
}

// unmovedAt tells whether the structures in a buffer are those of the layout, by delta further
// up in memory.
func (l *layout) unmovedAt(b []byte, delta uint64) bool {
	var moved []byte
	for i := range l.heads {
		if h := &l.heads[i]; !h.isIn(l, b[h.at:], delta, &moved) {
			return false
		}
	}
	return true
}

// isIn tells whether a structure is what begins with now. It uses moved.
func (h *head) isIn(l *layout, now []byte, delta uint64, moved *[]byte) bool {
	want := h.bytes
	if delta != 0 {
		*moved = append((*moved)[:0], h.bytes...)
		l.move(*moved, h.pointers, delta)
		want = *moved
	}
	return bytes.Equal(now[:len(want)], want)
}

// tellsDumps tells whether there are flags that tell of the writing of data files.
func (l *layout) tellsDumps() bool { return l.root != 0 && l.rootSize() > l.pointer }

// flagsAt reads only the flags of libgcov in the root of the image, -1 if it is gone.
func (l *layout) flagsAt(p *process.Process, start uint64) int {
	flags, err := l.flagsOf(p, start, false)
	if err != nil {
		return -1
	}
	return flags
}

// flagsIn are the flags of libgcov in a buffer.
func (l *layout) flagsIn(w words) int {
	if l.root == 0 {
		return 0
	}
	return l.flags(w.bytes()[l.rootAt : l.rootAt+l.rootSize()])
}

// flagsOf is flagsAt, which need not wait.
func (l *layout) flagsOf(p *process.Process, start uint64, atOnce bool) (int, error) {
	if !l.tellsDumps() {
		return 0, nil
	}
	root := make([]byte, l.rootSize())
	ranges := []process.MemoryRange{{Addr: l.root + start - l.start, Bytes: root}}
	err := error(nil)
	if atOnce {
		err = p.ReadTouched(ranges, start+l.named)
	} else {
		err = p.ReadRanges(ranges)
	}
	return l.flags(root), err
}

// eachRange calls do for the ranges of a buffer in turn: sums, bits, and what is left out.
func (l *layout) eachRange(sum, bits, neither func(from, to int)) {
	at := 0
	for _, m := range l.marks {
		sum(at, m.from)
		if m.or {
			bits(m.from, m.to)
		} else {
			neither(m.from, m.to)
		}
		at = m.to
	}
	sum(at, l.size())
}

// add adds what was counted to a sum.
func (l *layout) add(sum, more words) {
	l.eachRange(func(from, to int) {
		s, m := sum[from:to], more[from:to]
		for i, x := range m {
			s[i] += x
		}
	}, func(from, to int) {
		for i := from; i < to; i++ {
			sum[i] |= more[i]
		}
	}, func(int, int) {})
}

// addSince adds now less before.
func (l *layout) addSince(sum, now, before words) {
	l.eachRange(func(from, to int) {
		for i := from; i < to; i++ {
			sum[i] += now[i] - before[i]
		}
	}, func(from, to int) {
		for i := from; i < to; i++ {
			sum[i] |= now[i] &^ before[i]
		}
	}, func(int, int) {})
}

// raise has no counter of a sum be less than it was.
func (l *layout) raise(sum, was words) {
	l.eachRange(func(from, to int) {
		for i := from; i < to; i++ {
			sum[i] = uint64(max(int64(sum[i]), int64(was[i])))
		}
	}, func(from, to int) {
		for i := from; i < to; i++ {
			sum[i] |= was[i]
		}
	}, func(from, to int) { clear(sum[from:to]) })
}

// scatter puts what a data file holds of a unit where its counters are in the buffer; false: it is of
// another build.
func (l *layout) scatter(u *unit, c *gcov.Counts, to words) bool {
	// As libgcov: since there is a checksum it takes another stamp for the same.
	if c.Version != u.version || c.Stamp != u.stamp && !u.version.HasObjectChecksum() || c.Checksum != u.check || len(c.Functions) != len(u.funcs) {
		return false
	}
	for i := range u.funcs {
		f, g := &u.funcs[i], &c.Functions[i]
		if f.absent || g.Placeholder {
			continue
		}
		if f.ident != g.Ident || f.cfg != g.CfgChecksum {
			return false
		}
		for _, a := range f.arrays {
			k := g.Of(a.kind)
			if sum, or := u.version.AddsUp(a.kind); !sum && !or || a.length == 0 {
				continue
			}
			for n := range a.length {
				x := uint64(0)
				if k != nil && n < k.Len() {
					x = uint64(k.At(n))
				}
				to[a.at/8+n] = x
			}
		}
	}
	return true
}

// eachCounterOf calls do for the arrays of counters of a unit that are sums, by words.
func (l *layout) eachCounterOf(u *unit, do func(at, n int)) {
	for i := range u.funcs {
		for _, a := range u.funcs[i].arrays {
			if sum, _ := u.version.AddsUp(a.kind); sum && a.length > 0 {
				do(a.at/8, a.length)
			}
		}
	}
}

// same tells whether two layouts are of one build.
func (l *layout) same(other *layout) bool {
	return l.size() == other.size() && slices.EqualFunc(l.units, other.units, func(a, b *unit) bool {
		return a.name == b.name && a.stamp == b.stamp && a.addr-l.start == b.addr-other.start
	})
}
