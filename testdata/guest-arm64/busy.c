/* busy ROUNDS [FILE [SECONDS]]: two threads call functions, so many rounds, from
 * when the file is there on, and until it is gone; then it says how often it called
 * which, sleeps, and says for how long. It checks what the functions return. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static atomic_long leaves, inners, outers, fibs, names, bad;
static long rounds;
static const char *file;
static volatile int last;

NOINLINE int leaf(int x)
{
	leaves++;
	return 3 * x + 1;
}
NOINLINE int inner(int x)
{
	inners++;
	int a = leaf(x), b = leaf(x + 1);
	return a + b;
}
NOINLINE int outer(int x)
{
	outers++;
	int a = inner(x), b = leaf(x);
	return a - b;
}
NOINLINE int fib(int n)
{
	fibs++;
	if (n < 2)
		return n;
	int a = fib(n - 1), b = fib(n - 2);
	last = b; /* after the call, so that it stays one */
	return a + b;
}

NOINLINE int named(double half, const char *text, long big, int a, int b, int c, int d, int e, int f, int on_stack)
{
	names++;
	return half * 2 == on_stack && big == on_stack * 10000000000L && text[0] == 'n' && a + b + c + d + e + f == 21;
}

static void *work(void *p)
{
	char text[20];
	for (int i = 0; i < (file ? 1 : rounds); i++) {
		snprintf(text, sizeof text, "number %d", i);
		if (!named(i / 2.0, text, i * 10000000000L, 1, 2, 3, 4, 5, 6, i))
			bad++;
	}
	for (long i = 0; i < rounds && (!file || i % 1024 || access(file, F_OK) == 0); i++)
		if (outer(i % 1000) != 3 * (i % 1000) + 4 || fib(5) != 5)
			bad++;
	return p;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	rounds = argc > 1 ? atol(argv[1]) : 1;
	file = argc > 2 ? argv[2] : NULL;
	while (file && access(file, F_OK) != 0)
		usleep(20000);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("leaf %ld\ninner %ld\nouter %ld\nfib %ld\nnamed %ld\nbad %ld\n", leaves, inners, outers, fibs, names, bad);
	fflush(stdout);
	if (argc > 3) {
		struct timespec begin, end, duration = {atol(argv[3])};
		clock_gettime(CLOCK_MONOTONIC, &begin);
		int failed = nanosleep(&duration, NULL);
		clock_gettime(CLOCK_MONOTONIC, &end);
		printf("%s %ld\n", failed ? "woken" : "slept", end.tv_sec - begin.tv_sec);
	}
	return bad != 0;
}
