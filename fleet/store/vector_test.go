package store

import (
	"encoding/binary"
	"slices"
	"testing"
)

func FuzzVector(f *testing.F) {
	f.Add([]byte{0, 2, 7}, 4)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 1)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		if v, err := UnpackVector(b, n); err == nil {
			again, err := UnpackVector(PackVector(v), n)
			if err != nil || !slices.Equal(v, again) {
				t.Errorf("%v, %v, %v", v, again, err)
			}
			checked, err := CheckVector(b, n)
			if err != nil || !slices.Equal(v, checked.Into(nil)) {
				t.Errorf("%v, checked %v: %v", v, checked, err)
			}
			checkCounted(t, checked, v)
			checkCounted(t, VectorOf(v), v)
		} else if _, err := CheckVector(b, n); err == nil {
			t.Errorf("%x with %d numbers is right, and cannot be read", b, n)
		}
		var v []uint64
		for ; len(b) >= 8; b = b[8:] {
			v = append(v, binary.LittleEndian.Uint64(b)&^0xff00)
		}
		if got, err := UnpackVector(PackVector(v), len(v)); err != nil || !slices.Equal(v, got) {
			t.Errorf("%v, %v, %v", v, got, err)
		}
	})
}

// checkCounted has a vector be within the set of its numbers that are not 0, and in none that has one less.
func checkCounted(t *testing.T, packed Vector, v []uint64) {
	t.Helper()
	set := make([]uint64, len(v)/64+1)
	for i, x := range v {
		if x != 0 {
			set[i/64] |= 1 << (i % 64)
		}
	}
	if !packed.Within(set) {
		t.Errorf("%v is not within its own numbers", v)
	}
	for i := range v {
		less := slices.Clone(set)
		less[i/64] &^= 1 << (i % 64)
		if packed.Within(less) != (v[i] == 0) {
			t.Errorf("%v without number %d: %v", v, i, packed.Within(less))
		}
		if i > 300 {
			break
		}
	}
}

// BenchmarkUnpackVector reads vectors of 1,000 counters, of which one of five is 0.
func BenchmarkUnpackVector(b *testing.B) {
	v := make([]uint64, 1000)
	for i := range v {
		v[i] = uint64(i%5) * 77
	}
	packed := PackVector(v)
	for b.Loop() {
		if _, err := UnpackVector(packed, len(v)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mcounters/s")
}
