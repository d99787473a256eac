/* watch THREADS: threads that call a function a thousand times a second, and one that looks
   at the clock all the time. For each line that comes in it says the longest time, in
   microseconds, for which that one stood still since the line before. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile long longest;

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

static void *watch(void *x)
{
	for (long last = now();;) {
		long t = now();
		if (t - last > longest)
			longest = t - last;
		last = t;
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
		printf("%ld\n", longest / 1000);
		fflush(stdout);
		longest = 0;
	}
	return 0;
}
