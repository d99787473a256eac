/* Recursion, two cycles, and a static function of the same name in each file. */
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

volatile unsigned long sink;
int other(int n);

static NOINLINE void helper(int n)
{
	for (int i = 0; i < n * 10000; i++)
		sink += i;
}

NOINLINE int fib(int n)
{
	sink++;
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

NOINLINE int odd(int n);
NOINLINE int even(int n)
{
	helper(1);
	return n == 0 ? 1 : odd(n - 1);
}

NOINLINE int odd(int n)
{
	sink++;
	return n == 0 ? 0 : even(n - 1);
}

NOINLINE int down(int n);
NOINLINE int twice(int n)
{
	helper(1);
	return n ? down(n - 1) + down(n - 1) : 0;
}

NOINLINE int down(int n)
{
	sink += n;
	return n ? twice(n - 1) : 0;
}

NOINLINE void first(void)
{
	helper(300);
	other(3);
}

NOINLINE void second(void)
{
	helper(100);
	first();
	even(200);
}

static int compare(const void *a, const void *b)
{
	helper(1);
	return *(int *)a - *(int *)b;
}

__attribute__((constructor)) void early(void)
{
	twice(8);
	even(3);
}

int main(void)
{
	int v[200];
	int (*indirect)(int) = sink > 1 ? fib : even;

	for (int i = 0; i < 200; i++)
		v[i] = (i * 7919) % 331;
	for (int i = 0; i < 50; i++) {
		first();
		second();
		if (i % 10 == 0)
			indirect(20);
	}
	qsort(v, 200, sizeof v[0], compare);
	odd(500);
	return 0;
}
