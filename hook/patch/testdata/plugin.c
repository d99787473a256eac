/* A library for loader.c: -DNAME=... */
__attribute__((noinline)) int NAME(int (*f)(int), int x)
{
	int v = f(x);
	__asm__ volatile("" : "+r"(v)); /* no tail call */
	return v;
}
int plugin(int (*f)(int), int x)
{
	int v = NAME(f, x);
	__asm__ volatile("" : "+r"(v));
	return v;
}
