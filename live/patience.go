//go:build linux

package live

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"footfall/input"
	"footfall/output"
	"footfall/process"
)

// Patience is how long one of many processes is looked at. To read memory can
// take for ever: a program may handle its own page faults (userfaultfd), or run
// from a file system that does not answer.
const Patience = 5 * time.Second

// A StuckError tells that a process could not be looked at.
type StuckError struct {
	PID    int
	Name   string
	Waited time.Duration // at most Patience
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("process %d (%s): its memory or its files cannot be read within %v: it is left out", e.PID, output.Printable(e.Name), e.Waited.Round(time.Millisecond))
}

// stuck are the processes that somebody still waits for, and how long one has
// waited. They are not looked at again meanwhile: each look keeps a thread of ours.
var stuck sync.Map // by pid: a stuckProcess

type stuckProcess struct {
	uid    uint32
	waited time.Duration
}

// patienceWith is how long a process of a user is looked at: the less the more of
// the same user are stuck, since one who makes a thousand of them means it.
func patienceWith(uid uint32) time.Duration {
	others := 0
	stuck.Range(func(_, p any) bool {
		if p.(stuckProcess).uid == uid {
			others++
		}
		return true
	})
	return Patience / time.Duration(1+others)
}

// uidOf is to whom a process belongs.
func uidOf(pid int) uint32 {
	var st unix.Stat_t
	_ = unix.Stat("/proc/"+strconv.Itoa(pid), &st)
	return st.Uid
}

// OpenPatiently is [Open] for one of many processes.
func OpenPatiently(pid int) (*CountedProcess, error) {
	return patiently(pid, func() (*CountedProcess, error) { return Open(pid) }, func(p *CountedProcess) { p.Close() })
}

// InventoryPatiently returns what counters a process has, and its name.
func InventoryPatiently(pid int) (name string, v Inventory, err error) {
	p, err := OpenPatiently(pid)
	if err != nil {
		return "", v, err
	}
	v, err = patiently(pid, func() (Inventory, error) {
		defer p.Close()
		return p.Inventory(), nil
	}, func(Inventory) {})
	return p.Name, v, err
}

// SnapshotPatiently is [CountedProcess.Snapshot], but for processes that are stuck. It may
// be called again.
func (p *CountedProcess) SnapshotPatiently() ([]Unit, error) {
	return patiently(p.PID, p.Snapshot, func([]Unit) {})
}

// UpdatesPatiently is [CountedProcess.Updates] likewise.
func (p *CountedProcess) UpdatesPatiently() (*Updates, error) {
	return patiently(p.PID, p.Updates, func(*Updates) {})
}

// isStuck tells whether somebody still looks at the process.
func (p *CountedProcess) isStuck() bool {
	_, is := stuck.Load(p.PID)
	return is
}

// patiently returns what do returns, and goes on without it if that takes too
// long; drop then gets it.
func patiently[T any](pid int, do func() (T, error), drop func(T)) (value T, err error) {
	type answer struct {
		value T
		err   error
	}
	if p, waiting := stuck.Load(pid); waiting {
		return value, &StuckError{pid, process.NameOf(pid), p.(stuckProcess).waited}
	}
	answers, given := make(chan answer), make(chan struct{})
	go func() {
		v, err := do()
		select {
		case answers <- answer{v, err}:
		case <-given:
			if err == nil {
				drop(v)
			}
			stuck.Delete(pid)
		}
	}()
	uid := uidOf(pid)
	patience := patienceWith(uid)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for hurried := input.Hurried(); ; {
		select {
		case a := <-answers:
			return a.value, a.err
		case <-hurried:
			hurried, patience = nil, min(patience, input.Moment)
			timer.Reset(patience)
		case <-timer.C:
			stuck.Store(pid, stuckProcess{uid, patience})
			close(given)
			return value, &StuckError{pid, process.NameOf(pid), patience}
		}
	}
}
