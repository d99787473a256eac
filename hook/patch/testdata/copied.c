// Coroutines that share one stack: what one has on it is copied away while it waits, and back
// before it goes on, as greenlet (gevent), continuations of Scheme and others do it. The exits
// of their functions have no room: ret is jumped at, and code follows at once.
// Commands: "hello"; "run N": two coroutines call in turn, N rounds each, the answer is a sum.
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN __attribute__((noinline, noclone, patchable_function_entry(0)))
static struct co { jmp_buf at; char *copy, *low; size_t size; int started, done; void (*run)(long); } co[2], *cur;
static char *base;
static jmp_buf scheduler;
static long rounds;
long total;

PLAIN void yield(void)
{
	if (setjmp(cur->at))
		return;
	cur->low = (char *)(((uintptr_t)__builtin_frame_address(0) - 512) & ~15ul);
	cur->size = base - cur->low;
	cur->copy = realloc(cur->copy, cur->size);
	memcpy(cur->copy, cur->low, cur->size);
	longjmp(scheduler, 1);
}

// tight is a function that adds its argument, calls another, and again adds what it has been given.
#define TIGHT(name, callee, more)                                                                 \
	__asm__(".text\n.globl " name "\n.type " name ", @function\n"                                \
	        name ":\n.cfi_startproc\n771: .byte 0x90,0x90,0x90,0x90,0x90\n"                      \
	        "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbx, 0\nmov %rdi,%rbx\nadd %rdi,total(%rip)\n" \
	        more "call " callee "\nadd %rbx,total(%rip)\npop %rbx\n.cfi_adjust_cfa_offset -8\n"   \
	        ".cfi_restore rbx\ntest %rax,%rax\nje 772f\nincq total(%rip)\n772: ret\n.cfi_endproc\n"         \
	        ".size " name ", . - " name "\n"                                                      \
	        ".section __patchable_function_entries,\"aw\",@progbits\n.align 8\n.quad 771b\n.text\n")
TIGHT("leaf", "yielded", "");
TIGHT("left", "leaf", "");
TIGHT("right", "leaf", "inc %rdi\n");
// passes ends by a jump to another function, besides.
__asm__(".text\n.globl passes\n.type passes, @function\npasses:\n.cfi_startproc\n"
        "771: .byte 0x90,0x90,0x90,0x90,0x90\ntest %rdi,%rdi\njne left\ntest %rdi,%rdi\nje 772f\nnop\n772: ret\n.cfi_endproc\n"
        ".size passes, . - passes\n.section __patchable_function_entries,\"aw\",@progbits\n.align 8\n.quad 771b\n.text\n");
void left(long), right(long);

PLAIN long yielded(void) { yield(); return 0; }
PLAIN void one(long n) { for (long i = 0; i < n; i++) left(i); }
PLAIN void two(long n) { for (long i = 0; i < n; i++) right(i); }
PLAIN void resume(void)
{
	volatile char room[8192]; // below what is copied
	room[0] = 0;
	memcpy(cur->low, cur->copy, cur->size);
	longjmp(cur->at, 1);
}
PLAIN void begin(void) { cur->started = 1; cur->run(rounds); cur->done = 1; longjmp(scheduler, 1); }
PLAIN void schedule(void)
{
	static int k;
	base = (char *)__builtin_frame_address(0) - 256;
	setjmp(scheduler);
	while (!co[0].done || !co[1].done) {
		char pad[1024];
		__asm__ volatile("" ::"r"(pad) : "memory");
		cur = &co[k ^= 1];
		if (cur->done)
			continue;
		if (cur->started)
			resume();
		else
			begin();
	}
}

int main(void)
{
	char line[100];
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "run %ld", &rounds) == 1) {
			total = 0;
			for (int i = 0; i < 2; i++)
				co[i].started = co[i].done = 0;
			co[0].run = one;
			co[1].run = two;
			schedule();
			printf("sum %ld\n", total);
		} else {
			puts("hello");
		}
	}
	return 0;
}
