//go:build linux

package patch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"footfall/process"
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
	if st.leaves() {
		return !st.conditional && len(st.leave.Starts) > 1
	}
	if st.copy != nil {
		return len(st.copy.window.Instructions) > 1
	}
	return native.jumpSize > codeUnit && !bytes.HasPrefix(st.old[:], []byte{0x0f, 0x1f, 0x44, 0, 0})
}

// after is where a thread goes on that is at pc, in the middle of the window; 0: that is not known.
func (st *stub) after(pc uint64) uint64 {
	switch {
	case st.copy != nil:
		at, _ := st.copy.at(int(pc - st.site))
		return at
	case st.mode == notices:
		return st.addr() + noticeReturn // its ret
	case st.leaves(): // where the instructions have been moved
		return st.addr() + pc - st.site
	}
	return st.resume
}

// codeUnit is the size of an instruction where all have one.
const codeUnit = 4

// free returns the stubs, which are sorted, but for those to the middle of whose windows
// something on a stack points: these are put off. Threads that are there are moved. Unless it is
// nil, met is called for each address of code in a span that is on a stack, or where a thread is.
func free(p *process.Process, h *process.Held, stubs []*stub, code span, met func(addr uint64)) (free, putOff []*stub, err error) {
	if len(stubs) == 0 || met == nil && !slices.ContainsFunc(stubs, (*stub).splits) {
		return stubs, nil, nil
	}
	tops, err := h.StackTops()
	if err != nil {
		return nil, nil, err
	}
	busy := make(map[*stub]bool)
	spans := []span{{stubs[0].site, stubs[len(stubs)-1].site + uint64(native.jumpSize)}}
	if met != nil {
		spans = append(spans, code)
		for _, top := range tops {
			met(top.PC)
		}
	}
	err = searchStacks(p, h, tops, spans, func(word uint64, _ bool) {
		if met != nil {
			met(word)
		}
		if st := windowOf(stubs, word); st != nil {
			busy[st] = true
		}
	})
	if err != nil {
		return nil, nil, err
	}
	for _, top := range tops {
		if st := windowOf(stubs, top.PC); st != nil && (top.Waits || st.after(top.PC) == 0) {
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

// A span is memory.
type span struct{ from, to uint64 }

func (s span) has(addr uint64) bool { return s.from <= addr && addr < s.to }

// searchStacks calls found for each word on the stacks of stopped threads that leads into one of
// the spans, and for each that is where a signal interrupted the program. Where a
// handler has a stack of its own (sigaltstack), the frame leads on to the one that was
// interrupted.
func searchStacks(p *process.Process, h *process.Held, tops []process.StackTop, spans []span, found func(word uint64, interrupted bool)) error {
	if len(spans) == 0 {
		return nil
	}
	within := spans[0] // all of them
	for _, s := range spans {
		within = span{min(within.from, s.from), max(within.to, s.to)}
	}
	leads := func(word uint64) bool {
		return within.has(word) && slices.ContainsFunc(spans, func(s span) bool { return s.has(word) })
	}
	var searched []span
	block := make([]byte, 1<<16)
	var interrupted []uint64 // stack pointers
	search := func(sp uint64) error {
		if slices.ContainsFunc(searched, func(s span) bool { return s.has(sp) }) {
			return nil
		}
		m, mapped, err := h.MappingAt(sp)
		if err != nil || !mapped || !m.Read {
			return err
		}
		from := sp &^ 7
		to := min(m.End, from+mostStack)
		searched = append(searched, span{from, to})
		var before [3]uint64 // words
		for at := from; at < to; {
			b := block[:min(uint64(len(block)), to-at)]
			if _, err := p.ReadAt(b, int64(at)); err != nil {
				return err
			}
			for i := 0; i+8 <= len(b); i += 8 {
				word := binary.LittleEndian.Uint64(b[i:])
				if leads(word) {
					found(word, false)
				}
				if word == signalSegments {
					if leads(before[1]) {
						found(before[1], true)
					}
					interrupted = append(interrupted, before[0])
				}
				before = [3]uint64{before[1], before[2], word}
			}
			at += uint64(len(b))
		}
		return nil
	}
	for _, top := range tops {
		interrupted = append(interrupted[:0], top.SP)
		for len(interrupted) > 0 {
			sp := interrupted[0]
			interrupted = interrupted[1:]
			if err := search(sp); err != nil {
				return err
			}
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
