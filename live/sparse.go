//go:build linux

package live

import (
	"bytes"
	"slices"
	"sync"
	"unsafe"

	"footfall/process"
)

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
	pages   map[uint64]inheritedPage
	scratch sparsePart
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
	s := &l.lately.scratch
	s.at, s.value = s.at[:0], s.value[:0]
	s.keepTouched(r, int(addr-r.addr)/8, page)
	p := s.clipped()
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

// is tells whether the counters in w are those that s has.
func (s *sparse) is(l *layout, w words) bool {
	kept := 0
	for _, p := range s.parts {
		for i, at := range p.at {
			if w[at] != p.value[i] {
				return false
			}
		}
		kept += len(p.at)
	}
	for _, m := range l.sums {
		for _, x := range w[m.from:m.to] {
			if x != 0 {
				kept--
			}
		}
	}
	return kept == 0
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

// addTo adds s to w.
func (s *sparse) addTo(w words) {
	for _, p := range s.parts {
		for i, at := range p.at {
			w[at] += p.value[i]
		}
	}
}

// subtractFrom takes s out of w.
func (s *sparse) subtractFrom(w words) {
	for _, p := range s.parts {
		for i, at := range p.at {
			w[at] -= p.value[i]
		}
	}
}
