// Calls functions step by step (the trap flag), and unwinds at each step: from there on
// the callers must be those that there are. It answers each line, after "calls" and, in a
// new thread, "thread" when it has done so: how many steps there were, how many of them in
// code that is not its own, at how many places there so far, and how many chains were
// wrong, of which it describes some on standard error. After "plain" it calls them for a
// debugger to step through.
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#ifdef LIBUNWIND // instead of libgcc's
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif
#include <unwind.h>

#define FUNCTION __attribute__((noinline, noclone))
#define NOT_TRACED __attribute__((noinline, noclone, patchable_function_entry(0)))

static volatile long sink;

// Each has one caller: who called it is known.
FUNCTION long jumped(long a) { sink = a; return a + 1; }
FUNCTION long jumps(long a) { sink = a; return jumped(a * 2); } // at its end
FUNCTION long leaf(long a, const char *b) { sink = a; __asm__ volatile("" ::"r"(b)); return a; }
FUNCTION __attribute__((optimize("no-omit-frame-pointer"))) long framed(long a)
{
	char *p = alloca((a & 63) | 16);
	p[0] = a;
	__asm__ volatile("" ::"r"(p) : "memory");
	sink = leaf(p[0], "text");
	return sink + 1;
}
FUNCTION long pushes(long a)
{
	long b = sink + a, c = b * 3, d = c - a, e = d ^ b;
	__asm__ volatile("" : "+r"(b), "+r"(c), "+r"(d), "+r"(e));
	sink = framed(a) + jumps(a);
	__asm__ volatile("" : "+r"(b), "+r"(c), "+r"(d), "+r"(e));
	return a > 1000 ? b : c + d + e;
}
FUNCTION double many(double x, long a, long b, long c, long d, long e, long f, long g) { sink = pushes(a + g); return x + a + b + c + d + e + f + g; }
FUNCTION void outer(void)
{
	sink = many(1.5, 1, 2, 3, 4, 5, 6, 7) > 0;
	__asm__ volatile("");
}

// drive calls outer with values that are known in registers which calls preserve.
void drive(void);
__asm__(".text\n.globl drive\n.type drive, @function\ndrive:\n.cfi_startproc\n"
	"push %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset 3, -16\npush %rbp\n.cfi_def_cfa_offset 24\n.cfi_offset 6, -24\n"
	"push %r12\n.cfi_def_cfa_offset 32\n.cfi_offset 12, -32\npush %r13\n.cfi_def_cfa_offset 40\n.cfi_offset 13, -40\n"
	"push %r14\n.cfi_def_cfa_offset 48\n.cfi_offset 14, -48\npush %r15\n.cfi_def_cfa_offset 56\n.cfi_offset 15, -56\n"
	"mov $0x1003, %ebx\nmov $0x1006, %ebp\nmov $0x100c, %r12d\nmov $0x100d, %r13d\nmov $0x100e, %r14d\nmov $0x100f, %r15d\n"
	"call outer\n"
	"pop %r15\n.cfi_def_cfa_offset 48\npop %r14\n.cfi_def_cfa_offset 40\npop %r13\n.cfi_def_cfa_offset 32\n"
	"pop %r12\n.cfi_def_cfa_offset 24\npop %rbp\n.cfi_def_cfa_offset 16\npop %rbx\n.cfi_def_cfa_offset 8\nret\n"
	".cfi_endproc\n.size drive, . - drive\n");
NOT_TRACED void run(void)
{
	__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc");
	drive(); // the handler ends it
	__asm__ volatile("");
}

NOT_TRACED void plain(void)
{
	drive();
	__asm__ volatile("");
}

static const struct { const char *name; void *at; int caller; } functions[] = {
	{"run", run, -1}, {"drive", drive, 0}, {"outer", outer, 1}, {"many", many, 2}, {"pushes", pushes, 3}, {"framed", framed, 4},
	{"leaf", leaf, 5}, {"jumps", jumps, 4}, {"jumped", jumped, 4},
};
#define FUNCTIONS (int)(sizeof functions / sizeof *functions)

static int function_at(void *start)
{
	for (int i = 0; i < FUNCTIONS; i++)
		if (functions[i].at == start)
			return i;
	return -1;
}

static struct range { unsigned long from, to; } ours[16];
static int ranges;
static unsigned char visited[1 << 24];
static long steps, within, places, wrong;
static int last;

static long place(unsigned long pc) // within the code that is not the program's, -1: it is
{
	long before = 0;
	for (int i = 0; i < ranges; i++) {
		if (ours[i].from <= pc && pc < ours[i].to)
			return before + pc - ours[i].from;
		before += ours[i].to - ours[i].from;
	}
	return -1;
}

struct chain { int of[32], n, signal, all; unsigned long registers, at[48]; };
static const int preserved[] = {3, 6, 12, 13, 14, 15};

// add adds a frame to a chain: of a function that begins there, with what is in the registers
// above, and whether it was interrupted: then what came so far is the handler.
static void add(struct chain *c, unsigned long pc, int interrupted, unsigned long start, const unsigned long *registers)
{
	if (interrupted)
		c->n = c->all = 0, c->signal = 1;
	if (c->all < 48)
		c->at[c->all++] = pc;
	int f = function_at((void *)start);
	if (place(pc) < 0 && f >= 0 && c->n < 32) {
		c->of[c->n++] = f;
		for (int i = 0; f == 1 && i < 6; i++)
			if (registers[i] == (unsigned long)(0x1000 + preserved[i]))
				c->registers |= 1 << i;
	}
}

#ifdef LIBUNWIND
static void unwind(struct chain *c)
{
	static const int numbers[] = {UNW_X86_64_RBX, UNW_X86_64_RBP, UNW_X86_64_R12, UNW_X86_64_R13, UNW_X86_64_R14, UNW_X86_64_R15};
	unw_context_t context;
	unw_cursor_t cursor;
	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	for (int interrupted = 0, more = 1; more > 0;) {
		unw_proc_info_t info = {0};
		unw_word_t pc = 0, registers[6] = {0};
		unw_get_reg(&cursor, UNW_REG_IP, &pc);
		unw_get_proc_info(&cursor, &info);
		for (int i = 0; i < 6; i++)
			unw_get_reg(&cursor, numbers[i], &registers[i]);
		add(c, pc, interrupted, info.start_ip, registers);
		interrupted = unw_is_signal_frame(&cursor) > 0;
		more = unw_step(&cursor);
	}
}
static void *begin(unsigned long pc) // of the function
{
	unw_proc_info_t info = {0};
	unw_get_proc_info_by_ip(unw_local_addr_space, pc, &info, 0);
	return (void *)info.start_ip;
}
#else
static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *p)
{
	unsigned long registers[6];
	int interrupted = 0;
	unsigned long pc = _Unwind_GetIPInfo(context, &interrupted);
	for (int i = 0; i < 6; i++)
		registers[i] = _Unwind_GetGR(context, preserved[i]);
	add(p, pc, interrupted, _Unwind_GetRegionStart(context), registers);
	return _URC_NO_REASON;
}
static void unwind(struct chain *c) { _Unwind_Backtrace(frame, c); }
static void *begin(unsigned long pc) { return _Unwind_FindEnclosingFunction((void *)(pc + 1)); } // which looks before it
#endif

// The handler of a signal must not take memory: it may have come into malloc.
void *__libc_malloc(size_t n);
static volatile int handling;
void *malloc(size_t n)
{
	if (handling && wrong++ < 5)
		fprintf(stderr, "the unwinder takes memory\n");
	return __libc_malloc(n);
}

static void step(int s, siginfo_t *info, void *v)
{
	greg_t *registers = ((ucontext_t *)v)->uc_mcontext.gregs;
	unsigned long pc = registers[REG_RIP];
	struct chain c = {.n = 0};
	long at = place(pc);
	steps++;
	handling = 1;
	int f = at < 0 ? function_at(begin(pc)) : -1;
	if (f == 0) {
		handling = 0;
		if (last > 0)
			registers[REG_EFL] &= ~0x100;
		return;
	}
	unwind(&c);
	handling = 0;
	int expected = f >= 0 ? f : functions[last].caller;
	if (f >= 0)
		last = f;
	if (at >= 0) {
		within++;
		if (at < (long)sizeof visited && !visited[at])
			visited[at] = 1, places++;
	}
	int ok = c.signal && (last <= 1 || f == 1 || c.registers == 63);
	for (int i = 0; i < c.n || expected >= 0; i++, expected = functions[expected].caller)
		if (i >= c.n || expected < 0 || c.of[i] != expected) {
			ok = 0;
			break;
		}
	if (!ok && wrong++ < 5) {
		fprintf(stderr, "at %lx (%ld of ours), after %s: registers %lx:", pc, at, functions[last].name, c.registers);
		for (int i = 0; i < c.n; i++)
			fprintf(stderr, " %s", functions[c.of[i]].name);
		for (int i = 0; i < c.all; i++)
			fprintf(stderr, " %lx", c.at[i]);
		fprintf(stderr, "\n");
	}
}

static void find_ours(void)
{
	char line[300];
	FILE *f = fopen("/proc/self/maps", "r");
	for (ranges = 0; ranges < 16 && fgets(line, sizeof line, f);) {
		unsigned long from, to, offset;
		if (strstr(line, "memfd:footfall-code") && sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 && offset == 0x2000)
			ours[ranges++] = (struct range){from + 0x1000, to};
	}
	fclose(f);
}

static void *thread(void *p)
{
	run();
	return p;
}

int main(void)
{
	char line[100];
	struct sigaction a = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
	struct chain c = {.n = 0};
	unwind(&c); // finds what it needs
	sigaction(SIGTRAP, &a, 0);
	while (fgets(line, sizeof line, stdin)) {
		steps = within = wrong = last = 0;
		find_ours();
		if (!strcmp(line, "calls\n"))
			run();
		if (!strcmp(line, "plain\n"))
			plain();
		if (!strcmp(line, "thread\n")) {
			pthread_t t;
			pthread_create(&t, 0, thread, 0);
			pthread_join(t, 0);
		}
		printf("%ld steps %ld within %ld places %ld wrong\n", steps, within, places, wrong);
		fflush(stdout);
	}
	return 0;
}
