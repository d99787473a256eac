//go:build linux

package patch

import (
	"fmt"
	"testing"

	"footfall/trace"
)

// TestLate ends a session while calls are open whose return addresses it has replaced, and has them
// return in another one of each mode, which must see nothing of that.
func TestLate(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	g := start(t, build(t, "gcc-12", "late.c", "-fpatchable-function-entry=5"))
	if err := g.open(g.sites("leaf"), Options{Mode: trace.Counts}).Close(); err != nil { // whose counts come first
		t.Fatal(err)
	}
	before := []Options{{Mode: trace.Exits, returns: true}, {Mode: trace.Filtered, Filter: trace.Filter{Depth: 5}, returns: true}}
	for _, first := range before {
		for _, second := range []Options{{Mode: trace.Counts}, {Mode: trace.Chains, ChainDepth: 3}, {Mode: trace.Entries, RingSize: 4096}} {
			t.Run(fmt.Sprintf("mode %d, %d", first.Mode, second.Mode), func(t *testing.T) {
				s := g.open(g.sites("leaf", "waits"), first)
				if answer := g.say("enter"); answer != "in" {
					t.Fatal(answer)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = g.open(g.sites("leaf"), second)
				defer s.Close()
				g.say("go")
				if answer := g.say("leave"); answer != "out" {
					t.Fatal(answer)
				}
				dropped, placeless := s.Lost()
				switch second.Mode {
				case trace.Counts:
					for id, n := range s.Counts() {
						if n != 1000 {
							t.Errorf("%s: %d calls, there were 1000", s.Site(id).Function.Name, n)
						}
					}
				case trace.Chains:
					sum := uint64(0)
					for _, c := range s.Chains() {
						sum += c.Count
					}
					if sum != 1000 {
						t.Errorf("%d chains, there were 1000", sum)
					}
				}
				if second.Mode != trace.Entries && dropped+placeless > 0 {
					t.Errorf("%d calls were lost, %d had no place", dropped, placeless)
				}
			})
		}
	}
}
