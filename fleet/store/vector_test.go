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
