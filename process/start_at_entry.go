//go:build linux

package process

import (
	"cmp"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"footfall/binary"
	"footfall/input"
)

// spins are instructions that jump to themselves.
var spins = map[string][]byte{"amd64": {0xeb, 0xfe}, "arm64": {0x00, 0x00, 0x00, 0x14}}

// Of the auxiliary vector: AT_BASE, where the dynamic linker is, and AT_ENTRY.
const (
	atBase  = 7
	atEntry = 9
)

// StartAtEntry starts a program and keeps it at its ELF entry point, when the dynamic
// linker is done; a static program in its section .init, when libc is ready. The program
// is not stopped, but spins there in a loop of one instruction, so that its threads can be
// stopped and calls injected as in any other, until release puts the instruction back.
func StartAtEntry(cmd *exec.Cmd) (p *Process, release func() error, err error) {
	spin := spins[runtime.GOARCH]
	if spin == nil {
		return nil, nil, fmt.Errorf("start a program: only on x86-64 and arm64: %w", errors.ErrUnsupported)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	inheritIgnoredSignals()
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	pid := cmd.Process.Pid
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return nil, nil, os.NewSyscallError("wait", err)
	}
	if !status.Stopped() {
		return nil, nil, ErrExited
	}
	if p, err = Open(pid); err != nil {
		return nil, nil, err
	}
	entry, err := p.entry()
	if err != nil {
		return nil, nil, err
	}
	old := make([]byte, len(spin))
	if _, err := p.ReadAt(old, int64(entry)); err != nil {
		return nil, nil, err
	}
	if _, err := p.WriteAt(spin, int64(entry)); err != nil {
		return nil, nil, err
	}
	if err := unix.PtraceDetach(pid); err != nil {
		return nil, nil, os.NewSyscallError("ptrace", err)
	}
	if err := p.waitAt(entry); err != nil {
		return nil, nil, err
	}
	return p, func() error {
		return p.WhileHeld(func(*Held) error {
			_, err := p.WriteAt(old, int64(entry))
			return err
		})
	}, nil
}

// entry is where the program's own code begins.
func (p *Process) entry() (uint64, error) {
	entry, static, err := p.auxiliaryEntry()
	if err != nil || !static {
		return entry, err
	}
	return cmp.Or(p.initCode(entry), entry), nil
}

// auxiliaryEntry is the address of the program's first instruction, and whether it
// has no dynamic linker.
func (p *Process) auxiliaryEntry() (entry uint64, static bool, err error) {
	b, err := p.read("auxv")
	if err != nil {
		return 0, false, err
	}
	if f, e, err := p.openProgram(); err == nil {
		f.Close()
		if e.PointerSize() == 4 {
			return 0, false, fmt.Errorf("process %d: a 32-bit program cannot be traced from its beginning: start it, and trace it then", p.PID)
		}
	}
	static = true
	for ; len(b) >= 16; b = b[16:] {
		value := encoding.LittleEndian.Uint64(b[8:])
		switch encoding.LittleEndian.Uint64(b) {
		case atBase:
			static = value == 0
		case atEntry:
			entry = value
		}
	}
	if entry == 0 {
		return 0, false, fmt.Errorf("process %d: where it begins is not known", p.PID)
	}
	return entry, static, nil
}

// initCode returns where the program's section .init is, which libc calls before
// the constructors; 0 if it has none. Before, a static program has no thread
// pointer, and its functions of the CPU's kind are not chosen yet.
func (p *Process) initCode(entry uint64) uint64 {
	f, e, err := p.openProgram()
	if err != nil {
		return 0
	}
	defer f.Close()
	if addr, _, ok := e.Section(".init"); ok && e.IsExecutable(addr) {
		return addr + entry - e.Entry()
	}
	return 0
}

// openProgram opens the file that the process runs, which is to be closed.
func (p *Process) openProgram() (*os.File, *binary.File, error) {
	f, err := input.Open(fmt.Sprintf("/proc/%d/exe", p.PID))
	if err != nil {
		return nil, nil, err
	}
	e, err := binary.Open(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, e, nil
}

// waitAt waits until the program has come to an address.
func (p *Process) waitAt(addr uint64) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		there := false
		err := p.WhileHeld(func(h *Held) error {
			for _, tid := range h.Threads() {
				pc, err := h.PC(tid)
				if err != nil {
					return err
				}
				there = there || pc == addr
			}
			return nil
		})
		if err != nil || there {
			return err
		}
	}
	return fmt.Errorf("process %d: it does not come to its beginning", p.PID)
}
