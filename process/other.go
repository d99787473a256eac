//go:build !linux

// Package process is a running process: of another system than Linux nothing is known.
package process

import (
	"errors"
	"os"

	"footfall/input"
)

// ErrLinux is that this can only be done on Linux.
var ErrLinux = errors.New("needs Linux: there programs can be looked into while they run")

// A Process is an open process, of which there are none.
type Process struct{ PID int }

// A Mapping is a part of the memory of a process.
type Mapping struct {
	Start, End, Offset uint64
	Read, Write, Exec  bool
	Inode              uint64
	Device, Path       string
	Deleted            bool
}

// Maps are the mappings of a process by ascending address.
type Maps []Mapping

// Open fails.
func Open(int) (*Process, error) { return nil, ErrLinux }

// Close does nothing.
func (p *Process) Close() error { return nil }

// Maps fails.
func (p *Process) Maps() (Maps, []byte, error) { return nil, nil, ErrLinux }

// ReadAt fails.
func (p *Process) ReadAt([]byte, int64) (int, error) { return 0, ErrLinux }

// OwnPID fails.
func (p *Process) OwnPID() (int, error) { return 0, ErrLinux }

// OpenInRoot fails.
func (p *Process) OpenInRoot(string) (*os.File, error) { return nil, ErrLinux }

// User fails.
func (p *Process) User() (input.User, error) { return input.User{}, ErrLinux }

// ThreadNames knows no threads.
func ThreadNames(int) map[int]string { return nil }

// KernelRelease is not known.
func KernelRelease() string { return "" }
