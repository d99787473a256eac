//go:build linux

package process

import (
	"encoding/binary"
	"fmt"
)

// UserRegisters and the mask are zero: stacks are not copied, because code for
// arm64 keeps frame pointers.
const (
	UserRegisters = 0
	registerMask  = 0
)

// CanStop tells that there can be a [PtraceSampler].
const CanStop = true

// Places of registers in what sampleRegisters returns.
const (
	sampleFP = 0
	sampleSP = 1
	samplePC = 2
)

// sampleRegisters reads registers of a stopped thread: the frame pointer, the
// stack pointer, and where it is. compat tells that it runs 32-bit code.
func sampleRegisters(tid int) (registers []uint64, compat bool, err error) {
	b, err := registersOf(tid, setGeneral, 34*8)
	if err != nil {
		return nil, false, err
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	switch len(b) {
	case 34 * 8: // x0 to x30, sp, pc, pstate
		return []uint64{word(29), word(31), word(32)}, false, nil
	case 18 * 4: // r0 to r15, of which 13 is the stack pointer and 15 where it is; flags, r0
		word := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(b[4*i:])) }
		return []uint64{word(11), word(13), word(15)}, true, nil
	}
	return nil, false, fmt.Errorf("thread %d: %d bytes of registers", tid, len(b))
}
