//go:build linux

package process

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// StartStopped starts a program that is stopped in front of its first instruction, that of
// the dynamic linker if it has one, calls ready with its process id, and lets it run. If ready fails, the program is killed.
func StartStopped(cmd *exec.Cmd, ready func(pid int) error) error {
	// The kernel lets the program go on only for the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	inheritIgnoredSignals()
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("start %s: %w", cmd.Path, err)
		}
		break
	}
	if !status.Stopped() {
		return fmt.Errorf("start %s: it ended at once", cmd.Path)
	}
	err := ready(pid)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	if detachErr := unix.PtraceDetach(pid); err == nil && detachErr != nil {
		_ = cmd.Process.Kill()
		err = fmt.Errorf("start %s: %w", cmd.Path, detachErr)
	}
	if err != nil {
		_ = cmd.Wait()
	}
	return err
}
