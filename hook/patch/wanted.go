//go:build linux

package patch

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process"
	"footfall/trace"
)

// Where not all threads are wanted, the others are muted: a muted thread does not
// find its id in its place of the table, which has nobody's, but beside it. From
// there on it goes where it would if nothing was recorded (probe in the
// trampoline); those that are recorded do not look there.
//
// The threads that there are when the session begins are muted before the first
// call. Later ones record, until they have been known for some time by a name that
// is not wanted: they may be about to take another. That is not read, counted or
// said to be lost.

// nobody is the id in the place of a muted thread.
const nobody = math.MaxUint32

// grace is how long a new thread may take to have its name.
const grace = 100 * time.Millisecond

// occupant returns the id of the thread which has the place, 0 if it is free, and
// whether that is muted.
func (t *thread) occupant() (id uint32, muted bool) {
	if id = atomic.LoadUint32(&t.id); id == nobody {
		return atomic.LoadUint32(&t.muted), true
	}
	return id, false
}

// mute mutes the thread of that id, which has the place. The id stays beside it until
// the place is free: the thread may look there while it is unmuted.
func (t *thread) mute(id uint32) {
	atomic.StoreUint32(&t.muted, id)
	atomic.StoreUint32(&t.id, nobody)
}

// wants tells whether what the thread of a place records is wanted.
func (s *Session) wants(i int) bool {
	if s.options.Threads == nil {
		return true
	}
	t := s.region.thread(i)
	id, muted := t.occupant()
	return id != 0 && !muted && s.wantsThread(t, id)
}

// wantsThread decides by the name that is known.
func (s *Session) wantsThread(t *thread, id uint32) bool {
	pid := atomic.LoadUint32(&t.pid)
	if !s.wanted[id] && pid != 0 && s.options.Threads(s.threadCalled(id, pid)) { // 0: it is just taking its place
		s.wanted[id] = true
	}
	return s.wanted[id]
}

// muteThreads gives the threads that there are their places, if they are not wanted.
func (s *Session) muteThreads() {
	if s.options.Threads == nil || s.idPlace == 0 {
		return
	}
	for _, t := range s.before.threads {
		if s.options.Threads(t) {
			continue
		}
		if place := s.region.placeOf(uint32(t.OwnID)); place != nil {
			place.pid = uint32(s.ownPID)
			s.region.takeFor(place)
			place.mute(uint32(t.OwnID))
		}
	}
}

// chooseThreads mutes and unmutes threads by the names that they have now.
func (s *Session) chooseThreads(alive []process.ThreadStatus) error {
	if s.options.Threads == nil {
		return nil
	}
	s.rename(s.p, alive)
	for _, c := range s.follows {
		if c.p != nil {
			alive, _ := c.p.Threads() // none if it has ended
			s.rename(c.p, alive)
		}
	}
	now := time.Now()
	for i := range maxThreads {
		t := s.region.thread(i)
		id, muted := t.occupant()
		if id == 0 {
			continue
		}
		wanted := s.wantsThread(t, id)
		since, known := s.since[id]
		switch {
		case wanted && muted && !s.region.takeFor(t): // mapRings does it
		case wanted && muted:
			if err := s.forget(i); err != nil {
				return err
			}
			t.depth = 0 // its calls have ended meanwhile
			atomic.StoreUint32(&t.id, id)
		case wanted || muted:
		case !known:
			s.since[id] = now
		case now.Sub(since) >= grace:
			t.mute(id)
			if err := s.forget(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// rename takes the names that threads have now. One that is wanted keeps the name by
// which it was, as long as it is; one that just ends may seem to have the program's.
func (s *Session) rename(p *process.Process, alive []process.ThreadStatus) {
	for _, t := range alive {
		id := uint32(t.OwnID)
		if _, known := s.threads[id]; known && (!s.wanted[id] || t.Name != p.Name && !s.options.Threads(t)) {
			delete(s.wanted, id)
			s.threads[id] = t
		}
	}
}

// settle ends what the thread of a place has recorded, before another one takes it.
func (s *Session) settle(i int, id uint32) error {
	if s.options.Threads == nil {
		return nil
	}
	if s.wants(i) {
		s.ended.lost += s.counter(&s.region.thread(i).lost)
		if s.options.Mode == trace.Counts {
			s.countsOf(i, s.ended.counts)
		}
	}
	delete(s.wanted, id)
	delete(s.since, id)
	return s.forget(i)
}

// forget empties a ring.
func (s *Session) forget(i int) error {
	r := s.region
	t := r.thread(i)
	if at := r.ringOffset(i); at != 0 {
		err := unix.Fallocate(int(r.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(at), int64(r.ringSize))
		if err != nil {
			return fmt.Errorf("give memory for events back: %w", err)
		}
	}
	s.tails[i] = atomic.LoadUint64(&t.head)
	atomic.StoreUint64(&t.tail, s.tails[i])
	atomic.StoreUint64(&t.lost, 0)
	return nil
}

// ended is what threads have recorded whose places others may have now, where not
// all threads are wanted.
type ended struct {
	counts map[uint32]uint64
	lost   uint64
}
