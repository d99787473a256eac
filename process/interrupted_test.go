//go:build linux && amd64

package process

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"footfall/process/processtest"
)

// Threads wait in ways that a stop ends, and count how often a wait ends with EINTR,
// and otherwise. The last one waits for signals, too.
const waitsProgram = `#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <unistd.h>
static volatile int interrupted, handled, ended, other;
static int ep, sem, sock, quit[2];
static long wait_epoll(void) { struct epoll_event e; return epoll_wait(ep, &e, 1, -1); }
static long wait_pepoll(void) { struct epoll_event e; sigset_t m; sigemptyset(&m); sigaddset(&m, SIGUSR2); return epoll_pwait(ep, &e, 1, -1, &m); }
static long wait_sem(void) { struct sembuf b = {0, -1, 0}; return semop(sem, &b, 1); }
static long wait_recv(void) { char b[4]; return recv(sock, b, 4, 0); }
static long wait_read(void) { char b[4]; return read(sock, b, 4); }
static long wait_signal(void) { sigset_t m; sigemptyset(&m); sigaddset(&m, SIGUSR2); return sigwaitinfo(&m, 0); }
static long (*const waits[])(void) = {wait_epoll, wait_pepoll, wait_sem, wait_recv, wait_read, wait_signal};
static void *wait_once(void *p)
{
	long (*wait)(void) = p;
	while (wait() < 0) {
		if (errno != EINTR) {
			perror("wait");
			break;
		}
		__atomic_add_fetch(&interrupted, 1, __ATOMIC_SEQ_CST);
	}
	__atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
	return 0;
}
static void handler(int sig) { (void)sig; handled++; }
static void *handles(void *p)
{
	struct epoll_event e;
	sigset_t none;
	sigemptyset(&none);
	for (;;) {
		int n = epoll_pwait(ep, &e, 1, -1, &none); /* else the signal is blocked, so that each ends a wait */
		if (n > 0)
			return p;
		if (errno == EINTR)
			other++;
	}
}
int main(void)
{
	int pair[2];
	struct timeval timeout = {600, 0};
	struct epoll_event e = {.events = EPOLLIN};
	struct sembuf give = {0, 1, 0};
	pthread_t t[sizeof waits / sizeof *waits], last;
	sigset_t m;
	alarm(600);
	sigemptyset(&m);
	sigaddset(&m, SIGUSR1);
	sigaddset(&m, SIGUSR2);
	sigprocmask(SIG_BLOCK, &m, 0);
	signal(SIGUSR1, handler);
	ep = epoll_create1(0);
	pipe(quit);
	epoll_ctl(ep, EPOLL_CTL_ADD, quit[0], &e);
	sem = semget(IPC_PRIVATE, 1, 0600);
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	sock = pair[0];
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	for (unsigned i = 0; i < sizeof t / sizeof *t; i++)
		pthread_create(&t[i], 0, wait_once, waits[i]);
	pthread_create(&last, 0, handles, 0);
	char line[16];
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n")) {
		int before = other;
		pthread_kill(last, SIGUSR1);
		while (other == before)
			usleep(100);
		puts("handled");
		fflush(stdout);
	}
	printf("%d ended, %d interrupted; %d handled, %d by a wait\n", ended, interrupted, handled, other);
	pthread_kill(t[5], SIGUSR2);
	write(pair[1], "2 words", 8);
	semop(sem, &give, 1);
	write(quit[1], "", 1);
	for (unsigned i = 0; i < sizeof t / sizeof *t; i++)
		pthread_join(t[i], 0);
	pthread_join(last, 0);
	semctl(sem, 0, IPC_RMID);
	printf("%d ended\n", ended);
	return 0;
}
`

// TestWaits stops threads that wait: only signals with a handler end the waits.
func TestWaits(t *testing.T) {
	program := processtest.Start(t, exec.Command(processtest.Compile(t, waitsProgram, "-O1", "-pthread")))
	program.Expect("ready")
	p, err := Open(program.Pid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	needStopping(t, p)
	allWait(t, p)
	const signals = 20
	for range signals {
		if err := p.WhileStopped(func() error { _, err := program.In.Write([]byte("signal\n")); return err }); err != nil {
			t.Fatal(err)
		}
		program.Expect("handled")
	}
	// A follower stops threads in its own way, and lets them go otherwise.
	f, err := Follow(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WhileStopped(func() error { return nil }); err != nil {
		t.Error(err)
	}
	f.Close()
	if _, err := program.In.Write([]byte("end\n")); err != nil {
		t.Fatal(err)
	}
	program.Expect("0 ended, 0 interrupted; 20 handled, 20 by a wait")
	program.Expect("6 ended")
}

// A thread waits and gets hardly any time of a processor, since there is one that is used up
// by other processes. It ends when it is told to.
const starvedProgram = `#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>
static int ep, interrupted;
static void *wait_once(void *p)
{
	struct epoll_event e;
	struct sched_param idle = {0};
	if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &idle))
		puts("no SCHED_IDLE");
	while (epoll_wait(ep, &e, 1, -1) < 0 && errno == EINTR)
		interrupted++;
	return p;
}
int main(void)
{
	int quit[2], cpu = 0;
	struct epoll_event e = {.events = EPOLLIN};
	cpu_set_t all, one;
	pthread_t t;
	alarm(600);
	ep = epoll_create1(0);
	pipe(quit);
	epoll_ctl(ep, EPOLL_CTL_ADD, quit[0], &e);
	sched_getaffinity(0, sizeof all, &all);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
	pthread_create(&t, 0, wait_once, 0);
	sched_setaffinity(0, sizeof all, &all);
	usleep(100000);
	pid_t busy[10];
	for (int i = 0; i < 10; i++) {
		if (busy[i] = fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sched_setaffinity(0, sizeof one, &one);
		for (;;)
			;
	}
	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < 10; i++)
		kill(busy[i], SIGKILL);
	struct sched_param usual = {0};
	pthread_setschedparam(t, SCHED_OTHER, &usual); /* it shall end soon */
	write(quit[1], "", 1);
	pthread_join(t, 0);
	printf("%d interrupted\n", interrupted);
	return 0;
}
`

// TestStarvedWait stops a thread that waits and does not get to run for so long that it is let go
// before it has stopped: this is no end of its wait either.
func TestStarvedWait(t *testing.T) {
	program := processtest.Start(t, exec.Command(processtest.Compile(t, starvedProgram, "-O1", "-pthread")))
	program.Expect("ready")
	p, err := Open(program.Pid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	needStopping(t, p)
	for range 8 {
		begin := time.Now()
		_ = p.onStopper(func(*Held) error { return nil }, 0) // mostly it does not stop in time
		took := time.Since(begin)
		if took >= runPatience {
			t.Skip("the thread has not run for longer than anybody waits for it")
		}
		if took > 3*holdPatience { // it has been waited for
			break
		}
	}
	if _, err := program.In.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	program.Expect("0 interrupted")
}

// allWait waits until no thread runs.
func allWait(t *testing.T, p *Process) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		threads, err := p.Threads()
		if err != nil {
			t.Fatal(err)
		}
		running := 0
		for _, thread := range threads {
			if b, err := p.readFile("task/" + strconv.Itoa(thread.ID) + "/status"); err != nil || !strings.Contains(string(b), "\nState:\tS") {
				running++
			}
		}
		if running == 0 && len(threads) == 8 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d threads run", running, len(threads))
		}
	}
}
