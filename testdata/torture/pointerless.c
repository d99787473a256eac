/* A thread that was made by clone with a thread pointer of 0: it uses nothing of libc.
   build: all; function: steps */
#include "torture.h"
#include <sched.h>
#include <sys/mman.h>

static volatile int tid, stop;
static volatile long calls;
FUNCTION long step(long x) { calls++; __asm__ volatile(""); return x + 1; }
FUNCTION long steps(long n) { return n ? steps(n - 1) + step(0) : 0; }
static volatile long bad;
static int thread(void *p)
{
	(void)p;
	do
		bad += steps(20) != 20;
	while (!stop);
	return 0;
}
int main(int argc, char **argv)
{
	size_t size = 1 << 18;
	begin(argc, argv);
	for (long round = 0; more(round); round++) {
		char *stack = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		stop = 0;
		tid = 1;
		clone(thread, stack + size, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
			0, &tid, (void *)0, &tid);
		for (int i = 0; i < 5; i++) {
			CHECK(steps(10), 10);
			nap(1000);
		}
		stop = 1;
		while (tid)
			nap(200);
		munmap(stack, size);
	}
	CHECK(bad, 0);
	return ended();
}
