package proc

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// systemCall has a stopped thread make a system call, which takes no longer than
// a step of the processor; signals wait meanwhile.
func (t *tracee) systemCall(number uintptr, args ...uint64) (result uint64, err error) {
	p := t.process.open
	held := &Held{p, &stopper{p: p, threads: map[int]*stopped{t.tid: {stopped: true}}}}
	at, err := held.syscallInstruction()
	if err != nil {
		return 0, err
	}
	saved, err := held.registers(t.tid)
	if err != nil {
		return 0, err
	}
	var mask uint64
	all := ^uint64(0)
	if err := errors.Join(sigmask(unix.PTRACE_GETSIGMASK, t.tid, &mask), sigmask(unix.PTRACE_SETSIGMASK, t.tid, &all)); err != nil {
		return 0, err
	}
	regs := saved
	regs.Rip, regs.Rax, regs.Orig_rax = at, uint64(number), ^uint64(0)
	for i, place := range []*uint64{&regs.Rdi, &regs.Rsi, &regs.Rdx, &regs.R10} {
		if i < len(args) {
			*place = args[i]
		}
	}
	if err = held.setRegisters(t.tid, &regs); err == nil {
		err = held.run(t.tid, unix.PTRACE_SINGLESTEP, time.Second)
	}
	after, readErr := held.registers(t.tid)
	err = errors.Join(err, readErr, held.setRegisters(t.tid, &saved), sigmask(unix.PTRACE_SETSIGMASK, t.tid, &mask))
	if err == nil && int64(after.Rax) < 0 {
		err = unix.Errno(-int64(after.Rax))
	}
	return after.Rax, err
}
