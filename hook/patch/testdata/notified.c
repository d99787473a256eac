/* A library for loader.c whose constructor and destructor make calls: -DNAME=... */
int leaf(int x);

static volatile int sink;

__attribute__((noinline)) void NAME(int x) { sink = leaf(x); }

__attribute__((constructor)) static void begin(void)
{
	for (int i = 0; i < 100; i++)
		NAME(i);
}

__attribute__((destructor)) static void end(void)
{
	for (int i = 0; i < 10; i++)
		NAME(i);
}

int plugin(int (*f)(int), int x)
{
	NAME(x);
	return f(x);
}
