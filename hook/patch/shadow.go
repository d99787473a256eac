//go:build linux

package patch

import (
	"debug/elf"
	"fmt"

	"golang.org/x/sys/unix"

	"footfall/process"
)

// The shadow of stacks, where there are no return stubs: return addresses of calls whose exits
// are seen.
const (
	shadowSize = 1 << 41
	shadowHint = 0x5e0000000000
	// In a slot with the same low 12 bits of the address, the processor takes a load
	// from one for a load from the other, which costs some 10 ns a call.
	shadowColour = 0x7c0

	// Where there are 39 bits of addresses: the upper quarter has stacks and libraries,
	// at half of them are programs.
	narrow           = 1 << 39
	narrowShadowSize = narrow / 4
	narrowShadowHint = narrow / 4
)

// stackRange returns the lowest address of stacks whose exits are seen in a process, and
// the size of the part from there on. On arm64 it depends on the kernel.
func (c *cpu) stackRange(maps process.Maps) [2]uint64 {
	if c.machine == elf.EM_AARCH64 && len(maps) > 0 && maps[len(maps)-1].End <= narrow {
		return [2]uint64{narrow - narrowShadowSize, narrowShadowSize}
	}
	return [2]uint64{c.stacksFrom, shadowSize}
}

// lacksShadow tells whether there is none yet, but has to be.
func (s *Session) lacksShadow() bool {
	return native.returnStub == nil && s.exits() && s.shadow == 0
}

func (s *Session) newShadow(h *process.Held) error {
	hint, size := uint64(shadowHint), s.stacks[1]
	if size != shadowSize {
		hint = narrowShadowHint
	}
	at, err := h.Map(hint, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, process.NoFile, 0)
	if gap, mapErr := largestGap(s.p); err != nil && mapErr == nil && gap < size {
		return fmt.Errorf("exits need %d GB of addresses (no memory) in one piece, and the process has %d left, as programs with ThreadSanitizer: trace entries only, without --exits", size>>30, gap>>30)
	}
	if err != nil {
		return fmt.Errorf("exits need %d GB of addresses (no memory): %w; ulimit -v and vm.overcommit_memory=2 forbid that: trace entries only, without --exits", size>>30, err)
	}
	s.shadow = at - s.stacks[0] + shadowColour
	_, err = h.SystemCall(unix.SYS_MADVISE, at, size, unix.MADV_DONTDUMP)
	return err
}

// largestGap returns the size of the largest part of the addresses of a process, up to its
// last mapping, that has nothing mapped.
func largestGap(p *process.Process) (gap uint64, err error) {
	maps, _, err := p.Maps()
	end := uint64(0)
	for _, m := range maps {
		if m.Start >= 1<<63 { // the kernel's
			break
		}
		gap, end = max(gap, m.Start-end), m.End
	}
	return gap, err
}
