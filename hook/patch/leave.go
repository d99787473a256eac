package patch

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"footfall/proc"
)

// What a session has mapped goes with it, but for the blocks: memory for events as soon
// as no thread is in the trampoline, which alone reads the address of the table of
// threads, and the shadow of stacks as soon as no call is open whose return address is
// kept there. Nobody comes to either anew once the sites are restored and the table is
// away. What cannot go then, and what a footfall has left that was killed, goes with the
// next session or Repair; it is known by the names of files in memory.

// leavePatience is how long threads in the trampoline are waited for at the end.
const leavePatience = 200 * time.Millisecond

// A leftover is what there is of ours in a process besides blocks.
type leftover struct {
	memory  []proc.Mapping // for events, and stacks that a borrowed thread had
	broken  []proc.Mapping // blocks that nothing was written to
	headers []uint64       // of these
	shadow  uint64         // 0: none
	files   bool           // there are descriptors
}

func (l *leftover) none() bool {
	return len(l.memory) == 0 && len(l.broken) == 0 && l.shadow == 0 && !l.files
}

// findLeftover looks for it. The blocks are those that are whole.
func findLeftover(p *proc.Process, blocks []*block) (*leftover, error) {
	maps, _, err := p.Maps()
	if err != nil {
		return nil, err
	}
	l := &leftover{files: len(p.LeftDescriptors()) > 0}
	for _, b := range blocks {
		l.shadow = max(l.shadow, b.shadow)
	}
	stacks := native.stackRange(maps)
	for _, m := range maps {
		name, ours := strings.CutPrefix(m.Path, "/memfd:"+proc.MemoryPrefix)
		switch {
		case ours && proc.MemoryPrefix+name != codeName:
			l.memory = append(l.memory, m)
		case ours && !within(blocks, m.Start):
			l.broken = append(l.broken, m)
			at := m.Start - m.Offset
			if header := maps.At(at); header != nil && header.Path == "" && header.Write && header.End-at >= infoAt && !slices.Contains(l.headers, at) {
				l.headers = append(l.headers, at)
			}
		case l.shadow == 0 && m.Path == "" && m.Start == shadowHint && m.End-m.Start == stacks[1]:
			l.shadow = m.Start - stacks[0] + shadowColour // nobody wrote it down
		}
	}
	return l, nil
}

func within(blocks []*block, addr uint64) bool {
	for _, b := range blocks {
		if b.addr <= addr && addr < b.addr+blockSize {
			return true
		}
	}
	return false
}

// tidy unmaps what there is of ours but for the blocks. Sites are restored, and nothing
// is recorded.
func tidy(p *proc.Process, blocks []*block) error {
	for end := time.Now().Add(leavePatience); ; time.Sleep(5 * time.Millisecond) {
		l, err := findLeftover(p, blocks)
		if err != nil || l.none() {
			return err
		}
		gone := false
		err = held(p, func(h *proc.Held) (err error) {
			gone, err = l.unmap(p, h, blocks)
			return err
		})
		if err != nil || gone || time.Now().After(end) {
			return err
		}
	}
}

// unmap tells whether all is gone.
func (l *leftover) unmap(p *proc.Process, h *proc.Held, blocks []*block) (gone bool, err error) {
	if err := h.CloseLeft(); err != nil {
		return false, err
	}
	tops, err := h.StackTops()
	if err != nil {
		return false, err
	}
	inside, err := inTrampoline(p, tops, blocks)
	if err != nil {
		return false, err
	}
	gone = !inside
	for _, m := range l.memory {
		if !inside && !anyAt(tops, m) {
			err = errors.Join(err, h.Unmap(m.Start, m.End-m.Start))
		} else {
			gone = false
		}
	}
	for _, m := range l.broken {
		err = errors.Join(err, h.Unmap(m.Start, m.End-m.Start))
	}
	for _, addr := range l.headers {
		err = errors.Join(err, h.Unmap(addr, infoAt))
	}
	if l.shadow == 0 || err != nil {
		return gone, err
	}
	maps, _, err := p.Maps()
	if err != nil {
		return false, err
	}
	open, err := openCalls(p, maps, tops, blocks, l.shadow)
	if err != nil || open || inside {
		return false, err
	}
	stacks := native.stackRange(maps)
	for _, b := range blocks {
		b.shadow = 0
		if err := b.setOwner(p, b.owner, b.ownerTicks); err != nil {
			return false, err
		}
	}
	return gone, h.Unmap(l.shadow+stacks[0]-shadowColour, stacks[1])
}

func anyAt(tops []proc.StackTop, m proc.Mapping) bool {
	for _, top := range tops {
		if m.Start <= top.SP && top.SP <= m.End {
			return true
		}
	}
	return false
}

// inTrampoline tells whether a thread is in that of a block, or returns there from the
// handler of a signal. Other words on a stack may be old: routines call others. Where the
// frames of signals are not known (arm64) any word counts.
func inTrampoline(p *proc.Process, tops []proc.StackTop, blocks []*block) (inside bool, err error) {
	for _, b := range blocks {
		from, to := b.addr+codeAt, b.addr+stubsAt
		for _, top := range tops {
			inside = inside || from <= top.PC && top.PC < to
		}
		if err := searchStacks(p, tops, from, to, func(_ uint64, interrupted bool) { inside = inside || interrupted || native.machine != elf.EM_X86_64 }); err != nil || inside {
			return inside, err
		}
	}
	return false, nil
}

// openCalls tells whether a return address that leads into a stub is on a stack: of each
// slot the shadow has a page in memory. Where slots are not on the stack (arm64) calls
// may always be open.
func openCalls(p *proc.Process, maps proc.Maps, tops []proc.StackTop, blocks []*block, shadow uint64) (bool, error) {
	if native.machine != elf.EM_X86_64 {
		return true, nil
	}
	stacks := native.stackRange(maps)
	for _, m := range maps {
		if !m.Write || m.Start < stacks[0] || m.Start-stacks[0] >= stacks[1] {
			continue
		}
		low := m.Start // what is below the stack pointer of its thread is of calls that were left
		for _, top := range tops {
			if m.Start <= top.SP && top.SP < m.End {
				low = top.SP
			}
		}
		for at, present := range p.Present(m.Start+shadow, m.End+shadow) {
			if !present {
				continue
			}
			from, to := max(at-shadow, low), min(at-shadow+pageSize, m.End)
			if from >= to {
				continue
			}
			slots := make([]byte, to-from)
			if _, err := p.ReadAt(slots, int64(from)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				return true, nil
			}
			for ; len(slots) >= 8; slots = slots[8:] {
				word := binary.LittleEndian.Uint64(slots)
				for _, b := range blocks {
					if word-b.addr-stubsAt < uint64(len(b.stubs)*stubSize) {
						return true, nil
					}
				}
			}
		}
	}
	return false, nil
}
