//go:build linux

package patch

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"footfall/trace"
)

func (g *testProgram) keepRan(sites []*EntrySite) *Ran {
	g.t.Helper()
	r, err := OpenRan(g.p, ranSites(sites), KeepsFunctions, true)
	if skipForbidden(g.t, err); err != nil {
		g.t.Fatal(err)
	}
	return r
}

// leave has a Ran stay, and returns what ran.
func (r *Ran) leave(t *testing.T) []string {
	t.Helper()
	ran, err := r.Leave()
	if err != nil {
		t.Fatal(err)
	}
	return r.names(ran)
}

// TestRanKept has one session after another watch a program that runs on between them: none misses what ran in
// between, nor sees what an earlier one has. No trace changes the program meanwhile.
func TestRanKept(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	g := start(t, build(t, "gcc-12", "moved.c", "-fcf-protection=none"))
	want, text := g.say("go"), g.text()
	if ran := g.keepRan(g.moved()).leave(t); slices.Contains(ran, "plain") {
		t.Fatalf("%q ran before anything was asked for", ran)
	}
	if bytes.Equal(text, g.text()) {
		t.Fatal("the program is not watched any more")
	}
	if is := g.say("go"); is != want {
		t.Fatalf("%s\nwant %s", is, want)
	}
	if _, err := Open(g.p, g.moved(), Options{Mode: trace.Counts}); err == nil || !strings.Contains(err.Error(), "--keep watches it") {
		t.Errorf("a trace begins: %v", err)
	}
	if _, err := OpenRan(g.p, ranSites(g.blocks()), KeepsBlocks, true); err == nil || !strings.Contains(err.Error(), "--keep watches it") {
		t.Errorf("blocks are watched, too: %v", err)
	}
	if changed, footfall, err := PatchedBy(g.p); len(changed) == 0 || footfall != 0 || err != nil {
		t.Errorf("%d functions are changed by %d, %v", len(changed), footfall, err)
	}

	r := g.keepRan(g.moved())
	ran, err := r.Look()
	if err != nil || !slices.Contains(r.names(ran), "plain") {
		t.Fatalf("%q ran, %v", r.names(ran), err)
	}
	if r.TakenOver != KeepsFunctions || len(r.Gaps) != 0 {
		t.Errorf("%v is taken over, but for %d", r.TakenOver, len(r.Gaps))
	}
	mains := 0
	for n := range r.count() {
		if r.Site(n).Function.Name == "main" && r.MayHaveBegun(n) {
			mains++
		}
	}
	if mains == 0 {
		t.Error("that main was running already is forgotten")
	}
	if is := g.say("go"); is != want {
		t.Fatalf("%s\nwant %s", is, want)
	}
	if again := r.leave(t); slices.Contains(again, "plain") {
		t.Errorf("plain ran for the first time again: %q", again)
	}

	r = g.keepRan(g.moved()) // sees all that ran
	if err := r.Rearm(); err != nil {
		t.Fatal(err)
	}
	if ran, err := r.Look(); err != nil || slices.Contains(r.names(ran), "plain") {
		t.Errorf("%q ran since it was forgotten, %v", r.names(ran), err)
	}
	g.say("go")
	if ran := r.leave(t); !slices.Contains(ran, "plain") {
		t.Errorf("%q ran when it is watched again", ran)
	}

	r = g.openRan(g.moved())
	if ran, err := r.Close(); err != nil || !slices.Contains(r.names(ran), "plain") {
		t.Errorf("%q ran, %v", r.names(ran), err)
	}
	if !bytes.Equal(text, g.text()) {
		t.Error("the code is not what it was")
	}
	g.keepRan(g.moved()).leave(t)
	if _, err := Repair(g.p); err != nil || !bytes.Equal(text, g.text()) {
		t.Errorf("the code is not what it was, %v", err)
	}
	if err := g.open(g.moved(), Options{Mode: trace.Counts}).Close(); err != nil {
		t.Error(err)
	}
}

// TestRanKeptWithoutMemory takes over a program that may map nothing more: it stays as it was.
func TestRanKeptWithoutMemory(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	g := start(t, build(t, "gcc-12", "moved.c", "-fcf-protection=none"))
	want, text := g.say("go"), g.text()
	g.keepRan(g.moved()).leave(t)
	none, all := unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(g.p.PID, unix.RLIMIT_AS, &none, nil); err != nil {
		t.Fatal(err)
	}
	if r, err := OpenRan(g.p, ranSites(g.moved()), KeepsFunctions, true); err == nil {
		r.leave(t) // the kernel counts what is replaced
	} else if !errors.Is(err, unix.ENOMEM) {
		t.Errorf("%v, want %v", err, unix.ENOMEM)
	}
	if is := g.say("go"); is != want {
		t.Fatalf("%s\nwant %s", is, want)
	}
	if err := unix.Prlimit(g.p.PID, unix.RLIMIT_AS, &all, nil); err != nil {
		t.Fatal(err)
	}
	r := g.openRan(g.moved())
	if ran, err := r.Close(); err != nil || !slices.Contains(r.names(ran), "plain") {
		t.Errorf("%q ran, %v", r.names(ran), err)
	}
	if !bytes.Equal(text, g.text()) {
		t.Error("the code is not what it was")
	}
}
