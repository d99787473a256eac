static int twice(int x) { return x % 3 ? 2 * x : x; }
static int less(int x) { return x - 1; }
static int never(int x) { return x / (x + 1); }

static int (*calls[])(int) = {twice, less, never};

int work(int n)
{
	int sum = 0;
	for (int i = 0; i < 1 + n % 5; i++)
		sum += calls[n % 7 == 0](i) / (1 + n % 4);
	if (n < 0 && sum > n)
		return calls[2](n);
	switch (n % 10) {
	case 1:
		return sum;
	case 2:
		return sum + 1;
	case 9:
		return sum % (n % 3 + 1);
	}
	return sum + (n > 5 || sum > 3 ? 1 : 2);
}

int unused(int n)
{
	return n > 3 ? never(n) : 4;
}
