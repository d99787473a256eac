//go:build linux

package process

import "golang.org/x/sys/unix"

// registers are those of a thread that the kernel hands out together.
type registers struct{ unix.PtraceRegs }

func (r *registers) pc() *uint64 { return &r.Rip }
func (r *registers) sp() *uint64 { return &r.Rsp }

// result is what a function or system call has returned.
func (r *registers) result() uint64 { return r.Rax }

// systemCall is the number of the one that the thread makes.
func (r *registers) systemCall() uint64 { return r.Orig_rax }

// setSystemCall prepares for an instruction that makes one.
func (r *registers) setSystemCall(number uint64, args []uint64) {
	r.Rax = number
	for i, place := range []*uint64{&r.Rdi, &r.Rsi, &r.Rdx, &r.R10, &r.R8, &r.R9} {
		if *place = 0; i < len(args) {
			*place = args[i]
		}
	}
}

// setArguments prepares for a call of a function.
func (r *registers) setArguments(args []uint64) {
	r.Rax = 0
	for i, place := range []*uint64{&r.Rdi, &r.Rsi, &r.Rdx} {
		if i < len(args) {
			*place = args[i]
		}
	}
}

// setReturn is for processors that keep return addresses in a register.
func (r *registers) setReturn(uint64) {}

// elsewhere returns the registers for running something else: no system call is
// started again. Flags are as functions expect them. If the thread traps after each instruction of its own the
// kernel must not find that it traps in what runs for us, with signals blocked: it would take the handler away.
func (r registers) elsewhere() registers {
	const trap, down, aligned = 1 << 8, 1 << 10, 1 << 18 // TF, DF and AC of RFLAGS
	r.Orig_rax = ^uint64(0)
	r.Eflags &^= trap | down | aligned
	return r
}

func (h *Held) registers(tid int) (regs registers, err error) {
	if err := unix.PtraceGetRegs(tid, &regs.PtraceRegs); err != nil {
		return regs, h.p.failed("read registers", err)
	}
	return regs, nil
}

func (h *Held) setRegisters(tid int, regs *registers) error {
	if err := unix.PtraceSetRegs(tid, &regs.PtraceRegs); err != nil {
		return h.p.failed("write registers", err)
	}
	return nil
}

// cancelSystemCall sets the registers of a thread that is about to make a system
// call, which it will not make.
func (h *Held) cancelSystemCall(tid int, regs *registers) error {
	regs.Orig_rax = ^uint64(0)
	return h.setRegisters(tid, regs)
}

// settle makes a thread ready for an injected call, which here it always is.
func (h *Held) settle(int) error { return nil }

// vectors returns the registers that the thread may lose besides: system calls
// preserve all that a program sees.
func (h *Held) vectors(tid int, kind injection) ([]registerSet, error) {
	if kind == forSystemCall {
		return nil, nil
	}
	state, err := registersOf(tid, xstateTag, xstateRoom)
	if err != nil {
		return nil, h.p.failed("read registers", err)
	}
	return []registerSet{{xstateTag, state}}, nil
}

// trapSize is how far a thread goes on from a breakpoint instruction.
const trapSize = 1

// returnTo lets the function that is called next return to an address.
func (h *Held) returnTo(regs *registers, addr uint64) error {
	regs.Rsp -= 8
	var b [8]byte
	for i := range b {
		b[i] = byte(addr >> (8 * i))
	}
	_, err := h.p.WriteAt(b[:], int64(regs.Rsp))
	return err
}

// ThreadPointer returns the address of what the thread has for itself.
func (h *Held) ThreadPointer(tid int) (uint64, error) {
	regs, err := h.registers(tid)
	return regs.Fs_base, err
}

// InSystemCall returns the number of the system call that the thread waits in,
// -1 if it does not.
func (h *Held) InSystemCall(tid int) int64 {
	regs, err := h.registers(tid)
	if err != nil {
		return -1
	}
	return int64(regs.Orig_rax)
}

// returnRegister is for processors that have one.
func (r *registers) returnRegister() uint64 { return 0 }

// addressBits are those of a word that are an address.
const addressBits = ^uint64(0)

// vforkCalls are system calls in which a thread may wait for a process that it has made.
var vforkCalls = []uintptr{unix.SYS_VFORK, unix.SYS_CLONE, unix.SYS_CLONE3}
