//go:build linux

package record

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"footfall/hook/patch"
	"footfall/process"
)

// monotonic is the time of the kernel's events.
func monotonic() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano())
}

// A recordingTime is where the times of a recording begin.
type recordingTime struct {
	sites *patch.Clock // what code in programs goes by; nil: there is none
	start uint64       // the kernel's time, if there is none
	since int64        // nanoseconds since 1970
}

// measure is to be called before code is put into programs.
func (t *recordingTime) measure() { t.sites = patch.NewClock() }

// begin begins the recording, now or, where code in programs records, when their clock was
// measured.
func (t *recordingTime) begin() {
	switch {
	case t.since != 0:
	case t.sites != nil:
		t.since = t.sites.Start.UnixNano()
	default:
		t.start, t.since = monotonic(), time.Now().UnixNano()
	}
}

// now is the time of the recording.
func (t *recordingTime) now() uint64 {
	if t.sites != nil {
		return t.sites.Nanos(process.Ticks())
	}
	return monotonic() - t.start
}

// A kernelClock makes times of a recording of the kernel's.
type kernelClock struct {
	*recordingTime
	before [2]uint64 // the kernel's time and that of sites, a while ago
	last   [2]uint64
}

// look compares the clocks, if there are two. What code in the program and the kernel see of one
// call is some hundred nanoseconds apart, so that both are looked at again and again: they do
// not go equally fast.
func (c *kernelClock) look() {
	if c.sites == nil {
		return
	}
	least := uint64(math.MaxUint64)
	var now [2]uint64
	for range 10 { // without being interrupted
		begin := monotonic()
		ticks := process.Ticks()
		if took := monotonic() - begin; took < least {
			least, now = took, [2]uint64{begin + took/2, c.sites.Nanos(ticks)}
		}
	}
	if c.before[0] == 0 || now[0]-c.before[0] > uint64(time.Second) {
		c.before = c.last
	}
	if c.last = now; c.before[0] == 0 {
		c.before = now
	}
}

// nanos returns the time in the recording for one of the kernel's.
func (c *kernelClock) nanos(kernel uint64) uint64 {
	if c.sites == nil {
		return kernel - min(kernel, c.start)
	}
	since := float64(int64(kernel - c.last[0]))
	if elapsed := c.last[0] - c.before[0]; elapsed > uint64(10*time.Millisecond) {
		since *= float64(c.last[1]-c.before[1]) / float64(elapsed)
	}
	return uint64(max(int64(c.last[1])+int64(since), 0))
}
