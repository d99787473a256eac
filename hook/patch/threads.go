//go:build linux

package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"footfall/process"
	"footfall/trace"
)

// Threads have places in the table by the ids that they have for themselves,
// those of children made by fork among them.

// A child was made by fork, by the process or by another child.
type child struct {
	p    *process.Process // nil: it had ended before anybody looked
	name string
}

// followFork lets children have the table of threads, or not: then they find
// zeros in its place. Where threads do not know their ids they cannot: those of
// two processes would take the same place.
func (s *Session) followFork(h *process.Held) error {
	s.Follows = s.options.Follow && s.idPlace != 0
	advice := uint64(unix.MADV_WIPEONFORK)
	if s.Follows {
		advice = unix.MADV_KEEPONFORK
	}
	return h.InjectCalls(func() error {
		for _, b := range s.islands {
			_, err := h.SystemCall(unix.SYS_MADVISE, b.addr, processAt, advice)
			if err == nil {
				_, err = h.SystemCall(unix.SYS_MADVISE, b.addr+processAt, infoAt-processAt, unix.MADV_WIPEONFORK)
			}
			if err != nil {
				return fmt.Errorf("madvise: %w", err)
			}
		}
		return nil
	})
}

// threadCalled returns the thread that has the id for itself, in the process of
// that id.
func (s *Session) threadCalled(id, pid uint32) process.ThreadStatus {
	if t, ok := s.threads[id]; ok {
		return t
	}
	p := s.p
	t := process.ThreadStatus{ID: int(id), OwnID: int(id), Process: s.p.PID, Name: s.p.Name} // if it has ended
	if pid != 0 && int(pid) != s.ownPID {
		c := s.childCalled(int(pid))
		if p = c.p; p == nil {
			t.Process, t.Name = int(pid), c.name
		} else {
			t.Process = p.PID
		}
	}
	s.threads[id] = t
	if p == nil {
		return t
	}
	threads, _ := p.Threads()
	for _, other := range threads {
		if _, known := s.threads[uint32(other.OwnID)]; !known || other.OwnID == int(id) {
			s.threads[uint32(other.OwnID)] = other
		}
	}
	return s.threads[id]
}

// childCalled returns the child that has the id for itself.
func (s *Session) childCalled(pid int) *child {
	if c := s.follows[pid]; c != nil {
		return c
	}
	if s.follows == nil {
		s.follows = make(map[int]*child)
	}
	c := &child{name: s.p.Name}
	s.follows[pid] = c
	candidates := []int{pid}
	if s.ownPID != s.p.PID {
		candidates, _ = process.List() // it counts processes otherwise
	}
	for _, candidate := range candidates {
		p, err := process.Open(candidate)
		if err != nil {
			continue
		}
		if own, err := p.OwnPID(); err == nil && own == pid && s.isChild(p) {
			c.p, c.name = p, p.Name
			return c
		}
		p.Close()
	}
	return c
}

// Followed returns the number of children that have recorded calls.
func (s *Session) Followed() int { return len(s.follows) }

// Recycle gives the places of threads that have ended to new ones. It is to be
// called now and then, after Read.
func (s *Session) Recycle() error {
	// Threads that are not on the list, because they have begun since, have no place yet here.
	var before [maxThreads]uint32
	for i := range before {
		before[i], _ = s.region.thread(i).occupant()
	}
	alive, err := s.p.Threads()
	if err != nil {
		return err
	}
	living := make(map[uint32]bool)
	for _, t := range alive {
		living[uint32(t.OwnID)] = true
	}
	if err := s.retry(); err != nil {
		return err
	}
	s.mapRings()
	s.answerStacks()
	if !s.untold.IsZero() {
		if err := s.registerUnwinding(); err != nil {
			return err
		}
	}
	if err := s.chooseThreads(alive); err != nil {
		return err
	}
	for i := range maxThreads {
		t := s.region.thread(i)
		id, _ := t.occupant()
		pid := int(atomic.LoadUint32(&t.pid))
		unread := s.options.Mode >= trace.Entries && atomic.LoadUint64(&t.head) != t.tail
		if id == 0 || id != before[i] || living[id] || unread && s.wants(i) {
			continue
		}
		if pid == s.ownPID {
			if ended, err := s.threadEnded(id); err != nil || !ended {
				continue
			}
		} else if !s.childThreadEnded(pid, int(id)) {
			continue
		}
		if err := s.settle(i, id); err != nil {
			return err
		}
		t.depth, t.pid, s.used[i] = 0, 0, true
		t.low, t.top, t.asks = 0, 0, 0
		delete(s.threads, id)
		s.region.takeBack(t, s.options.Mode)
		atomic.StoreUint32(&t.muted, 0)
		atomic.StoreUint32(&t.id, 0)
	}
	return nil
}

// threadEnded looks once more for a thread of the process: the kernel may leave threads
// out of a list while others end.
func (s *Session) threadEnded(id uint32) (bool, error) {
	if s.ownPID == s.p.PID {
		return s.childThreadEnded(s.ownPID, int(id)), nil
	}
	alive, err := s.p.Threads()
	return !slices.ContainsFunc(alive, func(t process.ThreadStatus) bool { return uint32(t.OwnID) == id }), err
}

// childThreadEnded tells whether a thread of a child is known to have ended.
func (s *Session) childThreadEnded(pid, id int) bool {
	if pid == 0 {
		return false // it is just taking its place
	}
	if s.ownPID == s.p.PID {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, id))
		return errors.Is(err, fs.ErrNotExist)
	}
	c := s.childCalled(pid)
	return c.p != nil && c.p.Check() != nil
}

// letGo closes what is known of children.
func (s *Session) letGo() {
	for _, c := range s.follows {
		if c.p != nil {
			c.p.Close()
			c.p = nil
		}
	}
}
