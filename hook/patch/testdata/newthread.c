/* Makes a thread that calls until the program ends. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static volatile int sink;

NOINLINE int leaf(int x) { sink = x; return x + 1; }
NOINLINE int middle(int x) { int v = leaf(x); sink = v; return v; }

static void *run(void *p)
{
	for (;;) {
		sink = middle(1);
		usleep(1000);
	}
	return p;
}

int main(void)
{
	char line[100];
	while (fgets(line, sizeof line, stdin)) {
		pthread_t thread;
		if (line[0] == 't')
			pthread_create(&thread, 0, run, 0);
		printf("%s", line);
		fflush(stdout);
	}
	return 0;
}
