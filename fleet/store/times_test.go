package store

import (
	"encoding/binary"
	"slices"
	"testing"
)

func FuzzTimes(f *testing.F) {
	f.Add([]byte{0, 2, 7}, 4)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		_ = UnpackTimes(b, make([]uint64, n))
		var v []uint64
		for ; len(b) >= 8; b = b[8:] {
			v = append(v, binary.LittleEndian.Uint64(b)&^0xff00)
		}
		times := make([]uint64, len(v))
		if err := UnpackTimes(PackTimes(v), times); err != nil || !slices.Equal(v, times) {
			t.Errorf("times %v, %v, %v", v, times, err)
		}
		// However they are merged, what holds is the earliest that there is, and the latest.
		first, last, other := slices.Clone(v), slices.Clone(v), slices.Clone(v)
		slices.Reverse(other)
		Earliest(first, other)
		Greatest(last, other)
		for i := range v {
			least := min(v[i], other[i])
			if least == 0 {
				least = max(v[i], other[i])
			}
			if first[i] != least || last[i] != max(v[i], other[i]) {
				t.Errorf("of %d and %d the earliest is %d, the latest %d", v[i], other[i], first[i], last[i])
			}
		}
		if Earliest(first, v) || Greatest(last, v) {
			t.Error("merged again they are others")
		}
	})
}
