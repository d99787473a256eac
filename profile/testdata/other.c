extern volatile unsigned long sink;

static __attribute__((noinline)) void helper(int n)
{
	for (int i = 0; i < n * 10000; i++)
		sink += i;
}

int other(int n)
{
	helper(n);
	return n;
}
