//go:build linux

package process

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The system calls which end with EINTR when their thread is stopped, though no
// handler of a signal has run: signal(7), "Interruption of system calls and library
// functions by stop signals"; and what is newer.
var (
	brokenWaits = []int64{
		unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP,
		unix.SYS_IO_GETEVENTS, unix.SYS_IO_PGETEVENTS, unix.SYS_IO_URING_ENTER,
	}
	// Of sockets with a timeout (SO_RCVTIMEO, SO_SNDTIMEO).
	brokenSocketWaits = []int64{
		unix.SYS_READ, unix.SYS_READV, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG,
		unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_CONNECT,
	}
)

const (
	restartNoHandler = ^uint64(514 - 1) // -ERESTARTNOHAND, include/linux/errno.h
	userCode32       = 0x23             // the segment of 32-bit code
)

// restartInterrupted lets a stopped thread begin the system call again that it waited in, if
// only the stop has ended that with EINTR. The kernel is told what it tells itself of other calls:
// to begin again unless the handler of a signal is to run first, in which case the call
// ends with EINTR, as always. A timeout begins anew. It tells whether the thread waits in such a call.
func restartInterrupted(tid int) bool {
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &regs) != nil || int64(regs.Rax) != -int64(unix.EINTR) || regs.Cs == userCode32 {
		return false
	}
	call := int64(regs.Orig_rax)
	if !slices.Contains(brokenWaits, call) && !(slices.Contains(brokenSocketWaits, call) && isSocket(tid, regs.Rdi)) {
		return false
	}
	regs.Rax = restartNoHandler
	return unix.PtraceSetRegs(tid, &regs) == nil // else it has been killed
}

// isFragile tells of a system call whether a stop may end it.
func isFragile(call int) bool {
	return slices.Contains(brokenWaits, int64(call)) || slices.Contains(brokenSocketWaits, int64(call))
}

func isSocket(tid int, fd uint64) bool {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, uint32(fd)))
	return err == nil && strings.HasPrefix(name, "socket:")
}

// forkOf tells how a thread has just made a process. The C library's fork does it by the system call fork, or by clone with the
// child's id being stored there.
func forkOf(tid int) Fork {
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &regs) != nil || regs.Cs == userCode32 {
		return Fork{ByLibrary: true}
	}
	switch {
	case regs.Orig_rax == unix.SYS_FORK, regs.Orig_rax == unix.SYS_CLONE && regs.Rdi&unix.CLONE_CHILD_SETTID != 0 && regs.Rsi == 0:
		return Fork{true, regs.Rip, regs.Rsp}
	}
	return Fork{ByLibrary: regs.Orig_rax == unix.SYS_CLONE && regs.Rdi&unix.CLONE_CHILD_SETTID != 0}
}
