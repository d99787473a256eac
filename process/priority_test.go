//go:build linux && amd64

package process

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRescueScheduling lets go of a thread that makes system calls for us, as the kernel does if footfall is killed: it
// goes on, and is scheduled as before.
func TestRescueScheduling(t *testing.T) {
	for _, policy := range []string{"SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"} {
		p, line := started(t, `
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
static volatile long rounds;
int main(void)
{
	struct sched_param none = {0};
	setpriority(PRIO_PROCESS, 0, 3);
	sched_setscheduler(0, `+policy+`, &none);
	printf("%p\n", &rounds);
	fflush(stdout);
	alarm(600);
	for (;;) { usleep(1000); rounds++; }
}
`)
		var rounds uint64
		if _, err := fmt.Sscan(line, &rounds); err != nil {
			t.Fatal(err)
		}
		before, err := unix.SchedGetAttr(p.PID, 0)
		if err != nil {
			t.Skip(err)
		}
		scheduling := func() unix.SchedAttr {
			now, err := unix.SchedGetAttr(p.PID, 0)
			if err != nil {
				t.Fatal(err)
			}
			return *now
		}
		// It is raised only where we may, and goes back where we live.
		raised := false
		err = p.WhileHeld(func(h *Held) error {
			return h.InjectCalls(func() error {
				_, err := h.SystemCall(unix.SYS_GETPID)
				raised = scheduling().Policy == unix.SCHED_FIFO
				return err
			})
		})
		if now := scheduling(); err != nil || now != *before {
			t.Fatalf("%v; it is scheduled as %+v, before %+v", err, now, *before)
		}
		if os.Getuid() == 0 && !raised {
			t.Log("it is not raised here")
		}
		err = p.WhileHeld(func(h *Held) error {
			return h.InjectCalls(func() error {
				if _, err := h.SystemCall(unix.SYS_GETPID); err != nil {
					return err
				}
				if err := unix.PtraceDetach(p.PID); err != nil {
					return err
				}
				n := wordAt(t, p, rounds)
				for end := time.Now().Add(time.Minute); wordAt(t, p, rounds) < n+2; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("the thread does not go on")
					}
				}
				return nil
			})
		})
		if err == nil {
			t.Error("that it was let go was not noticed")
		}
		if now := scheduling(); now != *before {
			t.Errorf("after it was let go it is scheduled as %+v, before %+v", now, *before)
		}
	}
}
