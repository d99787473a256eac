package output

import (
	"errors"
	"fmt"
	"syscall"
)

// Exit statuses beside 0 and those that only the command line knows.
const (
	statusFailed = 1 // the work failed
	statusUsage  = 2 // what was asked for makes no sense
)

// An ExitError ends footfall with a status of its own.
type ExitError struct {
	Status int
	Err    error // to be printed; nil: all has been said
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// UsageError marks err as a mistake in what was asked for.
func UsageError(err error) error { return &ExitError{Status: statusUsage, Err: err} }

// ProgramStatus is the exit status of a program that failed, as shells tell it: 128 and the number
// of the signal that it was ended by, if one did. err is what waiting for it has returned; known is
// false if that is nil, or about something else.
func ProgramStatus(err error) (status int, by syscall.Signal, known bool) {
	var exit interface { // *exec.ExitError: without os/exec, which would have the start of a compiler wait for more
		error
		ExitCode() int
		Sys() any
	}
	if !errors.As(err, &exit) {
		return 0, 0, false
	}
	if ended, ok := exit.Sys().(syscall.WaitStatus); ok && ended.Signaled() {
		return 128 + int(ended.Signal()), ended.Signal(), true
	}
	return exit.ExitCode(), 0, true
}
