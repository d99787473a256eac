//go:build linux && !amd64 && !arm64

package process

import (
	"errors"
	"fmt"
	"time"
)

// ErrBusy and ErrStuck are of machines where threads can be made to work for us.
var (
	ErrBusy  = errors.New("all threads are about to handle signals")
	ErrStuck = errors.New("the call did not return")
)

var errCPU = fmt.Errorf("registers of other processes: only on x86-64 and arm64: %w", errors.ErrUnsupported)

// PC is known on x86-64 and arm64 only, as are the following.
func (h *Held) PC(int) (uint64, error) { return 0, errCPU }

// SetPC is for x86-64 and arm64.
func (h *Held) SetPC(int, uint64) error { return errCPU }

// ThreadPointer is for x86-64 and arm64.
func (h *Held) ThreadPointer(int) (uint64, error) { return 0, errCPU }

// StackPointer is for x86-64 and arm64.
func (h *Held) StackPointer(int) (uint64, error) { return 0, errCPU }

// InSystemCall is for x86-64 and arm64.
func (h *Held) InSystemCall(int) int64 { return -1 }

// SystemCall is for x86-64 and arm64.
func (h *Held) SystemCall(uintptr, ...uint64) (uint64, error) { return 0, errCPU }

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
