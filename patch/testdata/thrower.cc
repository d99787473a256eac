// A library for loader.c that throws exceptions, in a program without an
// unwinder so far.
__attribute__((noinline)) static int thrower(int (*f)(int), int x)
{
	throw f(x);
}
extern "C" int plugin(int (*f)(int), int x)
{
	try {
		return thrower(f, x) - 1;
	} catch (int v) {
		return v;
	}
}
