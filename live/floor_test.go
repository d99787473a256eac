//go:build linux

package live

import (
	"testing"

	"footfall/formats/gcov"
)

// TestFloorLast: what is set to zero last is the last array of counters, in the order of libgcov's list, of which some are not zero.
func TestFloorLast(t *testing.T) {
	const n = floorPages * pageSize / 8
	version := gcov.Version(0x4232312a) // B12*
	of := func(at, length int) function { return function{arrays: []array{{length: length, at: at * 8}}} }
	l := &layout{
		image:   &image{start: 0x1000, units: []*unit{{version: version, funcs: []function{of(0, 100), of(100, 4)}}, {version: version, funcs: []function{of(104, n-104)}}}},
		plan:    &plan{buf: make([]byte, n*8)},
		inOrder: []int{1, 0}, wrapper: 0x500,
		sums:    []mark{{from: 0, to: n}},
		regions: []region{{addr: 0x10000, from: 0, to: n, sums: []mark{{from: 0, to: n}}}},
	}
	w := make(words, n)
	for i := range w {
		w[i] = uint64(i + 1)
	}
	clear(w[100:104]) // the last one has nothing
	s := new(sparse)
	for at := 0; at < n; at += pageSize / 8 {
		p := new(sparsePart)
		p.keep(at, w[at:at+pageSize/8])
		s.add(p.clipped())
	}
	f := l.newFloor(7, s)
	if f == nil || f.last != (mark{from: 0, to: 100}) || len(f.words) < floorCheck {
		t.Fatalf("%+v", f)
	}
	im := &placed{layout: l, resets: f, inherited: s}
	begun := append(words(nil), w...)
	clear(begun[104:])
	if f.lastIsLess(w) || f.lastIsLess(begun) {
		t.Error("done before it is")
	}
	begun[99] = 0
	if !f.lastIsLess(begun) {
		t.Error("not done")
	}
	if own, known := im.hasReset(&member{}, begun); !own || !known {
		t.Error(own, known)
	}
	s.parts = s.parts[1:]
	if l.newFloor(7, s) != nil {
		t.Error("of few counters each child is to be read")
	}
}
