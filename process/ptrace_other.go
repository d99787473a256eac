//go:build linux && !amd64 && !arm64

package process

import (
	"errors"
	"fmt"
	"time"
)

// ErrBusy, ErrStuck and ErrNoRoom are of machines where threads can be made to work for us.
var (
	ErrBusy   = errors.New("all threads are about to handle signals, or divert their system calls")
	ErrStuck  = errors.New("the call did not return")
	ErrNoRoom = errors.New("there is not enough room for the state of a thread")
)

// An injector is a thread that makes system calls for us: there is none.
type injector struct{}

var errCPU = fmt.Errorf("registers of other processes: only on x86-64 and arm64: %w", errors.ErrUnsupported)

// PC is known on x86-64 and arm64 only, as are the following.
func (h *Held) PC(int) (uint64, error) { return 0, errCPU }

// registers are of x86-64 and arm64.
type registers struct{}

func (r *registers) pc() *uint64         { return new(uint64) }
func (r registers) elsewhere() registers { return r }

func (h *Held) registers(int) (registers, error) { return registers{}, errCPU }

func (h *Held) setRegisters(int, *registers) error { return errCPU }

// SetPC is for x86-64 and arm64.
func (h *Held) SetPC(int, uint64) error { return errCPU }

// ThreadPointer is for x86-64 and arm64.
func (h *Held) ThreadPointer(int) (uint64, error) { return 0, errCPU }

// StackPointer is for x86-64 and arm64.
func (h *Held) StackPointer(int) (uint64, error) { return 0, errCPU }

// InSystemCall is for x86-64 and arm64.
func (h *Held) InSystemCall(int) int64 { return -1 }

// forgets is for x86-64 and arm64.
func (h *Held) forgets(int) bool { return false }

// SystemCall is for x86-64 and arm64.
func (h *Held) SystemCall(uintptr, ...uint64) (uint64, error) { return 0, errCPU }

func (h *Held) systemCallWith([]byte, uintptr, func(uint64) []uint64) (uint64, error) {
	return 0, errCPU
}

// PrepareSystemCalls does nothing.
func (p *Process) PrepareSystemCalls() {}

// InjectCalls is for x86-64 and arm64.
func (h *Held) InjectCalls(func() error) error { return errCPU }

// InjectCallsAlone is for x86-64 and arm64.
func (h *Held) InjectCallsAlone(uint64, uint64, func() error) error { return errCPU }

// StackTops is for x86-64 and arm64.
func (h *Held) StackTops() ([]StackTop, error) { return nil, errCPU }

// Call is for x86-64 and arm64.
func (h *Held) Call(int, uint64, uint64, time.Duration, ...uint64) error { return errCPU }

// RunUntil is for x86-64 and arm64.
func (h *Held) RunUntil(int, time.Duration, func() bool) error { return errCPU }

// CallSafely is for x86-64 and arm64.
func (p *Process) CallSafely(uint64, uint64, ...uint64) error { return errCPU }

// ReturnsFromSignal is for x86-64 and arm64.
func (p *Process) ReturnsFromSignal(uint64) bool { return false }

// vforkCalls are not known here.
var vforkCalls []uintptr
