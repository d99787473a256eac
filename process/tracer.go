//go:build linux

package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
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
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // if it is not unlocked the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			onOwnThread(do) // another thread, as this one is taken
			runtime.UnlockOSThread()
			return
		}
		if !do() {
			runtime.UnlockOSThread()
		}
	}()
	<-done
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
	if tid == p.PID {
		if _, exited := peek(unix.P_PID, tid, options&unix.WNOHANG); exited {
			if parent, err := parentOf(tid); err == nil && parent == os.Getpid() {
				*status = 0
				return tid, nil
			}
		}
	}
	// As in sleep. What we wait for is short.
	tracee, _, errno := unix.RawSyscall6(unix.SYS_WAIT4, uintptr(tid), uintptr(unsafe.Pointer(status)), uintptr(options), 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(tracee), nil
}

// peek looks for a thread that has stopped or ended, or without WNOHANG waits for one, without taking note of it;
// 0: there is none. Siginfo has signo, errno and code, and from byte 16 on pid.
func peek(kind, id, options int) (tid int, exited bool) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(kind, id, &info, options|unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, false
		}
		const childExited, childDumped = 1, 3
		b := (*[32]byte)(unsafe.Pointer(&info))
		return int(int32(binary.NativeEndian.Uint32(b[16:]))), info.Code >= childExited && info.Code <= childDumped
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
