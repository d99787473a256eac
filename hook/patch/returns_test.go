//go:build linux

package patch

import (
	"footfall/trace"
	"runtime"
	"testing"
)

// TestCopiedStacks traces coroutines whose stack is copied, and whose functions have no room
// at their exits, and tells whether they compute what they do untraced.
func TestCopiedStacks(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the functions are in x86-64's assembly")
	}
	g := start(t, build(t, "gcc-12", "copied.c", "-O1", "-U_FORTIFY_SOURCE"))
	const rounds = 500
	want := g.say("run %d", rounds)
	for _, test := range []struct {
		Options
		exact bool // exits are not left out by a filter
	}{
		{Options{Mode: trace.Entries}, false},
		{Options{Mode: trace.Exits}, true},
		{Options{Mode: trace.Filtered, Filter: trace.Filter{Depth: 2}}, false},
		{Options{Mode: trace.Filtered, Filter: trace.Filter{MinTime: 1 << 40}}, false},
		{Options{Mode: trace.Exits}, true},
	} {
		s := g.open(g.sites("left", "right", "leaf", "passes"), test.Options)
		// What passes jumps to may look at the return address.
		if byReturn, not := s.ExitWays(); test.Mode != trace.Entries && (byReturn != 3 || not != 1) {
			t.Errorf("%+v: of %d functions return addresses are replaced, of %d not: the test is none", test.Options, byReturn, not)
		}
		y := tally{make(map[string]int), make(map[string]int)}
		if got := g.say("run %d", rounds); got != want {
			t.Errorf("%+v: the program says %q, untraced %q", test.Options, got, want)
		}
		for s.Read(y.add(s)) > 0 {
		}
		if test.exact && (y.entries["leaf"] != 2*rounds || y.exits["leaf"] != 2*rounds || y.exits["left"] != rounds || y.exits["right"] != rounds) {
			t.Errorf("%+v: %v", test.Options, y)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.say("run %d", rounds); got != want {
		t.Errorf("afterwards the program says %q, untraced %q", got, want)
	}
}
