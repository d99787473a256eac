//go:build linux

package patch

import (
	"math"
	"math/bits"
	"time"

	"footfall/process"
)

// A Clock makes nanoseconds of ticks, from when it was made on.
type Clock struct {
	Start time.Time
	ticks uint64
	rate  uint64 // nanoseconds for a tick, times 2^32
}

// NewClock measures how fast the ticks are, which takes 10 milliseconds.
func NewClock() *Clock {
	c := &Clock{Start: time.Now(), ticks: process.Ticks()}
	time.Sleep(10 * time.Millisecond)
	elapsed, ticks := time.Since(c.Start), process.Ticks()-c.ticks
	c.rate, _ = bits.Div64(uint64(elapsed)>>32, uint64(elapsed)<<32, max(ticks, 1))
	return c
}

// Nanos returns the time of an event since the clock was made, 0 if it is
// before that.
func (c *Clock) Nanos(ticks uint64) uint64 {
	if ticks < c.ticks {
		return 0
	}
	high, low := bits.Mul64(ticks-c.ticks, c.rate)
	return high<<32 | low>>32
}

// Ticks returns how many there are in a duration.
func (c *Clock) Ticks(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(d), 1<<32)
	if high >= c.rate {
		return math.MaxUint64 // more than a century
	}
	ticks, _ := bits.Div64(high, low, c.rate)
	return ticks
}
