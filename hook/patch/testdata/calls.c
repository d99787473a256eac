/* Calls a known number of functions on command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

volatile int sink;

NOINLINE int leaf(int x) { return x * 3 + 1; }
NOINLINE int middle(int x)
{
	int sum = 0;
	for (int i = 0; i < 3; i++)
		sum += leaf(x + i);
	return sum;
}
NOINLINE int fib(int n)
{
	if (n < 2)
		return n;
	int a = fib(n - 1), b = fib(n - 2);
	sink = b; /* after the call, so that it stays one */
	return a + b;
}
NOINLINE int tailed(int x) { sink = x; return x + 1; }
NOINLINE int tail(int x) { sink = x; return tailed(x * 2); }

int main(void)
{
	char line[100];
	while (fgets(line, sizeof line, stdin)) {
		int n, bad = 0;
		if (sscanf(line, "run %d", &n) == 1) {
			for (int i = 0; i < n; i++) {
				bad += middle(i) != 9 * i + 12;
				bad += fib(10) != 55;
				bad += tail(i) != 2 * i + 1;
			}
			printf(bad ? "bad %d\n" : "ok %d\n", bad ? bad : n);
		} else {
			printf("%s", line);
		}
		fflush(stdout);
	}
	return 0;
}
