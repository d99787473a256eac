/* Calls leaf and tree by known chains. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noipa))

static volatile int sink;
static __thread jmp_buf back;

NOINLINE int leaf(int x) { sink = x; return x + 1; }

NOINLINE int left(int x) { int v = leaf(x); sink = v; return v; }
NOINLINE int right(int x) { int v = leaf(x); sink = v; v += left(x); sink = v; return v; }

/* Many registers in use, so that all that are saved by functions are. */
NOINLINE int busy(int x)
{
	int a = x, b = x + 1, c = x + 2, d = x + 3, e = x + 4, f = x + 5, g = x + 6;
	for (int i = 0; i < 2; i++) {
		a += right(b + c);
		b += left(a + d);
		c += a; d += b; e += c; f += d; g += e + f;
	}
	sink = a + b + c + d + e + f + g;
	return sink;
}

/* More arguments than registers: the stack of the caller moves. */
NOINLINE int many(int a, int b, int c, int d, int e, int f, int g, int h)
{
	int v = leaf(a + b + c + d) + e + f + g + h;
	sink = v;
	return v;
}
NOINLINE int pusher(int x)
{
	int v = left(x);
	v += many(x, 1, 2, 3, 4, 5, 6, v);
	sink = v;
	v += left(v);
	sink = v;
	return v;
}

NOINLINE int down(int n)
{
	int v = n > 0 ? down(n - 1) : leaf(n);
	sink = v;
	return v;
}

/* Is counted itself, and is its own caller. */
NOINLINE int tree(int n)
{
	int v = n > 0 ? tree(n - 1) + tree(n - 1) : 1;
	sink = v;
	return v;
}

NOINLINE int tailed(int x) { int v = leaf(x); sink = v; return v; }
NOINLINE int tail(int x) { sink = x; return tailed(x + 1); }
NOINLINE int jumps(int x) { sink = x; return leaf(x + 1); }
NOINLINE int tails(int x) { int v = tail(x); sink = v; v += jumps(x); sink = v; return v; }

NOINLINE int deep(int n)
{
	if (n == 0)
		longjmp(back, 1);
	int v = deep(n - 1);
	sink = v;
	return v;
}
NOINLINE int thrown(int x)
{
	if (setjmp(back) == 0)
		deep(5);
	int v = leaf(x);
	sink = v;
	v = left(x);
	sink = v;
	return v;
}

NOINLINE int compare(const void *a, const void *b)
{
	int v = leaf(*(const int *)a);
	sink = v;
	return *(const int *)a - *(const int *)b;
}
NOINLINE int sort(void)
{
	int numbers[] = {2, 1};
	qsort(numbers, 2, sizeof numbers[0], compare);
	sink = numbers[0];
	return numbers[1];
}

/* Whoever calls this is left out: there is no room in it. */
__attribute__((patchable_function_entry(0))) NOINLINE int plain(int x) { int v = leaf(x); sink = v; return v; }
__attribute__((patchable_function_entry(0))) NOINLINE int plainer(int x) { int v = plain(x); sink = v; return v; }
NOINLINE int over(int x) { int v = plainer(x); sink = v; return v; }
__attribute__((patchable_function_entry(0))) NOINLINE int through(int x) { int v = left(x); sink = v; return v; }
NOINLINE int above(int x) { int v = through(x); sink = v; return v; }

static void on_signal(int s) { sink = left(s); }

NOINLINE int work(int n)
{
	for (int i = 0; i < n; i++) {
		busy(i);
		pusher(i);
		down(3);
		tree(3);
		tails(i);
		thrown(i);
		sort();
	}
	sink = n;
	return n;
}
NOINLINE int apart(int n)
{
	for (int i = 0; i < n; i++) {
		over(i);
		above(i);
	}
	sink = n;
	return n;
}

struct job { pthread_t thread; int n; };
static void *run(void *p)
{
	work(((struct job *)p)->n);
	sink = 0;
	return p;
}

int main(void)
{
	char line[100];
	int n;
	signal(SIGUSR1, on_signal);
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "work %d", &n) == 1)
			sink = work(n);
		if (sscanf(line, "apart %d", &n) == 1)
			sink = apart(n);
		if (sscanf(line, "down %d", &n) == 1)
			sink = down(n);
		if (sscanf(line, "threads %d", &n) == 1) {
			struct job jobs[8];
			for (int i = 0; i < 8; i++) {
				jobs[i].n = n;
				pthread_create(&jobs[i].thread, 0, run, &jobs[i]);
			}
			for (int i = 0; i < 8; i++)
				pthread_join(jobs[i].thread, 0);
		}
		printf("%s", line);
		fflush(stdout);
	}
	return 0;
}
