//go:build linux

package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// registers are those of a thread that the kernel hands out together: its struct
// user_pt_regs.
type registers struct{ unix.PtraceRegs }

// Kinds of registers, from include/uapi/linux/elf.h.
const (
	setGeneral    = 1     // NT_PRSTATUS
	setFloating   = 2     // NT_PRFPREG
	setTLS        = 0x401 // NT_ARM_TLS
	setSystemCall = 0x404 // NT_ARM_SYSTEM_CALL
	setSVE        = 0x405 // NT_ARM_SVE
	setStreaming  = 0x40b // NT_ARM_SSVE

	floatingSize = 32*16 + 16 // of setFloating: the registers, fpsr u32, fpcr u32, and a reserve
	vectorsHead  = 16         // of setSVE: size u32, greatest size u32, length of a vector u16, greatest u16, flags u16
	vectorsFlags = 12
	vectorsLive  = 1 // a flag: more than setFloating is in use
	vectorsRoom  = 1 << 15
)

func (r *registers) pc() *uint64 { return &r.Pc }
func (r *registers) sp() *uint64 { return &r.Sp }

// result is what a function or system call has returned.
func (r *registers) result() uint64 { return r.Regs[0] }

// systemCall is the number of the one that the thread makes.
func (r *registers) systemCall() uint64 { return r.Regs[8] }

// setSystemCall prepares for an instruction that makes one.
func (r *registers) setSystemCall(number uint64, args []uint64) {
	clear(r.Regs[:6])
	copy(r.Regs[:6], args)
	r.Regs[8] = number
}

// setArguments prepares for a call of a function.
func (r *registers) setArguments(args []uint64) { copy(r.Regs[:8], args) }

// setReturn sets where the function that is called next returns to.
func (r *registers) setReturn(addr uint64) { r.Regs[30] = addr }

// branchType are the bits of pstate by which the processor remembers, until the
// next instruction, that it has just come by an indirect branch (BTI).
const branchType = 3 << 10

// elsewhere returns the registers for running something else.
func (r registers) elsewhere() registers {
	r.Pstate &^= branchType
	return r
}

func (h *Held) registers(tid int) (regs registers, err error) {
	v := unix.Iovec{Base: (*byte)(unsafe.Pointer(&regs)), Len: uint64(unsafe.Sizeof(regs))}
	if err := ptrace(unix.PTRACE_GETREGSET, tid, setGeneral, uintptr(unsafe.Pointer(&v))); err != nil {
		return regs, h.p.failed("read registers", err)
	}
	if v.Len != uint64(unsafe.Sizeof(regs)) {
		return regs, fmt.Errorf("process %d: it runs 32-bit code: %w", h.p.PID, errors.ErrUnsupported)
	}
	return regs, nil
}

func (h *Held) setRegisters(tid int, regs *registers) error {
	v := unix.Iovec{Base: (*byte)(unsafe.Pointer(regs)), Len: uint64(unsafe.Sizeof(*regs))}
	if err := ptrace(unix.PTRACE_SETREGSET, tid, setGeneral, uintptr(unsafe.Pointer(&v))); err != nil {
		return h.p.failed("write registers", err)
	}
	return nil
}

// cancelSystemCall sets the registers of a thread that is about to make a system
// call, which it will not make.
func (h *Held) cancelSystemCall(tid int, regs *registers) error {
	if err := h.setRegisters(tid, regs); err != nil {
		return err
	}
	if err := setRegisterSet(tid, setSystemCall, []byte{0xff, 0xff, 0xff, 0xff}); err != nil {
		return h.p.failed("write registers", err)
	}
	return nil
}

// resumable are system calls that, interrupted, go on by another one
// (restart_syscall) for the time that is left.
var resumable = []uint64{unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_FUTEX}

// settle makes a thread ready for an injected call. The kernel sets the number of
// restart_syscall only when a thread runs on from its stop, and for one that is
// made to do something else in between never does: it would sleep all its time
// again. So such a thread is sent back into its call, out of which it is
// interrupted at once, and has the number then. That takes two rounds if it was
// only about to make the call.
//
// Also the kernel would take the system call of a thread that is to go on at the
// very instruction where it waits for the interrupted one.
func (h *Held) settle(tid int) error {
	deadline := time.Now().Add(stopPatience)
	for range 2 {
		regs, err := h.registers(tid)
		if err != nil {
			return err
		}
		if at, err := h.atSystemCall(&regs); err != nil || at != 0 || !slices.Contains(resumable, regs.systemCall()) {
			break
		}
		if err := h.resumeCall(tid, deadline); err != nil {
			return err
		}
	}
	regs, err := h.registers(tid)
	if u := h.p.usefulCode(); err == nil && u != nil && regs.Pc == u.call && !h.p.callElsewhere(u) {
		return ErrBusy
	}
	return err
}

// callElsewhere has system calls be injected at another place than there; false: there is none.
func (p *Process) callElsewhere(u *useful) bool {
	maps, _, err := p.Maps()
	if err != nil {
		return false
	}
	for _, m := range maps {
		for at, b := m.Start, p.code(m); ; {
			i := indexCode(b, callReturnCode)
			if i < 0 {
				break
			}
			if at += uint64(i); at != u.call {
				p.useful.Store(&useful{at, u.restorer})
				return true
			}
			at, b = at+uint64(len(callReturnCode)), b[i+len(callReturnCode):]
		}
	}
	return false
}

// resumeCall lets a thread run into the system call that it is about to make and
// interrupts it there. A signal that comes first is delivered.
func (h *Held) resumeCall(tid int, deadline time.Time) error {
	if err := unix.PtraceSetOptions(tid, h.s.options|unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return h.p.failed("run a thread", err)
	}
	request, sig := unix.PTRACE_SYSCALL, 0
	for {
		if err := ptrace(request, tid, 0, uintptr(sig)); err != nil {
			return h.p.failed("run a thread", err)
		}
		status, err := h.waitStopped(tid, deadline)
		if err != nil {
			return err
		}
		if request == unix.PTRACE_CONT && isEventStop(status) {
			return nil
		}
		request, sig = unix.PTRACE_CONT, 0
		if stop := status.StopSignal(); !isEventStop(status) && stop != unix.SIGTRAP|0x80 {
			sig = int(stop)
		}
		if err := unix.PtraceInterrupt(tid); err != nil {
			return h.p.failed("stop a thread", err)
		}
	}
}

// atSystemCall tells how many instructions the thread is behind one that makes a
// system call: 0, 1, or -1 for neither.
func (h *Held) atSystemCall(regs *registers) (int, error) {
	var code [8]byte
	if _, err := h.p.ReadAt(code[:], int64(regs.Pc-4)); err != nil {
		return -1, err
	}
	switch string(callCode) {
	case string(code[4:]):
		return 0, nil
	case string(code[:4]):
		return 1, nil
	}
	return -1, nil
}

// vectors returns the registers that the thread may lose besides. System calls
// preserve setFloating, but not what SVE has more.
func (h *Held) vectors(tid int, kind injection) ([]registerSet, error) {
	for _, set := range []uintptr{setStreaming, setSVE} {
		state, err := registersOf(tid, set, vectorsRoom)
		if err != nil || len(state) < vectorsHead || binary.LittleEndian.Uint16(state[vectorsFlags:])&vectorsLive == 0 {
			continue // the processor has none, or the thread uses none
		}
		if set == setStreaming {
			return nil, ErrBusy // not for long: it computes
		}
		return []registerSet{{set, state}}, nil
	}
	if kind == forSystemCall {
		return nil, nil
	}
	state, err := registersOf(tid, setFloating, floatingSize)
	if err != nil {
		return nil, h.p.failed("read registers", err)
	}
	return []registerSet{{setFloating, state}}, nil
}

// trapSize is how far a thread goes on from a breakpoint instruction.
const trapSize = 0

// returnTo lets the function that is called next return to an address.
func (h *Held) returnTo(regs *registers, addr uint64) error {
	regs.setReturn(addr)
	return nil
}

// ThreadPointer returns the address of what the thread has for itself.
func (h *Held) ThreadPointer(tid int) (uint64, error) {
	b, err := registersOf(tid, setTLS, 8)
	if err != nil || len(b) < 8 {
		return 0, h.p.failed("read registers", err)
	}
	return binary.LittleEndian.Uint64(b), nil
}

// InSystemCall returns the number of the system call that the thread waits in,
// is about to make or has just made; -1 if it does not. The kernel tells of none
// that is interrupted.
func (h *Held) InSystemCall(tid int) int64 {
	regs, err := h.registers(tid)
	if err != nil {
		return -1
	}
	if at, err := h.atSystemCall(&regs); err != nil || at < 0 {
		return -1
	}
	return int64(regs.systemCall())
}

// returnRegister is where the function that runs returns to, if it has called no
// other.
func (r *registers) returnRegister() uint64 { return r.Regs[30] }

// addressBits are those of a word that are an address; a return address may have
// been signed in the others.
const addressBits = 1<<48 - 1

// vforkCalls are system calls in which a thread may wait for a process that it has made.
var vforkCalls = []uintptr{unix.SYS_CLONE, unix.SYS_CLONE3}
