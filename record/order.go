//go:build linux

package record

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"footfall/trace"
)

// Some outputs want events by time, over all threads. Those of one thread come in
// their order; they wait in a queue until those of other threads which are earlier
// are there.

// An order gives the events of all threads by time.
type order struct {
	give    func(trace.Thread, []trace.Event)
	endPass func() // is called when some have been given

	queues []*queue        // of threads
	last   *queue          // that was looked for last
	made   int             // queues that were made
	spare  [][]trace.Event // of queues that have gone
}

// A queue has events of a thread that a backend has recorded, by time.
type queue struct {
	thread trace.Thread
	way    Way
	number int           // of queues that were made: of equal times the first one's comes first
	events []trace.Event // words follow the event whose they are
	given  int           // events of these
	last   uint64
}

// add keeps events of a thread, until those of others which are earlier are there.
func (o *order) add(thread trace.Thread, way Way, events []trace.Event) {
	q := o.queue(thread, way)
	for _, e := range events {
		q.add(e)
	}
}

// queue returns that of a thread and a way.
func (o *order) queue(thread trace.Thread, way Way) *queue {
	if o.last != nil && o.last.thread == thread && o.last.way == way {
		return o.last
	}
	for _, q := range o.queues {
		if q.thread == thread && q.way == way {
			o.last = q
			return q
		}
	}
	q := &queue{thread: thread, way: way, number: o.made}
	o.last = q
	o.made++
	if n := len(o.spare); n > 0 {
		q.events, o.spare = o.spare[n-1], o.spare[:n-1]
	}
	o.queues = append(o.queues, q)
	return q
}

// add appends an event. Those of a signal handler may come before an earlier one.
func (q *queue) add(e trace.Event) {
	if e.Word {
		if len(q.events) == 0 {
			return // of a file that begins with it
		}
	} else {
		q.last = max(q.last, e.Time)
		e.Time = q.last
	}
	q.events = append(q.events, e)
}

// next is the time of the first event that has not been given.
func (q *queue) next() uint64 { return q.events[q.given].Time }

// before returns the events that come before a time and, if equal, those at it, and
// takes them out.
func (q *queue) before(time uint64, equal bool) []trace.Event {
	n := q.given
	for n < len(q.events) && (q.events[n].Word || q.events[n].Time < time || equal && q.events[n].Time == time) {
		n++
	}
	events := q.events[q.given:n]
	q.given = n
	return events
}

// waiting are queues with events, the one with the earliest first (a heap).
type waiting []*queue

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].compare(w[j]) < 0 }
func (w waiting) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(q any)        { *w = append(*w, q.(*queue)) }
func (w *waiting) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

func (q *queue) compare(other *queue) int {
	return cmp.Or(cmp.Compare(q.next(), other.next()), cmp.Compare(q.number, other.number))
}

// end gives all events.
func (o *order) end() { o.until(math.MaxUint64) }

// until gives the events before a time, by time.
func (o *order) until(until uint64) {
	end := until == math.MaxUint64
	w := waiting(slices.DeleteFunc(slices.Clone(o.queues), func(q *queue) bool { return len(q.events) == 0 }))
	heap.Init(&w)
	given := false
	for len(w) > 0 && (end || w[0].next() < until) {
		q := w[0]
		limit, equal := until, end
		for _, other := range w[1:min(3, len(w))] { // one of these has the next event
			switch next, first := other.next(), q.number < other.number; {
			case next < limit:
				limit, equal = next, first
			case next == limit && limit < until:
				equal = equal && first
			}
		}
		o.give(q.thread, q.before(limit, equal))
		given = true
		if q.given < len(q.events) {
			heap.Fix(&w, 0)
		} else {
			heap.Pop(&w)
		}
	}
	if given {
		o.endPass()
	}
	o.last = nil
	o.queues = slices.DeleteFunc(o.queues, func(q *queue) bool {
		q.events = append(q.events[:0], q.events[q.given:]...)
		q.given = 0
		if len(q.events) > 0 {
			return false
		}
		o.spare = append(o.spare, q.events)
		return true
	})
}
