extern void __gcov_dump(void);

int run(int n)
{
	int sum = 0;
	while (n-- > 0)
		sum += n & 1 ? n : 1;
	return sum;
}

__attribute__((no_profile_instrument_function)) void dump(void)
{
	__gcov_dump();
}
