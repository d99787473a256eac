//go:build linux && amd64

package process

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process/processtest"
)

// talking starts a program that says more than one line.
func talking(t *testing.T, source string) (*processtest.Program, *Process) {
	t.Helper()
	program := processtest.Start(t, exec.Command(processtest.Compile(t, source, "-O1")))
	p, err := Open(program.Pid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	needStopping(t, p)
	return program, p
}

// TestWorkers stops a program in which a thread of the kernel waits for it (io_uring), and has it make a system call.
// What the thread waits for goes on.
func TestWorkers(t *testing.T) {
	program, p := talking(t, `
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
	struct io_uring_params q = {0};
	int in[2];
	static char got[2];
	alarm(600);
	int fd = syscall(SYS_io_uring_setup, 4, &q);
	if (fd < 0 || pipe(in) || !(q.features & IORING_FEAT_SINGLE_MMAP)) {
		puts("no io_uring here");
		return 0;
	}
	char *ring = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
	struct io_uring_sqe *e = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQES);
	e->opcode = IORING_OP_READ;
	e->flags = IOSQE_ASYNC;
	e->fd = in[0];
	e->addr = (uintptr_t)got;
	e->len = 1;
	((unsigned *)(ring + q.sq_off.array))[0] = 0;
	__atomic_store_n((unsigned *)(ring + q.sq_off.tail), 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, fd, 1, 0, 0, 0, 0);
	usleep(20000);
	puts("ready");
	fflush(stdout);
	for (volatile int *first = (int *)(ring + q.cq_off.head); *(volatile unsigned *)(ring + q.cq_off.tail) == *first;) {
		static int looks;
		if (looks++ == 40)
			write(in[1], "x", 1);
		usleep(50000);
	}
	struct io_uring_cqe *c = (void *)(ring + q.cq_off.cqes);
	puts(c->res == 1 && *got == 'x' ? "right" : "wrong");
	return 0;
}
`)
	if program.Line() != "ready" {
		t.Skip("the system permits no io_uring")
	}
	for range 10 {
		err := p.WhileHeld(func(h *Held) error {
			id, err := h.SystemCall(unix.SYS_GETPID)
			if err == nil && id != uint64(p.PID) {
				err = errors.New("a call was not made")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	program.Expect("right")
}

// TestDiverted has a program make system calls that diverts its own to a handler. While all are diverted none is made,
// and the handler does not notice.
func TestDiverted(t *testing.T) {
	program, p := talking(t, `
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static volatile char diverts;
static volatile int seen;
static void handle(int n) { diverts = 0; seen++; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(void)
{
	alarm(600);
	signal(SIGSYS, handle);
	if (prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, &diverts)) {
		puts("none");
		return 0;
	}
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < 5; i++) {
		int before = seen;
		diverts = 1;
		for (double end = now() + .2; now() < end;)
			;
		if (seen != before)
			return puts("a call was diverted that is not ours");
		getppid();
		if (seen != before + 1)
			return puts("a call was not diverted");
		usleep(50000);
	}
	puts("right");
	return 0;
}
`)
	if program.Line() != "ready" {
		t.Skip("the kernel diverts no system calls")
	}
	made := 0
	for range 600 {
		err := p.WhileHeld(func(h *Held) error {
			_, err := h.SystemCall(unix.SYS_GETPID)
			return err
		})
		if errors.Is(err, ErrExited) {
			break
		}
		if err == nil {
			made++
		} else if !errors.Is(err, ErrBusy) {
			t.Error(err)
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if made == 0 {
		t.Error("no call was made")
	}
	program.Expect("right")
}

// TestFillsMemory looks at programs that fill their own memory, and that do not.
func TestFillsMemory(t *testing.T) {
	for _, flags := range []string{"O_CLOEXEC", "-1"} {
		program, p := talking(t, `
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
	puts(syscall(SYS_userfaultfd, `+flags+`) < 0 ? "none" : "some");
	fflush(stdout);
	alarm(600);
	pause();
}
`)
		if line := program.Line(); p.FillsMemory() != (line == "some") {
			t.Errorf("of a program that has %s: %v", line, p.FillsMemory())
		}
	}
}
