//go:build linux && amd64

package patch

import (
	"fmt"
	"footfall/trace"
	"testing"
)

// TestWithin switches a function on while a handler of a signal waits that came when a
// thread was between its nops: not before the handler has returned. The handler, or
// another one that interrupted it, may have a stack of its own.
func TestWithin(t *testing.T) {
	program := build(t, "gcc-12", "within.c", "-O1")
	for _, mode := range []trace.Mode{trace.Counts, trace.Exits} {
		for _, deeper := range []string{"", "+"} {
			g := start(t, program)
			sites := g.sites("f")
			for at := 1; at <= 4; at++ {
				if answer := g.say("%d%s", at, deeper); answer != "within" {
					t.Fatalf("it says %q", answer)
				}
				s, err := Open(g.p, sites, Options{Mode: mode})
				if skipForbidden(t, err); err != nil {
					t.Fatal(err)
				}
				if s.On() != 0 || len(s.Skipped) != 1 {
					t.Errorf("%d%s: %d are on, skipped are %v", at, deeper, s.On(), s.Skipped)
				}
				if answer := g.say("go on"); answer != "back" {
					t.Fatalf("%d: it says %q", at, answer)
				}
				g.say("calls") // the handler has returned
				if err := s.Recycle(); err != nil {
					t.Fatal(err)
				}
				if s.On() != 1 || len(s.Skipped) != 0 {
					t.Errorf("%d%s: then %d are on, skipped are %v", at, deeper, s.On(), s.Skipped)
				}
				if late := s.Late[sites[0]]; len(s.Late) != 1 || late <= 0 {
					t.Errorf("%d%s: late is %v", at, deeper, s.Late)
				}
				if answer, want := g.say("call"), fmt.Sprint(2*at); answer != want {
					t.Errorf("%d calls, want %s", at, want)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
