//go:build linux && amd64

package process

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"footfall/process/processtest"
)

// Threads wait in epoll_wait, and count how often that ends with EINTR. All the time a child sends a signal
// that is ignored by default.
const ignoredProgram = `#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>
static volatile int interrupted;
static void *waits(void *p)
{
	struct epoll_event e;
	while (epoll_wait((int)(long)p, &e, 1, -1) < 0 && errno == EINTR)
		__atomic_add_fetch(&interrupted, 1, __ATOMIC_SEQ_CST);
	return p;
}
int main(void)
{
	pthread_t t[40];
	alarm(600);
	for (unsigned i = 0; i < sizeof t / sizeof *t; i++)
		pthread_create(&t[i], 0, waits, (void *)(long)epoll_create1(0));
	printf("%p\n", (void *)&interrupted);
	fflush(stdout);
	pid_t parent = getpid();
	if (fork() == 0) {
		while (getppid() == parent) {
			kill(parent, SIGURG);
			usleep(20);
		}
		_exit(0);
	}
	for (;;)
		pause();
}
`

// TestWaitsAmongIgnored stops a program again and again whose threads wait while it gets signals that it ignores: one
// that is sent while only some threads are traced ends hardly any of the waits.
func TestWaitsAmongIgnored(t *testing.T) {
	program := processtest.Start(t, exec.Command(processtest.Compile(t, ignoredProgram, "-O1", "-pthread")))
	var interrupted uint64
	if _, err := fmt.Sscan(program.Line(), &interrupted); err != nil {
		t.Fatal(err)
	}
	p, err := Open(program.Pid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	needStopping(t, p)
	time.Sleep(50 * time.Millisecond)
	const stops = 200
	before := uint32(wordAt(t, p, interrupted))
	for range stops {
		if err := p.WhileStopped(func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	// One that has been woken, and gets no time to run, looks as if it ran.
	if n := uint32(wordAt(t, p, interrupted)) - before; n > stops/4 {
		t.Errorf("%d waits ended with EINTR", n)
	}
}
