package command

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// lateUpTo is how many bytes of heap may be mostly garbage: beyond, there may not
// be so much memory, and collecting costs little of what so large a report takes.
const lateUpTo = 128 << 20

// collectLate has garbage collected late as long as the heap is small, and as
// usual when it is large; for a command that lives for a moment and holds little
// collecting rarely saves a fifth of the time. The function that it returns puts
// back what was set.
func collectLate(percent int) (restore func()) {
	before := debug.SetGCPercent(percent)
	var over atomic.Bool
	// An object that nothing refers to is finalized at each collection.
	type sentinel struct{ _ *int }
	var collected func(*sentinel)
	collected = func(s *sentinel) {
		if !over.Load() {
			debug.SetGCPercent(latePercent(percent, liveBytes()))
			runtime.SetFinalizer(s, collected)
		}
	}
	runtime.SetFinalizer(new(sentinel), collected)
	return func() {
		over.Store(true)
		debug.SetGCPercent(before)
	}
}

// latePercent is how much a heap may grow until the next collection: by percent,
// but not beyond lateUpTo unless it is larger than half of that.
func latePercent(percent int, live uint64) int {
	const usual = 100
	if live == 0 {
		return percent
	}
	room := int64(lateUpTo) - int64(live)
	return int(min(int64(percent), max(usual, room*100/int64(live))))
}

// liveBytes is what the last collection found to be in use.
func liveBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
