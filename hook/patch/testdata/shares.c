// Processes that run in one memory: a child by clone(CLONE_VM) that calls step all the
// time, and with an argument one by vfork, for which a thread waits until "let go".
// With two arguments main ends, and another thread does what it does.
// Answers each command with the state of the children.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long calls;
static int hold[2];
static volatile int forked, waits;
__attribute__((noinline, noclone)) void step(void) { calls++; __asm__ volatile(""); }
static int child(void *p) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) step(); return 0; }
__attribute__((optimize("O0"))) static void *start(void *p)
{
	waits = 1;
	int c = vfork();
	if (c == 0) {
		char b;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		forked = 1;
		read(hold[0], &b, 1);
		_exit(0);
	}
	int status;
	waitpid(c, &status, 0);
	waits = status ? -1 : 0;
	return 0;
}
static void *serve(void *p)
{
	int argc = *(int *)p;
	char line[100];
	pthread_t t;
	pipe(hold);
	int c;
	if (argc == 1) {
		char *stack = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		c = clone(child, stack + (1 << 20), CLONE_VM | CLONE_FILES | CLONE_FS | SIGCHLD, 0);
	} else {
		pthread_create(&t, 0, start, 0);
		while (!forked)
			usleep(1000);
	}
	while (fgets(line, sizeof line, stdin)) {
		int status, ended = 0;
		step();
		if (!strncmp(line, "let go", 6)) {
			write(hold[1], "", 1);
			pthread_join(t, 0);
		}
		if (argc == 1)
			ended = waitpid(c, &status, WNOHANG) == c;
		printf("%s\n", ended ? "ended" : waits > 0 ? "waits" : waits < 0 ? "failed" : "runs");
		fflush(stdout);
	}
	if (argc == 1)
		kill(c, SIGKILL);
	return 0;
}
int main(int argc, char **v)
{
	static int given;
	pthread_t t;
	given = argc;
	if (argc < 3)
		return serve(&given) != 0;
	pthread_create(&t, 0, serve, &given);
	pthread_exit(0);
}
