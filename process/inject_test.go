//go:build linux && amd64

package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestInjectSequence injects a call into a restartable sequence, which is begun anew
// then. A thread that is only stopped stays where it is.
func TestInjectSequence(t *testing.T) {
	p, line := started(t, `
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/rseq.h>
#include <unistd.h>
int main(void)
{
	struct rseq *r = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	puts(__rseq_size ? "ready" : "no rseq here");
	fflush(stdout);
	alarm(600);
	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n.balign 32\n9: .long 0, 0\n.quad 2f, 3f - 2f, 4f\n.popsection\n"
		"1: lea 9b(%%rip), %%rax\nmov %%rax, 8(%0)\n"
		"2: xor %%ecx, %%ecx\n5: jmp 5b\n"
		"3: movq $0, 8(%0)\njmp 6f\n"
		".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n4: mov $0x5eed, %%ecx\njmp 1b\n6:\n"
		:: "r"(r) : "rax", "rcx", "memory");
}
`)
	if line != "ready" {
		t.Skip("the system has no restartable sequences")
	}
	again := 0
	for end := time.Now().Add(time.Minute); again < 20 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		err := p.WhileHeld(func(h *Held) error {
			before, err := h.registers(p.PID)
			if err != nil {
				return err
			}
			var code [2]byte
			if _, err := p.ReadAt(code[:], int64(before.Rip)); err != nil || code != [2]byte{0xeb, 0xfe} {
				return err // it has not come to the loop
			}
			if _, err := h.SystemCall(unix.SYS_GETPID); err != nil {
				return err
			}
			after, err := h.registers(p.PID)
			if err != nil {
				return err
			}
			if _, err := p.ReadAt(code[:], int64(after.Rip)); err != nil {
				return err
			}
			if code[0] != 0xb9 { // mov $0x5eed, %ecx
				t.Errorf("it goes on at %#x, it was at %#x", after.Rip, before.Rip)
			}
			again++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if again < 20 {
		t.Errorf("it was in its sequence %d times", again)
	}
}

// TestInjectStopped sends SIGSTOP while a thread runs an injected call, which stops the process
// when it is let go, unless SIGCONT comes as well.
func TestInjectStopped(t *testing.T) {
	p, _ := started(t, `
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *work(void *p) { for (;;) usleep(100); }
int main(void) { pthread_t t; pthread_create(&t, 0, work, 0); puts("ready"); fflush(stdout); alarm(600); for (;;) pause(); }
`, "-pthread")
	state := func() byte {
		b, err := p.read("status")
		if err != nil {
			t.Fatal(err)
		}
		_, s, _ := strings.Cut(string(b), "\nState:\t")
		return s[0]
	}
	for range 5 {
		for _, signals := range [][]unix.Signal{{unix.SIGSTOP}, {unix.SIGSTOP, unix.SIGCONT}} {
			err := p.WhileHeld(func(h *Held) error {
				for _, s := range signals {
					if err := unix.Kill(p.PID, s); err != nil {
						return err
					}
					if _, err := h.SystemCall(unix.SYS_GETPID); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			stops := len(signals) == 1
			for end := time.Now().Add(time.Minute); (state() == 'T') != stops && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if s := state(); (s == 'T') != stops {
				t.Fatalf("after %v its state is %c", signals, s)
			}
			_ = unix.Kill(p.PID, unix.SIGCONT)
			for state() == 'T' {
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// TestCallStarved has a thread call a function that gets next to no time to run. It is not
// taken back in the middle of it.
func TestCallStarved(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	p, line := started(t, `
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
static volatile long done;
static void work(void) { for (volatile long i = 0; i < 3000000; i++); getppid(); done = 1; }
static void *busy(void *x) { for (;;); return x; }
int main(void)
{
	cpu_set_t cpus;
	struct sched_param none = {0};
	pthread_t id;
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof cpus, &cpus);
	pthread_create(&id, 0, busy, 0);
	sched_setscheduler(0, SCHED_IDLE, &none);
	printf("%p %p\n", work, &done);
	fflush(stdout);
	for (;;) pause();
}
`, "-pthread")
	var work, done uint64
	if _, err := fmt.Sscan(line, &work, &done); err != nil {
		t.Fatal(err)
	}
	err := p.WhileHeld(func(h *Held) error {
		if err := h.ReleaseOthers(p.PID); err != nil {
			return err
		}
		return h.Call(p.PID, work, 0, 20*time.Millisecond)
	})
	var b [8]byte
	if _, readErr := p.ReadAt(b[:], int64(done)); err != nil || readErr != nil || b[0] != 1 {
		t.Errorf("the call returned: %v, %v, %v", err, readErr, b[0] == 1)
	}
}

// TestCallFaults calls what fails: that is said at once, and the thread goes on.
func TestCallFaults(t *testing.T) {
	p, line := started(t, `
#include <stdio.h>
#include <unistd.h>
static volatile long rounds, zero;
static void fails(void) { *(volatile long *)zero = 1; }
int main(void)
{
	printf("%p %p\n", fails, &rounds);
	fflush(stdout);
	for (;;) { usleep(1000); rounds++; }
}
`)
	var fails, rounds uint64
	if _, err := fmt.Sscan(line, &fails, &rounds); err != nil {
		t.Fatal(err)
	}
	err := p.WhileHeld(func(h *Held) error { return h.Call(p.PID, fails, 0, time.Hour) })
	if err == nil || !strings.Contains(err.Error(), "segmentation fault") {
		t.Errorf("the call failed by %v", err)
	}
	before := wordAt(t, p, rounds)
	for end := time.Now().Add(20 * time.Second); wordAt(t, p, rounds) == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the thread does not go on")
		}
	}
}

// TestCallWithThreadPointer has two threads that could be called in, of which one has no
// thread pointer: what is called may want that.
func TestCallWithThreadPointer(t *testing.T) {
	p, line := started(t, `
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
static char stack[1 << 16];
static int tid;
static volatile long called;
static void work(void) { __asm__ volatile("mov %%fs:0, %%rax" : : : "rax"); called++; }
static int thread(void *p) { for (;;) __asm__ volatile(""); }
int main(void)
{
	clone(thread, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS, 0, &tid, (void *)0, &tid);
	printf("%p %p\n", work, &called);
	fflush(stdout);
	for (;;) pause();
}
`)
	var work, called uint64
	if _, err := fmt.Sscan(line, &work, &called); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := p.CallSafely(work, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := wordAt(t, p, called); n != 10 {
		t.Errorf("called %d times, want 10", n)
	}
}

func wordAt(t *testing.T, p *Process, addr uint64) uint64 {
	t.Helper()
	var b [8]byte
	if _, err := p.ReadAt(b[:], int64(addr)); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(b[:])
}

// TestInjectStepping has a thread make system calls, and call a function, that traps after each of its own instructions and
// handles that: it does so on, and what runs for us traps nowhere. Else the kernel would take the handler away.
func TestInjectStepping(t *testing.T) {
	p, line := started(t, `
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile long steps, called;
static void step(int s) { steps++; }
static void call(void) { called++; }
int main(void)
{
	signal(SIGTRAP, step);
	alarm(600);
	printf("%p %p %p\n", call, &steps, &called);
	fflush(stdout);
	__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc");
	for (;;) usleep(1000);
}
`)
	var call, steps, called uint64
	if _, err := fmt.Sscan(line, &call, &steps, &called); err != nil {
		t.Fatal(err)
	}
	const calls = 20
	trap := call + 64 // is not reached where the thread finds back by itself
	for done, end := uint64(0), time.Now().Add(time.Minute); done < calls; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d calls were made of %d", done, calls)
		}
		before := wordAt(t, p, steps)
		err := p.WhileHeld(func(h *Held) error {
			if _, err := h.SystemCall(unix.SYS_GETPID); err != nil {
				return err
			}
			return h.Call(p.PID, call, trap, time.Second)
		})
		if errors.Is(err, ErrBusy) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if done++; wordAt(t, p, called) != done {
			t.Errorf("called %d times, where %d were expected", wordAt(t, p, called), done)
		}
		for wordAt(t, p, steps) == before {
			if time.Sleep(time.Millisecond); time.Now().After(end) {
				t.Fatal("the thread does not go on, or traps no more")
			}
		}
	}
}
