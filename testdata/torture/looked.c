/* Code that looks at its caller, and libraries that come and go: dlsym(RTLD_NEXT) by a
   tail call, dlopen, and thread-local storage of what is loaded. build: dynamic; function: next */
#include "torture.h"
#include <dlfcn.h>

FUNCTION void *next(const char *name) { return dlsym(RTLD_NEXT, name); }
FUNCTION long loads(const char *library, const char *function)
{
	void *h = dlopen(library, RTLD_NOW);
	double (*f)(double);
	if (!h)
		return -1;
	*(void **)&f = dlsym(h, function);
	long x = f ? (long)(f(4) * 100) : -2;
	dlclose(h);
	return x;
}
FUNCTION long level(void) { return __builtin_return_address(0) != 0; }
int main(int argc, char **argv)
{
	begin(argc, argv);
	for (long round = 0; more(round); round++) {
		CHECK(next("malloc") != 0, 1);
		CHECK(next("no such function") != 0, 0);
		CHECK(loads("libm.so.6", "sqrt"), 200);
		CHECK(dlopen("libno-such-library.so", RTLD_NOW) != 0, 0);
		CHECK(level(), 1);
	}
	return ended();
}
