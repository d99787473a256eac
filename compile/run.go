//go:build linux

package compile

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// A program is one to be run. Os/exec would start threads to write and to read,
// and is initialised too late for package early.
type program struct {
	path  string
	args  []string // its own name first
	env   []string
	input []byte // for its standard input, nil: it has ours
	catch []int  // descriptors whose output is caught; others are ours
	// output is standard output, nil: see catch.
	output *os.File
}

// run returns the exit status and what was caught. Its error means that the
// program did not run.
func (p program) run() (status int, caught []byte, err error) {
	in, out := pipe{-1, -1}, pipe{-1, -1}
	defer in.close()
	defer out.close()
	files := []uintptr{0, 1, 2}
	if p.input != nil {
		if err := in.open(); err != nil {
			return 0, nil, err
		}
		_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, uintptr(in.write), setPipeSize, uintptr(len(p.input))) // fewer turns
		_ = syscall.SetNonblock(in.write, true)
		files[0] = uintptr(in.read)
	}
	if len(p.catch) > 0 {
		if err := out.open(); err != nil {
			return 0, nil, err
		}
		for _, fd := range p.catch {
			files[fd] = uintptr(out.write)
		}
	}
	if p.output != nil {
		files[1] = p.output.Fd()
	}
	pid, err := syscall.ForkExec(p.path, p.args, &syscall.ProcAttr{Env: p.env, Files: files})
	if err != nil {
		return 0, nil, fmt.Errorf("cannot run %s: %w", p.path, err)
	}
	closeEnd(&in.read)
	closeEnd(&out.write)
	caught, err = exchange(&in, p.input, &out)
	in.close()
	var state syscall.WaitStatus
	for {
		_, waitErr := syscall.Wait4(pid, &state, 0, nil)
		if waitErr == syscall.EINTR {
			continue
		}
		if err = errors.Join(err, waitErr); err != nil {
			return 0, nil, fmt.Errorf("%s: %w", p.path, err)
		}
		if state.Signaled() {
			return 1, caught, nil
		}
		return state.ExitStatus(), caught, nil
	}
}

// exchange writes input to one pipe, and returns what is read from the other,
// until the program has closed both. It need not read all of its input.
func exchange(in *pipe, input []byte, out *pipe) (caught []byte, err error) {
	buf := make([]byte, 4096)
	for in.write >= 0 || out.read >= 0 {
		writable, readable, err := poll(in.write, out.read)
		if err != nil {
			return caught, err
		}
		if writable {
			n, err := syscall.Write(in.write, input)
			input = input[max(n, 0):]
			if again := err == syscall.EAGAIN || err == syscall.EINTR; len(input) == 0 || err != nil && !again {
				closeEnd(&in.write)
			}
		}
		if readable {
			n, err := syscall.Read(out.read, buf)
			caught = append(caught, buf[:max(n, 0)]...)
			if n <= 0 && err != syscall.EINTR {
				closeEnd(&out.read)
			}
		}
	}
	return caught, nil
}

// poll waits until one of two descriptors can be used, or is at its end. Negative
// ones never can.
func poll(toWrite, toRead int) (writable, readable bool, err error) {
	const in, out = 1, 4
	type entry struct { // struct pollfd
		fd              int32
		events, happens int16
	}
	fds := [2]entry{{int32(toWrite), out, 0}, {int32(toRead), in, 0}}
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 2, 0, 0, 0, 0)
		runtime.KeepAlive(&fds)
		switch errno {
		case 0:
			return fds[0].happens != 0, fds[1].happens != 0, nil
		case syscall.EINTR:
		default:
			return false, false, os.NewSyscallError("ppoll", errno)
		}
	}
}

// A pipe is its two ends, -1 is closed.
type pipe struct{ read, write int }

const setPipeSize = 1031 // F_SETPIPE_SZ of fcntl

func (p *pipe) open() error {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	p.read, p.write = fds[0], fds[1]
	return nil
}

func (p *pipe) close() {
	closeEnd(&p.read)
	closeEnd(&p.write)
}

func closeEnd(fd *int) {
	if *fd >= 0 {
		_ = syscall.Close(*fd)
	}
	*fd = -1
}

// lookPath finds a program as a shell does, but never in the working directory
// unless its name says so.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return name, nil
	}
	for dir := range strings.SplitSeq(os.Getenv("PATH"), ":") {
		if file := dir + "/" + name; strings.HasPrefix(dir, "/") && executable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: no such program in PATH", name)
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return errors.Unwrap(err)
	case info.IsDir():
		return syscall.EISDIR
	}
	const execute = 1 // X_OK
	return syscall.Access(file, execute)
}
