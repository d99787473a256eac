//go:build linux

package patch

import (
	"footfall/trace"
	"testing"
)

// TestSmallStack has the unwinder told where only a coroutine can run the call: what is
// below its stack stays as it is.
func TestSmallStack(t *testing.T) {
	// Functions are bound at once: the dynamic linker needs more stack.
	program := build(t, "g++-12", "smallstack.cc", append([]string{"-Wl,-z,now"}, builds["gcc"][1:]...)...)
	for range 5 {
		g := start(t, program)
		s := g.open(g.sites("leaf"), Options{Mode: trace.Exits})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if bad := g.say("how many?"); bad != "0" {
			t.Errorf("%s words of another thread were others", bad)
		}
	}
}
