package command

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestLatePercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 1600, 1 << 20: 1600, 3 << 20: 1600, lateUpTo / 5: 400, lateUpTo / 2: 100, lateUpTo: 60, 100 * lateUpTo: 60,
	} {
		if got := latePercent(1600, lateUpTo, live); got != want {
			t.Errorf("latePercent(1600, %d) = %d, want %d", live, got, want)
		}
	}
}

// A heap of which 32 MB are in use is not to grow to 17 times that: the collection that finds
// them sets another limit.
func TestLateGarbageHasALimit(t *testing.T) {
	runtime.GC()
	defer collectLate(1600, lateUpTo)()
	kept := make([][]byte, 0, 32)
	for range cap(kept) {
		kept = append(kept, make([]byte, 1<<20))
	}
	percent := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	want := uint64(latePercent(1600, lateUpTo, uint64(len(kept))<<20))
	for end := time.Now().Add(time.Minute); percent() > want; {
		if time.Now().After(end) {
			t.Fatalf("the heap may grow by %d %%, want %d at most", percent(), want)
		}
		runtime.GC()
		time.Sleep(time.Millisecond) // what sets the limit runs after the collection
	}
	runtime.KeepAlive(kept)
}
