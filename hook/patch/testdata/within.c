// Answers each command with a line. "N" steps to the Nth nop of f and has a handler of
// a signal wait there for the next command, on a stack of its own; "calls" tells how often
// f was called.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static volatile int calls, at, steps, deeper;
static char line[100];
__attribute__((noinline, patchable_function_entry(5))) void f(void) { calls++; }

static const char *command(void)
{
	if (!fgets(line, sizeof line, stdin))
		exit(0);
	line[strcspn(line, "\n")] = 0;
	return line;
}
static void answer(const char *s) { puts(s); fflush(stdout); }

static void step(int s, siginfo_t *i, void *v)
{
	greg_t *r = ((ucontext_t *)v)->uc_mcontext.gregs;
	if (!at || r[REG_RIP] != (greg_t)f + at)
		return;
	r[REG_EFL] &= ~0x100;
	at = 0;
	answer("within");
	if (deeper)
		raise(SIGUSR1); // another handler, on another stack
	else
		command();
	answer("back");
}
static void other(int s) { command(); }

int main(void)
{
	static char stack[1 << 16] __attribute__((aligned(16)));
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction a = {.sa_sigaction = step, .sa_flags = SA_SIGINFO}, b = {.sa_handler = other, .sa_flags = SA_ONSTACK};
	sigaltstack(&alternate, 0);
	sigaction(SIGTRAP, &a, 0);
	sigaction(SIGUSR1, &b, 0);
	for (;;) {
		const char *c = command();
		if (*c >= '1' && *c <= '4') {
			at = *c - '0';
			deeper = c[1] == '+';
			__asm__ volatile("pushfq; orq $0x100,(%%rsp); popfq" ::: "memory", "cc");
			f();
		} else {
			if (!strcmp(c, "call"))
				f();
			char b[20];
			sprintf(b, "%d", calls);
			answer(b);
		}
	}
}
