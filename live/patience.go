package live

import (
	"fmt"
	"sync"
	"time"

	"footfall/proc"
)

// Patience is how long one of many processes is looked at. To read memory can
// take for ever: a program may handle its own page faults (userfaultfd), or run
// from a file system that does not answer.
const Patience = 5 * time.Second

// A StuckError tells that a process could not be looked at within [Patience].
type StuckError struct {
	PID  int
	Name string
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("process %d (%s): its memory or its files cannot be read within %v: it is left out", e.PID, e.Name, Patience)
}

// stuck are the processes that somebody still waits for. They are not looked at
// again meanwhile: each look keeps a thread of ours.
var stuck sync.Map // by pid

// OpenPatiently is [Open] for one of many processes.
func OpenPatiently(pid int) (*Process, error) {
	return patiently(pid, func() (*Process, error) { return Open(pid) }, func(p *Process) { p.Close() })
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

// patiently returns what do returns, and goes on without it if that takes too
// long; drop then gets it.
func patiently[T any](pid int, do func() (T, error), drop func(T)) (value T, err error) {
	type answer struct {
		value T
		err   error
	}
	if _, waiting := stuck.Load(pid); waiting {
		return value, &StuckError{pid, proc.NameOf(pid)}
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
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-timer.C:
		stuck.Store(pid, true)
		close(given)
		return value, &StuckError{pid, proc.NameOf(pid)}
	}
}
