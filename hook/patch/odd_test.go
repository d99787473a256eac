//go:build linux

package patch

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process"
	"footfall/trace"
)

// TestPointerless traces a program one of whose threads has no thread pointer: the
// program goes on, and the calls of that thread are said to be missing.
func TestPointerless(t *testing.T) {
	for _, flags := range [][]string{{"-pthread"}, {"-pthread", "-static"}} {
		flags = slices.Concat(builds["gcc"][1:], []string{"-fno-stack-protector"}, flags)
		testPointerless(t, build(t, builds["gcc"][0], "odd.c", flags...))
	}
}

func testPointerless(t *testing.T, program string) {
	for _, mode := range []trace.Mode{trace.Counts, trace.Entries, trace.Exits, trace.Filtered, trace.Chains} {
		for _, early := range []bool{false, true} {
			g := start(t, program)
			if early {
				g.say("pointerless")
			}
			s := g.open(g.sites("leaf"), Options{Mode: mode, ChainDepth: 3})
			if !early {
				g.say("pointerless")
			}
			for deadline := time.Now().Add(time.Minute); s.Pointerless() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("mode %d: no call without a thread pointer", mode)
				}
			}
			if answer := g.say("end"); answer != "42" {
				t.Errorf("mode %d: it says %q", mode, answer)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			g.say("hello")
		}
	}
}

// TestNoPointer refuses a program in which no thread has one.
func TestNoPointer(t *testing.T) {
	program := filepath.Join(t.TempDir(), "bare")
	args := append([]string{"-O1", "-nostdlib", "-static", "-fno-stack-protector", "-o", program, filepath.Join("testdata", "bare.c")}, builds["gcc"][1:]...)
	if out, err := exec.Command(builds["gcc"][0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g := start(t, program)
	_, err := Open(g.p, g.sites("step"), Options{Mode: trace.Counts})
	if skipForbidden(t, err); !errors.Is(err, ErrNotSupported) {
		t.Errorf("%v, want one that wraps ErrNotSupported", err)
	}
	if answer := g.say("go on"); answer != "42" {
		t.Errorf("it says %q", answer)
	}
}

// TestFilterLater has a program filter its system calls while it is traced: none are
// made in it.
func TestFilterLater(t *testing.T) {
	program := build(t, builds["gcc"][0], "odd.c", builds["gcc"][1:]...)
	for _, mode := range []trace.Mode{trace.Counts, trace.Entries, trace.Exits, trace.Filtered, trace.Chains} {
		g := start(t, program)
		s := g.open(g.sites("leaf"), Options{Mode: mode, ChainDepth: 3, Follow: mode == trace.Entries})
		for _, command := range []string{"filter", "thread", "hello"} {
			if answer := g.say(command); answer != "42" {
				t.Errorf("mode %d: it says %q", mode, answer)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		g.say("hello")
	}
}

// TestFilterJustNow has a program filter its system calls when it has been found that it
// does not: no call is injected into a thread.
func TestFilterJustNow(t *testing.T) {
	g := start(t, build(t, builds["gcc"][0], "odd.c", builds["gcc"][1:]...))
	g.say("filter")
	err := held(g.p, func(h *process.Held) error {
		_, err := h.SystemCall(unix.SYS_GETPID)
		return err
	})
	if skipForbidden(t, err); !errors.Is(err, process.ErrFiltered) {
		t.Errorf("%v, want %v", err, process.ErrFiltered)
	}
	if answer := g.say("hello"); answer != "42" {
		t.Errorf("it says %q", answer)
	}
}
