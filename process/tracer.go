//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has what all share that trace: requests of ptrace, which the kernel takes from the thread only
// that traces, and how they wait.

// onTracer starts a goroutine with a thread of its own, since the kernel takes orders
// about a thread from the one only that traces it. It begins with start, whose error is
// returned; if there is none it goes on with trace, which is told when there may be
// stops, and closes done at its end.
func onTracer(done chan<- struct{}, start func() error, trace func(stops <-chan os.Signal)) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		stops := make(chan os.Signal, 1)
		signal.Notify(stops, unix.SIGCHLD)
		defer signal.Stop(stops)
		err := start()
		started <- err
		if err == nil {
			trace(stops)
		}
	}()
	return <-started
}

// onOwnThread calls do on a thread that nobody else uses, which ends with it if do says so.
// The first thread of a process does not end: Go parks it, and what it traces would be stopped,
// or be a zombie, as long as footfall runs.
func onOwnThread(do func() (ends bool)) {
	onThread(isFirstThread, do)
}

func isFirstThread() bool { return unix.Gettid() == unix.Getpid() }

// onThread is onOwnThread, on one that is not unfit.
func onThread(unfit func() bool, do func() (ends bool)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // if it is not unlocked the thread ends with the goroutine
		if unfit() {
			onThread(unfit, do) // another one, as this one is taken
			runtime.UnlockOSThread()
			return
		}
		if !do() {
			runtime.UnlockOSThread()
		}
	}()
	<-done
}

// hasChildren tells whether this thread has started processes that nobody has waited for yet: it would learn of their ends when it
// waits for whatever it traces, and who started them would not.
func hasChildren() bool {
	b, err := os.ReadFile("/proc/thread-self/children")
	return err == nil && len(b) > 0
}

// startSeized starts a program, with options of ptrace; it is stopped and has not
// run yet.
func startSeized(cmd *exec.Cmd, options uintptr) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	inheritIgnoredSignals()
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := takeOver(cmd.Process.Pid, options); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return nil
}

// takeOver goes on from the stop at the program's exec: such a tracer cannot
// interrupt threads. The program is given a signal to stop in the instant in which
// it is let go, and seized there.
func takeOver(pid int, options uintptr) error {
	var status unix.WaitStatus
	if err := waitFor(pid, &status); err != nil {
		return err
	}
	if !status.Stopped() {
		return errors.New("it ended at once")
	}
	if err := ptrace(unix.PTRACE_DETACH, pid, 0, uintptr(unix.SIGSTOP)); err != nil {
		return err
	}
	if err := ptrace(unix.PTRACE_SEIZE, pid, 0, options); err != nil {
		return err
	}
	if err := waitFor(pid, &status); err != nil {
		return err
	}
	if !status.Stopped() {
		return errors.New("it ended at once")
	}
	return unix.Kill(pid, unix.SIGCONT)
}

// ptrace makes a request that x/sys has no function for. What addr and data point to is on the heap: a stack may move.
//
//go:uintptrescapes
func ptrace(request, tid int, addr, data uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), addr, data, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("ptrace", errno)
	}
	return nil
}

func waitFor(tid int, status *unix.WaitStatus) error {
	for {
		if _, err := unix.Wait4(tid, status, unix.WALL, nil); err != unix.EINTR {
			return err
		}
	}
}

// wait is wait4 for a thread of the process, but leaves the exit status of one that we have started to
// who waits for it. Then status tells of an end, with status 0.
func (p *Process) wait(tid int, status *unix.WaitStatus, options int) (got int, err error) {
	if tid == p.PID && p.isChild() {
		return waitForChild(tid, status, options)
	}
	for end := time.Now().Add(waitAwake); ; sleep(firstPause) {
		// As in sleep.
		tracee, _, errno := unix.RawSyscall6(unix.SYS_WAIT4, uintptr(tid), uintptr(unsafe.Pointer(status)), uintptr(options|unix.WNOHANG), 0, 0, 0)
		switch {
		case errno != 0:
			return -1, errno
		case tracee != 0 || options&unix.WNOHANG != 0:
			return int(tracee), nil
		case time.Now().After(end): // all other goroutines of ours run on
			return unix.Wait4(tid, status, options, nil)
		}
	}
}

// isChild tells whether we have started the process.
func (p *Process) isChild() bool {
	p.childOnce.Do(func() {
		parent, err := parentOf(p.PID)
		p.child = err == nil && parent == os.Getpid()
	})
	return p.child
}

// waitForChild is wait for one that we have started. It takes note of stops only: a process that is told of as stopped, or as running,
// may have ended by the time it is asked for again.
func waitForChild(pid int, status *unix.WaitStatus, options int) (got int, err error) {
	for {
		info, err := waitID(unix.P_PID, pid, options&unix.WNOHANG|unix.WNOWAIT|unix.WEXITED)
		if err == nil && info.pid != 0 && !info.exited() {
			if info, err = waitID(unix.P_PID, pid, unix.WNOHANG); err == nil && info.pid == 0 {
				continue // it has ended meanwhile
			}
		}
		switch {
		case err != nil:
			return -1, err
		case info.exited():
			*status = 0
		case info.pid != 0:
			*status = unix.WaitStatus(info.status<<8 | 0x7f) // as wait4 has it
		}
		return int(info.pid), nil
	}
}

// waitAwake is for how long our thread keeps its processor of Go's scheduler when it waits: mostly that is enough.
const waitAwake = 2 * time.Millisecond

// peek looks for a thread that has stopped or ended, or without WNOHANG waits for one, without taking note of it;
// 0: there is none.
func peek(kind, id, options int) (tid int, exited bool) {
	info, err := waitID(kind, id, options|unix.WEXITED|unix.WNOWAIT)
	if err != nil {
		return 0, false
	}
	return int(info.pid), info.exited()
}

// A childInfo is what siginfo_t has of a child.
type childInfo struct {
	signal, errno, code, _ int32
	pid                    int32 // 0: there is none
	uid                    uint32
	status                 int32
}

// exited tells whether it has ended.
func (i *childInfo) exited() bool {
	const childExited, childDumped = 1, 3
	return i.code >= childExited && i.code <= childDumped
}

// waitID is waitid for a thread that has stopped or, with WEXITED, ended.
func waitID(kind, id, options int) (childInfo, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(kind, id, &info, options|unix.WSTOPPED|unix.WALL|unix.WNOTHREAD, nil)
		if err != unix.EINTR {
			return *(*childInfo)(unsafe.Pointer(&info)), err
		}
	}
}

// isEventStop tells a stop that we asked for from one for a signal, which
// would be lost if it were not passed on.
func isEventStop(status unix.WaitStatus) bool {
	return uint32(status)>>16 != 0
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
