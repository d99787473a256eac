//go:build linux && (amd64 || arm64)

package process

import (
	"bytes"
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
//	stack pointer -->  registers, mask of signals (rescue_amd64.go, rescue_arm64.go)
//	                   128 bytes that the function may be using (red zone)
//	before         -->
//
// Where others run meanwhile it lies at the top of a stack that was mapped for that
// (CallSafely).
//
// As long as footfall lives it takes the thread back before.
type rescue struct {
	at       uint64 // where the stack pointer must be
	restorer uint64
	old      []byte // what was there
}

const redZone = 128

// PrepareSystemCalls looks in the code of the process for what [Held.SystemCall] needs. It is
// to be called before the threads are held, which would stand still that long.
func (p *Process) PrepareSystemCalls() { p.usefulCode() }

// usefulCode finds it, which is so in every process with libc; nil if it is not.
func (p *Process) usefulCode() *useful {
	has := func(at uint64, code []byte) bool {
		b := make([]byte, len(code))
		_, err := p.ReadAt(b, int64(at))
		return err == nil && bytes.Equal(b, code)
	}
	if u := p.useful.Load(); u != nil && has(u.call, callReturnCode) && has(u.restorer, restorerCode) {
		return u
	}
	maps, _, err := p.Maps()
	if err != nil {
		return nil
	}
	var u useful
	for _, m := range maps {
		b := p.code(m)
		for at, code := range map[*uint64][]byte{&u.call: callReturnCode, &u.restorer: restorerCode} {
			if i := indexCode(b, code); i >= 0 && *at == 0 {
				*at = m.Start + uint64(i)
			}
		}
		if u.call != 0 && u.restorer != 0 {
			p.useful.Store(&u)
			return &u
		}
	}
	return nil
}

// prepareRescue writes down what the thread does, below an address, and how it is scheduled, unless that is nil; nil if it is
// not possible here, then nothing has been written.
func (h *Held) prepareRescue(tid int, saved *registers, mask, below uint64, scheduling *unix.SchedAttr) *rescue {
	u := h.p.usefulCode()
	if u == nil {
		return nil
	}
	interrupted, _ := h.p.interrupted(*saved)
	at, b := rescueFrame(tid, &interrupted, mask, *u, below, scheduling)
	if b == nil {
		return nil
	}
	r := &rescue{at: at, restorer: u.restorer, old: make([]byte, len(b))}
	if _, err := h.p.ReadAt(r.old, int64(r.at)); err != nil {
		return nil
	}
	if _, err := h.p.WriteAt(b, int64(r.at)); err != nil {
		return nil
	}
	return r
}

// passSystemCall lets a thread that is about to make a system call make it, up to
// its end. Unlike single steps this leaves no trap behind if footfall is killed.
func (h *Held) passSystemCall(tid int) error {
	for range 2 { // its begin and end
		if err := h.toSystemCall(tid, deadlineOf(untilDone)); err != nil {
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
	for signal := 0; ; {
		if err := unix.PtraceSyscall(tid, signal); err != nil {
			return h.p.failed("run a thread", err)
		}
		status, err := h.waitStopped(tid, deadline)
		if err != nil {
			return err
		}
		if status.StopSignal() == unix.SIGTRAP|0x80 {
			return nil
		}
		if signal, err = h.passedOn(tid, status); err != nil {
			return err
		}
	}
}

// passReturn lets a thread run until it is about to make the system call that would
// take it back, and leaves that out.
func (h *Held) passReturn(tid int, r *rescue, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	_, before := h.ran(tid)
	for {
		if err := h.toSystemCall(tid, deadline); err != nil {
			return err
		}
		regs, err := h.registers(tid)
		if err != nil {
			return err
		}
		if *regs.pc() == r.restorer+uint64(len(restorerCode)) && regs.systemCall() == unix.SYS_RT_SIGRETURN {
			*regs.pc() = r.restorer // where it would make it again
			if err := h.cancelSystemCall(tid, &regs); err != nil {
				return err
			}
			return h.toSystemCall(tid, deadline)
		}
		if _, without := h.ran(tid); time.Now().After(deadline.Add(without - before)) {
			// it waits again and again, as one does whose wait is ended by signals
			if err := h.park(tid); err != nil {
				return err
			}
			return ErrStuck
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
	for signal := 0; ; {
		if err := unix.PtraceCont(tid, signal); err != nil {
			return h.p.failed("run a thread", err)
		}
		status, err := h.waitStopped(tid, deadlineOf(untilDone))
		if err != nil {
			return err
		}
		if isEventStop(status) {
			return nil
		}
		if signal, err = h.passedOn(tid, status); err != nil {
			return err
		}
	}
}

// passedOn is the signal with which a thread runs an injected call: SIGSTOP, which cannot
// be blocked. The kernel then counts the process as stopped, which threads with injected calls do
// not notice, and stops each thread when it is let go, unless SIGCONT has come. An instruction that
// failed would do so again and again.
func (h *Held) passedOn(tid int, status unix.WaitStatus) (signal int, err error) {
	if isEventStop(status) {
		return 0, nil
	}
	switch signal := status.StopSignal(); signal {
	case unix.SIGSTOP:
		return int(unix.SIGSTOP), nil
	case unix.SIGSEGV, unix.SIGBUS, unix.SIGILL, unix.SIGFPE:
		return 0, fmt.Errorf("process %d: a call for footfall in thread %d ended by %v", h.p.PID, tid, signal)
	case unix.SIGSYS:
		return 0, h.diverted(tid)
	}
	return 0, nil
}

// diverted returns ErrBusy for a thread that has stopped for SIGSYS: it diverts its system calls, so that the one for us
// was not made, and is spared the signal; if somebody has sent it, it is delivered later.
func (h *Held) diverted(tid int) error {
	const byUserDispatch = 2 // SYS_USER_DISPATCH of <asm-generic/siginfo.h>
	var info unix.Siginfo
	err := ptrace(unix.PTRACE_GETSIGINFO, tid, 0, uintptr(unsafe.Pointer(&info)))
	if t := h.s.threads[tid]; t != nil && (err != nil || info.Code != byUserDispatch) {
		t.signal = int(unix.SIGSYS)
	}
	return fmt.Errorf("process %d: thread %d: %w", h.p.PID, tid, ErrBusy)
}

// giveBack writes what was below the stack.
func (r *rescue) giveBack(h *Held) error {
	if _, err := h.p.WriteAt(r.old, int64(r.at)); err != nil {
		return fmt.Errorf("process %d: below its stack: %w", h.p.PID, err)
	}
	return nil
}

// forgets tells of a stopped thread that what it waits for ends early if it does something for us and footfall is killed.
func (h *Held) forgets(tid int) bool {
	regs, err := h.registers(tid)
	if err != nil {
		return false
	}
	_, forgets := h.p.interrupted(regs)
	return forgets
}
