/* A program whose calls are known, without room for jumps. */
static volatile int sink;

__attribute__((noinline)) int leaf(int x)
{
	sink = x;
	return x + 1;
}

__attribute__((noinline)) int outer(int x)
{
	return leaf(x) + leaf(x + 1) + leaf(x + 2);
}

int main(void)
{
	for (int i = 0; i < 100; i++)
		outer(i);
	return 0;
}
