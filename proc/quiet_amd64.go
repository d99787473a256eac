package proc

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// quietCalls are system calls in which no thread holds a lock of the memory
// allocator or of the unwinder.
var quietCalls = []int64{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_PAUSE, unix.SYS_NANOSLEEP, unix.SYS_ACCEPT,
	unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_SENDTO, unix.SYS_WAIT4, unix.SYS_EPOLL_WAIT, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_PSELECT6,
	unix.SYS_PPOLL, unix.SYS_EPOLL_PWAIT, unix.SYS_ACCEPT4, unix.SYS_RECVMMSG, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_GETTID, unix.SYS_GETPID,
}

// CallSafely calls a function with one argument in a thread that waits in a
// quiet system call, or runs code of the program that no library can have
// called. All others run on meanwhile, so that locks are given back.
func (p *Process) CallSafely(function, trap, arg uint64) error {
	deadline := time.Now().Add(5 * time.Second)
	for {
		err := p.WhileHeld(func(h *Held) error {
			for _, tid := range h.Threads() {
				if !h.quiet(tid) {
					continue
				}
				if err := h.ReleaseOthers(tid); err != nil {
					return err
				}
				return h.Call(tid, function, trap, time.Second, arg)
			}
			return ErrBusy
		})
		if !errors.Is(err, ErrBusy) && !errors.Is(err, ErrStuck) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// quiet tells whether the thread may be borrowed.
func (h *Held) quiet(tid int) bool {
	p := h.p
	sp, err := h.StackPointer(tid)
	if err != nil || p.inHandler(sp) {
		return false
	}
	if call := h.InSystemCall(tid); call >= 0 {
		return slices.Contains(quietCalls, call)
	}
	maps, _, err := p.Maps()
	if err != nil {
		return false
	}
	pc, err := h.PC(tid)
	if err != nil {
		return false
	}
	m := maps.At(pc)
	return m != nil && strings.HasPrefix(m.Path, "/") && !runtimeLibrary(m.Path)
}

// runtimeLibrary knows libraries that allocate memory, lock or unwind.
func runtimeLibrary(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	for _, part := range []string{"libc.", "libc-", "ld-", "ld.", "libgcc", "libstdc++", "libc++", "libunwind", "malloc", "libpthread", "libdl", "memfd"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// inHandler tells whether there is a frame of a signal on the stack: its
// handler returns to  mov $15,%rax; syscall  (rt_sigreturn).
func (p *Process) inHandler(sp uint64) bool {
	maps, _, err := p.Maps()
	if err != nil {
		return true
	}
	m := maps.At(sp)
	if m == nil {
		return true
	}
	b := make([]byte, min(m.End-sp&^7, 1<<20))
	if _, err := p.ReadAt(b, int64(sp&^7)); err != nil {
		return true
	}
	code := make([]byte, 9)
	seen := make(map[uint64]bool)
	for ; len(b) >= 8; b = b[8:] {
		v := binary.LittleEndian.Uint64(b)
		if seen[v] {
			continue
		}
		seen[v] = true
		if m := maps.At(v); m == nil || !m.Exec {
			continue
		}
		if _, err := p.ReadAt(code, int64(v)); err == nil && string(code) == "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05" {
			return true
		}
	}
	return false
}
