package store

import "context"

// together is how much that waits is written together, at most.
const together = 256

// A Queue has many write by one, who writes together what waits meanwhile: a write costs a look at the disk, or an
// insert, however much it is.
type Queue[T any] struct {
	waiting chan Waiting[T]
	stop    <-chan struct{}
}

// Waiting is something to be written, for which somebody waits.
type Waiting[T any] struct {
	What   T
	result chan error
}

// Answer says how it went: once, to each.
func (w Waiting[T]) Answer(err error) { w.result <- err }

// NewQueue returns one that is closed when stop is.
func NewQueue[T any](stop <-chan struct{}) *Queue[T] {
	return &Queue[T]{make(chan Waiting[T]), stop}
}

// Do returns how it went with what, [ErrClosing] if the queue was closed before it was taken.
func (q *Queue[T]) Do(ctx context.Context, what T) error {
	w := Waiting[T]{what, make(chan error, 1)}
	select {
	case q.waiting <- w:
	case <-ctx.Done():
		return ctx.Err()
	case <-q.stop:
		return ErrClosing
	}
	return <-w.result
}

// Take returns all that waits, when there is something; nil: the queue was closed.
func (q *Queue[T]) Take() (all []Waiting[T]) {
	select {
	case first := <-q.waiting:
		all = append(all, first)
	case <-q.stop:
		return nil
	}
	for len(all) < together {
		select {
		case w := <-q.waiting:
			all = append(all, w)
		default:
			return all
		}
	}
	return all
}
