//go:build linux

package patch

import (
	"debug/elf"
	"errors"
	"slices"
	"strings"
	"time"

	"footfall/process"
)

// What a session has mapped goes with it, but for the islands, and what calls may have yet to
// return by: return stubs, on arm64 the shadow of stacks. Memory for events goes as soon
// as no thread is in the trampoline, which alone reads the address of the table of
// threads. Nobody comes there anew once the sites are restored and the table is
// away. What cannot go then, and what a footfall has left that was killed, goes with the
// next session or Repair; it is known by the names of files in memory.

// leavePatience is how long threads in the trampoline are waited for at the end.
const leavePatience = 200 * time.Millisecond

// A leftover is what there is of ours in a process besides islands.
type leftover struct {
	memory  []process.Mapping // for events, and stacks of injected calls
	broken  []process.Mapping // islands that nothing was written to
	headers []uint64          // of these
	files   bool              // there are descriptors
}

func (l *leftover) none() bool {
	return len(l.memory) == 0 && len(l.broken) == 0 && !l.files
}

// findLeftover looks for it. The islands are those that are whole.
func findLeftover(p *process.Process, islands []*island) (*leftover, error) {
	maps, _, err := p.Maps()
	if err != nil {
		return nil, err
	}
	l := &leftover{files: len(p.LeftDescriptors()) > 0}
	_, l.memory = findReturns(maps)
	for _, m := range maps {
		name, ours := strings.CutPrefix(m.Path, "/memfd:"+process.MemoryPrefix)
		switch {
		case ours && process.MemoryPrefix+name == returnsName:
		case ours && process.MemoryPrefix+name == hitsName && within(islands, m.Start): // stubs write there
		case ours && process.MemoryPrefix+name != codeName:
			l.memory = append(l.memory, m)
		case ours && !within(islands, m.Start):
			l.broken = append(l.broken, m)
			at := m.Start - m.Offset
			if header := maps.At(at); header != nil && header.Path == "" && header.Write && header.End-at >= infoAt && !slices.Contains(l.headers, at) {
				l.headers = append(l.headers, at)
			}
		}
	}
	return l, nil
}

func within(islands []*island, addr uint64) bool {
	for _, b := range islands {
		if b.addr <= addr && addr < b.addr+islandSize {
			return true
		}
	}
	return false
}

// tidy unmaps what there is of ours but for the islands. Sites are restored, and nothing
// is recorded.
func tidy(p *process.Process, islands []*island) error {
	for end := time.Now().Add(leavePatience); ; time.Sleep(5 * time.Millisecond) {
		l, err := findLeftover(p, islands)
		if err != nil || l.none() {
			return err
		}
		gone := false
		err = held(p, func(h *process.Held) (err error) {
			gone, err = l.unmap(p, h, islands)
			return err
		})
		if errors.Is(err, process.ErrFiltered) {
			return nil // it has to stay
		}
		if err != nil || gone || time.Now().After(end) {
			return err
		}
	}
}

// unmap tells whether all is gone.
func (l *leftover) unmap(p *process.Process, h *process.Held, islands []*island) (gone bool, err error) {
	for _, b := range islands {
		if on, err := b.on(p); err != nil || on {
			return true, err // the sites could not be restored
		}
	}
	tops, err := h.StackTops()
	if err != nil {
		return false, err
	}
	inside, err := inTrampoline(p, h, tops, islands)
	if err != nil {
		return false, err
	}
	gone = !inside
	if l.files { // the program is not to have others of these numbers meanwhile
		if err := h.InjectCalls(h.CloseLeft); err != nil {
			return false, err
		}
	}
	alone := h.InjectCalls
	if len(islands) > 0 {
		alone = func(do func() error) error { return islands[0].alone(h, do) }
	}
	// The others do not come to what is unmapped any more.
	err = alone(func() error {
		var err error
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
		return err
	})
	return gone, err
}

func anyAt(tops []process.StackTop, m process.Mapping) bool {
	for _, top := range tops {
		if m.Start <= top.SP && top.SP <= m.End {
			return true
		}
	}
	return false
}

// inTrampoline tells whether a thread is in that of an island or in a stub, or returns there from the
// handler of a signal. Other words on a stack may be old: routines call others. Where the
// frames of signals are not known (arm64) any word counts.
func inTrampoline(p *process.Process, h *process.Held, tops []process.StackTop, islands []*island) (inside bool, err error) {
	var trampolines []span
	for _, b := range islands {
		code := span{b.addr + codeAt, b.addr + stubsAt}
		if native.machine == elf.EM_X86_64 { // who is in a stub would come to the trampoline in the next session, which may be one of another mode
			code.to += uint64(b.count()) * stubSize
		}
		trampolines = append(trampolines, code)
		if slices.ContainsFunc(tops, func(top process.StackTop) bool { return code.has(top.PC) }) {
			return true, nil
		}
	}
	err = searchStacks(p, h, tops, trampolines, func(_ uint64, interrupted bool) {
		inside = inside || interrupted || native.machine != elf.EM_X86_64
	})
	return inside, err
}
