//go:build linux

package live

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process"
)

// processor reports how long a processor was needed for each round; what it returns is to be called at the end.
func processor(b *testing.B) func() {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() {
		b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op")
	}
}

// benchmarked is the process that FOOTFALL_PID names: scripts/bench-live starts
// a real server for these.
func benchmarked(b *testing.B) int {
	pid, err := strconv.Atoi(os.Getenv("FOOTFALL_PID"))
	if err != nil {
		b.Skip("FOOTFALL_PID does not name a process with counters")
	}
	return pid
}

// BenchmarkAttach finds the counters of a process, and lets go of it.
func BenchmarkAttach(b *testing.B) {
	pid := benchmarked(b)
	for b.Loop() {
		p, err := Open(pid)
		if err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}

func BenchmarkSnapshot(b *testing.B) { snapshots(b, 0) }

// BenchmarkSnapshot100 reads 100 times a second.
func BenchmarkSnapshot100(b *testing.B) { snapshots(b, 10*time.Millisecond) }

func BenchmarkSnapshot1(b *testing.B) { snapshots(b, time.Second) }

func snapshots(b *testing.B, every time.Duration) {
	p, err := Open(benchmarked(b))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	units := 0
	for b.Loop() {
		all, err := p.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		units = len(all)
		time.Sleep(every)
	}
	b.ReportMetric(float64(units), "units")
}

// BenchmarkAttachKin does for one more process of a known program what is done when it is forked: what
// it inherits is read.
func BenchmarkAttachKin(b *testing.B) {
	pid := benchmarked(b)
	f := NewFamily(func(int) bool { return false })
	defer f.Close()
	first, err := newMember(pid)
	if err != nil {
		b.Fatal(err)
	}
	f.look(first, running)
	defer processor(b)()
	for b.Loop() {
		m, err := newAttended(pid)
		if err != nil {
			b.Fatal(err)
		}
		files, err := m.mappedFiles()
		if err != nil || !bytes.Equal(files, first.files) {
			b.Fatal("another memory map", err)
		}
		for _, im := range first.images {
			m.images = append(m.images, &placed{layout: im.layout, at: im.at, files: im.files})
		}
		if !f.inheritsAtOnce(m, first, process.Fork{}, func() {}) {
			b.Fatal("its counters cannot be read at once")
		}
		f.drop(m, &f.ended)
		m.proc.Close()
	}
}

// BenchmarkAttachKnown does for one more process of a known program what is done when it is found: its counters are where they
// were in another one.
func BenchmarkAttachKnown(b *testing.B) {
	pid := benchmarked(b)
	known := NewKnown()
	defer processor(b)()
	for b.Loop() {
		p, err := known.OpenPatiently(pid)
		if err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}
