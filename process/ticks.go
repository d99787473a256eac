//go:build linux

package process

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ticks interrupt a thread that waits in the kernel, by wakeSignal. They are for one that waits again and again where [calmMonitor]
// may not help: Go's monitor
// takes away the right to run Go code from a thread that is in the kernel and whose goroutine was not scheduled for 10 ms,
// and then looks every 20 µs whether there is more to take. With each look it interrupts whoever runs, and all looks together
// took as long as what the thread did.
type ticks struct {
	timer   int32 // the kernel's
	thread  int
	without bool // the kernel has none for us
	running bool
	stop    chan struct{}
}

const tickEach = 8 * time.Millisecond

// newTicks makes ticks of a thread, that do not run.
func newTicks(tid int) ticks {
	const threadID = 4 // SIGEV_THREAD_ID
	event := struct {  // struct sigevent of <asm-generic/siginfo.h>
		value          uint64
		signal, notify int32
		thread         int32
		_              [44]byte
	}{signal: int32(wakeSignal), notify: threadID, thread: int32(tid)}
	t := ticks{thread: tid}
	_, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&t.timer)))
	t.without = errno != 0 // of signals that wait there is a limit for each user
	return t
}

// run has them run, or not.
func (t *ticks) run(running bool) {
	if t.running == running {
		return
	}
	t.running = running
	switch {
	case !t.without:
		var each unix.ItimerSpec
		if running {
			each.Value = unix.NsecToTimespec(int64(tickEach))
			each.Interval = each.Value
		}
		_, _, _ = unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(t.timer), 0, uintptr(unsafe.Pointer(&each)), 0, 0, 0)
	case running:
		t.stop = make(chan struct{})
		go tickUntil(t.stop, t.thread)
	default:
		close(t.stop)
	}
}

func tickUntil(stop <-chan struct{}, tid int) {
	ticker := time.NewTicker(tickEach)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = unix.Tgkill(unix.Getpid(), tid, wakeSignal)
		case <-stop:
			return
		}
	}
}

func (t *ticks) close() {
	t.run(false)
	if !t.without {
		_, _, _ = unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(t.timer), 0, 0)
	}
}
