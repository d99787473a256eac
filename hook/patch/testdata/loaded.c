/* A library for loaders.c: -DNAME=..., -DLOADS="another one" */
#include <dlfcn.h>

extern long calls;
int leaf(int x);

__attribute__((noinline)) static int NAME(int x)
{
	int v = leaf(x);
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	return v;
}

int plugin(int x) { return NAME(x); }

__attribute__((constructor)) static void begin(void)
{
#ifdef LOADS
	void *library = dlopen(LOADS, RTLD_NOW);
	dlclose(library);
#endif
	for (int i = 0; i < 20; i++)
		NAME(i);
}

__attribute__((destructor)) static void end(void) { NAME(0); }
