//go:build linux

package live

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process/processtest"
)

// TestStarting looks at a process before its first instruction, of a program without symbols: nothing is there so far, but that
// does not hold for others, nor later. It may have got no processor for long.
func TestStarting(t *testing.T) {
	for _, name := range []string{"known", "unknown"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "prog.c"), []byte(`
#include <stdio.h>
int main(void)
{
	puts("ready"), fflush(stdout);
	getchar();
}`))
			build(t, dir, "gcc-12", "--coverage", "-w", "-s", "-o", "prog", "prog.c")
			f := NewFamily(func(int) bool { return false })
			defer f.Close()
			member := func(pid int) *member {
				m, err := newMember(pid)
				if err != nil {
					t.Fatal(err)
				}
				m.began = time.Now().Add(-time.Hour)
				f.join(m)
				f.look(m, running)
				return m
			}
			other := run(t, dir, "./prog")
			if name == "known" && len(member(other.Pid()).images) != 1 {
				t.Fatal("it has no counters")
			}
			runtime.LockOSThread() // which traces it
			defer runtime.UnlockOSThread()
			cmd := exec.Command("./prog")
			cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Ptrace: true}
			stopped := processtest.Start(t, cmd)
			var status unix.WaitStatus
			if _, err := unix.Wait4(stopped.Pid(), &status, 0, nil); err != nil || !status.Stopped() {
				t.Fatal(status, err)
			}
			m := member(stopped.Pid())
			if len(m.images) > 0 || m.whole {
				t.Errorf("before it has run: %d images, all found: %v", len(m.images), m.whole)
			}
			if m := member(run(t, dir, "./prog").Pid()); len(m.images) != 1 {
				t.Errorf("another one has %d images", len(m.images))
			}
			if err := unix.PtraceDetach(stopped.Pid()); err != nil {
				t.Fatal(err)
			}
			stopped.Expect("ready")
			if f.look(m, running); len(m.images) != 1 {
				t.Errorf("when it has: %d images", len(m.images))
			}
		})
	}
}
