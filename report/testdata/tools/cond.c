int two(int a, int b) { return a && b; } int three(int c) { return c ? 2 : 1; }
int main(int argc, char **argv)
{
	if (argc > 1 || (argv[0] && argc == 1))
		return two(1, 0);
	return three(0);
}
