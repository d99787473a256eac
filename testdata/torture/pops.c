/* A function that takes its arguments from the stack itself (ret $24): Swift's convention
   for asynchronous functions, which Clang has for C, too. build: clang; function: add */
#include "torture.h"
static volatile long sum;
FUNCTION __attribute__((swiftasynccall)) void add(char *__attribute__((swift_async_context)) context, long a, long b, long c, long d, long e, long f, long g, long h)
{
	(void)context;
	sum += a + b + c + d + e + f + g + h;
}
int main(int argc, char **argv)
{
	char context[64];
	begin(argc, argv);
	for (long round = 0; more(round); round++) {
		sum = 0;
		for (long i = 0; i < 1000; i++)
			add(context, i, 1, 2, 3, 4, 5, 6, 7);
		CHECK(sum, 527500);
	}
	return ended();
}
