//go:build linux && amd64

package process

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRescueWaits lets go of a thread that makes system calls for us while it waits for a time, as the
// kernel does if footfall is killed: its wait is no shorter, and does not end with EINTR.
func TestRescueWaits(t *testing.T) {
	waits := []string{
		"struct timespec s = {0, 300000000}; return nanosleep(&s, &s);",
		"return poll(0, 0, 300);",
		// as libraries do
		`struct timespec s = {0, 300000000}; int w = 0; long r; register struct timespec *t __asm__("r10") = &s;
		__asm__ volatile("movl $202, %%eax; xorl $0, %%esi; syscall" : "=a"(r) : "D"(&w), "S"(FUTEX_WAIT), "d"(0), "r"(t) : "rcx", "r11", "memory");
		return r == -ETIMEDOUT ? 0 : -1;`,
		"struct timeval s = {0, 300000}; return select(0, 0, 0, 0, &s);",
	}
	for i := range 2 * len(waits) {
		wait, again := waits[i/2], i%2 > 0
		p, line := started(t, `
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile long rounds[3];
static long waits(void) { `+wait+` }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(void)
{
	printf("%p\n", rounds);
	fflush(stdout);
	alarm(600);
	for (;;) {
		double begin = now();
		if (waits() != 0)
			rounds[1]++;
		if (now() - begin < 0.3)
			rounds[2]++;
		rounds[0]++;
	}
}
`)
		var rounds uint64
		if _, err := fmt.Sscan(line, &rounds); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if again { // stopped once it waits by restart_syscall
			if err := p.WhileStopped(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		err := p.WhileHeld(func(h *Held) error {
			return h.InjectCalls(func() error {
				if _, err := h.SystemCall(unix.SYS_GETPID); err != nil {
					return err
				}
				if err := unix.PtraceDetach(p.PID); err != nil {
					return err
				}
				for end, n := time.Now().Add(time.Minute), wordAt(t, p, rounds); wordAt(t, p, rounds) < n+2; time.Sleep(time.Millisecond) {
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
		if failed, short := wordAt(t, p, rounds+8), wordAt(t, p, rounds+16); failed+short > 0 {
			t.Errorf("%s (%v): %d waits failed, %d were too short", wait, again, failed, short)
		}
	}
}

// TestForgets has system calls made by a thread that would wait on if footfall were killed, not by one of which is not known what
// it waits for.
func TestForgets(t *testing.T) {
	p, _ := started(t, `
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static void *waits(void *p) { return p + pause(); }
int main(void)
{
	pthread_t t;
	struct timespec s = {300, 0};
	int w = 0;
	alarm(600);
	pthread_create(&t, 0, waits, 0);
	puts("waits");
	fflush(stdout);
	return syscall(SYS_futex, &w, FUTEX_WAIT, 0, &s, 0, 0);
}
`, "-pthread")
	time.Sleep(100 * time.Millisecond)
	for range 20 {
		var any int
		if err := p.WhileHeld(func(h *Held) error { any = h.anyIdle(); return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		if any == p.PID || any == 0 {
			t.Fatalf("thread %d of %d makes system calls", any, p.PID)
		}
	}
}
