/* Lines that blocks name in passing: by macros, by declarations with debug
   information, by functions that are inlined here and not there. */
#include <stdio.h>
#include "shared.h"

extern int begin(int level), finish(int line);

#define REPORT(level, ...)                                      \
	do {                                                    \
		int unused __attribute__((unused));             \
		if (begin(level))                               \
			printf(__VA_ARGS__), finish(__LINE__); \
		if ((level) >= 20)                              \
			__builtin_unreachable();                \
	} while (0)

int table[10];

__attribute__((noinline)) int work(int m)
{
	int r;
	if (m <= 0 || m >= 1000)
		REPORT(21, "bad %d\n", m);
	r = table[m % 10];
	if (m > 100)
		REPORT(19, "warn %d\n", m);
	for (int i = 0; i < 3; i++) { int k = i; if (k == 7) r = clamp(r, 0, k); }
	switch (m & 3) { case 0: r++; break; case 1: r = never(r); default: ; }
	return m * 2 + r;
}

int main(void)
{
	int s = 0;
	for (int i = 1; i < 50; i++)
		if (i % 4 != 1)
			s += work(i) + clamp(i, 3, 9);
	printf("%d %d\n", s, other(s));
	return 0;
}
