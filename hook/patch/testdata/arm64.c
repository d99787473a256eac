/* Runs under qemu-aarch64: maps the block and the region that the test has made
 * as files, changes its own code as it is told, and calls a known number of
 * functions on threads whose stacks have a shadow. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#define NOINLINE __attribute__((noinline))
#define STACKS ((char *)0x100000000)
#define SHADOW ((char *)0x110000000)
#define STACKS_SIZE 0x4000000
#define STACK 0x100000

volatile int sink;

NOINLINE int leaf(int x) { return x * 3 + 1; }
NOINLINE int middle(int x)
{
	int sum = 0;
	for (int i = 0; i < 3; i++)
		sum += leaf(x + i);
	return sum;
}
NOINLINE int fib(int n)
{
	if (n < 2)
		return n;
	int a = fib(n - 1), b = fib(n - 2);
	sink = b; /* after the call, so that it stays one */
	return a + b;
}
NOINLINE int tailed(int x) { sink = x; return x + 1; }
NOINLINE int tail(int x) { sink = x; return tailed(x * 2); }

struct big { double d[6]; };
NOINLINE struct big many(int a, long b, double c, int d, double e, long f, int g, double h, int i, int j, double k, int l)
{
	sink = a;
	return (struct big){{a + b + c, d + e, f + g, h + i, j + k, l}};
}

/* Arguments in all registers and on the stack. */
NOINLINE double told(char a, long b, unsigned short c, long d, int e, long f, long g, const char *h, double s, float t, int i, const char *j,
		     double u, double v, double w, double x, double y, float z)
{
	sink = a + b + c + d + e + f + g + i;
	return s + t + u + v + w + x + y + z + (h != 0) + (j != 0);
}

NOINLINE void jumper(jmp_buf where) { sink = 1; longjmp(where, 1); }
NOINLINE int jumped(int x)
{
	jmp_buf where;
	if (setjmp(where) == 0)
		jumper(where);
	return x + 7;
}

NOINLINE void handled(void) { sink = 2; }
static void handler(int signal) { (void)signal; handled(); }

/* Handlers of signals that come at any time. */
static int interruptions;
static __thread volatile int own_interruptions;
NOINLINE void interrupted(void)
{
	__atomic_fetch_add(&interruptions, 1, __ATOMIC_RELAXED);
	own_interruptions++;
}
static void interrupt(int signal) { (void)signal; interrupted(); }

NOINLINE void empty(void) { __asm__ volatile(""); }

/* Whether a call leaves all registers alone that functions may change; x8, the
 * place of a result, and x18 among them. */
static int preserved(void)
{
	uint64_t before[24], after[24], floats[64], floats_after[64];
	for (int i = 0; i < 24; i++)
		before[i] = 0x0101010101010101 * (i + 1);
	for (int i = 0; i < 64; i++)
		floats[i] = 0x0101010101010101 * (i + 1);
	register uint64_t *b __asm__("x19") = before, *a __asm__("x20") = after;
	register uint64_t *f __asm__("x21") = floats, *g __asm__("x22") = floats_after;
	__asm__ volatile(
		"ldp x0, x1, [x19]\n ldp x2, x3, [x19, 16]\n ldp x4, x5, [x19, 32]\n ldp x6, x7, [x19, 48]\n"
		"ldp x8, x9, [x19, 64]\n ldp x10, x11, [x19, 80]\n ldp x12, x13, [x19, 96]\n ldp x14, x15, [x19, 112]\n"
		"ldp x16, x17, [x19, 128]\n ldr x18, [x19, 144]\n"
		"ld1 {v0.2d-v3.2d}, [x21], 64\n ld1 {v4.2d-v7.2d}, [x21], 64\n ld1 {v16.2d-v19.2d}, [x21], 64\n ld1 {v20.2d-v23.2d}, [x21], 64\n"
		"bl empty\n"
		"stp x0, x1, [x20]\n stp x2, x3, [x20, 16]\n stp x4, x5, [x20, 32]\n stp x6, x7, [x20, 48]\n"
		"stp x8, x9, [x20, 64]\n stp x10, x11, [x20, 80]\n stp x12, x13, [x20, 96]\n stp x14, x15, [x20, 112]\n"
		"stp x16, x17, [x20, 128]\n str x18, [x20, 144]\n"
		"st1 {v0.2d-v3.2d}, [x22], 64\n st1 {v4.2d-v7.2d}, [x22], 64\n st1 {v16.2d-v19.2d}, [x22], 64\n st1 {v20.2d-v23.2d}, [x22], 64\n"
		: "+r"(b), "+r"(a), "+r"(f), "+r"(g)
		:
		: "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x30",
		  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "memory", "cc");
	return memcmp(before, after, 19 * 8) == 0 && memcmp(floats, floats_after, 32 * 8) == 0;
}

static int round_of(int i)
{
	int bad = 0;
	bad += middle(i) != 9 * i + 12;
	bad += fib(10) != 55;
	bad += tail(i) != 2 * i + 1;
	struct big r = many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
	for (int k = 0; k < 6; k++)
		bad += r.d[k] != (int[]){6, 9, 13, 17, 21, 12}[k];
	bad += jumped(i) != i + 7;
	bad += raise(SIGUSR1) != 0;
	bad += !preserved();
	return bad;
}

static int rounds;
static void *runner(void *arg)
{
	long bad = 0;
	for (int i = 0; i < rounds; i++)
		bad += round_of(i);
	return (void *)(bad + (long)arg);
}

static void *teller(void *arg)
{
	long bad = 0;
	for (int i = 0; i < rounds; i++) {
		bad += told('x', i, 65535, 1L << 40, -5, -6, 7, 0, 2.5, -0.25, -9, (const char *)16, 3, 4, 5, 6, 7, 8.5) != 35.75 + 1;
		bad += !preserved();
	}
	return (void *)(bad + (long)arg);
}

/* Runs until there were so many signals. */
static int storm, running, rounds_made;
static void *runner_in_storm(void *arg)
{
	long bad = 0, i = 0;
	for (; own_interruptions < storm; i++)
		bad += round_of(i);
	__atomic_fetch_add(&rounds_made, i, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
	return (void *)(bad + (long)arg);
}

/* Frames on the stack: of the program, and elsewhere. */
static int frames[2];
extern char __executable_start[], etext[];
static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *arg)
{
	(void)arg;
	char *ip = (char *)_Unwind_GetIP(context);
	frames[ip < __executable_start || ip >= etext]++;
	return _URC_NO_REASON;
}
NOINLINE void walk(void)
{
	_Unwind_Backtrace(frame, NULL);
	sink = 3;
}
NOINLINE void walked(void) { walk(); sink = 4; }
static void *walker(void *arg) { walked(); return arg; }

/* Ends the thread from within two calls; whoever has something to clean up in
 * the frames between is told. */
static volatile int cleaned;
static void clean(int *x) { cleaned += *x; }
NOINLINE void ender(void) { sink = 5; pthread_exit((void *)5); }
NOINLINE void ended(void)
{
	int __attribute__((cleanup(clean))) x = 10;
	ender();
	sink = x;
}
static void *runner_of_end(void *arg) { ended(); return arg; }

static long threads(int n, void *(*run)(void *))
{
	pthread_t ids[64];
	long sum = 0;
	for (int i = 0; i < n; i++) {
		pthread_attr_t a;
		pthread_attr_init(&a);
		if (pthread_attr_setstack(&a, STACKS + i * STACK, STACK) || pthread_create(&ids[i], &a, run, NULL))
			return -1;
	}
	for (int i = 0; __atomic_load_n(&running, __ATOMIC_ACQUIRE) > 0; i++) {
		pthread_kill(ids[i % n], SIGUSR2);
		usleep(50);
	}
	for (int i = 0; i < n; i++) {
		void *result;
		pthread_join(ids[i], &result);
		sum += (long)result;
	}
	return sum;
}

static int map(const char *file, unsigned long addr, unsigned long size, int protection)
{
	int fd = open(file, O_RDWR);
	void *at = mmap((void *)addr, size, protection, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, 0);
	close(fd);
	return at == (void *)addr;
}

static void change(unsigned long addr, unsigned word)
{
	mprotect((void *)(addr & -4096UL), 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	__atomic_store_n((unsigned *)addr, word, __ATOMIC_RELEASE);
	__builtin___clear_cache((char *)addr, (char *)addr + 4);
}

/* Where the C library has a thread's id, from the thread pointer on. */
static long id_place(void)
{
	char *pointer = __builtin_thread_pointer();
	for (long at = -2048; at < 0; at += 4)
		if (*(int *)(pointer + at) == (int)syscall(SYS_gettid))
			return at;
	return 0;
}

void __register_frame(void *);

int main(void)
{
	char line[1000], file[500];
	mmap(STACKS, STACKS_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
	mmap(SHADOW, STACKS_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
	signal(SIGUSR1, handler);
	signal(SIGUSR2, interrupt);
	while (fgets(line, sizeof line, stdin)) {
		unsigned long addr, size;
		unsigned word;
		int n;
		if (sscanf(line, "code %499s %lx %lx", file, &addr, &size) == 3) {
			printf("%d\n", map(file, addr, size, PROT_READ | PROT_WRITE | PROT_EXEC));
		} else if (sscanf(line, "memory %499s %lx %lx", file, &addr, &size) == 3) {
			printf("%d\n", map(file, addr, size, PROT_READ | PROT_WRITE));
		} else if (sscanf(line, "change %lx %x", &addr, &word) == 2) {
			printf("%x\n", *(unsigned *)addr);
			change(addr, word);
		} else if (sscanf(line, "unwind %lx", &addr) == 1) {
			__register_frame((void *)addr);
			printf("ok\n");
		} else if (sscanf(line, "run %d %d", &n, &rounds) == 2) {
			printf("bad %ld\n", threads(n, runner));
		} else if (sscanf(line, "storm %d %d", &n, &storm) == 2) {
			running = n;
			interruptions = rounds_made = 0;
			long bad = threads(n, runner_in_storm);
			printf("bad %ld %d %d\n", bad, rounds_made, interruptions);
		} else if (sscanf(line, "tell %d %d", &n, &rounds) == 2) {
			printf("bad %ld\n", threads(n, teller));
		} else if (sscanf(line, "main %d", &rounds) == 1) {
			printf("bad %ld\n", (long)runner(NULL));
		} else if (strcmp(line, "walk\n") == 0) {
			frames[0] = frames[1] = 0;
			threads(1, walker);
			printf("%d %d\n", frames[0], frames[1]);
		} else if (strcmp(line, "end\n") == 0) {
			cleaned = 0;
			printf("%ld %d\n", threads(1, runner_of_end), cleaned);
		} else if (strcmp(line, "place\n") == 0) {
			printf("%ld\n", id_place());
		} else {
			printf("%s", line);
		}
		fflush(stdout);
	}
	return 0;
}
