package patch

import (
	"strconv"
	"testing"

	"footfall/proc"
)

// BenchmarkCost measures nanoseconds per call in each mode, in bursts that fit
// the ring, beside a function that records two times by itself.
//
//	go test -run '^$' -bench Cost ./patch
func BenchmarkCost(b *testing.B) {
	for _, m := range []struct {
		name, command string
		mode          Mode
	}{
		{"off", "leaf", 0}, {"inline", "inline", 0}, {"counts", "leaf", Counts}, {"entries", "leaf", Entries},
		{"exits", "leaf", Exits}, {"filtered", "leaf", Filtered}, {"chain-off", "chain", 0}, {"chain3", "chain", Chains},
	} {
		b.Run(m.name, func(b *testing.B) {
			g := start(b, buildIn(b, b.TempDir(), "gcc-12", "cost.c", "-fpatchable-function-entry=5"))
			defer g.cmd.Process.Kill()
			best := 1e18
			var s *Session
			if m.mode != 0 {
				s = g.open(g.sites("leaf"), Options{Mode: m.mode, RingSize: 16 << 20, ChainDepth: 3})
				defer s.Close()
			}
			for range max(b.N, 10) {
				v, err := strconv.ParseFloat(g.say("%s 400000", m.command), 64)
				if err != nil {
					b.Fatal(err)
				}
				best = min(best, v)
				if s != nil {
					s.Read(func(proc.Thread, []Event) {})
					if lost, _ := s.Lost(); lost != 0 {
						b.Fatalf("%d events lost", lost)
					}
				}
			}
			b.ReportMetric(best, "ns/call")
			b.ReportMetric(0, "ns/op")
		})
	}
}
