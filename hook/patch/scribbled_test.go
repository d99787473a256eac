//go:build linux

package patch

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"footfall/process"
	"footfall/trace"
)

// TestScribbled writes over what a program has recorded, as its own bad pointers may: what is
// read then is bounded, and is said to be damaged where it cannot be right.
func TestScribbled(t *testing.T) {
	g := start(t, build(t, builds["gcc"][0], "calls.c", builds["gcc"][1:]...))
	random := rand.New(rand.NewPCG(1, 2))
	for _, o := range []Options{{Mode: trace.Entries}, {Mode: trace.Exits}, {Mode: trace.Filtered}, {Mode: trace.Entries, Newest: true}, {Mode: trace.Counts}, {Mode: trace.Chains, ChainDepth: 3}} {
		o.RingSize = 1 << 20
		damaged := 0
		const rounds = 12
		for round := range rounds {
			s := g.open(g.sites("leaf", "fib"), o)
			g.say("run 10")
			if err := s.SwitchOff(); err != nil {
				t.Fatal(err)
			}
			scribble(random, s.region, round)
			events := 0
			for range 20 {
				events += s.Read(func(_ process.ThreadStatus, e []SiteEvent) {
					for i := range e {
						s.Site(e[i].ID)
					}
				})
			}
			if most := 2 * maxThreads << 16; events > most {
				t.Errorf("mode %d: %d events", o.Mode, events)
			}
			lost, threads := s.Lost()
			for what, n := range map[string]uint64{"lost": lost, "threads": threads, "pointerless": s.Pointerless(), "returns": s.NoReturns()} {
				if int64(n) < 0 {
					t.Errorf("mode %d: %d %s", o.Mode, int64(n), what)
				}
			}
			for _, n := range s.Counts() {
				if int64(n) < 0 {
					t.Errorf("mode %d: %d calls", o.Mode, int64(n))
				}
			}
			for _, c := range s.Chains() {
				if int64(c.Count) < 0 || len(c.Addresses) > o.ChainDepth {
					t.Errorf("mode %d: %+v", o.Mode, c)
				}
			}
			if s.Damaged {
				damaged++
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if damaged < rounds/2 {
			t.Errorf("mode %d: %d of %d are said to be damaged", o.Mode, damaged, rounds)
		}
	}
	if got := g.say("run 10"); got != "ok 10" {
		t.Errorf("the program says %q", got)
	}
}

// scribble writes over settings, places of threads and their rings.
func scribble(random *rand.Rand, r *region, round int) {
	garbage := func(at, size int) {
		for ; size >= 8; at, size = at+8, size-8 {
			v := random.Uint64()
			if round%3 == 0 {
				v = 1<<64 - 1
			}
			binary.LittleEndian.PutUint64(r.memory[at:], v)
		}
	}
	set := r.settings()
	set.noThread, set.noPointer, set.noReturn = random.Uint64()|1<<63, 1<<64-1, random.Uint64()|1<<63
	for i := range maxThreads {
		t := r.thread(i)
		if t.id == 0 {
			continue
		}
		at := r.ringOffset(i)
		if at > 0 {
			garbage(int(at), 1<<12)
		}
		if round%2 == 0 { // its ring stays known
			t.head, t.tail, t.lost = random.Uint64(), random.Uint64(), random.Uint64()|1<<63
		} else if round%4 == 3 {
			garbage(tableAt+i*threadSize, threadSize)
		}
	}
}
