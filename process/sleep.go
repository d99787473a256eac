//go:build linux

package process

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// firstPause and longestPause are how long it is waited at first, and at most, before it is
// looked again, while threads stand still.
const (
	firstPause   = 10 * time.Microsecond
	longestPause = 100 * time.Microsecond
)

// sleep is time.Sleep for moments in which threads stand still. That has another thread
// wake ours, which takes as long as a hundred of our system calls, and longer where others
// wait for a processor. Go's scheduler does not learn of it: it would give others of ours what only one
// of them can have at a time for each processor, and our thread would wait until they, who do not run before all
// others, have had theirs.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0) // it may end early
}

// sleepExactly lets the calling thread sleep no longer than it wants until the function that it
// returns is called: usually the kernel adds up to 50 microseconds.
func sleepExactly() (ended func()) {
	const usual = 0 // of PR_SET_TIMERSLACK
	if unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, usual, 0, 0, 0) }
}
