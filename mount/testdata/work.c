/* The only function with one counter: it says how often it was called. */
static int odd(int n)
{
	return n & 1;
}

int work(int n)
{
	int sum = 0;

	odd(n);
	while (n-- > 0)
		sum += n & 2 ? n : 1;
	return sum;
}

int never(int n)
{
	return n ? work(1) : 0;
}
