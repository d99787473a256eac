package command

import (
	"runtime"
	"testing"
)

func TestLatePercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 1600, 1 << 20: 1600, 4 << 20: 1600, lateUpTo / 5: 400, lateUpTo / 2: 100, lateUpTo: 100, 100 * lateUpTo: 100,
	} {
		if got := latePercent(1600, live); got != want {
			t.Errorf("latePercent(1600, %d) = %d, want %d", live, got, want)
		}
	}
}

// A heap of which 32 MB are in use does not grow to 17 times that.
func TestLateGarbageHasALimit(t *testing.T) {
	runtime.GC()
	defer collectLate(1600)()
	kept := make([][]byte, 0, 32)
	for range cap(kept) {
		kept = append(kept, make([]byte, 1<<20))
	}
	var most uint64
	for range 8 {
		for range 2000 {
			garbage = make([]byte, 1<<16)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}
	if most > 2*lateUpTo {
		t.Errorf("%d MB of heap for %d MB that are in use", most>>20, len(kept))
	}
}

var garbage []byte // keeps what is made from being left out by the compiler
