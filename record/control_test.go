//go:build linux

package record

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"footfall/input"
	"footfall/process"
	"footfall/process/needs"
)

// TestSquattedControl has another user take the name of a trace first: the trace
// takes another one, and who asks for it does not believe the first.
func TestSquattedControl(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "to take a name as another user")
	}
	const nobody = 65534
	program := exec.Command("sleep", "60") // not we: what we show is of a thread that may become the other user
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = program.Process.Kill(), program.Wait() }()
	pid := program.Process.Pid
	listening := make(chan error)
	var squat net.Listener
	go func() {
		// The thread, and with it what it has become, ends with the goroutine.
		runtime.LockOSThread()
		same := ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, nobody, same); errno != 0 {
			listening <- errno
			return
		}
		var err error
		squat, err = net.ListenUnix("unix", &net.UnixAddr{Name: controlName(pid), Net: "unix"})
		listening <- err
	}()
	if err := <-listening; err != nil {
		t.Fatal(err)
	}
	defer squat.Close()

	root := input.User{}
	p, err := process.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if c, err := dialControl(p); err == nil || !strings.Contains(err.Error(), "user 65534 has taken its name") {
		t.Errorf("there is no trace: %v, %v", c, err)
	}
	if all, err := tracers(pid+1<<24, root); err != nil || len(all) > 0 {
		t.Errorf("there is no such name: %v, %v", all, err)
	}
	_, closer, err := serveControl(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	c, err := dialControl(p)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if name := c.RemoteAddr().String(); !strings.HasPrefix(name, controlName(pid)+"/") {
		t.Errorf("connected to %s", name)
	}
}
