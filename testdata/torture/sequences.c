/* Counters of each CPU by restartable sequences (rseq), as tcmalloc has them, in the area
   that glibc registers. build: dynamic; function: count */
#include "torture.h"
#include <pthread.h>
#include <sys/rseq.h>

static struct { volatile long n; char pad[120]; } counters[1024] __attribute__((aligned(128)));
FUNCTION void count(long pause)
{
	struct rseq *r = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n.balign 32\n9: .long 0, 0\n.quad 2f, 3f - 2f, 4f\n.popsection\n"
		"1: lea 9b(%%rip), %%rax\nmov %%rax, 8(%[r])\n"
		"2: mov 4(%[r]), %%eax\nshl $7, %%rax\nadd %[c], %%rax\nmov (%%rax), %%rdx\ninc %%rdx\nmov %[pause], %%rcx\n"
		"5: dec %%rcx\njnz 5b\nmov %%rdx, (%%rax)\n"
		"3: movq $0, 8(%[r])\njmp 6f\n"
		".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n4: jmp 1b\n6:\n"
		:: [r] "r"(r), [c] "r"(counters), [pause] "r"(pause) : "rax", "rcx", "rdx", "memory", "cc");
}
static void *work(void *p)
{
	for (int i = 0; i < 500; i++)
		count(2000);
	return p;
}
int main(int argc, char **argv)
{
	begin(argc, argv);
	if (__rseq_size == 0) {
		puts("no rseq");
		return ended();
	}
	for (long round = 0; more(round); round++) {
		pthread_t t[4];
		long sum = 0;
		for (int i = 0; i < 4; i++)
			pthread_create(&t[i], 0, work, 0);
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], 0);
		for (int i = 0; i < 1024; i++) {
			sum += counters[i].n;
			counters[i].n = 0;
		}
		CHECK(sum, 2000);
	}
	return ended();
}
