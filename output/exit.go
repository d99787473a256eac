package output

import "fmt"

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
