package patch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"footfall/proc"
)

// A jump replaces several instructions of a site, its window. A thread may be between
// them: its program counter is, which is moved, or an address on a stack, to which the
// handler of a signal returns. That cannot be moved: what lies on a stack may be
// anything. A site to whose middle something on a stack points is put off, and tried
// again later. At worst an old word on a stack costs a site some time.

// putOff says why a site is in Session.Skipped that is tried again.
const putOff = "not yet: a handler of a signal may return into its first bytes"

// mostStack is how much of a stack is searched, from its top on.
const mostStack = 8 << 20

// signalSegments is what the kernel writes into the frame of a signal behind the stack
// pointer, the program counter and the flags (struct sigcontext): the segments cs, gs, fs, ss.
const signalSegments = 0x2b<<48 | 0x33

// splits tells whether the jump replaces more than one instruction.
func (st *stub) splits() bool {
	if st.mode == notices { // a thread may be at the ret; what is behind that never runs
		return native.jumpSize > codeUnit && bytes.HasPrefix(st.old[:], native.landing)
	}
	if st.mode.leaves() {
		return !st.conditional && len(st.leave.Starts) > 1
	}
	return native.jumpSize > codeUnit && !bytes.HasPrefix(st.old[:], []byte{0x0f, 0x1f, 0x44, 0, 0})
}

// after is where a thread goes on that is at pc, in the middle of the window.
func (st *stub) after(pc uint64) uint64 {
	switch {
	case st.mode == notices:
		return st.addr() + noticeReturn // its ret
	case st.mode.leaves(): // where the instructions have been moved
		return st.addr() + pc - st.site
	}
	return st.resume
}

// codeUnit is the size of an instruction where all have one.
const codeUnit = 4

// free returns the stubs, which are sorted, but for those to the middle of whose windows
// something on a stack points: these are put off. Threads that are there are moved.
func free(p *proc.Process, h *proc.Held, stubs []*stub) (free, putOff []*stub, err error) {
	if !slices.ContainsFunc(stubs, (*stub).splits) {
		return stubs, nil, nil
	}
	tops, err := h.StackTops()
	if err != nil {
		return nil, nil, err
	}
	busy := make(map[*stub]bool)
	err = searchStacks(p, tops, stubs[0].site, stubs[len(stubs)-1].site+uint64(native.jumpSize), func(word uint64, _ bool) {
		if st := windowOf(stubs, word); st != nil {
			busy[st] = true
		}
	})
	if err != nil {
		return nil, nil, err
	}
	for _, top := range tops {
		if st := windowOf(stubs, top.PC); st != nil && top.Waits {
			busy[st] = true
		}
	}
	for _, st := range stubs {
		if busy[st] {
			putOff = append(putOff, st)
		} else {
			free = append(free, st)
		}
	}
	for _, top := range tops {
		if st := windowOf(free, top.PC); st != nil {
			if err := h.SetPC(top.Thread, st.after(top.PC)); err != nil {
				return nil, nil, err
			}
		}
	}
	return free, putOff, nil
}

// windowOf returns the stub to the middle of whose site an address leads.
func windowOf(stubs []*stub, addr uint64) *stub {
	i, found := slices.BinarySearchFunc(stubs, addr, func(st *stub, addr uint64) int { return cmp.Compare(st.site, addr) })
	if found || i == 0 {
		return nil
	}
	if st := stubs[i-1]; addr < st.site+uint64(native.jumpSize) && st.splits() {
		return st
	}
	return nil
}

// searchStacks calls found for each word on the stacks of stopped threads that is from
// low up to high, and of each that is where a signal interrupted the program. Where a
// handler has a stack of its own (sigaltstack), the frame leads on to the one that was
// interrupted.
func searchStacks(p *proc.Process, tops []proc.StackTop, low, high uint64, found func(word uint64, interrupted bool)) error {
	maps, _, err := p.Maps()
	if err != nil {
		return err
	}
	type span struct{ from, to uint64 }
	var searched []span
	var search func(sp uint64) error
	search = func(sp uint64) error {
		m := maps.At(sp)
		if m == nil || !m.Read || slices.ContainsFunc(searched, func(s span) bool { return s.from <= sp && sp < s.to }) {
			return nil
		}
		from := sp &^ 7
		to := min(m.End, from+mostStack)
		searched = append(searched, span{from, to})
		var before [3]uint64 // words
		buffer := make([]byte, min(1<<16, to-from))
		for at := from; at < to; {
			b := buffer[:min(uint64(len(buffer)), to-at)]
			if _, err := p.ReadAt(b, int64(at)); err != nil {
				return err
			}
			for i := 0; i+8 <= len(b); i += 8 {
				word := binary.LittleEndian.Uint64(b[i:])
				if low <= word && word < high {
					found(word, false)
				}
				if word == signalSegments {
					if pc := before[1]; low <= pc && pc < high {
						found(pc, true)
					}
					if err := search(before[0]); err != nil {
						return err
					}
				}
				before = [3]uint64{before[1], before[2], word}
			}
			at += uint64(len(b))
		}
		return nil
	}
	for _, top := range tops {
		if err := search(top.SP); err != nil {
			return err
		}
	}
	return nil
}

// retry switches on what was put off, where that can be now.
func (s *Session) retry() error {
	if len(s.putOff) == 0 {
		return nil
	}
	stubs := s.putOff
	s.putOff = nil
	return s.switchOn(stubs)
}
