//go:build linux

package proc

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// AsUser calls do with the rights of the process's user and group on files:
// what it makes belongs to them, what they may not open it may not either. do
// must not leave its goroutine. Without root's rights it is only called.
func (p *Process) AsUser(do func() error) error {
	if os.Geteuid() != 0 {
		return do()
	}
	b, err := p.read("status")
	if err != nil {
		return err
	}
	uid, gid := statusField(b, "Uid"), statusField(b, "Gid")
	if uid == 0 && gid == 0 {
		return do()
	}
	done := make(chan error, 1)
	go func() {
		// The thread is never unlocked: it ends with the goroutine, and its rights
		// with it.
		runtime.LockOSThread()
		done <- as(uid, gid, do)
	}()
	return <-done
}

func as(uid, gid int, do func() error) error {
	// Of the whole process Go would set groups; this is of the thread.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	_ = unix.Setfsgid(gid)
	_ = unix.Setfsuid(uid)
	// They do not tell of failures; asking for none returns what is set.
	if g, _ := unix.SetfsgidRetGid(-1); g != gid {
		return fmt.Errorf("cannot act as group %d", gid)
	}
	if u, _ := unix.SetfsuidRetUid(-1); u != uid {
		return fmt.Errorf("cannot act as user %d", uid)
	}
	return do()
}
