package profile

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gmonBytes encodes a gmon.out.
func gmonBytes(g *Gmon) []byte {
	order := g.Order.(binary.AppendByteOrder)
	addr := func(b []byte, a uint64) []byte {
		if g.AddrSize == 4 {
			return order.AppendUint32(b, uint32(a))
		}
		return order.AppendUint64(b, a)
	}
	b := order.AppendUint32([]byte(gmonMagic), gmonVersion)
	b = append(b, make([]byte, 12)...)
	for _, h := range g.Histograms {
		b = addr(addr(append(b, gmonHistogram), h.Low), h.High)
		b = order.AppendUint32(order.AppendUint32(b, uint32(len(h.Bins))), h.Rate)
		b = append(append(b, h.Unit...), make([]byte, 15-len(h.Unit))...)
		b = append(b, 's')
		for _, n := range h.Bins {
			b = order.AppendUint16(b, uint16(n))
		}
	}
	for _, a := range g.Arcs {
		// An arc whose sum no longer fits is written as several.
		for left := a.Count; ; left -= math.MaxUint32 {
			b = addr(addr(append(b, gmonArc), a.From), a.Self)
			b = order.AppendUint32(b, uint32(min(left, math.MaxUint32)))
			if left <= math.MaxUint32 {
				break
			}
		}
	}
	if len(g.Blocks) > 0 {
		b = order.AppendUint32(append(b, gmonBlocks), uint32(len(g.Blocks)))
		for _, block := range g.Blocks {
			b = addr(addr(b, block.Addr), block.Count)
		}
	}
	return b
}

func exampleGmon(order binary.ByteOrder, addrSize int) *Gmon {
	return &Gmon{
		Order: order, AddrSize: addrSize,
		Histograms: []Histogram{{0x1000, 0x1010, 100, "seconds", []int64{1, 0, 65535, 7}}},
		Arcs:       []GmonArc{{0x1004, 0x100c, 3000000000}, {0x1008, 0x100c, 1}},
		Blocks:     []GmonBlock{{0x1000, 12}},
	}
}

func TestReadGmonOfEveryMachine(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, size := range []int{4, 8} {
			want := exampleGmon(order, size)
			for _, told := range []int{0, size} {
				got, err := ReadGmon(gmonBytes(want), told)
				if err != nil {
					t.Fatalf("%v, %d bytes, told %d: %v", order, size, told, err)
				}
				if _, err := ReadGmon(gmonBytes(want), 12-size); err == nil || !strings.Contains(err.Error(), "bits") {
					t.Errorf("%v, %d bytes, told the other: %v", order, size, err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%v, %d bytes, told %d (-want +got):\n%s", order, size, told, diff)
				}
			}
		}
	}
}

func TestGmonAdds(t *testing.T) {
	sum, other := exampleGmon(binary.LittleEndian, 8), exampleGmon(binary.LittleEndian, 8)
	if err := sum.Add(other); err != nil {
		t.Fatal(err)
	}
	want := exampleGmon(binary.LittleEndian, 8)
	want.Histograms[0].Bins = []int64{2, 0, 131070, 14} // more than 16 bits
	want.Arcs[0].Count, want.Arcs[1].Count, want.Blocks[0].Count = 6000000000, 2, 24
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	other.Histograms[0].High += 8
	if err := sum.Add(other); err == nil || !strings.Contains(err.Error(), "different programs") {
		t.Errorf("a histogram of another range: %v", err)
	}
	if err := sum.Add(exampleGmon(binary.BigEndian, 8)); err == nil {
		t.Error("another byte order was added")
	}
}

func TestReadGmonDamaged(t *testing.T) {
	whole := gmonBytes(exampleGmon(binary.LittleEndian, 8))
	for n := range len(whole) {
		g, err := ReadGmon(whole[:n], 8)
		if err == nil && len(g.Histograms)+len(g.Arcs)+len(g.Blocks) == 4 {
			t.Errorf("%d of %d bytes are read as a whole file", n, len(whole))
		}
		var format *FormatError
		if err != nil && !errors.As(err, &format) {
			t.Errorf("%d bytes: %v is no FormatError", n, err)
		}
	}
	for name, test := range map[string]struct {
		b    []byte
		want string
	}{
		"foreign":      {[]byte("\x7fELF and so on"), "not a gmon.out"},
		"version":      {append([]byte("gmon\x02\x00\x00\x00"), make([]byte, 12)...), "version 2"},
		"LD_PROFILE":   {append([]byte("gmon\xff\xff\x01\x00"), make([]byte, 12)...), "sprof"},
		"unknown kind": {append(append([]byte("gmon\x01\x00\x00\x00"), make([]byte, 12)...), 9), "unknown kind 9"},
		"many bins": {append(append([]byte("gmon\x01\x00\x00\x00"), make([]byte, 12)...),
			append(append([]byte{0}, make([]byte, 16)...), "\xff\xff\xff\xff\x64\x00\x00\x00seconds\x00\x00\x00\x00\x00\x00\x00\x00s"...)...), "ends in the middle"},
	} {
		_, err := ReadGmon(test.b, 8)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestGmonOfAnotherProgram(t *testing.T) {
	g := exampleGmon(binary.BigEndian, 8)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Profile(self, nil); err == nil || !strings.Contains(err.Error(), "another kind") {
		t.Errorf("a program of another byte order: %v", err)
	}
	g = &Gmon{Order: binary.LittleEndian, AddrSize: 8, Histograms: []Histogram{{1 << 60, 1<<60 + 8, 100, "seconds", []int64{5}}}}
	if _, err := g.Profile(build(t, "gcc-12", "testdata/calls.c", "testdata/other.c"), nil); err == nil || !strings.Contains(err.Error(), "another build") {
		t.Errorf("ticks outside of the program: %v", err)
	}
	if _, err := g.Profile(filepath.Join("testdata", "calls.c"), nil); err == nil {
		t.Error("a source was taken for a program")
	}
}

func FuzzReadGmon(f *testing.F) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		f.Add(gmonBytes(exampleGmon(order, 4)))
		f.Add(gmonBytes(exampleGmon(order, 8)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := ReadGmon(b, 0)
		if err != nil {
			return
		}
		again, err := ReadGmon(gmonBytes(g), g.AddrSize)
		if err == nil && len(g.Histograms) == 0 {
			if diff := cmp.Diff(g.Arcs, again.Arcs); diff != "" {
				t.Errorf("-first +again:\n%s", diff)
			}
		}
		_ = g.Add(again)
	})
}
