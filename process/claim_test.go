//go:build linux

package process

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process/processtest"
)

// TestClaim claims a process that another one has claimed.
func TestClaim(t *testing.T) {
	program := processtest.Start(t, exec.Command("cat"))
	p, err := Open(program.Pid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	needStopping(t, p)
	other := func() *os.File {
		f, err := p.open("mem", unix.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	file := other()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan func())
	go func() {
		release, err := p.Claim()
		if err != nil {
			t.Error(err)
		}
		claimed <- release
	}()
	select {
	case <-claimed:
		t.Fatal("it is claimed twice")
	case <-time.After(50 * time.Millisecond):
	}
	file.Close()
	release := <-claimed
	again, err := p.Claim() // ours
	if err != nil {
		t.Fatal(err)
	}
	again()
	file = other()
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("while it is claimed: %v", err)
	}
	release()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("after release: %v", err)
	}
}
