/* Several threads load and unload libraries (loaded.c), one of which loads another one
   from its constructor, while a timer interrupts them, and processes are forked. (glibc
   may wait forever where such a process loads something, for a lock that another thread
   had.) All calls of leaf by this process are counted. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char *paths[8];
static int libraries, rounds;
static int bad, done;
static volatile int sink;
long calls;

__attribute__((noinline)) int leaf(int x) { sink = x; return x + 1; }

static void *load(void *number)
{
	for (int i = 0; i < rounds; i++) {
		void *library = dlopen(paths[((long)number + i) % libraries], RTLD_NOW);
		int (*plugin)(int) = library ? (int (*)(int))dlsym(library, "plugin") : 0;
		if (!plugin || plugin(i) != i + 1 || dlclose(library) != 0)
			__atomic_fetch_add(&bad, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

static void *forks(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		int status, pid = fork();
		if (pid == 0)
			_exit(leaf(1) - 2);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (pid < 0 || status != 0)
			__atomic_fetch_add(&bad, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

static void tick(int signal) { sink = signal; }

static void run(int n)
{
	struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	pthread_t threads[4], forking;
	rounds = n;
	done = 0;
	setitimer(ITIMER_REAL, &every, 0);
	pthread_create(&forking, 0, forks, 0);
	for (long i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, load, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	pthread_join(forking, 0);
	setitimer(ITIMER_REAL, &never, 0);
}

int main(int argc, char **argv)
{
	char line[100];
	struct sigaction action = {.sa_handler = tick}; /* system calls are interrupted */
	for (libraries = 0; libraries < argc - 1; libraries++)
		paths[libraries] = argv[libraries + 1];
	sigaction(SIGALRM, &action, 0);
	while (fgets(line, sizeof line, stdin)) {
		int n;
		if (sscanf(line, "run %d", &n) == 1) {
			calls = 0;
			run(n);
			printf("%ld calls, %d bad\n", calls, bad);
		} else {
			printf("%s", line);
		}
		fflush(stdout);
	}
	return 0;
}
