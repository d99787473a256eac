/* Threads that are cancelled, where they may be and anywhere, with clean-up handlers and
   what belongs to threads; threads with the smallest stacks; many that come and go.
   build: all; function: leaf */
#include "torture.h"
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

static volatile long cleaned, freed;
static pthread_key_t key;
static __thread long mine;

FUNCTION long leaf(long x) { mine += x; return x + 1; }
FUNCTION long deep(long n) { return n ? deep(n - 1) + leaf(n) - n : 0; }
FUNCTION void cleaner(void *p) { __atomic_add_fetch(&cleaned, (long)p, __ATOMIC_SEQ_CST); }
FUNCTION void freer(void *p) { __atomic_add_fetch(&freed, (long)p, __ATOMIC_SEQ_CST); }

FUNCTION void waits(sem_t *ready)
{
	pthread_cleanup_push(cleaner, (void *)1);
	pthread_setspecific(key, (void *)1);
	sem_post(ready);
	for (;;) {
		leaf(1);
		nap(100);
	}
	pthread_cleanup_pop(0);
}
FUNCTION void spins(sem_t *ready)
{
	pthread_cleanup_push(cleaner, (void *)1);
	pthread_setspecific(key, (void *)1);
	sem_post(ready);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
	for (;;)
		deep(5);
	pthread_cleanup_pop(0);
}
static void *deferred(void *p) { waits(p); return 0; }
static void *anywhere(void *p) { spins(p); return 0; }
static void *brief(void *p) { return (void *)(deep(3) + leaf((long)p)); }

FUNCTION void cancels(void *(*thread)(void *))
{
	enum { N = 4 };
	pthread_t t[N];
	sem_t ready;
	long cleaned_before = cleaned, freed_before = freed;
	sem_init(&ready, 0, 0);
	for (int i = 0; i < N; i++)
		pthread_create(&t[i], 0, thread, &ready);
	for (int i = 0; i < N; i++)
		while (sem_wait(&ready))
			;
	for (int i = 0; i < N; i++)
		pthread_cancel(t[i]);
	for (int i = 0; i < N; i++) {
		void *result = 0;
		pthread_join(t[i], &result);
		CHECK(result == PTHREAD_CANCELED, 1);
	}
	CHECK(cleaned - cleaned_before, N);
	CHECK(freed - freed_before, N);
	sem_destroy(&ready);
}
int main(int argc, char **argv)
{
	begin(argc, argv);
	pthread_key_create(&key, freer);
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN < 16384 ? 16384 : PTHREAD_STACK_MIN);
	for (long round = 0; more(round); round++) {
		cancels(deferred);
		cancels(anywhere);
		for (long i = 0; i < 10; i++) {
			pthread_t t[8];
			for (long k = 0; k < 8; k++)
				pthread_create(&t[k], k % 2 ? &small : 0, brief, (void *)(i + k));
			for (long k = 0; k < 8; k++) {
				void *result = 0;
				pthread_join(t[k], &result);
				CHECK(result, 3 + i + k + 1);
			}
		}
	}
	return ended();
}
