//go:build linux

package patch

import (
	"sync/atomic"

	"footfall/process"
	"footfall/trace"
)

// Frame pointers may be anything in code that has none. The trampoline follows
// one only within the thread's stack, whose bounds it is told: of the threads that
// there are when the session begins, and of others when they ask.

// notesStacks tells whether the threads that there are are given their places, with their
// stacks. Without them chains end early.
func (s *Session) notesStacks() bool { return s.options.Mode == trace.Chains && s.idPlace != 0 }

// noteStacks does it.
func (s *Session) noteStacks() {
	if !s.notesStacks() {
		return
	}
	maps, _, err := s.p.Maps()
	if err != nil {
		return
	}
	stacks := make(map[int]uint64)
	for _, top := range s.before.tops {
		stacks[top.Thread] = top.SP
	}
	for _, t := range s.before.threads {
		sp := stacks[t.ID]
		if sp == 0 {
			continue
		}
		if place := s.region.placeOf(uint32(t.OwnID)); place != nil && s.region.takeFor(place) {
			place.id, place.pid = uint32(t.OwnID), uint32(s.ownPID)
			place.stack(maps, sp)
		}
	}
}

// placeOf returns where the trampoline looks for a thread, if that is free.
func (r *region) placeOf(id uint32) *thread {
	first := id * 0x9E3779B1 >> 22
	for i := range uint32(maxThreads) {
		if t := r.thread(int((first + i) % maxThreads)); t.id == 0 {
			return t
		}
	}
	return nil
}

// stack notes the bounds of the stack that has the address.
func (t *thread) stack(maps process.Maps, sp uint64) {
	m := maps.At(sp)
	if m == nil || !m.Read || !m.Write {
		return
	}
	// Memory of the same kind beside it may be shown as one with it.
	atomic.StoreUint64(&t.low, m.Start)
	atomic.StoreUint64(&t.top, m.End)
}

// answerStacks finds the stacks that threads ask for.
func (s *Session) answerStacks() {
	if s.options.Mode != trace.Chains {
		return
	}
	maps := make(map[uint32]process.Maps) // by process
	for i := range maxThreads {
		t := s.region.thread(i)
		asks, pid := atomic.LoadUint64(&t.asks), atomic.LoadUint32(&t.pid)
		if asks == 0 || t.low <= asks && asks < t.top {
			continue
		}
		m, looked := maps[pid]
		if !looked {
			p := s.p
			if int(pid) != s.ownPID {
				p = s.childCalled(int(pid)).p
			}
			if p != nil {
				m, _, _ = p.Maps()
			}
			maps[pid] = m
		}
		t.stack(m, asks)
		t.asks = 0
	}
}
