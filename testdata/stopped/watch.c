/* watch THREADS: threads that call a function a thousand times a second, and one that looks
   at the clock all the time. For each line that comes in it says the longest time, in
   microseconds, for which that one stood still since the line before; the longest stop, without
   the time in which it might have run, but had no processor; and the longest that was none, without
   that time: what the machine itself took. A thread that is stopped gives its processor away, which
   is counted. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static volatile long longest, longest_stopped, longest_taken;

__attribute__((noinline, noclone)) void step(long n) { __asm__ volatile("" : : "r"(n)); }

static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *work(void *x)
{
	struct timespec pause = {0, 1000000};
	for (;;) {
		step(1);
		nanosleep(&pause, 0);
	}
	return x;
}

/* How long the thread has waited for a processor: the second number, in nanoseconds. */
static long waited(int schedstat)
{
	char text[64] = "", *end;
	pread(schedstat, text, sizeof text - 1, 0);
	strtoul(text, &end, 10);
	return strtol(end, 0, 10);
}

/* How often the thread has given its processor away. */
static long given(void)
{
	struct rusage r;
	getrusage(RUSAGE_THREAD, &r);
	return r.ru_nvcsw;
}

static void *watch(void *x)
{
	int schedstat = open("/proc/thread-self/schedstat", O_RDONLY);
	long before = waited(schedstat), given_before = given(), looked = now();
	for (long last = now();;) {
		long t = now(), gap = t - last;
		last = t;
		if (gap < 50000 && t - looked < 1000000)
			continue;
		long delay = waited(schedstat), lost = gap - (delay - before), gave = given();
		volatile long *place = gave > given_before ? &longest_stopped : &longest_taken;
		before = delay;
		given_before = gave;
		looked = last = now();
		if (gap > longest)
			longest = gap;
		if (gap >= 50000 && lost > *place)
			*place = lost;
	}
	return x;
}

int main(int argc, char **argv)
{
	pthread_t id;
	char line[16];
	pthread_create(&id, 0, watch, 0);
	for (int i = argc > 1 ? atoi(argv[1]) : 64; i > 0; i--)
		pthread_create(&id, 0, work, 0);
	while (fgets(line, sizeof line, stdin)) {
		printf("%ld %ld %ld\n", longest / 1000, longest_stopped / 1000, longest_taken / 1000);
		fflush(stdout);
		longest = longest_stopped = longest_taken = 0;
	}
	return 0;
}
