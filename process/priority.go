//go:build linux

package process

import (
	"os"
	"runtime/debug"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// raised are our own threads whose priority is raised just now, and what it was.
var raised struct {
	sync.Mutex
	users     int
	before    map[int]*unix.SchedAttr
	collected int // percentage at which garbage is collected
}

// runFirst has footfall run before others, where it may, and collect no garbage, until the
// function that it returns is called. While a program stands still each thread that is to stop, or
// has just been let go, may take the processor from us; of a program with thousands of threads that are busy
// those which have stopped wait for the others, and these for us, who would get as
// much time as each of them: 19 s for 2,000. It is all our threads since Go moves goroutines
// between them. The nice value is enough; with a real-time policy our threads would wait for
// each other, busily, while others of ours and of the whole machine that could end that get no processor.
// The one that traces may have such a policy (urgently).
func runFirst() (ended func()) {
	raised.Lock()
	defer raised.Unlock()
	if raised.users++; raised.users == 1 {
		raised.collected = debug.SetGCPercent(-1) // waits until a collection that has begun has ended
		raised.before = make(map[int]*unix.SchedAttr)
		first := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: -20, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
		for _, tid := range ownThreads() {
			before, err := unix.SchedGetAttr(tid, 0)
			if err == nil && before.Policy == unix.SCHED_NORMAL && unix.SchedSetAttr(tid, &first, 0) == nil {
				raised.before[tid] = before
			}
		}
	}
	return func() {
		raised.Lock()
		defer raised.Unlock()
		if raised.users--; raised.users == 0 {
			for tid, before := range raised.before {
				_ = unix.SchedSetAttr(tid, before, 0)
			}
			debug.SetGCPercent(raised.collected)
		}
	}
}

// realTime is the policy of threads for which a stopped program waits. They take very little time: of each moment in which
// they wait themselves others have the processor.
func realTime() unix.SchedAttr {
	return unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
}

// urgently has the calling thread run before all threads without real-time policy, where it may, until the
// function that it returns is called. A nice value does that among threads of the same session only, where the
// kernel divides time between sessions first (autogroup).
func urgently() (ended func()) {
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil || before.Policy != unix.SCHED_NORMAL {
		return func() {}
	}
	urgent := realTime()
	urgent.Flags = unix.SCHED_FLAG_RESET_ON_FORK
	if unix.SchedSetAttr(0, &urgent, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetAttr(0, before, 0) }
}

func ownThreads() (tids []int) {
	names, _ := os.ReadDir("/proc/self/task")
	for _, name := range names {
		if tid, err := strconv.Atoi(name.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}
