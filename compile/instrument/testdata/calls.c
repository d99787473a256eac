/* Calls of every kind in C. */
#include "calls.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

OWN(fib) OWN(helper) OWN(variadic) OWN(doubles) OWN(compare) OWN(add) OWN(sub) OWN(mul) OWN(apply) OWN(tail)
OWN(even) OWN(odd) OWN(choose) OWN(jumps) OWN(big) OWN(thread_local_sum) OWN(use_asm) OWN(unused) OWN(visit) OWN(even_tail)
OWN(fifth) OWN(sixth) OWN(fourth) OWN(cold)

extern __thread int shared_local;
static __thread int local = 1;
static int (*volatile pointer)(int, int);
static jmp_buf jump;

static NOINLINE int fib(int n) { COUNT(fib); return n < 2 ? n : fib(n - 1) + fib(n - 2); }

/* other.c has one of this name too. */
static NOINLINE int helper(int n) { COUNT(helper); return n * 3; }

static NOINLINE int variadic(int n, ...)
{
	va_list list;
	int sum = 0;
	COUNT(variadic);
	va_start(list, n);
	while (n-- > 0)
		sum += (int)va_arg(list, double);
	va_end(list);
	return sum;
}

static NOINLINE double doubles(double a, double b, float c) { COUNT(doubles); return a * b + c; }

static int compare(const void *a, const void *b) { COUNT(compare); return *(const int *)a - *(const int *)b; }

static NOINLINE int add(int a, int b) { COUNT(add); return a + b; }
static NOINLINE int sub(int a, int b) { COUNT(sub); return a - b; }
static NOINLINE int mul(int a, int b) { COUNT(mul); return a * b; }
static NOINLINE int fourth(int a, int b) { COUNT(fourth); return a + 2 * b; }
static NOINLINE int fifth(int a, int b) { COUNT(fifth); return a + 3 * b; }
static NOINLINE int sixth(int a, int b) { COUNT(sixth); return a + 4 * b; }

/* One site, more targets than it has room for. */
static NOINLINE int apply(int (*f)(int, int), int n) { COUNT(apply); return f(n, 7) + 1; }

static NOINLINE int tail(int n) { COUNT(tail); return pointer(n, 2); }

static NOINLINE int odd(int n);
static NOINLINE int even(int n) { COUNT(even); return n == 0 ? 1 : odd(n - 1); }
static NOINLINE int odd(int n) { COUNT(odd); return n == 0 ? 0 : even(n - 1); }

/* A conditional tail call, if the compiler makes those. */
static NOINLINE void even_tail(int n) { COUNT(even_tail); if (n > 3) other(n); }

static NOINLINE int choose(int n)
{
	COUNT(choose);
	switch (n) {
	case 0: return add(n, 1);
	case 1: return puts("one") > 0;
	case 2: return sub(n, 5);
	case 3: return mul(n, n) + 1;
	case 4: return helper(n);
	case 5: return fib(3);
	case 6: return (int)strlen("six");
	}
	return -1;
}

static NOINLINE void jumps(int n) { COUNT(jumps); if (n == 0) longjmp(jump, 5); jumps(n - 1); puts("not reached"); }

struct large { int n[20]; };
static NOINLINE struct large big(int n) { struct large l; COUNT(big); memset(&l, 0, sizeof l); l.n[n] = n; return l; }

static NOINLINE int thread_local_sum(int n) { COUNT(thread_local_sum); shared_local += n; local += n; return shared_local + local; }

static NOINLINE int use_asm(int n)
{
	COUNT(use_asm);
#if defined(__x86_64__) || defined(__i386__)
	__asm__ volatile("addl $5, %0; jmp 1f; nop; 1:" : "+r"(n) : : "cc");
#else
	n += 5;
#endif
	return n;
}

static NOINLINE __attribute__((cold)) int cold(int n) { COUNT(cold); printf("rare %d\n", n); return n; }

static NOINLINE int visit(int n)
{
	COUNT(visit);
	if (__builtin_expect(n == 13, 0))
		return cold(n) + cold(n + 1);
	return n;
}

void unused(void) { COUNT(unused); fib(1); }

int main(int argc, char **argv)
{
	int list[50], i, sum = 0;
	int (*functions[])(int, int) = {add, sub, mul, fourth, fifth, sixth};
	for (i = 0; i < 50; i++)
		list[i] = (i * 37) % 50;
	qsort(list, 50, sizeof *list, compare);
	sum += list[3] + fib(15) + helper(4) + other(6) + variadic(3, 1.0, 2.0, 3.5);
	sum += (int)doubles(2.5, 4, 1.25f);
	for (i = 0; i < 60; i++)
		sum += apply(functions[i % 6], i);
	for (i = 0; i < 10; i++) {
		pointer = functions[i % 2];
		sum += tail(i) + even(i) + choose(i) + use_asm(i) + visit(i + 5);
		even_tail(i);
	}
	if (setjmp(jump) == 0)
		jumps(4);
	sum += big(7).n[7] + thread_local_sum(argc) + thread_local_sum(2);
	printf("sum %d %s\n", sum, argc > 5 ? argv[1] : "");
	TELL(fib); TELL(variadic); TELL(doubles); TELL(compare); TELL(add); TELL(sub); TELL(mul); TELL(apply); TELL(tail);
	TELL(even); TELL(odd); TELL(choose); TELL(jumps); TELL(big); TELL(thread_local_sum); TELL(use_asm); TELL(unused); TELL(visit);
	TELL(even_tail); TELL(fourth); TELL(fifth); TELL(sixth); TELL(cold);
	printf("count helper@calls.c %lu\n", own_helper);
	tell_other();
	return 0;
}
