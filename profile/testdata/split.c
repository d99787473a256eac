/* Three functions of the same code that take 10, 30 and 60 percent of the time.
 * It says what they took, by the clock, so that a busy machine does not matter. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WORK(name, factor)                                              \
	__attribute__((noinline)) void name(unsigned long n)            \
	{                                                               \
		unsigned long x = n;                                    \
		for (unsigned long i = 0; i < factor * n; i++)          \
			__asm__ volatile("imul $3, %0, %0" : "+r"(x));  \
	}
WORK(ten, 1)
WORK(thirty, 3)
WORK(sixty, 6)

static double sum[3];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *work(void *seconds)
{
	double t[4], mine[3] = { 0 };
	unsigned long n = 0;

	do {
		/* turns of different lengths, which cannot keep step with samples */
		n = 200000 + (n * 7919 + 104729) % 200000;
		t[0] = now();
		ten(n);
		t[1] = now();
		thirty(n);
		t[2] = now();
		sixty(n);
		t[3] = now();
		for (int i = 0; i < 3; i++)
			mine[i] += t[i + 1] - t[i];
	} while (t[3] < *(double *)seconds);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 3; i++)
		sum[i] += mine[i];
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* split SECONDS [THREADS] */
int main(int argc, char **argv)
{
	double seconds = atof(argv[1]);
	int threads = argc > 2 ? atoi(argv[2]) : 0;
	pthread_t ids[64];

	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, work, &seconds);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	if (!threads)
		work(&seconds);
	printf("%.4f %.4f %.4f\n", sum[0], sum[1], sum[2]);
	return 0;
}
