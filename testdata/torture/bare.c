/* A program without libc: nobody sets the thread pointer. build: bare; function: step */
static volatile long calls;
static long call(long number, long a, long b, long c)
{
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return r;
}
__attribute__((noinline)) void step(void) { calls++; }
__attribute__((noinline)) static int more(void)
{
	struct { int fd; short events, revents; } in = {0, 1, 0};
	char line[64];
	return call(7, (long)&in, 1, 0) <= 0 || ((in.revents & 1) && call(0, 0, (long)line, sizeof line) > 0);
}
__attribute__((patchable_function_entry(0))) void _start(void)
{
	struct { long s, ns; } ms = {0, 1000000};
	long expected = 0;
	do {
		step();
		expected++;
		call(35, (long)&ms, 0, 0);
	} while (expected < 100 || more());
	call(1, 1, (long)(calls == expected ? "right\n" : "wrong\n"), 6);
	call(231, calls != expected, 0, 0);
}
