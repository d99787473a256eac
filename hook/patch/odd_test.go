package patch

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestPointerless traces a program one of whose threads has no thread pointer: the
// program goes on, and the calls of that thread are said to be missing.
func TestPointerless(t *testing.T) {
	program := build(t, builds["gcc"][0], "odd.c", append(builds["gcc"][1:], "-fno-stack-protector")...)
	for _, mode := range []Mode{Counts, Entries, Exits, Filtered, Chains} {
		for _, early := range []bool{false, true} {
			g := start(t, program)
			if early {
				g.say("pointerless")
			}
			s := g.open(g.sites("leaf"), Options{Mode: mode, ChainDepth: 3})
			if !early {
				g.say("pointerless")
			}
			for deadline := time.Now().Add(10 * time.Second); s.Pointerless() == 0; time.Sleep(time.Millisecond) {
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
	_, err := Open(g.p, g.sites("step"), Options{Mode: Counts})
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
	for _, mode := range []Mode{Counts, Entries, Exits, Filtered, Chains} {
		g := start(t, program)
		s := g.open(g.sites("leaf"), Options{Mode: mode, ChainDepth: 3, Follow: mode == Entries})
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
