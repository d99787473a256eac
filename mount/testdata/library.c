int run(int n)
{
	return n + 2;
}
