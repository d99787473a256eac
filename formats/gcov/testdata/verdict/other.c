/* The functions of shared.h as functions of their own, which are not called. */
#include "shared.h"

int (*volatile pointers[])(int) = {never};

int begin(int level) { return level > 50; }
int finish(int line) { return line; }
int other(int x)
{
	int (*volatile f)(int, int, int) = x == 12345 ? clamp : 0;
	if (f)
		return f(x, 1, 2);
	return x + (pointers[0] == 0);
}
