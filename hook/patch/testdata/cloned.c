/* For each line that comes in: a thread with no thread pointer, made by the system call in
   this file, which calls functions; it says what they have returned. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

static volatile long sum, done;

__attribute__((noinline)) int leaf(int x) { __asm__ volatile(""); return x * 3 + 1; }

__attribute__((noinline)) int outer(int x) { return leaf(x) + leaf(x + 1); }

__attribute__((used)) void work(void)
{
	for (int i = 0; i < 1000; i++)
		sum += outer(i);
	done = 1;
}

/* clone(flags, stack, 0, 0, 0) */
long make(unsigned long flags, void *stack);
__asm__(".text\n.globl make\nmake:\n\txor %edx, %edx\n\txor %r10d, %r10d\n\txor %r8d, %r8d\n\tmov $56, %eax\n\tsyscall\n"
	"\ttest %eax, %eax\n\tjnz 1f\n\txor %ebp, %ebp\n\tcall work\n\tmov $60, %eax\n\txor %edi, %edi\n\tsyscall\n1:\tret\n");

int main(void)
{
	enum { SIZE = 1 << 18 };
	char line[99];
	while (fgets(line, sizeof line, stdin)) {
		char *stack = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		sum = done = 0;
		make(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS, stack + SIZE - 64);
		while (!done)
			sched_yield();
		printf("%ld\n", sum);
		fflush(stdout);
	}
	return 0;
}
