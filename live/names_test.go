//go:build linux

package live

import (
	"strings"
	"testing"
)

// TestNamesInErrors: the name of a process, which is what it says, neither colours what
// is said nor begins another line.
func TestNamesInErrors(t *testing.T) {
	err := &StuckError{PID: 7, Name: "\x1b[31mevil\nfootfall: all is well"}
	if s := err.Error(); strings.ContainsAny(s, "\x1b\n") || !strings.HasPrefix(s, `process 7 (\x1b[31mevil\x0afootfall`) {
		t.Errorf("%q", s)
	}
}
