//go:build linux

package live

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"footfall/formats/gcov"
	"footfall/process"
)

// A plan says which memory holds the counters of all units, and where in the
// buffer of a snapshot each part goes.
type plan struct {
	ranges []process.MemoryRange // into buf
	buf    []byte
}

const (
	nearby  = 4096    // ranges that are closer are read as one
	maxRead = 1 << 29 // bytes of a snapshot
)

// A part is memory that a snapshot needs.
type part struct {
	addr uint64
	size int
	at   *int
}

// newPlan plans a snapshot of the units. Ranges that are closer than gap are
// read as one.
func newPlan(images []*image, gap uint64) (*plan, error) {
	var parts []part
	for _, im := range images {
		if im.root != 0 {
			parts = append(parts, part{im.root, im.rootSize(), &im.rootAt})
		}
		for _, u := range im.units {
			parts = append(parts, part{u.addr, len(u.head), &u.headAt})
			for i := range u.funcs {
				for j := range u.funcs[i].arrays {
					if a := &u.funcs[i].arrays[j]; a.length > 0 {
						parts = append(parts, part{a.addr, 8 * a.length, &a.at})
					}
				}
			}
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.addr, b.addr) })
	type span struct {
		addr, end uint64
		at        int
	}
	var spans []span
	total := 0
	for _, p := range parts {
		end := p.addr + uint64(p.size)
		if n := len(spans); n == 0 || p.addr > spans[n-1].end+gap {
			// Counters lie in the buffer as in memory: those that are aligned there are so here.
			start := p.addr &^ 7
			total = (total + 7) &^ 7
			spans = append(spans, span{start, end, total})
			total += int(end - start)
		} else if last := &spans[n-1]; end > last.end {
			total += int(end - last.end)
			last.end = end
		}
		if total > maxRead {
			return nil, errTooMany
		}
		last := spans[len(spans)-1]
		*p.at = last.at + int(p.addr-last.addr)
	}
	pl := &plan{buf: make([]byte, total)}
	for _, s := range spans {
		pl.ranges = append(pl.ranges, process.MemoryRange{Addr: s.addr, Bytes: pl.buf[s.at : s.at+int(s.end-s.addr)]})
	}
	return pl, nil
}

// errMoved is returned where the structures are no longer what they were.
var errMoved = errors.New("the structures of the counters have changed")

// unmoved tells whether the structures in the buffer are what they were when
// they were decoded: a library may have been unloaded meanwhile, or the program
// has replaced itself.
func (p *plan) unmoved(images []*image) bool {
	for _, im := range images {
		if im.root != 0 && !bytes.Equal(p.buf[im.rootAt:im.rootAt+im.pointer], im.first) {
			return false
		}
		if !p.unmovedUnits(im) {
			return false
		}
	}
	return true
}

func (p *plan) unmovedUnits(im *image) bool {
	for _, u := range im.units {
		if !bytes.Equal(p.buf[u.headAt:u.headAt+len(u.head)], u.head) {
			return false
		}
	}
	return true
}

// counts makes counts of the buffer; lists of values must be followed for it.
// A unit whose lists are damaged gives an error in its place.
func (im *image) counts(buf []byte, mem memory) ([]*gcov.Counts, []error) {
	all, problems := make([]*gcov.Counts, len(im.units)), make([]error, len(im.units))
	values := listReader{image: im, mem: mem}
	slabs := im.room()
	for i, u := range im.units {
		c := &gcov.Counts{BigEndian: im.order.String() == "BigEndian", Version: u.version, Stamp: u.stamp, Checksum: u.check}
		c.Functions = take(&slabs.functions, len(u.funcs))
		slabs.omitZeros = u.version.OmitsZeros() && !u.clang
		for j := range u.funcs {
			im.functionCounts(&c.Functions[j], &u.funcs[j], u, slabs, buf)
			for k := range c.Functions[j].Counters {
				if kc := &c.Functions[j].Counters[k]; isList(u.version, kc.Kind) {
					values.add(i, kc)
				}
			}
		}
		all[i] = c
	}
	values.follow(problems)
	var largest int64
	for i, c := range all {
		if problems[i] != nil {
			problems[i] = fmt.Errorf("%s: %w", im.units[i].name, problems[i])
		}
		largest = max(largest, c.Largest())
	}
	for i, c := range all {
		if im.units[i].clang {
			c.FinishClangRun()
		} else {
			c.FinishRun(largest)
		}
	}
	return all, problems
}

// Slabs are the room for the counts of an image: a few allocations, not two
// for each function.
type slabs struct {
	functions []gcov.FunctionCounts
	counters  []gcov.Counters
	values    []int64
	omitZeros bool // counters that are all zero are not written
}

func (im *image) room() *slabs {
	functions, arrays := 0, 0
	for _, u := range im.units {
		functions += len(u.funcs)
		for i := range u.funcs {
			arrays += len(u.funcs[i].arrays)
		}
	}
	return &slabs{functions: make([]gcov.FunctionCounts, functions), counters: make([]gcov.Counters, arrays)}
}

// valueSlab is how many counters there is room for at a time: most functions
// never run, and need none.
const valueSlab = 8192

// take returns room for n counters.
func (s *slabs) take(n int) []int64 {
	if n > len(s.values) {
		s.values = make([]int64, max(n, valueSlab))
	}
	return take(&s.values, n)
}

// take takes the first n of what is left of a slab.
func take[T any](slab *[]T, n int) []T {
	taken := (*slab)[:n:n]
	*slab = (*slab)[n:]
	return taken
}

// allZero tells whether a whole number of counters is zero.
func allZero(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
	}
	return true
}

// functionCounts takes the counters of a function from the buffer.
func (im *image) functionCounts(to *gcov.FunctionCounts, f *function, u *unit, room *slabs, buf []byte) {
	if f.absent {
		to.Placeholder = true
		return
	}
	to.Ident, to.LineChecksum, to.CfgChecksum, to.Name = f.ident, f.line, f.cfg, f.name
	to.Counters = take(&room.counters, len(f.arrays))
	for i, a := range f.arrays {
		b := buf[a.at : a.at+8*a.length]
		if room.omitZeros && a.length > 0 && allZero(b) && !isList(u.version, a.kind) {
			to.Counters[i] = gcov.Counters{Kind: a.kind, Zeros: a.length}
			continue
		}
		values := room.take(a.length)
		if im.order == binary.LittleEndian {
			// As below, without a call for each counter.
			for n := range values {
				values[n] = int64(binary.LittleEndian.Uint64(b[8*n:]))
			}
		} else {
			for n := range values {
				values[n] = int64(im.order.Uint64(b[8*n:]))
			}
		}
		to.Counters[i] = gcov.Counters{Kind: a.kind, Values: values}
	}
}

// Lists of values, GCC 11 and later: a site is three words, and what was seen
// there a list.
//
//	site  total  number of nodes  address of the first node
//	node  value u64  count u64  next pointer
const (
	siteWords = 3
	maxNodes  = 256     // of a site: programs make 32, a few more when threads race
	maxValues = 1 << 22 // in an image
)

// A listReader follows all lists of an image at once: the first nodes, the
// second ones, and so on.
type listReader struct {
	image *image
	mem   memory
	lists []valueList
}

type valueList struct {
	unit   int
	k      *gcov.Counters
	site   int
	next   uint64
	values []int64 // pairs
}

func (r *listReader) add(unit int, k *gcov.Counters) {
	for site := 0; site*siteWords < len(k.Values); site++ {
		r.lists = append(r.lists, valueList{unit: unit, k: k, site: site, next: r.pointer(k.Values[site*siteWords+2])})
	}
}

// pointer turns a counter into an address. 32-bit programs extend its sign.
func (r *listReader) pointer(x int64) uint64 {
	if r.image.pointer == 4 {
		x = int64(uint32(x))
	}
	return r.image.here(uint64(x))
}

// follow replaces the addresses of lists by what is in them.
func (r *listReader) follow(problems []error) {
	open := make([]*valueList, 0, len(r.lists))
	for i := range r.lists {
		open = append(open, &r.lists[i])
	}
	left := maxValues
	for depth := 0; ; depth++ {
		open = slices.DeleteFunc(open, func(l *valueList) bool { return l.next == 0 || problems[l.unit] != nil })
		if len(open) == 0 {
			break
		}
		if left -= len(open); depth == maxNodes || left < 0 {
			for _, l := range open {
				problems[l.unit] = fmt.Errorf("a list of values at %#x does not end", l.next)
			}
			break
		}
		r.step(open, problems)
	}
	r.store()
}

// step reads the next node of each list.
func (r *listReader) step(open []*valueList, problems []error) {
	size := 16 + r.image.pointer
	buf := make([]byte, size*len(open))
	ranges := make([]process.MemoryRange, len(open))
	for i, l := range open {
		ranges[i] = process.MemoryRange{Addr: l.next, Bytes: buf[i*size : (i+1)*size]}
	}
	err := r.mem.ReadRanges(ranges)
	for i, l := range open {
		b := ranges[i].Bytes
		if err != nil {
			// One of them is bad: look at each.
			if err := r.mem.ReadRanges(ranges[i : i+1]); err != nil {
				problems[l.unit] = fmt.Errorf("a list of values: %w", err)
				continue
			}
		}
		order := r.image.order
		l.values = append(l.values, int64(order.Uint64(b)), int64(order.Uint64(b[8:])))
		l.next = r.image.address(b[16:])
	}
}

// store writes the sites as files have them: total, n, n pairs.
func (r *listReader) store() {
	for i := 0; i < len(r.lists); {
		k := r.lists[i].k
		var values []int64
		for ; i < len(r.lists) && r.lists[i].k == k; i++ {
			l := &r.lists[i]
			values = append(values, k.Values[l.site*siteWords], int64(len(l.values)/2))
			values = append(values, l.values...)
		}
		k.Values = values
	}
}

// memory is that of a process; tests have others.
type memory interface {
	io.ReaderAt
	ReadRanges(ranges []process.MemoryRange) error
}
