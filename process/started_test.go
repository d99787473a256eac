//go:build linux

package process

import (
	"os"
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

// TestHasChildren: a thread that has started a process is not one that waits for whatever ends.
func TestHasChildren(t *testing.T) {
	onThread(func() bool { return isFirstThread() || hasChildren() }, func() bool {
		cmd := exec.Command("cat")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Error(err)
			return false
		}
		if _, err := os.Stat("/proc/thread-self/children"); err == nil && !hasChildren() {
			t.Error("a process that was started is not seen")
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if hasChildren() {
			t.Error("a process that has ended is seen")
		}
		return false
	})
}
