/* Threads which call on command. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#define NOINLINE __attribute__((noinline))

static struct worker {
	pthread_t thread;
	sem_t begin, done;
	char what, name[16];
	long n;
} workers[8];
static volatile long sink;

static void work(struct worker *w);

NOINLINE long leaf(long x) { return x * 3 + 1; }
/* Works on in a call that has begun, until that is to end. */
NOINLINE long hold(struct worker *w)
{
	sem_post(&w->done);
	work(w);
	sink = 1;
	return 7;
}

static void work(struct worker *w)
{
	for (;;) {
		sem_wait(&w->begin);
		switch (w->what) {
		case 'n':
			pthread_setname_np(pthread_self(), w->name);
			break;
		case 'c':
			for (long i = 0; i < w->n; i++)
				sink = leaf(i);
			break;
		case 'h':
			w->n = hold(w) == 7;
			break;
		case 'r': /* the call of hold tells that it is done */
		case 'e':
			return;
		}
		sem_post(&w->done);
	}
}

static void *run(void *worker)
{
	struct worker *w = worker;
	sink = leaf(0);
	work(w);
	sem_post(&w->done);
	return 0;
}

int main(void)
{
	char line[100], what, name[16];
	while (fgets(line, sizeof line, stdin)) {
		int i;
		long n;
		if (sscanf(line, "begin %d", &i) == 1) {
			sem_init(&workers[i].begin, 0, 0);
			sem_init(&workers[i].done, 0, 0);
			pthread_create(&workers[i].thread, 0, run, &workers[i]);
		} else if (sscanf(line, "name %d %15s", &i, name) == 2) {
			workers[i].what = 'n';
			snprintf(workers[i].name, sizeof workers[i].name, "%s", name);
			sem_post(&workers[i].begin);
			sem_wait(&workers[i].done);
		} else if (sscanf(line, "do %c %d %ld", &what, &i, &n) == 3) {
			workers[i].what = what;
			workers[i].n = n;
			sem_post(&workers[i].begin);
			sem_wait(&workers[i].done);
			if (what == 'e')
				pthread_join(workers[i].thread, 0);
			if (what == 'r' && !workers[i].n)
				printf("bad ");
		}
		printf("%s", line);
		fflush(stdout);
	}
	return 0;
}
