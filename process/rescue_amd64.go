//go:build linux

package process

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

var (
	callCode       = []byte("\x0f\x05")                             // syscall
	callReturnCode = []byte("\x0f\x05\xc3")                         // syscall; ret
	restorerCode   = []byte("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05") // mov $15,%rax; syscall
)

// codeAlign is what addresses of instructions are multiples of.
const codeAlign = 1

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
	xstateRoom    = 1 << 15
	softwareAt    = 464 // in the state of floating point: struct _fpx_sw_bytes
	xstateMagic1  = 0x46505853
	xstateMagic2  = 0x46505845
	contextHasAll = 7 // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
)

// rescueCalms tells that a rescued thread gets its scheduling back, too.
const rescueCalms = true

// rescueFrame returns what is to be written below an address, and where; nil if
// the kernel does not say enough. The thread returns into the restorer:
//
//	stack pointer -->  address of the restorer
//	                   struct ucontext: registers, mask of signals
//	                   registers of floating point
//
// If its scheduling is to be put back as well, it does that first: then
//
//	stack pointer -->  address of the restorer
//	                   struct ucontext: registers of the system call, no signals
//	                   address of the restorer, ... as above
//	                   struct sched_attr
//	                   registers of floating point
func rescueFrame(tid int, saved *registers, mask uint64, u useful, below uint64, scheduling *unix.SchedAttr) (at uint64, frame []byte) {
	state, err := registersOf(tid, xstateTag, xstateRoom)
	if err != nil || len(state) < softwareAt+48 {
		return 0, nil
	}
	le := binary.LittleEndian
	le.PutUint64(state[softwareAt+8:], le.Uint64(state[softwareAt:])) // which parts there are
	le.PutUint32(state[softwareAt:], xstateMagic1)
	le.PutUint32(state[softwareAt+4:], uint32(len(state))+4)
	le.PutUint32(state[softwareAt+16:], uint32(len(state)))
	state = le.AppendUint32(state, xstateMagic2)

	stateAt := (below - redZone - uint64(len(state))) &^ 63
	attrAt := stateAt
	if scheduling != nil {
		attrAt -= uint64(unsafe.Sizeof(*scheduling)+15) &^ 15
	}
	at = (attrAt-frameSize)&^15 - 8
	b := signalFrame(restarted(*saved), mask, u.restorer, stateAt)
	if scheduling != nil {
		b = append(b, make([]byte, attrAt-at-uint64(len(b)))...)
		b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(scheduling)), unsafe.Sizeof(*scheduling))...)
		calms := saved.elsewhere()
		calms.setSystemCall(unix.SYS_SCHED_SETATTR, []uint64{0, attrAt, 0})
		calms.Rip, calms.Rsp = u.call, at // the ret behind the call leads to the restorer
		first := signalFrame(calms, exceptSIGSYS, u.restorer, stateAt)
		at -= uint64(len(first))
		b = append(first, b...)
	}
	b = append(b, make([]byte, stateAt-at-uint64(len(b)))...)
	return at, append(b, state...)
}

// signalFrame returns the frame from which the kernel restores registers, and a mask of signals; those of floating point
// lie at stateAt.
func signalFrame(regs registers, mask, restorer, stateAt uint64) []byte {
	le := binary.LittleEndian
	b := make([]byte, frameSize)
	le.PutUint64(b, restorer)
	context := b[8:]
	le.PutUint64(context[contextFlags:], contextHasAll)
	le.PutUint32(context[contextStack+8:], 0x55) // no flags of an alternate stack: it stays as it is
	for i, v := range []uint64{regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15, regs.Rdi, regs.Rsi, regs.Rbp, regs.Rbx,
		regs.Rdx, regs.Rax, regs.Rcx, regs.Rsp, regs.Rip, regs.Eflags, regs.Cs&0xffff | regs.Ss<<48} {
		le.PutUint64(context[contextRegs+8*i:], v)
	}
	le.PutUint64(context[contextRegs+fpstateAt:], stateAt)
	le.PutUint64(context[contextMask:], mask)
	return b
}

const restartTimed = 516 // ERESTART_RESTARTBLOCK

// timedCalls are system calls that the kernel has go on, interrupted, by another one (restart_syscall) for the time
// that is left.
var timedCalls = []uint64{unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_POLL, unix.SYS_FUTEX}

// interrupted are the registers of a stopped thread with the number of the system call that it waits in, even if it
// does so by restart_syscall. Then it is in an instruction shortly before: mov $NUMBER,%eax. If it is not there,
// forgets tells that the wait will end with EINTR if the thread is rescued.
func (p *Process) interrupted(regs registers) (with registers, forgets bool) {
	const loadsNumber, loadSize, atMost = 0xb8, 5, 16 // bytes
	if regs.Orig_rax != unix.SYS_RESTART_SYSCALL || int64(regs.Rax) != -restartTimed {
		return regs, false
	}
	code := make([]byte, atMost)
	if _, err := p.ReadAt(code, int64(regs.Rip)-int64(len(callCode)+atMost)); err != nil {
		return regs, true
	}
	for i := atMost - loadSize; i >= 0; i-- {
		number := uint64(binary.LittleEndian.Uint32(code[i+1:]))
		if code[i] == loadsNumber && slices.Contains(timedCalls, number) {
			regs.Orig_rax = number
			return regs, false
		}
	}
	return regs, true
}

// restarted are the registers with which a thread goes on that was stopped in a
// system call: the kernel would begin it again. What is left of a time it forgets when a handler of a signal
// ends, as is pretended here: that begins anew.
func restarted(regs registers) registers {
	if int64(regs.Orig_rax) < 0 {
		return regs
	}
	switch -int64(regs.Rax) {
	case 512, 513, 514, restartTimed: // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND
		regs.Rax = regs.Orig_rax
		regs.Rip -= 2
	}
	return regs
}
