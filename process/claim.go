//go:build linux

package process

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// claimPatience is how long another footfall is waited for. What it does under a claim takes
// milliseconds, but it may get little time to run, or wait for threads to stop.
const claimPatience = 30 * time.Second

// claims are those that this footfall has, by the process.
var claims = struct {
	sync.Mutex
	all map[int]*claim
}{all: make(map[int]*claim)}

// A claim is a file of the process that is locked; when we end, however, the kernel unlocks it.
type claim struct {
	file *os.File
	n    int
}

// Claim waits until no other footfall is about to begin or end changing the process's code: what each has found
// there would not be so any more when it writes. It is to be given back by release, which is never nil; this footfall
// may claim the same again meanwhile. Others are known that see the process in the same /proc.
func (p *Process) Claim() (release func(), err error) {
	for end := time.Now().Add(claimPatience); ; time.Sleep(time.Millisecond) {
		switch taken, err := p.claim(); {
		case err != nil:
			return func() {}, err
		case taken:
			return p.release, nil
		case time.Now().After(end):
			return func() {}, fmt.Errorf("process %d: another footfall is about to change its code, and does not get done", p.PID)
		}
	}
}

// ClaimNow is Claim for who does not wait: taken is false if another footfall has the claim.
func (p *Process) ClaimNow() (release func(), taken bool, err error) {
	if taken, err = p.claim(); !taken {
		return func() {}, false, err
	}
	return p.release, true, nil
}

// release gives a claim back.
func (p *Process) release() {
	claims.Lock()
	defer claims.Unlock()
	if c := claims.all[p.PID]; c != nil {
		if c.n--; c.n == 0 {
			c.file.Close()
			delete(claims.all, p.PID)
		}
	}
}

func (p *Process) claim() (taken bool, err error) {
	claims.Lock()
	defer claims.Unlock()
	if c := claims.all[p.PID]; c != nil {
		c.n++
		return true, nil
	}
	f, err := p.open("mem", unix.O_RDONLY) // which only who may trace it can open, and so lock
	if err != nil {
		return false, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		claims.all[p.PID] = &claim{f, 1}
		return true, nil
	case unix.EWOULDBLOCK, unix.EINTR:
		f.Close()
		return false, nil
	default:
		f.Close()
		return false, p.failed("lock /proc/PID/mem", err)
	}
}
