package binary

import "testing"

// FuzzWindowOf makes windows of any bytes: their instructions follow each other to the end.
func FuzzWindowOf(f *testing.F) {
	f.Add(uint64(0x1000), []byte{0x55, 0x48, 0x89, 0xe5, 0x53})
	f.Add(uint64(0x1000), []byte{0xe8, 1, 2, 3, 4})
	f.Add(uint64(0), []byte{0x74, 0xfe, 0x0f, 0x84, 1, 0, 0, 0})
	f.Add(uint64(1), []byte{0x48, 0x8d, 0x05})
	f.Fuzz(func(t *testing.T, addr uint64, code []byte) {
		w, err := WindowOf(addr, code)
		if err != nil {
			return
		}
		at := 0
		for _, i := range w.Instructions {
			if i.At != at || i.End <= at || i.Relative != 0 && (i.Relative < i.At || i.Relative+4 > i.End) {
				t.Fatalf("% x: %+v", code, w.Instructions)
			}
			at = i.End
		}
		if at != len(code) || w.Addr != addr {
			t.Errorf("% x: %+v", code, w)
		}
	})
}
