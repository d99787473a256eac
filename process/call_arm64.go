//go:build linux

package process

import "golang.org/x/sys/unix"

// quietCalls are system calls in which no thread holds a lock of the memory
// allocator or of the unwinder. restart_syscall continues waits that end by
// themselves, which those for a lock do not.
var quietCalls = []int64{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_NANOSLEEP, unix.SYS_ACCEPT,
	unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_SENDTO, unix.SYS_WAIT4, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_PSELECT6,
	unix.SYS_PPOLL, unix.SYS_EPOLL_PWAIT, unix.SYS_ACCEPT4, unix.SYS_RECVMMSG, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_GETTID, unix.SYS_GETPID,
	unix.SYS_RESTART_SYSCALL,
}
