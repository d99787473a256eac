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

// sleeps are instructions in which a program waits without using the processor, and that change no register but
// those that nobody needs where a program or function begins:
//
//	b8 22 00 00 00  mov $34,%eax    pause
//	0f 05           syscall
//	eb f7           jmp             to the first one, after a handler of a signal
var sleeps = map[string][]byte{"amd64": {0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7}}

// Of the auxiliary vector: AT_BASE, where the dynamic linker is, and AT_ENTRY.
const (
	atBase  = 7
	atEntry = 9
)

// StartAtEntry starts a program and keeps it at its ELF entry point, when the dynamic
// linker is done; a static program in its section .init, when libc is ready. The program
// is not stopped, but waits there in a system call, or where a filter of these may be in its way spins in a loop of one
// instruction, so that its threads can be stopped and calls injected as in any other, until release puts the
// instructions and registers back.
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
	e := &beginning{p: p, addr: entry, old: old}
	if err := e.waitUntilThere(); err != nil {
		return nil, nil, err
	}
	return p, e.release, nil
}

// A beginning is where a program is kept.
type beginning struct {
	p    *Process
	addr uint64
	old  []byte // what was there
	// sleeper is the thread that waits in sleeps, 0: it spins. It had the registers when it came.
	sleeper int
	came    registers
}

// waitUntilThere waits until the program has come to where it spins, and has it sleep.
func (e *beginning) waitUntilThere() error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		there := false
		err := e.p.WhileHeld(func(h *Held) error {
			for _, tid := range h.Threads() {
				regs, err := h.registers(tid)
				if err != nil {
					return err
				}
				if *regs.pc() == e.addr && !there {
					there = true
					if err := e.sleep(tid, regs); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil || there {
			return err
		}
	}
	return fmt.Errorf("process %d: it does not come to its beginning", e.p.PID)
}

// sleep has a thread that spins, and is stopped, wait in a system call.
func (e *beginning) sleep(tid int, regs registers) error {
	code := sleeps[runtime.GOARCH]
	status, err := e.p.read("status")
	if code == nil || err != nil || statusField(status, "Seccomp") != 0 {
		return nil
	}
	old := make([]byte, len(code))
	if _, err := e.p.ReadAt(old, int64(e.addr)); err != nil {
		return nil // it is shorter
	}
	if _, err := e.p.WriteAt(code, int64(e.addr)); err != nil {
		return err
	}
	e.old = append(e.old, old[len(e.old):]...)
	e.sleeper, e.came = tid, regs
	return nil
}

// release lets the program begin. A handler of a signal that runs returns first.
func (e *beginning) release() error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		released := false
		err := e.p.WhileHeld(func(h *Held) error {
			if e.sleeper != 0 {
				regs, err := h.registers(e.sleeper)
				if err != nil {
					return err
				}
				if at := *regs.pc(); at < e.addr || at > e.addr+uint64(len(e.old)) {
					return nil
				}
			}
			released = true
			if _, err := e.p.WriteAt(e.old, int64(e.addr)); err != nil || e.sleeper == 0 {
				return err
			}
			regs := e.came.elsewhere()
			return h.setRegisters(e.sleeper, &regs)
		})
		if err != nil || released {
			return err
		}
	}
	return fmt.Errorf("process %d: a handler of a signal does not return to its beginning", e.p.PID)
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
