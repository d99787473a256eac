/* Coroutines with stacks of their own: those of ucontext, and of a switcher by hand with
   stacks of 64 and 16 KB side by side, in several threads. build: glibc; function: nested */
#include "torture.h"
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

struct coroutine {
	void *stack_pointer;
	long value, rounds;
	int done;
};
static __thread struct coroutine *current;
static __thread void *scheduler;

void switch_stacks(void **from, void *to);
__asm__(".text\n.globl switch_stacks\n.type switch_stacks, @function\nswitch_stacks:\n"
	"push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
	"pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n.size switch_stacks, . - switch_stacks\n");

FUNCTION void yield(void) { switch_stacks(&current->stack_pointer, scheduler); }
FUNCTION long leaf(long x) { yield(); return x + 1; }
FUNCTION long nested(long x, int depth) { return depth ? nested(x, depth - 1) + 1 : leaf(x); }
FUNCTION void body(void)
{
	struct coroutine *c = current;
	for (long i = 0; i < c->rounds; i++)
		c->value += nested(i, i % 7);
	c->done = 1;
	for (;;)
		yield();
}
FUNCTION void by_hand(void)
{
	enum { N = 6 };
	struct coroutine all[N] = {{0}};
	size_t sizes[N] = {65536, 16384, 65536, 16384, 16384, 65536}, total = 0, at = 0;
	for (int i = 0; i < N; i++)
		total += sizes[i];
	char *stacks = mmap(0, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < N; i++) {
		at += sizes[i];
		void **top = (void **)(stacks + at) - 2;
		*--top = (void *)body;
		all[i].stack_pointer = top - 6;
		all[i].rounds = 20 + i;
	}
	for (int left = N; left;)
		for (int i = 0; i < N; i++) {
			if (all[i].done)
				continue;
			current = &all[i];
			switch_stacks(&scheduler, all[i].stack_pointer);
			left -= all[i].done;
		}
	for (int i = 0; i < N; i++) {
		long expected = 0;
		for (long k = 0; k < all[i].rounds; k++)
			expected += k + 1 + k % 7;
		CHECK(all[i].value, expected);
	}
	munmap(stacks, total);
}

static __thread ucontext_t here, there;
static __thread long steps;
FUNCTION long step(long x) { return x + 2; }
static void endless(void)
{
	for (;;) {
		steps = step(steps);
		swapcontext(&there, &here);
	}
}
FUNCTION void by_ucontext(void)
{
	char *stack = malloc(32768);
	steps = 0;
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = 32768;
	makecontext(&there, endless, 0);
	for (int i = 0; i < 100; i++)
		swapcontext(&here, &there);
	CHECK(steps, 200);
	free(stack);
}
static void *work(void *p)
{
	for (int i = 0; i < 10; i++) {
		by_hand();
		by_ucontext();
	}
	return p;
}
int main(int argc, char **argv)
{
	begin(argc, argv);
	for (long round = 0; more(round); round++) {
		pthread_t t;
		pthread_create(&t, 0, work, 0);
		work(0);
		pthread_join(t, 0);
	}
	return ended();
}
