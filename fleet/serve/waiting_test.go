package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"footfall/fleet/store"
	"footfall/fleet/wire"
)

// A gathering is a store of which each push waits until there are so many.
type gathering struct {
	store.Store
	want    int64
	waiting atomic.Int64
	all     chan struct{}
}

func (g *gathering) Push(context.Context, *store.Batch) error {
	if g.waiting.Add(1) == g.want {
		close(g.all)
	}
	select {
	case <-g.all:
		return nil
	case <-time.After(20 * time.Second):
		return errors.New("the others have not come")
	}
}

func (g *gathering) Close() error { return nil }

func (g *gathering) Projects(context.Context) ([]string, error) { return nil, nil }

func (g *gathering) Open(context.Context, string) (store.Store, error) { return g, nil }

// TestWaiting has many more wait for the store than are read at a time: it writes together what waits.
func TestWaiting(t *testing.T) {
	g := &gathering{want: 20 * together, all: make(chan struct{})}
	address, _ := start(t, Options{Stores: g})
	var senders sync.WaitGroup
	for i := range g.want {
		c := newClient(t, address, "")
		senders.Go(func() {
			if err := c.Push(t.Context(), batch(aFile("a.c", 1), fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	senders.Wait()
}

// TestRoom has a room never hold more than there is room for, the largest message included, and all get in.
func TestRoom(t *testing.T) {
	r := newRoom(waitingBytes)
	var inside, entered atomic.Int64
	var group sync.WaitGroup
	for i := range 200 {
		size := i * (wire.MostBytes / 199)
		if i == 199 {
			size = wire.MostBytes
		}
		group.Go(func() {
			leave := r.enter(size)
			if now := inside.Add(int64(size)); now > waitingBytes {
				t.Errorf("%d bytes were there at once", now)
			}
			entered.Add(1)
			time.Sleep(time.Millisecond)
			inside.Add(-int64(size))
			leave()
		})
	}
	group.Wait()
	if n := entered.Load(); n != 200 || len(r.places) != 0 {
		t.Errorf("%d came in, and %d places are not free", n, len(r.places))
	}
}
