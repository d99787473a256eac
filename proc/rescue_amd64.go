package proc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A thread that does something for footfall must find back by itself if footfall
// is killed meanwhile. So before its registers are changed, what it was doing is
// written below its stack in the form in which the kernel keeps what a handler of
// a signal interrupts; what the thread does for us returns into the code that ends
// handlers:
//
//	stack pointer -->  address of  mov $15,%rax; syscall   (rt_sigreturn)
//	                   struct ucontext: registers, mask of signals
//	                   registers of floating point
//	                   128 bytes that the function may be using (red zone)
//	before         -->
//
// As long as footfall lives it takes the thread back before.
type rescue struct {
	at       uint64 // where the stack pointer must be
	restorer uint64
	old      []byte // what was there
}

var (
	restorerCode = []byte("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05") // mov $15,%rax; syscall
	callCode     = []byte("\x0f\x05\xc3")                         // syscall; ret
)

// usefulCode finds it, which is so in every process with libc; nil if it is not.
func (p *Process) usefulCode() *useful {
	has := func(at uint64, code []byte) bool {
		b := make([]byte, len(code))
		_, err := p.ReadAt(b, int64(at))
		return err == nil && bytes.Equal(b, code)
	}
	if u := p.useful.Load(); u != nil && has(u.call, callCode) && has(u.restorer, restorerCode) {
		return u
	}
	maps, _, err := p.Maps()
	if err != nil {
		return nil
	}
	var u useful
	for _, m := range maps {
		if !m.Exec || !m.Read || m.Path == "[vsyscall]" {
			continue
		}
		b := make([]byte, min(m.End-m.Start, 1<<22))
		if _, err := p.ReadAt(b, int64(m.Start)); err != nil {
			continue
		}
		for code, at := range map[*uint64][]byte{&u.call: callCode, &u.restorer: restorerCode} {
			if i := bytes.Index(b, at); i >= 0 && *code == 0 {
				*code = m.Start + uint64(i)
			}
		}
		if u.call != 0 && u.restorer != 0 {
			p.useful.Store(&u)
			return &u
		}
	}
	return nil
}

// Offsets in struct ucontext and struct sigcontext, from
// arch/x86/include/uapi/asm/ucontext.h and sigcontext.h.
const (
	frameSize     = 8 + 40 + 256 + 8 + 128 // struct rt_sigframe
	contextFlags  = 0
	contextStack  = 16
	contextRegs   = 40
	contextMask   = 40 + 256
	fpstateAt     = 18*8 + 8 + 32 // in sigcontext
	xstateTag     = 0x202         // NT_X86_XSTATE
	softwareAt    = 464           // in the state of floating point: struct _fpx_sw_bytes
	xstateMagic1  = 0x46505853
	xstateMagic2  = 0x46505845
	contextHasAll = 7 // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
	redZone       = 128
)

// prepareRescue writes down what the thread does; nil if that is not possible here,
// then nothing has been written.
func (h *Held) prepareRescue(tid int, saved *unix.PtraceRegs, mask uint64) *rescue {
	u := h.p.usefulCode()
	if u == nil {
		return nil
	}
	state := make([]byte, 1<<15)
	vector := unix.Iovec{Base: &state[0], Len: uint64(len(state))}
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(tid), xstateTag, uintptr(unsafe.Pointer(&vector)), 0, 0); errno != 0 || vector.Len < softwareAt+48 {
		return nil
	}
	state = state[:vector.Len]
	le := binary.LittleEndian
	le.PutUint64(state[softwareAt+8:], le.Uint64(state[softwareAt:])) // which parts there are
	le.PutUint32(state[softwareAt:], xstateMagic1)
	le.PutUint32(state[softwareAt+4:], uint32(len(state))+4)
	le.PutUint32(state[softwareAt+16:], uint32(len(state)))
	state = le.AppendUint32(state, xstateMagic2)

	stateAt := (saved.Rsp - redZone - uint64(len(state))) &^ 63
	r := &rescue{at: (stateAt-frameSize)&^15 - 8, restorer: u.restorer}
	b := make([]byte, stateAt-r.at, stateAt-r.at+uint64(len(state)))
	le.PutUint64(b, u.restorer)
	context := b[8:]
	le.PutUint64(context[contextFlags:], contextHasAll)
	le.PutUint32(context[contextStack+8:], 0x55) // no flags of an alternate stack: it stays as it is
	regs := restarted(*saved)
	for i, v := range []uint64{regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15, regs.Rdi, regs.Rsi, regs.Rbp, regs.Rbx,
		regs.Rdx, regs.Rax, regs.Rcx, regs.Rsp, regs.Rip, regs.Eflags, regs.Cs&0xffff | regs.Ss<<48} {
		le.PutUint64(context[contextRegs+8*i:], v)
	}
	le.PutUint64(context[contextRegs+fpstateAt:], stateAt)
	le.PutUint64(context[contextMask:], mask)
	b = append(b, state...)

	r.old = make([]byte, len(b))
	if _, err := h.p.ReadAt(r.old, int64(r.at)); err != nil {
		return nil
	}
	if _, err := h.p.WriteAt(b, int64(r.at)); err != nil {
		return nil
	}
	return r
}

// restarted are the registers with which a thread goes on that was stopped in a
// system call: the kernel would begin it again.
func restarted(regs unix.PtraceRegs) unix.PtraceRegs {
	if int64(regs.Orig_rax) < 0 {
		return regs
	}
	switch -int64(regs.Rax) {
	case 512, 513, 514: // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND
		regs.Rax = regs.Orig_rax
		regs.Rip -= 2
	case 516: // ERESTART_RESTARTBLOCK
		regs.Rax = unix.SYS_RESTART_SYSCALL
		regs.Rip -= 2
	}
	return regs
}

// passSystemCall lets a thread that is about to make a system call make it, up to
// its end. Unlike single steps this leaves no trap behind if footfall is killed.
func (h *Held) passSystemCall(tid int, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for range 2 { // its begin and end
		if err := h.toSystemCall(tid, deadline); err != nil {
			return err
		}
	}
	return nil
}

// toSystemCall lets a thread run to where a system call begins or ends.
func (h *Held) toSystemCall(tid int, deadline time.Time) error {
	if err := unix.PtraceSetOptions(tid, h.s.options|unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return h.p.failed("run a thread", err)
	}
	for {
		if err := unix.PtraceSyscall(tid, 0); err != nil {
			return h.p.failed("run a thread", err)
		}
		status, err := h.waitStopped(tid, deadline)
		if err != nil {
			return err
		}
		if status.StopSignal() == unix.SIGTRAP|0x80 {
			return nil
		}
	}
}

// passReturn lets a thread run until it is about to make the system call that would
// take it back, and leaves that out.
func (h *Held) passReturn(tid int, r *rescue, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		if err := h.toSystemCall(tid, deadline); err != nil {
			return err
		}
		regs, err := h.registers(tid)
		if err != nil {
			return err
		}
		if regs.Rip == r.restorer+uint64(len(restorerCode)) && regs.Orig_rax == unix.SYS_RT_SIGRETURN {
			regs.Orig_rax = ^uint64(0)
			if err := h.setRegisters(tid, &regs); err != nil {
				return err
			}
			return h.toSystemCall(tid, deadline)
		}
		if err := h.toSystemCall(tid, deadline); err != nil { // the end of another one
			return err
		}
	}
}

// park stops a thread that is at the end of a system call where it was stopped
// first: the kernel then looks whether the call from before is to begin again.
func (h *Held) park(tid int) error {
	if err := unix.PtraceInterrupt(tid); err != nil {
		return h.p.failed("stop a thread", err)
	}
	deadline := time.Now().Add(stopPatience)
	for {
		if err := unix.PtraceCont(tid, 0); err != nil {
			return h.p.failed("run a thread", err)
		}
		status, err := h.waitStopped(tid, deadline)
		if err != nil {
			return err
		}
		if isEventStop(status) {
			return nil
		}
	}
}

// giveBack writes what was below the stack.
func (r *rescue) giveBack(h *Held) error {
	if _, err := h.p.WriteAt(r.old, int64(r.at)); err != nil {
		return fmt.Errorf("process %d: below its stack: %w", h.p.PID, err)
	}
	return nil
}
