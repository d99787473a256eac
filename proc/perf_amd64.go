//go:build linux

package proc

// UserRegisters is the number of registers that come with a copied stack, in
// this order: ax bx cx dx si di bp sp ip, r8 to r15. Code of 32 bits has the
// first nine.
const UserRegisters = 9 + 8

// registerMask chooses them, by the numbers of the kernel's
// arch/x86/include/uapi/asm/perf_regs.h.
const registerMask = 0x1ff | 0xff<<16
