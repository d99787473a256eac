//go:build linux

package patch

import (
	"testing"
	"time"

	"footfall/process"
	"footfall/trace"
)

// TestThreads has two threads, one of which is wanted, and rings that are too small
// for the calls of the other.
func TestThreads(t *testing.T) {
	program := build(t, "gcc-12", "workers.c", "-fpatchable-function-entry=5")
	for name, o := range map[string]Options{
		"entries":  {Mode: trace.Entries},
		"exits":    {Mode: trace.Exits},
		"filtered": {Mode: trace.Filtered, Filter: trace.Filter{Depth: 1}},
		"counts":   {Mode: trace.Counts},
		"newest":   {Mode: trace.Entries, Newest: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWorkers(t, program)
			w.say("begin 0")
			w.say("begin 1")
			w.say("name 0 flood")
			w.say("name 1 calm")

			o.RingSize = 1 << 16
			all := w.open(w.sites("leaf"), o)
			w.say("do c 0 100000")
			if lost, _ := all.Lost(); lost == 0 && o.Mode >= trace.Entries && !o.Newest {
				t.Error("100,000 calls fit into the ring")
			}
			if err := all.Close(); err != nil {
				t.Fatal(err)
			}

			o.Threads = func(t process.ThreadStatus) bool { return t.Name == "calm" }
			s := w.open(w.sites("leaf"), o)
			defer s.Close()
			w.say("do c 0 100000")
			w.say("do c 1 1000")
			if err := s.Recycle(); err != nil {
				t.Fatal(err)
			}
			w.say("do c 0 100000")
			w.say("do c 1 1000")
			if err := s.SwitchOff(); err != nil {
				t.Fatal(err)
			}
			w.check(s, 2000)
			for i := range maxThreads {
				if s.wants(i) {
					continue
				}
				recorded := make(map[uint32]uint64)
				s.countsOf(i, recorded)
				if n := s.region.thread(i).head; n != 0 || len(recorded) > 0 {
					t.Errorf("an unwanted thread has recorded %d events, or counted %v", n, recorded)
				}
			}
		})
	}
}

// TestNewThreads has threads that begin while calls are recorded, take other names,
// have calls that began before they were muted or unmuted, and end.
func TestNewThreads(t *testing.T) {
	program := build(t, "gcc-12", "workers.c", "-fpatchable-function-entry=5")
	for name, o := range map[string]Options{
		"entries":  {Mode: trace.Entries},
		"exits":    {Mode: trace.Exits},
		"filtered": {Mode: trace.Filtered},
		"counts":   {Mode: trace.Counts},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWorkers(t, program)
			o.RingSize = 1 << 16
			o.Threads = func(t process.ThreadStatus) bool { return t.Name == "calm" }
			s := w.open(w.sites("leaf", "hold"), o)
			defer s.Close()

			w.say("begin 0") // with a call under the name that is not wanted
			w.say("begin 1")
			w.say("name 0 flood")
			w.say("name 1 calm")
			w.say("do h 0 0")
			w.say("do c 0 100000")
			w.until(s, 1)
			w.say("do c 0 100000")
			w.say("do c 1 500")
			w.check(s, 501)

			w.say("do r 0 0") // out of the call that was recorded
			w.say("do h 0 0")
			w.say("name 0 calm")
			w.until(s, 0)
			w.say("do c 0 300")
			w.say("do r 0 0")
			w.say("name 1 flood")
			w.until(s, 1)
			w.say("do c 1 100000")
			w.check(s, 300) // if they are counted, those of 1 are not wanted any more

			// Their places are free, and have nothing of them.
			w.say("do e 0 0")
			w.say("do e 1 0")
			w.until(s, 0)
			w.say("begin 2")
			w.say("name 2 calm")
			w.say("do c 2 200")
			if o.Mode == trace.Counts {
				w.check(s, 300+201)
			} else {
				w.check(s, 201)
			}
		})
	}
}

type workers struct{ *testProgram }

func startWorkers(t *testing.T, program string) workers { return workers{start(t, program)} }

// check compares the calls of leaf that were counted, or have been recorded since the
// last check.
func (w workers) check(s *Session, want int) {
	w.t.Helper()
	got := 0
	if s.options.Mode == trace.Counts {
		for id, n := range s.Counts() {
			if s.Site(id).Function.Name == "leaf" {
				got += int(n)
			}
		}
	} else {
		y := tally{make(map[string]int), make(map[string]int)}
		for s.Read(y.add(s)) > 0 {
		}
		got = y.entries["leaf"]
		if exits := y.exits["leaf"]; s.exits() && exits != got {
			w.t.Errorf("%d exits of leaf, %d entries", exits, got)
		}
	}
	if got != want {
		w.t.Errorf("%d calls of leaf, want %d", got, want)
	}
	if lost, threads := s.Lost(); lost != 0 || threads != 0 {
		w.t.Errorf("lost %d and %d", lost, threads)
	}
}

// until waits until so many threads are muted, besides the first of the program.
func (w workers) until(s *Session, want int) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if err := s.Recycle(); err != nil {
			w.t.Fatal(err)
		}
		n := 0
		for i := range maxThreads {
			if id, muted := s.region.thread(i).occupant(); muted && int(id) != s.ownPID {
				n++
			}
		}
		if n == want {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%d threads are muted, want %d", n, want)
		}
	}
}
