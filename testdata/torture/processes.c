/* Children by fork, vfork, posix_spawn and clone with the memory shared; pipes; what
   becomes of them. build: all; function: deep */
#include "torture.h"
#include <sched.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;
static volatile long sink;
static char *self;

FUNCTION long leaf(long x) { sink = x; return x + 1; }
FUNCTION long deep(long n) { return n ? deep(n - 1) + 1 : leaf(0) - 1; }

FUNCTION int status_of(pid_t p)
{
	int status;
	while (waitpid(p, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
static void *in_child(void *p) { return (void *)deep((long)p); }
FUNCTION int forked(int with_thread)
{
	pid_t p = fork();
	if (p == 0) {
		void *result = (void *)10;
		if (with_thread) {
			pthread_t t;
			pthread_create(&t, 0, in_child, (void *)10);
			pthread_join(t, &result);
		}
		_exit((int)(deep(20) + (long)result));
	}
	return status_of(p);
}
FUNCTION int grandchildren(int n)
{
	pid_t p = fork();
	if (p == 0)
		_exit(n ? grandchildren(n - 1) + (int)leaf(0) : 3);
	return status_of(p);
}
FUNCTION int killed(void)
{
	pid_t p = fork();
	if (p == 0)
		for (;;)
			deep(10);
	nap(500);
	kill(p, SIGKILL);
	return status_of(p);
}
FUNCTION int piped(void)
{
	int ends[2];
	char got[16] = "";
	if (pipe(ends))
		return -1;
	pid_t p = fork();
	if (p == 0) {
		if (write(ends[1], deep(7) == 7 ? "seven" : "other", 6) < 0)
			_exit(1);
		_exit(0);
	}
	close(ends[1]);
	ssize_t n = read(ends[0], got, sizeof got);
	close(ends[0]);
	return status_of(p) + (n == 6 && !strcmp(got, "seven") ? 7 : 0);
}
NOT_TRACED pid_t vforks(void) /* a child must not return from where vfork was called */
{
	pid_t p = vfork();
	if (p == 0) {
		execl(self, self, "child", (char *)0);
		_exit(99);
	}
	return p;
}
FUNCTION int spawned(void)
{
	pid_t p;
	char *argv[] = {self, "child", 0};
	if (posix_spawn(&p, self, 0, 0, argv, environ))
		return -1;
	return status_of(p);
}
static volatile int shared_result;
static int sharing(void *p)
{
	shared_result = (int)deep((long)p);
	return 5;
}
FUNCTION int shared(void)
{
	size_t size = 1 << 18;
	char *stack = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	shared_result = 0;
	pid_t p = clone(sharing, stack + size, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, (void *)30);
	int status = status_of(p);
	munmap(stack, size);
	return status + shared_result;
}
int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "child"))
		return (int)deep(40);
	self = argv[0];
	begin(argc, argv);
	for (long round = 0; more(round); round++) {
		CHECK(forked(0), 30);
		CHECK(forked(1), 30);
		CHECK(grandchildren(3), 6);
		CHECK(killed(), 1000 + SIGKILL);
		CHECK(piped(), 7);
		CHECK(status_of(vforks()), 40);
		CHECK(spawned(), 40);
		CHECK(shared(), 35);
	}
	return ended();
}
