//go:build linux

package web

import (
	"context"
	"encoding/json"
	"syscall"
	"testing"
	"time"
)

// BenchmarkVersion is what a tick costs with pages of 5,000 sources of ten lines each, when a
// browser shows the index, a source, or there is none. CPU time is that of all threads.
func BenchmarkVersion(b *testing.B) {
	for _, c := range []struct {
		name, page string
		runs       bool
	}{{"idle", indexPage, false}, {"nobody", "", true}, {"index", indexPage, true}, {"source", "files/d0~f0.c.html", true}} {
		b.Run(c.name, func(b *testing.B) {
			p := newProgram(5000)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			s := newServer(ctx, p.source(), Options{Shown: shown})
			s.tick()
			at, bytes := 0, 0
			begin := cpuTime()
			for b.Loop() {
				if c.runs {
					p.add("/src/d0/f0.c", int64(s.version))
				}
				s.tick()
				if c.page == "" {
					continue
				}
				s.mu.Lock()
				body, err := json.Marshal(s.event(c.page, at))
				at = s.version
				s.mu.Unlock()
				if err != nil {
					b.Fatal(err)
				}
				bytes += len(body)
			}
			b.ReportMetric(float64((cpuTime()-begin).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(bytes)/float64(b.N), "bytes/op")
		})
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
