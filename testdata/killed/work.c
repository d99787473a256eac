/* Threads that call functions and check what comes out, until a line comes in.
   work THREADS; built twice: with room at functions, and without. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define FUNCTION __attribute__((noinline, noclone))

static volatile int stop;
static volatile long wrong, rounds, ticks;

FUNCTION unsigned leaf(unsigned x, const char *text) { return x * 2654435761u + (unsigned char)text[x & 3]; }
FUNCTION unsigned middle(unsigned x) { return leaf(x, "abcd") ^ leaf(x + 1, "efgh"); }
FUNCTION unsigned tail(unsigned x) { return middle(x + 7); }
FUNCTION double real(double x) { return x * 1.5 + 0.25; }
FUNCTION unsigned deep(unsigned n) { return n ? deep(n - 1) + middle(n) : tail(3); }

FUNCTION unsigned one_round(void)
{
	double x = 1;
	for (int i = 0; i < 8; i++)
		x = real(x);
	return deep(20) + (unsigned)(x * 1000);
}

static void on_tick(int signal) { (void)signal; ticks += leaf(1, "wxyz") != 0; }

static void *work(void *expected)
{
	struct timespec pause = {0, 500000};
	while (!stop) {
		for (int i = 0; i < 50; i++)
			if (one_round() != *(unsigned *)expected)
				__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&rounds, 50, __ATOMIC_RELAXED);
		nanosleep(&pause, 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	unsigned expected = one_round();
	pthread_t id[64];
	struct itimerval often = {{0, 5000}, {0, 5000}};
	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &often, 0);
	for (int i = 1; i < threads; i++)
		pthread_create(&id[i], 0, work, &expected);
	pthread_t first;
	pthread_create(&first, 0, work, &expected);
	char line[16];
	while (!fgets(line, sizeof line, stdin) && !feof(stdin))
		clearerr(stdin);
	stop = 1;
	pthread_join(first, 0);
	for (int i = 1; i < threads; i++)
		pthread_join(id[i], 0);
	printf("%ld wrong\n", wrong);
	return wrong != 0 || rounds == 0;
}
