/* watch THREADS: threads that call a function a thousand times a second, and one that looks
   at the clock all the time. For each line that comes in it says the longest time, in
   microseconds, for which that one stood still since the line before, and the longest without
   the time in which it might have run, but had no processor. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile long longest, longest_stopped;

__attribute__((noinline, noclone)) void step(void) { __asm__ volatile(""); }

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
		step();
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

static void *watch(void *x)
{
	int schedstat = open("/proc/thread-self/schedstat", O_RDONLY);
	long before = waited(schedstat), looked = now();
	for (long last = now();;) {
		long t = now(), gap = t - last;
		last = t;
		if (gap < 50000 && t - looked < 1000000)
			continue;
		long delay = waited(schedstat), stopped = gap - (delay - before);
		before = delay;
		looked = last = now();
		if (gap > longest)
			longest = gap;
		if (stopped > longest_stopped)
			longest_stopped = stopped;
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
		printf("%ld %ld\n", longest / 1000, longest_stopped / 1000);
		fflush(stdout);
		longest = longest_stopped = 0;
	}
	return 0;
}
