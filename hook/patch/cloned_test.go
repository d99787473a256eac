//go:build linux

package patch

import (
	"fmt"
	"footfall/trace"
	"testing"
)

// TestOwnClone traces a program whose threads have no thread pointer, which it makes by a
// system call of its own, so that no symbol says so: it goes on, and their calls are known
// not to be recorded.
func TestOwnClone(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	program := build(t, "gcc-12", "cloned.c", "-fpatchable-function-entry=5")
	for _, mode := range []trace.Mode{trace.Counts, trace.Entries, trace.Exits, trace.Filtered} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			g := start(t, program)
			s := g.open(g.sites("leaf", "outer"), Options{Mode: mode})
			defer s.Close()
			for range 2 {
				if sum := g.say("go"); sum != "3002000" {
					t.Fatalf("the program says %q", sum)
				}
			}
			if n := s.Pointerless(); n < 2*3000 {
				t.Errorf("%d calls of threads without a pointer, there were %d", n, 2*3000)
			}
		})
	}
}

// TestClones knows the system calls that make threads.
func TestClones(t *testing.T) {
	for code, want := range map[string]bool{
		"\xb8\x38\x00\x00\x00\x0f\x05":         true,  // mov $56,%eax
		"\xb8\xb3\x01\x00\x00\x31\xd2\x0f\x05": true,  // mov $435,%eax
		"\x6a\x38\x58\x0f\x05":                 true,  // push $56; pop %rax
		"\xb8\x3c\x00\x00\x00\x0f\x05":         false, // mov $60,%eax
		"\x0f\x05\xb8\x38\x00\x00\x00":         false,
		"":                                     false,
	} {
		if got := clones([]byte(code)); got != want {
			t.Errorf("% x: %v", code, got)
		}
	}
}
