//go:build linux

package process

import (
	"os/exec"
	"strings"
	"testing"

	"footfall/process/processtest"
)

// started compiles a program of C and starts it; it has written the first line then.
func started(t *testing.T, source string, flags ...string) (p *Process, line string) {
	t.Helper()
	program := processtest.Start(t, exec.Command(processtest.Compile(t, source, append(flags, "-O1")...)))
	line = program.Line()
	p, err := Open(program.Pid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	needStopping(t, p)
	return p, strings.TrimSpace(line)
}
