package store

import (
	"context"
	"time"
)

// A Queue has many write by one, who writes together what waits meanwhile: a write costs a look at the disk, or an
// insert, however much it is.
type Queue[T any] struct {
	waiting chan Waiting[T]
	stop    <-chan struct{}
	most    int // are taken together
	last    int // how many were
	taken   time.Time
}

// Waiting is something to be written, for which somebody waits.
type Waiting[T any] struct {
	What   T
	result chan error
}

// Answer says how it went: once, to each.
func (w Waiting[T]) Answer(err error) { w.result <- err }

// NewQueue returns one that is closed when stop is, of which at most so many are taken together.
func NewQueue[T any](stop <-chan struct{}, most int) *Queue[T] {
	return &Queue[T]{waiting: make(chan Waiting[T]), stop: stop, most: most}
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

// A Patience is how long is waited for others: until nobody came for a pause, or until so long after the last were taken. None
// is 0.
type Patience struct{ Pause, Between time.Duration }

// Take returns all that waits, when there is something; nil: the queue was closed. As long as it is not as much as was taken
// the last time it waits for more, with patience: those who were answered together mostly come again at the same time, and
// where there are many others do.
func (q *Queue[T]) Take(p Patience) (all []Waiting[T]) {
	select {
	case first := <-q.waiting:
		all = append(all, first)
	case <-q.stop:
		return nil
	}
	all = q.there(all)
	if len(all) < q.last && p.Pause > 0 {
		all = q.there(q.more(all, p))
	}
	q.last, q.taken = len(all), time.Now()
	return all
}

// there adds what waits now.
func (q *Queue[T]) there(all []Waiting[T]) []Waiting[T] {
	for len(all) < q.most {
		select {
		case w := <-q.waiting:
			all = append(all, w)
		default:
			return all
		}
	}
	return all
}

// more adds what comes, until that is as much as the last time.
func (q *Queue[T]) more(all []Waiting[T], p Patience) []Waiting[T] {
	enough, pause := time.NewTimer(time.Until(q.taken.Add(p.Between))), time.NewTimer(p.Pause)
	defer enough.Stop()
	defer pause.Stop()
	for len(all) < q.last {
		select {
		case w := <-q.waiting:
			all = append(all, w)
			pause.Reset(p.Pause)
		case <-pause.C:
			return all
		case <-enough.C:
			return all
		case <-q.stop: // what is there is written yet
			return all
		}
	}
	return all
}
