package command

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// These are how many bytes of heap may be mostly garbage: beyond, there may not be so
// much memory, and collecting costs little of what so large a report takes. As gcov
// footfall holds one listing after the other, and what it holds is most of the time that
// of a few objects.
const (
	lateUpTo     = 64 << 20
	lateUpToGcov = 160 << 20
	// Who looks again and again takes from what it looks at what it takes to collect: half of all it did, of a server's 85 MB.
	lateUpToWatch = 192 << 20
)

// collectLate has garbage collected late as long as the heap is small, and early
// when it is larger than upTo; for a command that lives for a moment and holds little
// collecting rarely saves a fifth of the time. The function that it returns puts
// back what was set.
func collectLate(percent, upTo int) (restore func()) {
	before := debug.SetGCPercent(percent)
	var over atomic.Bool
	// An object that nothing refers to is finalized at each collection.
	type sentinel struct{ _ *int }
	var collected func(*sentinel)
	collected = func(*sentinel) {
		if !over.Load() {
			runtime.SetFinalizer(new(sentinel), collected) // another one: this one is referred to until we return
			setLatePercent(percent, upTo)
		}
	}
	runtime.SetFinalizer(new(sentinel), collected)
	return func() {
		over.Store(true)
		debug.SetGCPercent(before)
	}
}

// setLatePercent sets latePercent by what is in use. Setting it waits for a collection that has begun, and
// then other things are in use.
func setLatePercent(percent, upTo int) {
	for live, set := liveBytes(), false; !set; {
		debug.SetGCPercent(latePercent(percent, upTo, live))
		now := liveBytes()
		live, set = now, now == live
	}
}

// latePercent is how much a heap may grow until the next collection: by percent,
// but not beyond upTo unless most of that is in use.
func latePercent(percent, upTo int, live uint64) int {
	const usual = 60 // little of a large heap is garbage, and there may not be room for as much again
	if live == 0 {
		return percent
	}
	room := int64(upTo) - int64(live)
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
