//go:build linux

package record

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"footfall/trace"
)

// TestOrder has events of some threads come in passes; those up to a time are given after
// each. They must come by time, those of a thread in their order, words with their events.
func TestOrder(t *testing.T) {
	type given struct {
		thread int
		event  trace.Event
	}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		h := &trace.Header{PID: 1, Functions: []trace.Function{{Name: "f"}}}
		var file bytes.Buffer
		out := &outputs{header: h, told: 1, onlyRaw: true, raw: trace.NewRawWriter(&file, h)}
		o := &order{give: out.add, endPass: out.endPass}
		var want []given
		threads := 1 + random.IntN(5)
		times := make([]uint64, threads)
		now := uint64(0)
		for range 5 {
			until := now // all up to here has been taken
			now += 20
			for i := range threads {
				var events []trace.Event
				for range random.IntN(10) {
					times[i] = max(times[i], until) + random.Uint64N(4)
					if times[i] >= now {
						break
					}
					events = append(events, trace.Event{Time: times[i], Stack: random.Uint32()})
					for range random.IntN(3) {
						events = append(events, trace.Event{Time: random.Uint64(), Word: true})
					}
				}
				o.add(trace.Thread{ID: i}, Sites, events)
				for _, e := range events {
					want = append(want, given{i, e})
				}
			}
			o.until(until)
		}
		o.end()
		if err := out.raw.Close(0); err != nil {
			t.Fatal(err)
		}
		in, err := trace.NewRawReader(&file)
		if err != nil {
			t.Fatal(err)
		}
		var got []given
		if _, err := in.Read(func(thread trace.Thread, events []trace.Event) {
			for _, e := range events {
				got = append(got, given{thread.ID, e})
			}
		}); err != nil {
			t.Fatal(err)
		}
		// Which of several threads is first at one time does not matter.
		last, at := uint64(0), 0
		var byThread, wantByThread []given
		for i, g := range got {
			if !g.event.Word {
				if g.event.Time < last {
					t.Fatalf("seed %d: event %d of time %d comes after one of %d", seed, i, g.event.Time, last)
				}
				last, at = g.event.Time, g.thread
			} else if g.thread != at {
				t.Fatalf("seed %d: word %d is not with its event", seed, i)
			}
		}
		for i := range threads {
			for _, g := range got {
				if g.thread == i {
					byThread = append(byThread, g)
				}
			}
			for _, g := range want {
				if g.thread == i {
					wantByThread = append(wantByThread, g)
				}
			}
		}
		if !slices.Equal(byThread, wantByThread) {
			t.Fatalf("seed %d: %v, want %v", seed, byThread, wantByThread)
		}
	}
}
