//go:build linux

package process

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process/needs"
	"footfall/process/processtest"
)

// TestStartAtEntry keeps programs at their beginning, where a timer of a library interrupts them again and again,
// and has them make system calls there: they wait without using the processor, and then do as they always do.
func TestStartAtEntry(t *testing.T) {
	const source = `
#include <stdio.h>
int main(int n, char **v) { printf("%d %s\n", n, v[1]); return 0; }`
	const timer = `
#include <signal.h>
#include <sys/time.h>
static void tick(int s) {}
__attribute__((constructor)) static void begin(void) {
	struct sigaction a = {.sa_handler = tick, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 500}, {0, 500}};
	sigaction(SIGALRM, &a, 0);
	setitimer(ITIMER_REAL, &often, 0);
}`
	library := processtest.Compile(t, timer, "-shared", "-fPIC")
	for _, flags := range [][]string{nil, {"-static"}, {"-no-pie"}} {
		program := processtest.Compile(t, source, flags...)
		for _, preload := range []string{"", library} {
			cmd := exec.Command(program, "argument")
			if preload != "" {
				cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload)
			}
			var out bytes.Buffer
			cmd.Stdout = &out
			p, release, err := StartAtEntry(cmd)
			if errors.Is(err, os.ErrPermission) {
				needs.Skip(t, needs.Ptrace, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			sleeps := false
			for end := time.Now().Add(10 * time.Second); !sleeps && time.Now().Before(end); time.Sleep(time.Millisecond) {
				sleeps = p.Sleeps()
			}
			if status, err := p.read("status"); !sleeps && runtime.GOARCH == "amd64" && err == nil && statusField(status, "Seccomp") == 0 {
				t.Error("it does not sleep")
			}
			for range 5 {
				p.PrepareSystemCalls()
				err := p.WhileHeld(func(h *Held) error {
					pid, err := h.SystemCall(unix.SYS_GETPID)
					if err == nil && pid != uint64(p.PID) {
						t.Errorf("it is process %d, and says %d", p.PID, pid)
					}
					return err
				})
				if err != nil && !errors.Is(err, ErrBusy) {
					t.Fatal(err)
				}
			}
			if err := errors.Join(release(), cmd.Wait(), p.Close()); err != nil || out.String() != "2 argument\n" {
				t.Errorf("%q %q: %q, %v", flags, preload, &out, err)
			}
		}
	}
}
