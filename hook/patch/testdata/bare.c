// A program without libc: nobody gives it a thread pointer. It answers each line.
#ifdef __x86_64__
static long call(long number, long a, long b, long c)
{
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return r;
}
enum { READ = 0, WRITE = 1, EXIT_GROUP = 231 };
#else
static long call(long number, long a, long b, long c)
{
	register long n __asm__("x8") = number, r __asm__("x0") = a, second __asm__("x1") = b, third __asm__("x2") = c;
	__asm__ volatile("svc #0" : "+r"(r) : "r"(n), "r"(second), "r"(third) : "memory");
	return r;
}
enum { READ = 63, WRITE = 64, EXIT_GROUP = 94 };
#endif

__attribute__((noinline, noclone)) long step(char *line) { return call(READ, 0, (long)line, 100); }

__attribute__((noinline)) static long answer(void) { return call(WRITE, 1, (long)"42\n", 3); }

__attribute__((patchable_function_entry(0))) void _start(void)
{
	char line[100];
	while (step(line) > 0)
		answer();
	call(EXIT_GROUP, 0, 0, 0);
}
