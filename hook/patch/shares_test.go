//go:build linux

package patch

import (
	"footfall/trace"
	"testing"
	"time"
)

// TestSharesMemory traces a process in whose memory another one runs, which is no thread.
func TestSharesMemory(t *testing.T) {
	program := build(t, "gcc-12", "shares.c", "-fpatchable-function-entry=5")
	g := start(t, program)
	sites := g.sites("step")
	for i := range 40 {
		if err := g.open(sites, Options{Mode: trace.Counts, RingSize: 1 << 16}).Close(); err != nil {
			t.Fatal(err)
		}
		if answer := g.say("go on"); answer != "runs" {
			t.Fatalf("after %d traces the other process %s", i+1, answer)
		}
	}
	g.In.Close()
}

// TestVforkWaits traces a program of which a thread waits in vfork, where it cannot be
// stopped. The process that it waits for is no child that is to be restored.
func TestVforkWaits(t *testing.T) {
	program := build(t, "gcc-12", "shares.c", "-fpatchable-function-entry=5")
	t.Run("main serves", func(t *testing.T) { vforkWaits(t, program, "vfork") })
	t.Run("main has ended", func(t *testing.T) { vforkWaits(t, program, "vfork", "main ends") })
}

func vforkWaits(t *testing.T, program string, args ...string) {
	g := start(t, program, args...)
	if len(args) > 1 {
		g.say("call") // main has begun to end before
	}
	for range 3 {
		begin := time.Now()
		s := g.open(g.sites("step"), Options{Mode: trace.Counts})
		if answer := g.say("call"); answer != "waits" {
			t.Fatalf("it says %q", answer)
		}
		if counts := s.Counts(); len(counts) != 1 {
			t.Errorf("counted is %v", counts)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s.Children != 0 {
			t.Errorf("%d children were restored", s.Children)
		}
		t.Logf("%v", time.Since(begin))
	}
	if answer := g.say("let go"); answer != "runs" {
		t.Errorf("then it says %q", answer)
	}
}
