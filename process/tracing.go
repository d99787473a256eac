//go:build linux

package process

import (
	"os"
	"time"
)

// A tracing is the loop of a thread that traces: the kernel takes orders from, and tells of stops,
// that thread only.
type tracing struct {
	orders chan func()
	done   chan struct{} // closed when the thread has ended

	closing bool // of the thread
}

func newTracing() tracing { return tracing{orders: make(chan func()), done: make(chan struct{})} }

// loop handles stops and orders until it is closed. collect handles a stop, if there is one;
// tick is called now and then when there is none.
func (l *tracing) loop(stops <-chan os.Signal, collect func() bool, tick func()) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !l.closing {
		if collect() {
			select {
			case order := <-l.orders:
				order()
			default:
			}
			continue
		}
		select {
		case <-stops:
		case <-ticker.C:
			tick()
		case order := <-l.orders:
			order()
		}
	}
}

// do has the thread that traces do something; false: it has ended.
func (l *tracing) do(what func()) bool {
	done := make(chan struct{})
	select {
	case l.orders <- func() { what(); close(done) }:
		<-done
		return true
	case <-l.done:
		return false
	}
}
