/* Signals: handlers within each other, on other stacks, that leave by siglongjmp, that
   sleep; that come between any two instructions; that are ignored, blocked, waited for;
   stops. build: all; function: deep */
#include "torture.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

static volatile long sink, handled, nested, queued;
FUNCTION long leaf(long x) { sink = x; return x + 1; }
FUNCTION long deep(long n) { return n ? deep(n - 1) + 1 : leaf(0) - 1; }

FUNCTION void inner(int s) { (void)s; nested += leaf(0); }
FUNCTION void outer(int s) { (void)s; raise(SIGUSR2); handled += leaf(0); }
static sigjmp_buf back;
FUNCTION void leaves(int s) { (void)s; leaf(2); siglongjmp(back, 4); }
FUNCTION long left(void)
{
	long code = sigsetjmp(back, 1);
	if (code == 0)
		raise(SIGQUIT);
	return code;
}
FUNCTION void faults(int s, siginfo_t *i, void *context)
{
	(void)s;
	leaf((long)i->si_addr);
	siglongjmp(back, 6);
	(void)context;
}
FUNCTION long faulted(void)
{
	long code = sigsetjmp(back, 1);
	volatile long *volatile nowhere = (long *)8;
	if (code == 0)
		*nowhere = 1;
	return code;
}
FUNCTION void sleeps(int s)
{
	int error = errno; /* which an interrupted nap changes */
	(void)s;
	leaf(1);
	nap(3000);
	leaf(2);
	errno = error;
}
FUNCTION void counts(int s, siginfo_t *i, void *context) { (void)s; (void)context; queued += i->si_value.sival_int; leaf(3); }
FUNCTION void ticks(int s) { (void)s; leaf(4); }

static volatile long steps;
static void step(int s, siginfo_t *i, void *context) /* at each instruction */
{
	(void)s; (void)i; (void)context;
	if (steps++ % 64 == 0)
		leaf(steps);
}
static volatile int flag_on;
NOT_TRACED void trap_flag(int on)
{
	if (on)
		__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc");
	else
		__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc");
}
FUNCTION long stepped(void)
{
	long x;
	trap_flag(1);
	x = deep(4);
	trap_flag(0);
	return x;
}
static void handle(int s, void (*f)(int), int flags)
{
	struct sigaction a = {.sa_handler = f, .sa_flags = flags};
	sigaction(s, &a, 0);
}
static void handle_info(int s, void (*f)(int, siginfo_t *, void *), int flags)
{
	struct sigaction a = {.sa_sigaction = f, .sa_flags = flags | SA_SIGINFO};
	sigaction(s, &a, 0);
}
FUNCTION int stops(void)
{
	int status = 0;
	pid_t p = fork();
	if (p == 0) {
		raise(SIGSTOP);
		_exit((int)deep(11));
	}
	while (waitpid(p, &status, WUNTRACED) < 0)
		;
	if (WIFSTOPPED(status)) {
		kill(p, SIGCONT);
		while (waitpid(p, &status, 0) < 0)
			;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
FUNCTION long awaited(void)
{
	sigset_t set;
	siginfo_t info;
	struct timespec t = {5, 0};
	int s;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 2);
	pthread_sigmask(SIG_BLOCK, &set, 0);
	union sigval v = {.sival_int = 17};
	sigqueue(getpid(), SIGRTMIN + 2, v);
	while ((s = sigtimedwait(&set, &info, &t)) < 0 && errno == EINTR)
		;
	return s == SIGRTMIN + 2 ? info.si_value.sival_int : -1;
}
int main(int argc, char **argv)
{
	static char alternate[65536];
	stack_t s = {.ss_sp = alternate, .ss_size = sizeof alternate};
	begin(argc, argv);
	sigaltstack(&s, 0);
	handle(SIGUSR1, outer, SA_ONSTACK);
	handle(SIGUSR2, inner, 0);
	handle(SIGQUIT, leaves, SA_ONSTACK);
	handle_info(SIGSEGV, faults, SA_ONSTACK | SA_NODEFER);
	handle(SIGALRM, sleeps, SA_RESTART);
	handle(SIGVTALRM, ticks, SA_RESTART | SA_ONSTACK);
	handle_info(SIGRTMIN, counts, SA_RESTART);
	handle_info(SIGTRAP, step, 0);
	signal(SIGPIPE, SIG_IGN);
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGVTALRM};
	struct itimerspec often = {{0, 2000000}, {0, 2000000}}, rarely = {{0, 20000000}, {0, 20000000}};
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &often, 0);
	event.sigev_signo = SIGALRM;
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &rarely, 0);
	for (long round = 0; more(round); round++) {
		handled = nested = queued = 0;
		for (int i = 0; i < 20; i++) {
			raise(SIGUSR1);
			CHECK(left(), 4);
			CHECK(faulted(), 6);
			CHECK(deep(30), 30);
		}
		CHECK(handled, 20);
		CHECK(nested, 20);
		for (int i = 1; i <= 10; i++)
			sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
		CHECK(queued, 55);
		CHECK(stepped(), 4);
		CHECK(stops(), 11);
		CHECK(awaited(), 17);
		int ends[2];
		if (pipe(ends) == 0) {
			close(ends[0]);
			CHECK(write(ends[1], "x", 1) < 0 && errno == EPIPE, 1);
			close(ends[1]);
		}
	}
	return ended();
}
