//go:build linux && (amd64 || arm64)

package process

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// This file has a thread of another process, which does something for us while all others stand still, run before others.

// raisable returns how a thread of another process is scheduled, nil if that is not to be changed for a
// moment: if we may not, if it is real-time already, or if it would not be put back as it was, as the slack of timers that it
// has chosen, which a real-time thread loses.
func raisable(tid int) *unix.SchedAttr {
	if !rescueCalms {
		return nil
	}
	const usualSlack = "50000\n"
	slack, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/timerslack_ns")
	if err != nil || string(slack) != usualSlack {
		return nil
	}
	attr, err := unix.SchedGetAttr(tid, 0)
	own, ownErr := unix.SchedGetAttr(unix.Getpid(), 0)
	if err != nil || ownErr != nil || attr.Runtime != own.Runtime {
		return nil // it has chosen how long it runs at a time; usually it is zero, or that of the system
	}
	switch attr.Policy {
	case unix.SCHED_NORMAL, unix.SCHED_BATCH, unix.SCHED_IDLE:
		attr.Runtime = 0
		return attr
	}
	return nil
}

// raise has a thread of another process run before all without real-time policy until the function that it
// returns is called: before is how it is to be scheduled then. If somebody else changes that meanwhile, it stays so.
func raise(tid int, before *unix.SchedAttr) (ended func()) {
	raised := realTime()
	raised.Flags = before.Flags
	if unix.SchedSetAttr(tid, &raised, 0) != nil {
		return func() {}
	}
	return func() {
		now, err := unix.SchedGetAttr(tid, 0)
		if err == nil && now.Policy == raised.Policy && now.Priority == raised.Priority {
			_ = unix.SchedSetAttr(tid, before, 0)
		}
	}
}
