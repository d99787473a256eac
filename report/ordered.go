package report

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// An ordered writes texts in their order that several goroutines make at the same time.
type ordered struct {
	turn atomic.Int64 // the text that is written

	mu      sync.Mutex
	moved   sync.Cond // the turn has, or something failed
	to      io.Writer
	few     []byte         // what is to be written with more
	ready   map[int][]byte // texts that wait for their turn
	waiting int            // bytes of these
	spare   [][]byte       // memory of those that were written
	failed  error          // of to
}

// Less than fewBytes is written with what follows. Whoever makes texts waits while mostWaiting bytes wait
// for their turn: with more nothing is faster. Most texts have less than textBytes.
const (
	fewBytes    = 1 << 15
	mostWaiting = 1 << 15
	textBytes   = 1 << 16
)

// writeOrdered writes n texts. Each goroutine asks begin for what makes them, one after the other: that appends text i
// to memory that is there, and may hand over what it has, see [ordered.hand].
func writeOrdered(to io.Writer, n int, begin func(o *ordered) (text func(i int, b []byte) []byte)) error {
	o := &ordered{to: to, ready: make(map[int][]byte)}
	o.moved.L = &o.mu
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			text, memory, more := begin(o), make([]byte, 0, textBytes), true
			for i := int(next.Add(1)) - 1; i < n && more; i = int(next.Add(1)) - 1 {
				memory, more = o.end(i, text(i, memory[:0]))
			}
		})
	}
	all.Wait()
	o.write(nil, 0)
	return o.failed
}

// hand takes what there is of text i, if that is much and it is its turn, and returns the memory, with what is left.
func (o *ordered) hand(i int, b []byte) []byte {
	if len(b) < fewBytes || o.turn.Load() != int64(i) {
		return b
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.write(b, fewBytes)
	return b[:0]
}

// end takes the rest of text i. It returns other memory, and whether to go on.
func (o *ordered) end(i int, b []byte) (memory []byte, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ready[i] = b
	o.waiting += len(b)
	for turn := int(o.turn.Load()); ; turn++ {
		b, ok := o.ready[turn]
		if !ok {
			break
		}
		delete(o.ready, turn)
		o.write(b, fewBytes)
		o.waiting -= len(b)
		o.spare = append(o.spare, b)
		o.turn.Store(int64(turn) + 1)
		o.moved.Broadcast()
	}
	for o.waiting > mostWaiting && o.failed == nil { // whose turn it is does not wait
		o.moved.Wait()
	}
	last := len(o.spare) - 1
	if last < 0 {
		return make([]byte, 0, textBytes), o.failed == nil
	}
	memory, o.spare = o.spare[last], o.spare[:last]
	return memory, o.failed == nil
}

// write writes b, with what follows if it has less than so many bytes.
func (o *ordered) write(b []byte, few int) {
	if len(o.few)+len(b) < few {
		o.few = append(o.few, b...)
		return
	}
	for _, b := range [][]byte{o.few, b} {
		if len(b) > 0 && o.failed == nil {
			_, o.failed = o.to.Write(b)
		}
	}
	o.few = o.few[:0]
}
