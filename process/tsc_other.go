//go:build !linux || (!amd64 && !arm64)

package process

import "time"

// Ticks is the time in nanoseconds where there is no time-stamp counter that
// all processes share.
func Ticks() uint64 { return uint64(time.Now().UnixNano()) }
