//go:build linux && (amd64 || arm64)

package process

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
var ErrBusy = errors.New("all threads are about to handle signals, or divert their system calls")

// SystemCall lets a thread make a system call. It goes over an instruction
// that the process has anyway; no code is written.
func (h *Held) SystemCall(number uintptr, args ...uint64) (uint64, error) {
	return h.systemCallWith(nil, number, func(uint64) []uint64 { return args })
}

// systemCallWith is SystemCall with memory, whose address args gets.
func (h *Held) systemCallWith(memory []byte, number uintptr, args func(at uint64) []uint64) (result uint64, err error) {
	err = h.InjectCalls(func() error {
		result, err = h.injector.systemCall(memory, number, args)
		return err
	})
	return result, err
}

// InjectCalls lets do make system calls, all of which are injected into the same thread. Meanwhile its
// registers are not those of the program.
func (h *Held) InjectCalls(do func() error) error {
	if h.injector != nil {
		return do()
	}
	tid := h.anyIdle()
	if tid == 0 {
		return ErrBusy
	}
	return h.injectCalls(tid, 0, do)
}

// ErrNoRoom is returned if what a thread does does not fit into memory; it still does that.
var ErrNoRoom = errors.New("there is not enough room for the state of a thread")

// InjectCallsAlone is InjectCalls, once, while all other threads run on. What lies below the stack of
// the thread may be theirs: what it does is written down in other memory, so many bytes
// that end at an address.
func (h *Held) InjectCallsAlone(end, room uint64, do func() error) error {
	tid := h.anyIdle()
	if tid == 0 {
		return ErrBusy
	}
	saved, err := h.registers(tid)
	if err != nil {
		return err
	}
	if at, frame := rescueFrame(tid, &saved, 0, useful{}, end, nil); frame != nil && end-at > room {
		return ErrNoRoom
	}
	if err := h.ReleaseOthers(tid); err != nil {
		return err
	}
	return h.injectCalls(tid, end, do)
}

// An injector is a thread that makes system calls for us.
type injector struct {
	h      *Held
	tid    int
	regs   registers // before the first
	at     uint64    // of an instruction that makes one
	finds  bool      // it finds back if footfall is killed
	failed error     // why it cannot be used any more
}

// injectCalls has its memory below stack, or if that is 0 below the stack of the thread.
func (h *Held) injectCalls(tid int, stack uint64, do func() error) error {
	var result error
	err := h.inject(tid, forSystemCall, stack, func(regs *registers, r *rescue) (func() error, error) {
		l := &injector{h: h, tid: tid, finds: r != nil}
		if l.finds {
			l.at = h.p.useful.Load().call
		} else {
			var err error
			if l.at, err = h.syscallInstruction(); err != nil {
				return nil, err
			}
		}
		*regs.pc() = l.at
		l.regs = *regs
		if l.finds { // if we are killed before the first it returns at once
			*regs.pc() += uint64(len(callCode))
		}
		return func() error {
			h.injector = l
			defer func() { h.injector = nil }()
			result = do()
			return l.failed
		}, nil
	})
	return cmp.Or(err, result)
}

// systemCall lets the thread make one. memory lies in its stack meanwhile, at the address
// that args gets, and is read back from there.
func (l *injector) systemCall(memory []byte, number uintptr, args func(at uint64) []uint64) (uint64, error) {
	if l.failed != nil {
		return 0, l.failed
	}
	p, regs := l.h.p, l.regs
	place := (*regs.sp() - redZone - uint64(len(memory))) &^ 15
	below := make([]byte, len(memory))
	if len(memory) > 0 {
		if _, err := p.ReadAt(below, int64(place)); err != nil {
			return 0, err
		}
		if _, err := p.WriteAt(memory, int64(place)); err != nil {
			return 0, err
		}
	}
	regs.setSystemCall(uint64(number), args(place))
	result, err := l.run(&regs)
	if err == nil && len(memory) > 0 {
		_, err = p.ReadAt(memory, int64(place))
	}
	if len(memory) > 0 {
		_, writeErr := p.WriteAt(below, int64(place))
		err = cmp.Or(err, writeErr)
	}
	if err == nil && int64(result) < 0 && int64(result) > -4096 {
		err = fmt.Errorf("process %d: %s: %w", p.PID, callName(number), unix.Errno(-int64(result)))
	}
	return result, err
}

// run lets the thread make the system call that is in its registers.
func (l *injector) run(regs *registers) (result uint64, err error) {
	defer func() { l.failed = err }()
	if err := l.h.setRegisters(l.tid, regs); err != nil {
		return 0, err
	}
	if l.finds {
		err = l.h.passSystemCall(l.tid)
	} else {
		err = l.h.run(l.tid, unix.PTRACE_SINGLESTEP, untilDone)
	}
	if err != nil {
		return 0, err
	}
	after, err := l.h.registers(l.tid)
	if err == nil && *after.pc() != l.at+uint64(len(callCode)) {
		err = fmt.Errorf("process %d: a system call for footfall went to %#x", l.h.p.PID, *after.pc())
	}
	return after.result(), err
}

// callName names the system calls that fail where the process has limits.
func callName(number uintptr) string {
	switch number {
	case unix.SYS_MMAP:
		return "mmap"
	case unix.SYS_MPROTECT:
		return "mprotect"
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
	return h.inject(tid, forFunction, stack, func(regs *registers, r *rescue) (func() error, error) {
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

// injection is what a stopped thread is made to run.
type injection int

const (
	forSystemCall injection = iota
	forFunction
)

// exceptSIGSYS are the signals that are blocked in a thread that does something for us. SIGSYS is what one gets that
// diverts its system calls to a handler, by PR_SET_SYSCALL_USER_DISPATCH: if that were blocked the kernel would take the
// handler away. We see it first.
const exceptSIGSYS = ^uint64(1 << (unix.SIGSYS - 1))

// A registerSet is registers that are not in registers, as the kernel has them.
type registerSet struct {
	kind  uintptr
	state []byte
}

// inject lets do change the registers of a stopped thread, lets it run as do says, and
// puts back its registers and its signal mask. While it runs no signal is delivered; they
// wait. Whenever footfall may be killed, the thread is as it was or finds back:
// the order of the steps matters. What is written down lies below stack, or if that is
// 0 below the stack of the thread.
func (h *Held) inject(tid int, kind injection, stack uint64, do func(*registers, *rescue) (run func() error, err error)) (err error) {
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
	var scheduling *unix.SchedAttr
	if kind == forSystemCall && stack == 0 { // all others wait for it
		scheduling = raisable(tid)
	}
	r := h.prepareRescue(tid, &saved, mask, cmp.Or(stack, *saved.sp()), scheduling)
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
	all := exceptSIGSYS
	if err = sigmask(unix.PTRACE_SETSIGMASK, tid, &all); err == nil {
		lower := func() {}
		if scheduling != nil && r != nil { // which from here to where it has its registers back leads to what puts that back
			lower = raise(tid, scheduling)
		}
		if err = run(); err == nil && r != nil {
			err = h.park(tid)
		}
		lower()
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
	deadline := deadlineOf(patience)
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
		if signal, err = h.passedOn(tid, status); err != nil {
			return err
		}
	}
}

// untilDone is a patience that does not end: of system calls that do not wait. The kernel
// wakes us at their end, which is sooner than we would look.
const untilDone = 0

// deadlineOf is when a patience ends, zero if it does not.
func deadlineOf(patience time.Duration) (deadline time.Time) {
	if patience != untilDone {
		deadline = time.Now().Add(patience)
	}
	return deadline
}

// fairTime is how much time on a processor a thread has got when it is not waited for any longer
// though it runs.
const fairTime = 50 * time.Millisecond

// starves tells whether a thread could run, but has got little time to do so since a moment
// when it had got so much. To take it back then would leave what it does half done, with the
// program's locks. One that has just stopped will be waited for at once.
func (h *Held) starves(tid int, before time.Duration) bool {
	b, err := h.p.readFile(fmt.Sprintf("task/%d/stat", tid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" "))
	ran, _ := h.ran(tid)
	return bytes.HasPrefix(state, []byte("t")) || bytes.HasPrefix(state, []byte("R")) && ran-before < fairTime
}

// ran is for how long a thread has been on processors, and for how long it could have run but got none.
func (h *Held) ran(tid int) (ran, without time.Duration) {
	b, err := h.p.readFile(fmt.Sprintf("task/%d/schedstat", tid))
	if err == nil {
		_, _ = fmt.Sscan(string(b), &ran, &without)
	}
	return ran, without
}

// waitStopped waits until a thread that runs has stopped; after the deadline, if it is not
// zero, it is stopped by force, unless it would have run and could not.
func (h *Held) waitStopped(tid int, deadline time.Time) (status unix.WaitStatus, err error) {
	late, options := false, unix.WALL|unix.WNOHANG
	var ran time.Duration
	starved := time.Now().Add(runPatience)
	if deadline.IsZero() {
		options = unix.WALL
	} else {
		ran, _ = h.ran(tid)
	}
	for pause := time.Microsecond; ; pause = min(2*pause, longestPause) {
		got, err := h.p.wait(tid, &status, options)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil, got == tid && !status.Stopped():
			delete(h.s.threads, tid)
			return status, ErrExited
		case got == tid && int(status)>>16 == unix.PTRACE_EVENT_EXIT:
			return status, ErrExited
		case got == tid && late && isEventStop(status): // not one that came before it was interrupted
			return status, ErrStuck
		case got == tid:
			return status, nil
		case !late && time.Now().After(deadline):
			if time.Now().Before(starved) && h.starves(tid, ran) {
				break
			}
			late = true
			if err := unix.PtraceInterrupt(tid); err != nil {
				return status, os.NewSyscallError("interrupt", err)
			}
		}
		sleep(pause)
	}
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
