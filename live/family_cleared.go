//go:build linux

package live

import (
	"bytes"
	"encoding/binary"
	"slices"

	elf "footfall/binary"
	"footfall/binary/unwind"
	"footfall/process"
)

// This file is about children that libgcov's wrapper of fork has made, for certain: their counters will be set to zero before they count
// anything, so that what they have inherited need not be read. It is known by who has called the system call: the
// return addresses on the stack lead to the wrapper.

// A clearing is what is known of the forks of a member by the wrapper of an image.
type clearing struct {
	*layout
	at     uint64 // where the image is
	mapped []byte // what else is, as process.MappedFilesKey has it
	// forks is where the thread is when it has made a child, and calls the return addresses on its stack, up to that in the
	// wrapper, whose code is from low to high.
	forks     uint64
	calls     []returns
	low, high uint64
	// least is what a child had in its counters: the parent's are not less since, nor what others inherit.
	least *sparse
}

// A returns is a return address, and how far it lies above the stack pointer.
type returns struct {
	above int
	to    uint64
}

// maxForkStack is how much of the stack is looked through: what the C library needs for fork is less than a tenth of it.
const maxForkStack = 1 << 10

// manyPages is how many pages with counters make it worth while: to read few takes no longer than to look at the stack.
const manyPages = 8

// maxClearings is how often it is tried to find out how a process forks: it may do so in ways that are not understood.
const maxClearings = 4

// wrapperSince is the version of GCC from which on the wrapper clears counters in the child; before it wrote them in the parent.
const wrapperSince = 11

// isBy tells whether a child of fork has been made by the wrapper. It waits for nothing.
func (c *clearing) isBy(p *process.Process, fork process.Fork) bool {
	if c == nil || fork.SP == 0 || fork.PC != c.forks {
		return false
	}
	stack := make([]byte, c.calls[len(c.calls)-1].above+8)
	if p.ReadTouched([]process.MemoryRange{{Addr: fork.SP, Bytes: stack}}, 0) != nil {
		return false
	}
	for _, call := range c.calls {
		if binary.LittleEndian.Uint64(stack[call.above:]) != call.to {
			return false
		}
	}
	return true
}

// clearedBy tells whether an image of a member that is made so will be cleared, and notes that.
func (im *placed) clearedBy(c *clearing, fork process.Fork) bool {
	if c == nil || c.layout != im.layout || c.at != im.at || im.keeps {
		return false
	}
	im.clears, im.returns = c, fork.SP+uint64(c.calls[len(c.calls)-1].above)
	return true
}

// learning notes what there is to see of a child that stands still, in whose images was what was read of it. What it
// returns has somebody else find out by that how its parent forks, if it is not known.
func (f *Family) learning(m, parent *member, fork process.Fork, read []*sparse) (learn func()) {
	nothing := func() {}
	i := slices.IndexFunc(m.images, func(im *placed) bool { return im.resetsForks && !im.keeps && im.tellsDumps() })
	if i < 0 || fork.SP == 0 || len(read[i].parts) < manyPages || m.images[i].units[0].version.Major() < wrapperSince {
		return nothing
	}
	if c := parent.clears.Load(); c != nil && bytes.Equal(c.mapped, m.files) || parent.clearings.Load() >= maxClearings {
		return nothing
	}
	stack := make([]byte, maxForkStack)
	if m.proc.ReadTouched([]process.MemoryRange{{Addr: fork.SP, Bytes: stack}}, 0) != nil {
		return nothing
	}
	parent.clearings.Add(1)
	c := &clearing{layout: m.images[i].layout, at: m.images[i].at, mapped: m.files, forks: fork.PC, least: read[i]}
	return func() { go f.learn(parent, c, stack) }
}

// learn finds out whether a member forks by the wrapper of an image. stack is that of a child that it has just made, from the stack
// pointer on.
func (f *Family) learn(m *member, c *clearing, stack []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return
	}
	files, err := m.mappedFiles()
	maps, _, mapsErr := m.proc.Maps()
	if err != nil || mapsErr != nil || !bytes.Equal(files, c.mapped) {
		return
	}
	if c.follow(m.proc.Images(maps), c.forks, stack) && f.hasRoomFor(m, c.least.size()) {
		m.clears.Store(c)
		m.clearings.Store(0)
	}
}

// follow finds the calls from the wrapper to the system call. Each function on the way has to say where its return address is
// by the stack pointer alone: then it is there whenever it is called so.
func (c *clearing) follow(images []*process.MappedFile, pc uint64, stack []byte) bool {
	sp := 0
	for addr := pc; ; addr = pc - 1 { // of a call: the instruction may be the function's last one
		i := slices.IndexFunc(images, func(i *process.MappedFile) bool {
			return slices.ContainsFunc(i.Parts, func(m process.Mapping) bool { return m.Exec && m.Start <= addr && addr < m.End })
		})
		if i < 0 {
			return false
		}
		cfa, ok := c.frame(images[i], addr)
		if c.high != 0 {
			return len(c.calls) > 0
		}
		if sp += cfa; !ok || cfa < 8 || sp > len(stack) {
			return false
		}
		pc = binary.LittleEndian.Uint64(stack[sp-8:])
		c.calls = append(c.calls, returns{sp - 8, pc})
	}
}

// frame is how far the canonical frame address lies above the stack pointer, below which is the return address, for the code of an
// image at an address. If that is the wrapper it notes where it is.
func (c *clearing) frame(mapped *process.MappedFile, addr uint64) (cfa int, ok bool) {
	r, err := mapped.Open()
	if err != nil {
		return 0, false
	}
	defer r.Close()
	f, err := elf.Open(r)
	if err != nil {
		return 0, false
	}
	rules, err := f.CallFrames()
	if err != nil || rules == nil {
		return 0, false
	}
	bias := f.Bias(mapped.Start)
	if mapped.Start == c.at && mapped.File() == c.file {
		if at, _ := f.Symbols("__gcov_fork"); len(at) == 1 {
			if low, high, ok := rules.Described(at[0]); ok && low+bias <= addr && addr < high+bias {
				c.low, c.high = low+bias, high+bias
				return 0, true
			}
		}
	}
	row, ok := rules.Row(addr - bias)
	if !ok || row.Signal || row.CFA.Kind != unwind.RuleRegister || row.CFA.Register != unwind.AMD64_RSP || row.Return != unwind.AMD64_RIP {
		return 0, false
	}
	ra := row.Registers[unwind.AMD64_RIP]
	return int(row.CFA.Offset), ra.Kind == unwind.RuleOffset && ra.Offset == -8 && row.CFA.Offset < maxForkStack
}

// isUncleared tells whether a member that runs, and is locked, with w in the counters of an image, may not have cleared them.
func (im *placed) isUncleared(m *member, w words) (bool, error) {
	switch {
	case !im.mayBeUncleared(w):
		return false, nil
	case !m.isPastFork():
		return true, nil
	}
	return im.endsUncleared(m.proc, w) // or waits: there may be handlers of forks (pthread_atfork) that do
}

// mayBeUncleared tells whether what was read of the counters of an image, perhaps while they were cleared, may be what was inherited: none
// is less that has not been cleared.
func (im *placed) mayBeUncleared(w words) bool {
	for _, p := range im.clears.least.parts {
		for i, at := range p.at {
			if x := w[at]; x != 0 && x < p.value[i] {
				return false
			}
		}
	}
	return true
}

// endsUncleared tells whether a process that has ended, with w in the counters of an image, has not got as far as to have cleared all: it is
// in the wrapper still, and those are zero that are cleared first, and none of the others is less than it was.
func (im *placed) endsUncleared(p *process.Process, w words) (is bool, err error) {
	in := make([]byte, 8)
	if err := p.ReadTouched([]process.MemoryRange{{Addr: im.returns, Bytes: in}}, 0); err != nil {
		return false, err
	}
	if to := binary.LittleEndian.Uint64(in); to < im.clears.low || im.clears.high <= to {
		return false, nil
	}
	least := im.buffer()
	defer im.release(least)
	clear(least)
	im.clears.least.addTo(least)
	left := false
	for _, i := range im.inOrder {
		less := false
		im.eachCounterOf(im.units[i], func(at, n int) {
			for k := at; k < at+n; k++ {
				left = left || w[k] != 0
				less = less || left && w[k] < least[k]
			}
		})
		if less {
			return false, nil
		}
	}
	return left, nil
}
