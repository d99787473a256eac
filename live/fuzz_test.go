//go:build linux

package live

import (
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"footfall/formats/gcov"
	"footfall/process"
)

// gccMemory is memory from gccBase on.
type gccMemory []byte

const gccBase = 0x10000

func (m gccMemory) ReadAt(b []byte, addr int64) (int, error) {
	at := addr - gccBase
	if at < 0 || at >= int64(len(m)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(b, m[at:])
	if n < len(b) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

func (m gccMemory) ReadRanges(ranges []process.MemoryRange) error {
	for _, r := range ranges {
		if _, err := m.ReadAt(r.Bytes, int64(r.Addr)); err != nil {
			return err
		}
	}
	return nil
}

// fakeProgram writes the structures of two objects into memory, as programs of
// that version have them, and returns the memory and the address of the first.
func fakeProgram(version gcov.Version, pointer int) (gccMemory, uint64) {
	m := make([]byte, 4*pageSize)
	at := 16 // 0 would be no address
	u32 := func(x uint32) { binary.LittleEndian.PutUint32(m[at:], x); at += 4 }
	align := func() { at = (at + 7) &^ 7 }
	word := func(x uint64) {
		if pointer == 4 {
			u32(uint32(x))
			return
		}
		align()
		binary.LittleEndian.PutUint64(m[at:], x)
		at += 8
	}
	here := func() uint64 { align(); return gccBase + uint64(at) }
	long := func(x uint64) { binary.LittleEndian.PutUint64(m[at:], x); at += 8 }

	next := uint64(0)
	for unit := range 2 {
		name := here()
		at += copy(m[at:], "/src/"+strings.Repeat("x", 1+unit)+".gcda") + 1
		node := here()
		long(7)
		long(3)
		word(0)
		arcs := here()
		for range 3 {
			long(uint64(unit) + 5)
		}
		sites := here()
		long(3)
		long(1)
		long(node)
		function := here()
		at += 3 * pointer // the owner, written below
		info := here() + 64 + 4*uint64(pointer)
		at = int(function - gccBase)
		word(info)
		u32(1)
		u32(2)
		u32(3)
		word(0)
		at -= pointer
		for kind := range version.CounterKinds() {
			switch kind {
			case gcov.KindArcs:
				u32(3)
				word(arcs)
			case gcov.KindTopN:
				u32(siteWords)
				word(sites)
			}
		}
		table := here()
		word(function)
		word(0)
		at = int(info - gccBase)
		binary.LittleEndian.PutUint32(m[at:], uint32(version))
		at += 4
		word(next)
		u32(9)
		if version.HasObjectChecksum() {
			u32(8)
		} else if pointer == 8 {
			u32(0)
		}
		word(name)
		for kind := range version.CounterKinds() {
			f := uint64(0)
			if kind == gcov.KindArcs || kind == gcov.KindTopN {
				f = gccBase
			}
			word(f)
		}
		u32(2)
		word(table)
		next = info
	}
	return m, next
}

func versionOf(text string) gcov.Version { return gcov.Version(binary.BigEndian.Uint32([]byte(text))) }

// readFake does with memory what a snapshot does.
func readFake(m gccMemory, first uint64, pointer int) ([]*unit, []*gcov.Counts, error) {
	im := &image{path: "fake", order: binary.LittleEndian, pointer: pointer}
	maps := process.Maps{{Start: gccBase, End: gccBase + uint64(len(m)), Read: true, Write: true, Exec: true}}
	w := &walker{pages: newPages(m), image: im, order: im.order, pointer: pointer, maps: maps, budget: newBudget()}
	var err error
	if first != 0 {
		im.units, err = w.list(first)
	} else {
		im.units, err = w.scan(maps)
	}
	pl, planErr := newPlan([]*image{im}, nearby)
	if planErr != nil {
		return im.units, nil, planErr
	}
	if readErr := m.ReadRanges(pl.ranges); readErr != nil {
		return im.units, nil, readErr
	}
	counts, _ := im.counts(pl.buf, m)
	return im.units, counts, err
}

var fakes = []struct {
	version string
	pointer int
}{{"408*", 8}, {"503*", 8}, {"A82*", 8}, {"A93*", 4}, {"B03*", 8}, {"B13*", 4}, {"B22*", 8}, {"B22*", 4}, {"B42*", 8}, {"B61*", 8}}

func TestFakePrograms(t *testing.T) {
	for _, f := range fakes {
		m, first := fakeProgram(versionOf(f.version), f.pointer)
		for _, from := range []uint64{first, 0} {
			units, counts, err := readFake(m, from, f.pointer)
			if err != nil || len(units) != 2 {
				t.Errorf("%v, from %#x: %d units, %v", f, from, len(units), err)
				continue
			}
			for i, c := range counts {
				back, err := gcov.ReadCounts(c.Encode())
				if err != nil || len(back.Functions) != 2 || !back.Functions[1].Placeholder || back.Functions[0].Of(gcov.KindArcs).Len() != 3 {
					t.Errorf("%v: unit %s: %+v, %v", f, units[i].name, back, err)
				}
			}
		}
	}
}

// FuzzMemory reads structures out of memory that may hold anything.
func FuzzMemory(f *testing.F) {
	for _, fake := range fakes {
		m, first := fakeProgram(versionOf(fake.version), fake.pointer)
		f.Add([]byte(m[:1024]), first, fake.pointer == 4)
		f.Add([]byte(m[:1024]), uint64(0), fake.pointer == 4)
	}
	f.Fuzz(func(t *testing.T, m []byte, first uint64, is32 bool) {
		pointer := 8
		if is32 {
			pointer = 4
		}
		if len(m) > 1<<16 {
			return
		}
		_, counts, _ := readFake(m, first, pointer)
		for _, c := range counts {
			b := c.Encode()
			if len(b) > 1<<26 {
				t.Errorf("%d bytes of %d", len(b), len(m))
			}
		}
	})
}
