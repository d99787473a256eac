//go:build linux

package live

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
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
	l.inOrder = im.inListOrder()
	l.sums = joinedMarks(l.sums)
	l.regions = l.regionsOf(l.sums)
	slices.SortFunc(l.marks, func(a, b mark) int { return a.from - b.from })
	return l, nil
}

// regionsOf are the regions that have sums, which are in ascending order.
func (l *layout) regionsOf(sums []mark) (regions []region) {
	const near = 4096 / 8 // as far apart are pages
	at := 0
	for _, r := range l.plan.ranges {
		at = (at + 7) &^ 7
		first, end := at/8, (at+len(r.Bytes))/8
		at += len(r.Bytes)
		for len(sums) > 0 && sums[0].from < end {
			n := 1
			for n < len(sums) && sums[n].from < end && sums[n].from-sums[n-1].to < near {
				n++
			}
			from := sums[0].from
			regions = append(regions, region{r.Addr + uint64(from-first)*8, from, sums[n-1].to, sums[:n:n]})
			sums = sums[n:]
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

// inListOrder returns the indexes of the units in the order of libgcov's list.
func (im *image) inListOrder() (order []int) {
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
		order = append(order, i)
		next = im.units[i].next
	}
	if len(order) < len(im.units) {
		order = order[:0]
		for i := range im.units {
			order = append(order, i)
		}
	}
	return order
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
	if err := p.ReadRanges(l.ranges(start, to)); err != nil {
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

// A sparse is a buffer of which most words are zero. Its parts are in ascending order, and those of several processes may
// be the same: they are not changed.
type sparse struct{ parts []*sparsePart }

// A sparsePart is the words of a sparse, in some part of it, that are not zero.
type sparsePart struct {
	at    []uint32
	value []uint64
}

// size is how many words it takes.
func (s *sparse) size() (words int) {
	for _, p := range s.parts {
		words += len(p.at) + (len(p.at)+1)/2
	}
	return words
}

// add adds what has been kept, if it is something.
func (s *sparse) add(p *sparsePart) {
	if len(p.at) > 0 {
		s.parts = append(s.parts, p)
	}
}

// sparseOf keeps the counters of a buffer, of those that are sums.
func (l *layout) sparseOf(w words) *sparse {
	p := new(sparsePart)
	for _, m := range l.sums {
		p.keep(m.from, w[m.from:m.to])
	}
	s := new(sparse)
	s.add(p.clipped())
	return s
}

// sparseAtOnce is sparseOf of what is in the memory of a process, where the image is mapped at start, as readAtOnce reads it; and
// the flags of libgcov there. It reads the counters only that the program has touched, and of the structures the root.
func (l *layout) sparseAtOnce(p *process.Process, start uint64) (s *sparse, flags int, err error) {
	if l.root == 0 {
		w := l.buffer()
		defer l.release(w)
		if err := l.readAtOnce(p, start, w); err != nil {
			return nil, 0, err
		}
		return l.sparseOf(w), l.flagsIn(w), nil
	}
	delta := start - l.start
	ranges := make([]process.AddressRange, 0, len(l.regions)+1)
	for _, r := range l.regions {
		ranges = append(ranges, process.AddressRange{Addr: r.addr + delta, End: r.addr + delta + uint64(r.to-r.from)*8})
	}
	root, rootAt := make([]byte, l.rootSize()), l.root+delta
	ranges = append(ranges, process.AddressRange{Addr: rootAt, End: rootAt + uint64(len(root))})
	s = new(sparse)
	l.lately.Lock()
	defer l.lately.Unlock()
	if err := p.VisitTouched(ranges, start+l.named, func(i int, addr uint64, b []byte) {
		if i == len(l.regions) {
			copy(root[addr-rootAt:], b)
			return
		}
		for len(b) > 0 {
			page := b[:min(len(b), pageSize-int(addr%pageSize))]
			s.add(l.partOf(&l.regions[i], addr-delta, page))
			addr, b = addr+uint64(len(page)), b[len(page):]
		}
	}); err != nil {
		return nil, 0, err
	}
	if !l.heads[0].isIn(l, root, delta, new([]byte)) {
		return nil, 0, errMoved
	}
	return s, l.flags(root), nil
}

// inheritedPages are pages as they were read last, of processes that had just been forked: from one child to the
// next few differ.
type inheritedPages struct {
	sync.Mutex
	pages map[uint64]inheritedPage
}

type inheritedPage struct {
	bytes []byte
	part  *sparsePart
}

// partOf keeps the sums of a page, or a part of one, of a region. addr is where it would be in the process in which the image
// was found. They are locked.
func (l *layout) partOf(r *region, addr uint64, page []byte) *sparsePart {
	was := l.lately.pages[addr]
	if was.part != nil && bytes.Equal(was.bytes, page) {
		return was.part
	}
	p := new(sparsePart)
	p.keepTouched(r, int(addr-r.addr)/8, page)
	p = p.clipped()
	if l.lately.pages == nil {
		l.lately.pages = make(map[uint64]inheritedPage)
	}
	l.lately.pages[addr] = inheritedPage{append(was.bytes[:0], page...), p}
	return p
}

// keepTouched keeps the sums of memory that begins a number of words into a region.
func (s *sparsePart) keepTouched(r *region, skip int, b []byte) {
	w := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
	from, to := r.from+skip, r.from+skip+len(w)
	n, _ := slices.BinarySearchFunc(r.sums, from, func(m mark, from int) int { return m.to - from - 1 })
	for _, m := range r.sums[n:] {
		if m.from >= to {
			break
		}
		begin := max(m.from, from)
		s.keep(begin, w[begin-from:min(m.to, to)-from])
	}
}

// keep keeps a part of a buffer, behind what it has kept so far. Most words are zero.
func (s *sparsePart) keep(at int, part words) {
	for i := 0; i < len(part); {
		if i+8 <= len(part) && part[i]|part[i+1]|part[i+2]|part[i+3]|part[i+4]|part[i+5]|part[i+6]|part[i+7] == 0 {
			i += 8
			continue
		}
		for end := min(i+8, len(part)); i < end; i++ {
			if x := part[i]; x != 0 {
				s.at, s.value = append(s.at, uint32(at+i)), append(s.value, x)
			}
		}
	}
}

// clipped takes no more room than it needs.
func (s *sparsePart) clipped() *sparsePart {
	return &sparsePart{slices.Clone(s.at), slices.Clone(s.value)}
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

// in tells whether w may hold all that s does, and more: no counter is less.
func (s *sparse) in(w words) bool {
	for _, p := range s.parts {
		for i, at := range p.at {
			if w[at] < p.value[i] {
				return false
			}
		}
	}
	return true
}

// beingCleared tells whether w looks as s does while all counters are set to zero, one after
// another: some are zero already, others are what they were, and nothing has been counted since.
func (l *layout) beingCleared(s *sparse, w words) bool {
	cleared, left, n := false, false, 0
	parts, p := s.parts, new(sparsePart)
	for _, m := range l.sums {
		for i, x := range w[m.from:m.to] {
			if n == len(p.at) && len(parts) > 0 {
				p, parts, n = parts[0], parts[1:], 0
			}
			was := uint64(0)
			if n < len(p.at) && p.at[n] == uint32(m.from+i) {
				was, n = p.value[n], n+1
			}
			if x != 0 && x != was {
				return false
			}
			cleared, left = cleared || x != was, left || x != 0
		}
	}
	return cleared && left
}

// subtractFrom takes s out of w.
func (s *sparse) subtractFrom(w words) {
	for _, p := range s.parts {
		for i, at := range p.at {
			w[at] -= p.value[i]
		}
	}
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

// layouts are those that are known, by file: of a file several if it was rebuilt, or looked at
// while it was being loaded.
type layouts struct {
	mu     sync.Mutex
	byFile map[string][]*layout
	none   map[string]string // files without counters, and when they were changed last

	searched map[string]*searched // files that somebody searches
}

// A searched is a file that is searched by one at a time.
type searched struct {
	sync.Mutex
	users int
}

func newLayouts() *layouts {
	return &layouts{byFile: make(map[string][]*layout), none: make(map[string]string), searched: make(map[string]*searched)}
}

// alone waits until nobody else searches a file, until what it returns is called: of many processes that begin or end at a
// time one finds what is the same in all.
func (k *layouts) alone(mapped *process.MappedFile) (done func()) {
	file := mapped.File()
	k.mu.Lock()
	s := k.searched[file]
	if s == nil {
		s = new(searched)
		k.searched[file] = s
	}
	s.users++
	k.mu.Unlock()
	s.Lock()
	return func() {
		s.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(k.searched, file)
		}
	}
}

// of returns the layouts of a file that is mapped; none tells that it has no counters, since it was changed
// last.
func (k *layouts) of(mapped *process.MappedFile, changed string) (known []*layout, none bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	file := mapped.File()
	return k.byFile[file], changed != "" && k.none[file] == changed
}

// maxNone is of how many files it is remembered that they have none.
const maxNone = 1 << 14

// hasNone notes that a file has no counters, where that can be told from another file that has its number later.
func (k *layouts) hasNone(mapped *process.MappedFile, changed string) {
	if changed == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.none) >= maxNone {
		clear(k.none)
	}
	k.none[mapped.File()] = changed
}

// same tells whether two layouts are of one build.
func (l *layout) same(other *layout) bool {
	return l.size() == other.size() && slices.EqualFunc(l.units, other.units, func(a, b *unit) bool {
		return a.name == b.name && a.stamp == b.stamp && a.addr-l.start == b.addr-other.start
	})
}

// find looks for counters in a file that is mapped, of a guest if it is one's. It returns nil
// where there are none, or none yet: of a process that is starting that is not the same.
func (k *layouts) find(f *Family, p *process.Process, mapped *process.MappedFile, changed string, maps process.Maps, g *guest, starting bool) (*layout, error) {
	finder := &CountedProcess{PID: p.PID, Name: p.Name, proc: p}
	im := finder.find(mapped, maps, g, newBudget())
	known, _ := k.of(mapped, changed)
	if len(im.units) == 0 {
		if im.root == 0 && im.problem == nil && len(known) == 0 && !starting { // else this process has not got to them
			k.hasNone(mapped, changed)
		}
		return nil, im.problem
	}
	constructing := im.root == 0 && !im.units[0].clang && im.units[0].version.Major() >= 5
	if constructing || slices.ContainsFunc(known, func(l *layout) bool {
		return len(l.units) >= len(im.units) && slices.ContainsFunc(l.units, func(u *unit) bool { return u.name == im.units[0].name && u.stamp == im.units[0].stamp })
	}) {
		return nil, nil // its constructors have not all run: nothing has been counted that matters
	}
	l, err := newLayout(im, mapped)
	if err != nil {
		k.hasNone(mapped, changed)
		return nil, err
	}
	l.resetsForks = wrapsFork(mapped)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, other := range k.byFile[l.file] { // found meanwhile, in another process
		if other.same(l) {
			return other, im.problem
		}
	}
	if !f.hasRoom(layoutRoom * l.size()) {
		return nil, fmt.Errorf("%s: %w", im.path, errRoom)
	}
	k.byFile[l.file] = append(k.byFile[l.file], l)
	return l, im.problem
}

// layoutRoom is how many buffers are kept for each: its own, two of its sum, one at each look, and what was inherited last.
const layoutRoom = 5
