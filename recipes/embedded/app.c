// What is to be tested: it knows nothing of counters.
static int grade(int n)
{
	if (n < 10)
		return 0;
	if (n % 2)
		return 1;
	return 2;
}

int app(void)
{
	int sum = 0;
	for (int i = 5; i < 10; i++)
		sum += grade(i);
	return sum;
}
