/* Calls through a library and back, on a stack that is larger than its copy. */
#include <stdlib.h>
#include <string.h>

volatile unsigned long sink;

__attribute__((noinline)) void leaf(void)
{
	for (int i = 0; i < 20000; i++)
		sink += i;
}

static int compare(const void *a, const void *b)
{
	leaf();
	return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) int sort(void)
{
#ifdef UNUSED
	volatile char large[1 << LARGE]; /* the first and the last page are used */
#else
	char large[1 << LARGE];
#endif
	int v[64];

#ifdef UNUSED
	large[0] = large[sizeof large - 1] = 1;
#else
	memset(large, 1, sizeof large);
#endif
	for (int i = 0; i < 64; i++)
		v[i] = (i * 7919) % 331;
	if (LARGE < 16)
		qsort(v, 64, sizeof v[0], compare);
	else
		for (int i = 0; i < 400; i++)
			compare(v, v + 1);
	return v[3] + large[v[5] < 0 ? 0 : sizeof large - 1];
}

int main(void)
{
	int all = 0;

	for (int i = 0; i < 60; i++)
		all += sort();
	return all == 0;
}
