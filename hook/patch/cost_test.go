//go:build linux

package patch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"footfall/process"
	"footfall/trace"
)

// BenchmarkCost measures nanoseconds per call in each mode, in bursts that fit
// the ring, beside a function that records two times by itself.
//
//	go test -run '^$' -bench Cost ./patch
func BenchmarkCost(b *testing.B) {
	for _, m := range []struct {
		name, command string
		mode          trace.Mode
	}{
		{"off", "leaf", 0}, {"inline", "inline", 0}, {"counts", "leaf", trace.Counts}, {"entries", "leaf", trace.Entries},
		{"integer", "leaf", trace.Entries}, {"string", "text", trace.Entries}, {"exits", "leaf", trace.Exits}, {"filtered", "leaf", trace.Filtered}, {"chain-off", "chain", 0}, {"chain3", "chain", trace.Chains},
		{"traced-off", "chain", 0}, {"traced3", "chain", trace.Chains}, // the callers are traced
	} {
		b.Run(m.name, func(b *testing.B) {
			flags := []string{"-fpatchable-function-entry=5"}
			if strings.HasPrefix(m.name, "traced") {
				flags = bareFlags
			}
			g := start(b, buildIn(b, b.TempDir(), "gcc-12", "cost.c", flags...))
			defer g.cmd.Process.Kill()
			best := 1e18
			var s *Session
			if m.mode != 0 {
				sites := g.sites("leaf", "text")
				for _, site := range sites {
					site.Arguments = map[string][]trace.Capture{"integer": {{Kind: trace.CaptureWord, Index: 0}}, "string": {{Kind: trace.CaptureString, Index: 0}}}[m.name]
				}
				s = g.open(sites, Options{Mode: m.mode, RingSize: 16 << 20, ChainDepth: 3, Arguments: true, NoCFI: g.noCFI()})
				defer s.Close()
			}
			calls := 200000 // in ten rounds each ring is filled more than once: later ones find its pages
			if m.command == "text" {
				calls = 50000
			}
			for range max(b.N, 10) {
				v, err := strconv.ParseFloat(g.say("%s %d", m.command, calls), 64)
				if err != nil {
					b.Fatal(err)
				}
				best = min(best, v)
				if s != nil {
					s.Read(func(process.ThreadStatus, []SiteEvent) {})
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

// BenchmarkAttach measures how long a process is stopped while 1,000 functions are
// switched on, and off.
func BenchmarkAttach(b *testing.B) {
	dir := b.TempDir()
	var source strings.Builder
	source.WriteString("#include <stdio.h>\nint sink;\n")
	for i := range 1000 {
		fmt.Fprintf(&source, "__attribute__((noinline)) int f%d(int x) { sink += x; return x * %d; }\n", i, i)
	}
	source.WriteString("int main(void) { char line[100]; while (fgets(line, sizeof line, stdin)) { fputs(line, stdout); fflush(stdout); } }\n")
	file := filepath.Join(dir, "thousand.c")
	if err := os.WriteFile(file, []byte(source.String()), 0o666); err != nil {
		b.Fatal(err)
	}
	program := filepath.Join(dir, "thousand")
	if out, err := exec.Command("gcc-12", "-O2", "-fpatchable-function-entry=5", "-o", program, file).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	g := start(b, program)
	sites := g.sites("f*")
	var on, off []float64
	for range max(b.N, 10) {
		s := g.open(sites, Options{Mode: trace.Exits})
		on = append(on, float64(s.Stopped.Microseconds()))
		begin := time.Now()
		if err := restore(g.p, s.islands, s.on); err != nil {
			b.Fatal(err)
		}
		off = append(off, float64(time.Since(begin).Microseconds()))
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(on)
	slices.Sort(off)
	b.ReportMetric(float64(len(sites)), "sites")
	b.ReportMetric(on[len(on)/2], "us-on")
	b.ReportMetric(on[len(on)-1], "us-on-worst")
	b.ReportMetric(off[len(off)/2], "us-off")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRead measures how many events are taken out of a full ring in a second.
func BenchmarkRead(b *testing.B) {
	g := start(b, buildIn(b, b.TempDir(), "gcc-12", "cost.c", "-fpatchable-function-entry=5"))
	s := g.open(g.sites("leaf"), Options{Mode: trace.Exits, RingSize: 64 << 20})
	defer s.Close()
	best := 0.0
	for range max(b.N, 3) {
		g.say("leaf 2000000")
		begin := time.Now()
		n := s.Read(func(process.ThreadStatus, []SiteEvent) {})
		best = max(best, float64(n)/time.Since(begin).Seconds()/1e6)
	}
	b.ReportMetric(best, "Mevents/s")
	b.ReportMetric(0, "ns/op")
}
