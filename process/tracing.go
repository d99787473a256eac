//go:build linux

package process

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A tracing is the loop of a thread that traces: the kernel takes orders from, and tells of stops,
// that thread only.
type tracing struct {
	orders chan func()
	done   chan struct{} // closed when the thread has ended
	waits  atomic.Int32  // the thread, if it waits for stops in the kernel

	closing bool // of the thread
}

func newTracing() tracing {
	return tracing{orders: make(chan func(), 1), done: make(chan struct{})}
}

// loop handles stops and orders until it is closed. collect handles a stop, if there is one.
func (l *tracing) loop(stops <-chan os.Signal, collect func() bool) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !l.closing {
		if collect() {
			select {
			case order := <-l.orders:
				order()
			default:
			}
			continue
		}
		select {
		case <-stops:
		case <-ticker.C:
		case order := <-l.orders:
			order()
		}
	}
}

// wait is loop for who has others stand still at each stop: the kernel wakes this thread itself, in place
// of telling any of ours by a signal. collect waits for a stop and handles it, unless it is
// interrupted; it returns false if there is nobody to wait for.
func (l *tracing) wait(collect func() (traced bool)) {
	wakeable()
	defer withoutStops()()
	l.waits.Store(int32(unix.Gettid()))
	for !l.closing {
		select {
		case order := <-l.orders:
			order()
			continue
		default:
		}
		if !collect() {
			(<-l.orders)()
		}
	}
}

// do has the thread that traces do something; false: it has ended.
func (l *tracing) do(what func()) bool {
	done := make(chan struct{})
	select {
	case l.orders <- func() { what(); close(done) }:
	case <-l.done:
		return false
	}
	// It may just be about to wait, and not be woken.
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		if tid := l.waits.Load(); tid != 0 {
			_ = unix.Tgkill(unix.Getpid(), int(tid), wakeSignal)
		}
		select {
		case <-done:
			return true
		case <-l.done:
			return false
		case <-again.C:
		}
	}
}

// wakeSignal ends the waiting of a thread. Nobody else uses it; Go's handler does nothing with it.
const wakeSignal = unix.Signal(60)

// wakeable has the signal end system calls, which Go has begin again.
var wakeable = sync.OnceFunc(func() {
	const restart = 0x10000000 // SA_RESTART
	changeAction(wakeSignal, func(flags uintptr) uintptr { return flags &^ restart })
})

// quiet are those who trace and wait in the kernel: it need not send SIGCHLD for each stop, for which Go has a handler.
var quiet struct {
	sync.Mutex
	users int
}

// withoutStops has no signal sent for stops until the function that it returns is called. Who uses [onTracer] meanwhile sees them a
// little later.
func withoutStops() (ended func()) {
	const noStops = 1 // SA_NOCLDSTOP
	quiet.Lock()
	defer quiet.Unlock()
	if quiet.users++; quiet.users == 1 {
		changeAction(unix.SIGCHLD, func(flags uintptr) uintptr { return flags | noStops })
	}
	return func() {
		quiet.Lock()
		defer quiet.Unlock()
		if quiet.users--; quiet.users == 0 {
			changeAction(unix.SIGCHLD, func(flags uintptr) uintptr { return flags &^ noStops })
		}
	}
}

// changeAction changes the flags of what is done with a signal.
func changeAction(sig unix.Signal, change func(flags uintptr) uintptr) {
	var action [8]uintptr // handler, flags, ...: asm-generic/signal.h
	const maskSize = 8
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), maskSize, 0, 0); errno != 0 {
		return
	}
	action[1] = change(action[1])
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, maskSize, 0, 0)
}
