//go:build linux && amd64

package process

import (
	"errors"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process/processtest"
)

// TestOwnThread stops processes on other threads than the first, which does not end when
// one has not stopped, so that nobody could let go of it.
func TestOwnThread(t *testing.T) {
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			onOwnThread(func() bool {
				if unix.Gettid() == unix.Getpid() {
					t.Error("the first thread is used")
				}
				time.Sleep(time.Millisecond)
				return false
			})
		})
	}
	all.Wait()
}

// TestManyBusy stops a program with more threads that are busy than any machine has
// processors.
func TestManyBusy(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	p, line := started(t, `
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_barrier_t all;
static void *work(void *p) { pthread_barrier_wait(&all); for (volatile long i = 0;; i++); }
int main(void)
{
	pthread_attr_t a;
	alarm(600);
	pthread_barrier_init(&all, 0, 401);
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 65536);
	for (int i = 0; i < 400; i++) {
		pthread_t t;
		if (pthread_create(&t, &a, work, 0)) {
			puts("too many");
			break;
		}
	}
	puts("ready");
	fflush(stdout);
	pthread_barrier_wait(&all);
	for (;;) pause();
}
`, "-pthread")
	if line != "ready" {
		t.Skip("the system allows no 400 threads")
	}
	for range 3 {
		begin := time.Now()
		var inside time.Time
		if err := p.WhileStopped(func() error { inside = time.Now(); return nil }); err != nil {
			t.Fatal(err)
		}
		t.Logf("stopped after %v, for %v", inside.Sub(begin), time.Since(inside))
	}
}

// TestEndedHasNoRelatives stops a process that has ended: kernel threads, which have no memory
// either, are none that share it.
func TestEndedHasNoRelatives(t *testing.T) {
	p, _ := started(t, `
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); alarm(600); pause(); }
`)
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); hasMemory(p.PID); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it goes on")
		}
	}
	s := stopper{p: p, others: make(map[int]bool)}
	if s.findRelatives(); len(s.relatives) > 0 {
		t.Errorf("the processes %v share the memory of one that has ended", s.relatives)
	}
}

// TestStoppedExits stops a child of ours again and again until it has ended: its status is for
// who waits for it.
func TestStoppedExits(t *testing.T) {
	program := processtest.Compile(t, `
#include <unistd.h>
int main(void)
{
	for (int i = 0; i < 20; i++) usleep(100);
	return 7;
}
`)
	for range 10 {
		cmd := exec.Command(program)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, err := Open(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		needStopping(t, p)
		for err == nil {
			err = p.WhileStopped(func() error { return nil })
		}
		wait := cmd.Wait()
		p.Close()
		var exit *exec.ExitError
		if !errors.As(wait, &exit) || exit.ExitCode() != 7 {
			t.Fatalf("it ended with %v, after %v", wait, err)
		}
	}
}
