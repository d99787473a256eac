//go:build linux && (amd64 || arm64)

package proc

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PC returns where the thread is.
func (h *Held) PC(tid int) (uint64, error) {
	regs, err := h.registers(tid)
	return *regs.pc(), err
}

// SetPC makes the thread go on elsewhere.
func (h *Held) SetPC(tid int, pc uint64) error {
	regs, err := h.registers(tid)
	if err != nil {
		return err
	}
	*regs.pc() = pc
	return h.setRegisters(tid, &regs)
}

// StackPointer returns where the top of the thread's stack is.
func (h *Held) StackPointer(tid int) (uint64, error) {
	regs, err := h.registers(tid)
	return *regs.sp(), err
}

// ErrBusy is returned if no thread is in a state in which it could do
// something for us; soon one may be.
var ErrBusy = errors.New("all threads are about to handle signals")

// SystemCall lets a thread make a system call. It goes over an instruction
// that the process has anyway; no code is written.
func (h *Held) SystemCall(number uintptr, args ...uint64) (uint64, error) {
	tid := h.anyIdle()
	if tid == 0 {
		return 0, ErrBusy
	}
	return h.systemCall(tid, nil, number, func(uint64) []uint64 { return args })
}

// systemCall lets that thread make a system call. memory lies in its stack
// meanwhile, at the address that args gets, and is read back from there.
func (h *Held) systemCall(tid int, memory []byte, number uintptr, args func(at uint64) []uint64) (uint64, error) {
	var result uint64
	err := h.borrow(tid, forSystemCall, 0, func(regs *registers, r *rescue) (func() error, error) {
		at := uint64(0)
		if r != nil {
			at = h.p.useful.Load().call
		} else {
			var err error
			if at, err = h.syscallInstruction(); err != nil {
				return nil, err
			}
		}
		place := (*regs.sp() - redZone - uint64(len(memory))) &^ 15
		if len(memory) > 0 {
			if _, err := h.p.WriteAt(memory, int64(place)); err != nil {
				return nil, err
			}
		}
		*regs.pc() = at
		regs.setSystemCall(uint64(number), args(place))
		return func() error {
			var err error
			if r != nil {
				err = h.passSystemCall(tid, 10*time.Second)
			} else {
				err = h.run(tid, unix.PTRACE_SINGLESTEP, 10*time.Second)
			}
			if err != nil {
				return err
			}
			after, err := h.registers(tid)
			if err == nil && *after.pc() != at+uint64(len(callCode)) {
				err = fmt.Errorf("process %d: a system call for footfall went to %#x", h.p.PID, *after.pc())
			}
			result = after.result()
			if err == nil && len(memory) > 0 {
				_, err = h.p.ReadAt(memory, int64(place))
			}
			return err
		}, nil
	})
	if err == nil && int64(result) < 0 && int64(result) > -4096 {
		err = fmt.Errorf("process %d: %s: %w", h.p.PID, callName(number), unix.Errno(-int64(result)))
	}
	return result, err
}

// callName names the system calls that fail where the process has limits.
func callName(number uintptr) string {
	switch number {
	case unix.SYS_MMAP:
		return "mmap"
	case unix.SYS_MEMFD_CREATE:
		return "memfd_create"
	}
	return fmt.Sprintf("system call %d", number)
}

// RunUntil lets a stopped thread run, with its signals, up to the end of a system
// call after which done returns true. Then it may be used for a call.
func (h *Held) RunUntil(tid int, patience time.Duration, done func() bool) error {
	t := h.s.threads[tid]
	if t == nil {
		return ErrExited
	}
	if err := unix.PtraceSetOptions(tid, h.s.options|unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return h.p.failed("run a thread", err)
	}
	deadline := time.Now().Add(patience)
	for within := false; ; {
		if err := unix.PtraceSyscall(tid, t.signal); err != nil {
			return h.p.failed("run a thread", err)
		}
		t.signal = 0
		status, err := h.waitStopped(tid, deadline)
		switch {
		case err != nil:
			return err
		case status.StopSignal() == unix.SIGTRAP|0x80:
			if within = !within; !within && done() {
				return nil
			}
		case !isEventStop(status):
			t.signal = int(status.StopSignal())
		}
	}
}

// systemCall has a stopped thread make a system call, as [Held.SystemCall] does.
func (t *tracee) systemCall(memory []byte, number uintptr, args func(at uint64) []uint64) (uint64, error) {
	p := t.process.open
	held := &Held{p: p, s: &stopper{p: p, threads: map[int]*stopped{t.tid: {stopped: true}}, options: traceOptions}}
	return held.systemCall(t.tid, memory, number, args)
}

// ErrStuck is returned by a call that did not come back in time. The thread
// is where it was.
var ErrStuck = errors.New("the call did not return")

// Call lets a stopped thread call a function, which returns to trap, a
// breakpoint instruction, or where it does no harm.
func (h *Held) Call(tid int, function, trap uint64, patience time.Duration, args ...uint64) error {
	return h.callOn(tid, 0, function, trap, patience, args...)
}

// callOn is Call on a stack that ends at an address; 0: on that of the thread.
func (h *Held) callOn(tid int, stack, function, trap uint64, patience time.Duration, args ...uint64) error {
	if !h.idle(tid) {
		return ErrBusy
	}
	return h.borrow(tid, forFunction, stack, func(regs *registers, r *rescue) (func() error, error) {
		if r == nil {
			*regs.sp() = (cmp.Or(stack, *regs.sp()) - 1024) &^ 15 // below the red zone
			if err := h.returnTo(regs, trap); err != nil {
				return nil, err
			}
		}
		*regs.pc() = function
		regs.setArguments(args)
		return func() error {
			if r != nil {
				return h.passReturn(tid, r, patience)
			}
			if err := h.run(tid, unix.PTRACE_CONT, patience); err != nil {
				return err
			}
			after, err := h.registers(tid)
			if err == nil && *after.pc() != trap+trapSize {
				err = fmt.Errorf("process %d: a call for footfall went to %#x", h.p.PID, *after.pc())
			}
			return err
		}, nil
	})
}

// borrowing is what a thread is borrowed for.
type borrowing int

const (
	forSystemCall borrowing = iota
	forFunction
)

// A registerSet is registers that are not in registers, as the kernel has them.
type registerSet struct {
	kind  uintptr
	state []byte
}

// borrow lets do change the registers of a thread, lets it run as do says, and
// puts it back: registers and signals. While it runs no signal is delivered; they
// wait. Whenever footfall may be killed, the thread is as it was or finds back:
// the order of the steps matters. What is written down lies below stack, or if that is
// 0 below the stack of the thread.
func (h *Held) borrow(tid int, kind borrowing, stack uint64, do func(*registers, *rescue) (run func() error, err error)) (err error) {
	if err := h.notFiltered(tid); err != nil {
		return err
	}
	if err := h.settle(tid); err != nil {
		return err
	}
	saved, err := h.registers(tid)
	if err != nil {
		return err
	}
	h.restartSequence(tid, &saved)
	vectors, err := h.vectors(tid, kind)
	if err != nil {
		return err
	}
	var mask uint64
	if err := sigmask(unix.PTRACE_GETSIGMASK, tid, &mask); err != nil {
		return h.p.failed("read the signal mask", err)
	}
	r := h.prepareRescue(tid, &saved, mask, cmp.Or(stack, *saved.sp()))
	regs := saved.elsewhere()
	if r != nil {
		*regs.sp() = r.at
		regs.setReturn(r.restorer)
		defer func() { err = errors.Join(err, r.giveBack(h)) }()
	}
	run, err := do(&regs, r)
	if err != nil {
		return err
	}
	if err := h.setRegisters(tid, &regs); err != nil {
		return err
	}
	all := ^uint64(0)
	if err = sigmask(unix.PTRACE_SETSIGMASK, tid, &all); err == nil {
		if err = run(); err == nil && r != nil {
			err = h.park(tid)
		}
	}
	failed := errors.Join(sigmask(unix.PTRACE_SETSIGMASK, tid, &mask), h.setRegisters(tid, &saved))
	for _, set := range vectors {
		failed = errors.Join(failed, setRegisterSet(tid, set.kind, set.state))
	}
	if err == nil && failed != nil {
		err = fmt.Errorf("process %d: put thread %d back: %w", h.p.PID, tid, failed)
	}
	return err
}

// restartSequence lets a thread that was stopped within a restartable sequence (rseq)
// go on where the sequence is begun anew, as the kernel does with threads that others
// ran in place of. When it is made to run elsewhere the kernel forgets the sequence.
func (h *Held) restartSequence(tid int, regs *registers) {
	var area struct { // struct ptrace_rseq_configuration of <linux/ptrace.h>
		addr            uint64
		size, signature uint32
		flags, _        uint32
	}
	if ptrace(unix.PTRACE_GET_RSEQ_CONFIGURATION, tid, unsafe.Sizeof(area), uintptr(unsafe.Pointer(&area))) != nil || area.addr == 0 {
		return
	}
	// struct rseq of <linux/rseq.h> has the address of a struct rseq_cs at 8:
	// version u32, flags u32, start u64, length u64, where it is begun anew u64
	var b [32]byte
	if _, err := h.p.ReadAt(b[:8], int64(area.addr+8)); err != nil {
		return
	}
	word := binary.NativeEndian.Uint64
	sequence := word(b[:])
	if sequence == 0 {
		return
	}
	if _, err := h.p.ReadAt(b[:], int64(sequence)); err != nil {
		return
	}
	if *regs.pc()-word(b[8:]) < word(b[16:]) {
		*regs.pc() = word(b[24:])
	}
}

func sigmask(request, tid int, mask *uint64) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), 8, uintptr(unsafe.Pointer(mask)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// run lets a thread run up to the next trap.
func (h *Held) run(tid, request int, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for signal := 0; ; {
		if err := ptrace(request, tid, 0, uintptr(signal)); err != nil {
			return h.p.failed("run a thread", errors.Unwrap(err))
		}
		status, err := h.waitStopped(tid, deadline)
		if err != nil {
			return err
		}
		if status.StopSignal() == unix.SIGTRAP && !isEventStop(status) {
			return nil
		}
		signal = passedOn(status)
	}
}

// waitStopped waits until a thread that runs has stopped; after the deadline it
// is stopped by force.
func (h *Held) waitStopped(tid int, deadline time.Time) (status unix.WaitStatus, err error) {
	late := false
	for pause := time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		got, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil, got == tid && !status.Stopped():
			delete(h.s.threads, tid)
			return status, ErrExited
		case got == tid && int(status)>>16 == unix.PTRACE_EVENT_EXIT:
			return status, ErrExited
		case got == tid && late:
			return status, ErrStuck
		case got == tid:
			return status, nil
		case !late && time.Now().After(deadline):
			late = true
			if err := unix.PtraceInterrupt(tid); err != nil {
				return status, os.NewSyscallError("interrupt", err)
			}
		}
		time.Sleep(pause)
	}
}

// registersOf reads registers of a kind, of at most so many bytes.
func registersOf(tid int, kind uintptr, room int) ([]byte, error) {
	b := make([]byte, room)
	v := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	if err := ptrace(unix.PTRACE_GETREGSET, tid, kind, uintptr(unsafe.Pointer(&v))); err != nil {
		return nil, err
	}
	return b[:v.Len], nil
}

func setRegisterSet(tid int, kind uintptr, b []byte) error {
	v := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	return ptrace(unix.PTRACE_SETREGSET, tid, kind, uintptr(unsafe.Pointer(&v)))
}

// syscallInstruction finds one in the code that the kernel gives to every
// process, or in any other.
func (h *Held) syscallInstruction() (uint64, error) {
	maps, _, err := h.p.Maps()
	if err != nil {
		return 0, err
	}
	for _, vdso := range []bool{true, false} {
		for _, m := range maps {
			if (m.Path == "[vdso]") != vdso {
				continue
			}
			if i := indexCode(h.p.code(m), callCode); i >= 0 {
				return m.Start + uint64(i), nil
			}
		}
	}
	return 0, fmt.Errorf("process %d: no system call instruction found", h.p.PID)
}

// code returns the code of a mapping, nil if there is none or it cannot be read.
func (p *Process) code(m Mapping) []byte {
	if !m.Exec || !m.Read || m.Path == "[vsyscall]" {
		return nil
	}
	b := make([]byte, min(m.End-m.Start, 1<<22))
	if _, err := p.ReadAt(b, int64(m.Start)); err != nil {
		return nil
	}
	return b
}

// indexCode finds instructions.
func indexCode(b, code []byte) int {
	for from := 0; ; {
		i := bytes.Index(b[from:], code)
		if i < 0 {
			return -1
		}
		if from += i; from%codeAlign == 0 {
			return from
		}
		from++
	}
}
