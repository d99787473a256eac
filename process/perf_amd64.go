//go:build linux

package process

import "encoding/binary"

// UserRegisters is the number of registers that come with a copied stack, in
// this order: ax bx cx dx si di bp sp ip, r8 to r15. 32-bit code has the
// first nine.
const UserRegisters = 9 + 8

// registerMask chooses them, by the numbers of the kernel's
// arch/x86/include/uapi/asm/perf_regs.h.
const registerMask = 0x1ff | 0xff<<16

// Places of registers in that order.
const (
	sampleFP = 6
	sampleSP = 7
	samplePC = 8
)

// CanStop tells that there can be a [PtraceSampler].
const CanStop = true

// sampleRegisters reads the registers of a stopped thread, in that order. The
// kernel has them in its struct user_regs_struct; that of a thread which runs
// 32-bit code is smaller:
//
//	r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss ...
//	bx cx dx si di bp ax ds es fs gs orig_ax ip cs flags sp ss
func sampleRegisters(tid int) (registers []uint64, compat bool, err error) {
	const prStatus = 1 // NT_PRSTATUS
	b, err := registersOf(tid, prStatus, 27*8)
	if err != nil {
		return nil, false, err
	}
	if len(b) == 17*4 {
		for _, i := range []int{6, 0, 1, 2, 3, 4, 5, 15, 12} {
			registers = append(registers, uint64(binary.LittleEndian.Uint32(b[4*i:])))
		}
		return registers, true, nil
	}
	for _, i := range []int{10, 5, 11, 12, 13, 14, 4, 19, 16, 9, 8, 7, 6, 3, 2, 1, 0} {
		registers = append(registers, binary.LittleEndian.Uint64(b[8*i:]))
	}
	return registers, false, nil
}
