//go:build linux

package patch

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// TestLimits tries programs whose limits leave no room: it is said, and nothing
// is left behind.
func TestLimits(t *testing.T) {
	program := build(t, builds["gcc"][0], "limits.c", builds["gcc"][1:]...)
	for limit, want := range map[string]string{
		"addresses": "prlimit --pid %d --as=unlimited",
		"files":     "prlimit --pid %d --nofile=NUMBER",
	} {
		for _, mode := range []trace.Mode{trace.Entries, trace.Exits} {
			g := start(t, program, limit)
			sites := g.sites("leaf")
			maps, descriptors := g.maps(), g.descriptors()
			s, err := Open(g.p, sites, Options{Mode: mode})
			if skipForbidden(t, err); err == nil {
				s.Close()
			}
			if want := fmt.Sprintf(want, g.p.PID); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, mode %d: %v, want %q", limit, mode, err, want)
			}
			if now := g.maps(); now != maps {
				t.Errorf("%s, mode %d: left behind:\n%s\nbefore:\n%s", limit, mode, now, maps)
			}
			if n := g.descriptors(); n != descriptors {
				t.Errorf("%s, mode %d: %d descriptors, before %d", limit, mode, n, descriptors)
			}
			if answer := g.say("go on"); answer != "42" {
				t.Errorf("%s, mode %d: it says %q", limit, mode, answer)
			}
		}
	}
}

// TestLocksLater traces a program that may lock all its memory, or limit it, at any time:
// what is mapped there is small, in all modes.
func TestLocksLater(t *testing.T) {
	if !native.takesRings {
		t.Skip("rings of all threads are mapped from the beginning")
	}
	program := build(t, builds["gcc"][0], "limits.c", builds["gcc"][1:]...)
	for _, mode := range []trace.Mode{trace.Counts, trace.Chains, trace.Entries, trace.Exits, trace.Filtered} {
		g := start(t, program, "nothing")
		kB := func() (n int) {
			fmt.Sscan(g.status("VmSize"), &n)
			return n
		}
		before := kB()
		// The exit of a function that jumps to another has no room where that is near.
		s := g.open(g.sites("leaf", "main"), Options{Mode: mode, ChainDepth: 3})
		g.say("go on")
		if more := kB() - before; more > 256<<10 {
			t.Errorf("mode %d: %d kB were mapped", mode, more)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCountsOfTwo counts calls in the program and in libc, whose stubs are in islands of their own, with small rings and where the
// process may have little more memory: what is counted is right, and of what is not that is said.
func TestCountsOfTwo(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	program := build(t, builds["gcc"][0], "limits.c", builds["gcc"][1:]...)
	for more, all := range map[uint64]bool{0: true, 40: true, 5: false} { // megabytes
		g := start(t, program, "nothing")
		if more > 0 {
			var size uint64
			fmt.Sscan(g.status("VmSize"), &size)
			if err := unix.Prlimit(g.p.PID, unix.RLIMIT_AS, &unix.Rlimit{Cur: size<<10 + more<<20, Max: size<<10 + more<<20}, nil); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(g.p, append(g.sites("leaf"), g.movedIn("libc.so", "fflush")...), Options{Mode: trace.Counts, RingSize: 4096})
		if skipForbidden(t, err); err != nil {
			t.Fatal(err)
		}
		if len(s.islands) != 2 {
			t.Fatalf("%d islands", len(s.islands))
		}
		for range 5 {
			g.say("go on")
		}
		counts := s.Counts()
		for id, site := range s.stubs {
			if n := counts[id]; n != 5 {
				t.Errorf("%d MB: %d calls of %s, there were 5", more, n, site.Function.Name)
			}
		}
		if len(s.stubs) == 0 || len(s.stubs)+len(s.Skipped) != 2 || all && len(s.Skipped) > 0 || !all && len(s.Skipped) != 1 {
			t.Errorf("%d MB: %d counted, left out: %v", more, len(s.stubs), s.Skipped)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if answer := g.say("go on"); answer != "42" {
			t.Errorf("%d MB: it says %q", more, answer)
		}
	}
}

// movedIn returns the site of a function of an image that is moved, whatever the build.
func (g *testProgram) movedIn(image, name string) []*EntrySite {
	g.t.Helper()
	images, err := target.Images(g.p)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, i := range images {
		g.t.Cleanup(i.Close)
		if !strings.Contains(i.Path, image) {
			continue
		}
		all, _, err := Moved(i)
		if err != nil {
			g.t.Fatal(err)
		}
		for _, site := range all {
			if site.Function.Name == name {
				return []*EntrySite{site}
			}
		}
	}
	g.t.Fatalf("no function %s in %s", name, image)
	return nil
}

func (g *testProgram) maps() string {
	g.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", g.p.PID))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(b)
}

// TestLocked traces a program that locks all its memory, and one that lets none become executable, either: nothing of
// ours is locked, and when the trace has ended nothing but code is left.
func TestLocked(t *testing.T) {
	program := build(t, builds["gcc"][0], "limits.c", builds["gcc"][1:]...)
	for _, limit := range []string{"locks", "locks and refuses"} {
		for _, mode := range []trace.Mode{trace.Entries, trace.Exits} {
			g := start(t, program, limit)
			g.say("go on") // it has set its limit
			locked := g.status("VmLck")
			s := g.open(g.sites("leaf"), Options{Mode: mode})
			if now := g.status("VmLck"); now != locked {
				t.Errorf("%s: %s kB are locked, before %s", limit, now, locked)
			}
			if answer := g.say("go on"); answer != "42" {
				t.Errorf("%s: it says %q", limit, answer)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if maps := g.maps(); strings.Contains(maps, regionName) || len(g.p.LeftDescriptors()) > 0 {
				t.Errorf("%s: left behind:\n%s", limit, maps)
			}
		}
	}
}

// status returns a field of the kernel's about the program.
func (g *testProgram) status(field string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.p.PID))
	if err != nil {
		g.t.Fatal(err)
	}
	_, value, _ := strings.Cut(string(b), "\n"+field+":")
	value, _, _ = strings.Cut(value, " kB")
	return strings.TrimSpace(value)
}

// TestIslandInTheWay maps an island where the process has memory already: that stays.
func TestIslandInTheWay(t *testing.T) {
	g := start(t, build(t, builds["gcc"][0], "limits.c", builds["gcc"][1:]...), "nothing")
	before := g.maps()
	maps, _, err := g.p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range (&island{room: spareStubs}).parts() {
		err := held(g.p, func(h *process.Held) error {
			_, err := newIsland(h, maps[0].Start-part[0], spareStubs, 0)
			return err
		})
		if skipForbidden(t, err); !errors.Is(err, unix.EEXIST) {
			t.Errorf("part at %#x: %v, want EEXIST", part[0], err)
		}
	}
	if now := g.maps(); now != before {
		t.Errorf("now\n%s\nbefore\n%s", now, before)
	}
	if answer := g.say("go on"); answer != "42" {
		t.Errorf("it says %q", answer)
	}
}

// TestTidyWhileOn tidies up where the sites could not be restored, as a thread did not stop:
// what they use stays.
func TestTidyWhileOn(t *testing.T) {
	g := start(t, build(t, builds["gcc"][0], "limits.c", builds["gcc"][1:]...), "nothing")
	s := g.open(g.sites("leaf"), Options{Mode: trace.Entries})
	if err := tidy(g.p, s.islands); err != nil {
		t.Fatal(err)
	}
	if answer := g.say("go on"); answer != "42" {
		t.Errorf("it says %q", answer)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if now := g.maps(); strings.Contains(now, regionName) {
		t.Errorf("there is memory of ours:\n%s", now)
	}
}
