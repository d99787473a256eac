// A library for loader.c that throws exceptions, in a program without an
// unwinder so far.
__attribute__((noipa)) static int thrower(int (*f)(int), int x)
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
static volatile int caught;
__attribute__((constructor)) static void begin()
{
	for (int i = 0; i < 100; i++)
		caught = caught + plugin([](int x) { return x + 1; }, i);
}
