//go:build linux

package patch

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"footfall/process"
	"footfall/trace"
)

var cycles = flag.Int("cycles", 20, "how often TestStress switches on and off")

// rounds is what the program has done of its work.
func (g *testProgram) rounds() (n int) {
	g.t.Helper()
	if _, err := fmt.Sscan(g.say("status"), &n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

// TestStress switches on and off in a program that does everything that is
// hard, and checks its own results.
func TestStress(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, b := range map[string][]string{
		"gcc":   {"g++-12", "-fpatchable-function-entry=5"},
		"clang": {"clang++-16", "-fpatchable-function-entry=5"},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, build(t, b[0], "stress.cc", b[1:]...))
			text, descriptors := g.text(), 0
			sites := g.sites("*")
			for i, site := range sites {
				if i%3 == 0 { // whatever its registers hold
					site.Arguments = []trace.Capture{{Kind: trace.CaptureWord, Index: 1}, {Kind: trace.CaptureString, Index: i % 7}, {Kind: trace.CaptureFloat, Index: 0}}
				}
			}
			events, late := 0, 0
			var stopped time.Duration
			for i := range *cycles {
				o := Options{Mode: []trace.Mode{trace.Exits, trace.Entries, trace.Filtered, trace.Counts, trace.Chains}[i%5], RingSize: 1 << 20, ChainDepth: 5, Follow: i%2 == 0, Arguments: true, returns: i/5%2 == 1}
				if o.Mode == trace.Filtered {
					o.Filter = trace.Filter{Depth: 20, MinTime: 2000 * uint64(i%2), Period: uint64(i % 3)}
				}
				s := g.open(sites, o)
				stopped = max(stopped, s.Stopped)
				for end := g.rounds() + 500; g.rounds() < end; time.Sleep(time.Millisecond) {
					events += s.Read(func(_ process.ThreadStatus, events []SiteEvent) {
						for _, e := range events {
							if e.ID&(WordFlag|GapFlag) == 0 && s.Site(e.ID) == nil {
								late++
							}
						}
					})
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if descriptors == 0 {
					descriptors = g.descriptors()
				}
				if answer := g.say("status"); !strings.HasSuffix(answer, " 0 bad") {
					t.Fatalf("after %d cycles: %s", i+1, answer)
				}
			}
			t.Logf("%d cycles, %d events, %d of them late, stopped for %v at most; %s", *cycles, events, late, stopped, g.say("status"))
			if events == 0 || late > events/1000 {
				t.Errorf("%d events, %d of calls that an earlier session had begun", events, late)
			}
			if !bytes.Equal(text, g.text()) {
				t.Error("the code is not what it was")
			}
			if n := g.descriptors(); n > descriptors {
				t.Errorf("%d descriptors, before %d", n, descriptors)
			}
			g.In.Close()
			if end := g.Line(); end != "end: 0 bad" {
				t.Errorf("at its end the program says %q", end)
			}
		})
	}
}
