/* A profiler within the program: backtrace() in the handlers of two timers, one of which
   may come within the other (so that it would wait for a lock of libgcc if it were linked
   statically). build: dynamic; function: mid */
#include "torture.h"
#include <execinfo.h>
#include <signal.h>

static volatile long calls, samples;
static void sample(int s)
{
	void *frames[64];
	(void)s;
	samples += backtrace(frames, 64) > 0;
}
FUNCTION void leaf(void) { calls++; __asm__ volatile(""); }
FUNCTION void mid(void) { leaf(); leaf(); __asm__ volatile(""); }
FUNCTION void outer(void) { mid(); leaf(); __asm__ volatile(""); }

int main(int argc, char **argv)
{
	void *frames[4];
	timer_t t;
	struct itimerspec often = {{0, 1000000}, {0, 1000000}};
	int signals[] = {SIGPROF, SIGVTALRM};
	begin(argc, argv);
	backtrace(frames, 4); /* loads libgcc */
	for (int i = 0; i < 2; i++) {
		struct sigaction a = {.sa_handler = sample, .sa_flags = SA_RESTART};
		struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signals[i]};
		sigaction(signals[i], &a, 0);
		timer_create(CLOCK_MONOTONIC, &e, &t);
		timer_settime(t, 0, &often, 0);
	}
	for (long round = 0; more(round); round++) {
		calls = 0;
		for (int i = 0; i < 20000; i++)
			outer();
		CHECK(calls, 60000);
	}
	for (int i = 0; i < 2; i++)
		signal(signals[i], SIG_IGN);
	return ended();
}
