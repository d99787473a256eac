//go:build linux && !amd64

package proc

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

var errX86 = fmt.Errorf("registers of other processes: only on x86-64: %w", errors.ErrUnsupported)

// PC is known on x86-64 only, as are the following.
func (h *Held) PC(int) (uint64, error) { return 0, errX86 }

// SetPC is for x86-64.
func (h *Held) SetPC(int, uint64) error { return errX86 }

// ThreadPointer is for x86-64.
func (h *Held) ThreadPointer(int) (uint64, error) { return 0, errX86 }

// StackPointer is for x86-64.
func (h *Held) StackPointer(int) (uint64, error) { return 0, errX86 }

// InSystemCall is for x86-64.
func (h *Held) InSystemCall(int) int64 { return -1 }

// SystemCall is for x86-64.
func (h *Held) SystemCall(uintptr, ...uint64) (uint64, error) { return 0, errX86 }

// Call is for x86-64.
func (h *Held) Call(int, uint64, uint64, time.Duration, ...uint64) error { return errX86 }

// RunUntil is for x86-64.
func (h *Held) RunUntil(int, time.Duration, func() bool) error { return errX86 }

// CallSafely is for x86-64.
func (p *Process) CallSafely(uint64, uint64, uint64) error { return errX86 }
