package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// TestQueue has as many be written together as came together before, if they come in time, and nobody wait for who does not.
func TestQueue(t *testing.T) {
	stop := make(chan struct{})
	q := NewQueue[int](stop, 8)
	var senders sync.WaitGroup
	send := func(n int, after time.Duration) {
		for i := range n {
			senders.Go(func() {
				time.Sleep(after)
				if err := q.Do(t.Context(), i); err != nil {
					t.Error(err)
				}
			})
		}
	}
	take := func(pause, between time.Duration, want int) {
		t.Helper()
		all := q.Take(Patience{pause, between})
		if len(all) != want {
			t.Errorf("%d were taken together, want %d", len(all), want)
		}
		for _, w := range all {
			w.Answer(nil)
		}
	}
	q.last, q.taken = 5, time.Now()
	send(1, 0)
	send(4, 20*time.Millisecond)
	take(time.Minute, time.Minute, 5)
	send(1, 0)
	took := time.Now()
	take(50*time.Millisecond, time.Minute, 1)
	if time.Since(took) < 50*time.Millisecond {
		t.Error("nobody waited")
	}
	send(1, 0)
	took = time.Now()
	take(time.Minute, time.Minute, 1)
	if time.Since(took) > 30*time.Second {
		t.Error("one alone waited")
	}
	q.last, q.taken = 3, time.Now()
	for i := range 3 {
		send(1, time.Duration(i)*300*time.Millisecond)
	}
	take(450*time.Millisecond, time.Minute, 3) // each has others wait anew
	q.last, q.taken = 5, time.Now()
	send(1, 0)
	send(1, 300*time.Millisecond)
	took = time.Now()
	take(time.Minute, 100*time.Millisecond, 1)
	if time.Since(took) > 30*time.Second {
		t.Error("it was waited for longer after the last were taken")
	}
	take(time.Minute, time.Minute, 1)
	send(20, 0)
	time.Sleep(100 * time.Millisecond)
	for _, want := range []int{8, 8, 4} { // no more than the most
		take(100*time.Millisecond, time.Minute, want)
	}
	senders.Wait()
	close(stop)
	if all := q.Take(Patience{time.Minute, time.Minute}); all != nil {
		t.Errorf("%d were taken of a queue that is closed", len(all))
	}
	if err := q.Do(context.Background(), 1); !errors.Is(err, ErrClosing) {
		t.Error(err)
	}
}
