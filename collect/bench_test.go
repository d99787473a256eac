//go:build linux

package collect

import (
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkLook looks again at the process that FOOTFALL_PID names, as
// footfall live --watch does: scripts/bench-live starts a real server for it.
func BenchmarkLook(b *testing.B) {
	if _, err := strconv.Atoi(os.Getenv("FOOTFALL_PID")); err != nil {
		b.Skip("FOOTFALL_PID does not name a process with counters")
	}
	l := watching(b, os.Getenv("FOOTFALL_PID"))
	look := func() {
		snapshots, err := l.TakeAgain()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.Collect(snapshots, false); err != nil {
			b.Fatal(err)
		}
	}
	look()
	before := cpuTime(b)
	for b.Loop() {
		look()
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
