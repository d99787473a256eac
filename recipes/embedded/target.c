#include <gcov.h>

int app(void);

// Bytes leave the target here: a UART, a debugger's channel, shared memory. This
// target is a process without a C library, and its UART is standard output.
static void put(const void *bytes, unsigned length, void *arg)
{
	long written;
	(void)arg;
	__asm__ volatile("syscall" : "=a"(written) : "a"(1L), "D"(1L), "S"(bytes), "d"((unsigned long)length) : "rcx", "r11", "memory");
}

#if __GNUC__ >= 13
static void put_name(const char *name, void *arg)
{
	__gcov_filename_to_gcfn(name, put, arg);
}
#else
static void put_name(const char *name, void *arg)
{
	(void)name, (void)arg; // footfall finds the name by the stamp
}
#endif

// Memory for what is being written; it is never given back.
static void *allocate(unsigned size, void *arg)
{
	static char pool[1 << 16];
	static unsigned used;
	void *p = pool + used;
	(void)arg;
	used += (size + 15) & ~15u;
	return used <= sizeof pool ? p : 0;
}

// The compiler puts a pointer to each object's counters into the section
// gcov_info, and the linker knows where that begins and ends.
extern const struct gcov_info *const __start_gcov_info[];
extern const struct gcov_info *const __stop_gcov_info[];

void send_counters(void)
{
	const struct gcov_info *const *info = __start_gcov_info;
	__asm__("" : "+r"(info)); // the end is another array to the compiler
	for (; info != __stop_gcov_info; info++)
		__gcov_info_to_gcda(*info, put_name, put, allocate, 0);
}

// What a libgcov made for a system with files refers to, and nobody calls here.
// One made for the target itself (arm-none-eabi and the like) does without.
void __gcov_merge_add(void *counters, unsigned n) { (void)counters, (void)n; }
void *mmap(void) { return (void *)-1; }
void abort(void) { for (;;); }
unsigned long strlen(const char *s) { unsigned long n = 0; while (s[n]) n++; return n; }

void _start(void)
{
	app();
	send_counters();
	__asm__ volatile("syscall" : : "a"(60L), "D"(0L));
	__builtin_unreachable();
}
