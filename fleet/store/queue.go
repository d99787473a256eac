package store

import (
	"context"
	"time"
)

// together is how much that waits is written together, at most.
const together = 256

// A Queue has many write by one, who writes together what waits meanwhile: a write costs a look at the disk, or an
// insert, however much it is.
type Queue[T any] struct {
	waiting chan Waiting[T]
	stop    <-chan struct{}
	last    int // how many were taken together
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
	return &Queue[T]{waiting: make(chan Waiting[T]), stop: stop}
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

// Take returns all that waits, when there is something; nil: the queue was closed. As long as it is not as much as was taken
// the last time it waits for more, up to patience: those who were answered together mostly come again at the same time.
func (q *Queue[T]) Take(patience time.Duration) (all []Waiting[T]) {
	select {
	case first := <-q.waiting:
		all = append(all, first)
	case <-q.stop:
		return nil
	}
	all = q.more(all, together, nil)
	if len(all) < q.last && patience > 0 {
		enough := time.NewTimer(patience)
		defer enough.Stop()
		all = q.more(q.more(all, q.last, enough.C), together, nil)
	}
	q.last = len(all)
	return all
}

// more adds what waits, until there is enough; until when it is waited for, if that is told.
func (q *Queue[T]) more(all []Waiting[T], enough int, until <-chan time.Time) []Waiting[T] {
	for len(all) < enough {
		if until == nil {
			select {
			case w := <-q.waiting:
				all = append(all, w)
				continue
			default:
				return all
			}
		}
		select {
		case w := <-q.waiting:
			all = append(all, w)
		case <-until:
			return all
		case <-q.stop: // what is there is written yet
			return all
		}
	}
	return all
}
