//go:build linux

package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// An AccessError tells that the kernel does not let us look into a process,
// and what is needed.
type AccessError struct {
	PID  int
	Need string
}

func (e *AccessError) Error() string {
	return fmt.Sprintf("process %d: not permitted: %s", e.PID, e.Need)
}

// Unwrap makes an AccessError one of fs.ErrPermission.
func (e *AccessError) Unwrap() error { return fs.ErrPermission }

// access tells whether the memory of the process may be read, by opening a
// file that needs the same permission.
func (p *Process) access() error {
	f, err := p.open("maps", unix.O_RDONLY)
	if err != nil {
		return err
	}
	return f.Close()
}

// failed gives an error of the kernel about the process a meaning.
func (p *Process) failed(what string, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, io.EOF) && p.gone(), errors.Is(err, unix.ENOENT) && p.gone():
		return ErrExited
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return &AccessError{p.PID, p.need()}
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("process %d: %s: %w", p.PID, what, err)
}

func (p *Process) gone() bool {
	return errors.Is(unix.Faccessat(int(p.dir.Fd()), "stat", unix.F_OK, 0), unix.ESRCH)
}

// need says what would be needed to be let in.
func (p *Process) need() string {
	const capability = "run footfall as root or with CAP_SYS_PTRACE"
	var st unix.Stat_t
	if uid := os.Geteuid(); uid != 0 && unix.Fstat(int(p.dir.Fd()), &st) == nil && int(st.Uid) != uid {
		return fmt.Sprintf("it belongs to user %d, footfall runs as user %d: %s, or as user %d", st.Uid, uid, capability, st.Uid)
	}
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	switch strings.TrimSpace(string(scope)) {
	case "1", "2":
		return fmt.Sprintf("kernel.yama.ptrace_scope is %s, which allows no process to look into others: %s, or as root: sysctl kernel.yama.ptrace_scope=0", strings.TrimSpace(string(scope)), capability)
	case "3":
		return "kernel.yama.ptrace_scope is 3, which forbids it to everybody until the system is started anew"
	}
	return "the program is set-user-id, has capabilities or is not dumpable, or a container lacks the capability: " + capability
}
