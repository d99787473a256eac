/* Calls with random registers, vectors and x87: what the function sees at its entry, and
   its caller afterwards, is what the other one had. build: all; function: callee */
#include "torture.h"
#include <cpuid.h>

struct registers { uint64_t r[15]; }; /* rax rbx rcx rdx rsi rdi rbp r8 ... r15 */
struct registers to, seen, from, got;
char to_state[16384] __attribute__((aligned(64))), seen_state[16384] __attribute__((aligned(64)));
char from_state[16384] __attribute__((aligned(64))), got_state[16384] __attribute__((aligned(64)));
uint64_t mask, stack_seen, stack_before;

#define STORE(at) \
	"mov %rax, " at "(%rip)\n mov %rbx, " at "+8(%rip)\n mov %rcx, " at "+16(%rip)\n mov %rdx, " at "+24(%rip)\n" \
	"mov %rsi, " at "+32(%rip)\n mov %rdi, " at "+40(%rip)\n mov %rbp, " at "+48(%rip)\n mov %r8, " at "+56(%rip)\n" \
	"mov %r9, " at "+64(%rip)\n mov %r10, " at "+72(%rip)\n mov %r11, " at "+80(%rip)\n mov %r12, " at "+88(%rip)\n" \
	"mov %r13, " at "+96(%rip)\n mov %r14, " at "+104(%rip)\n mov %r15, " at "+112(%rip)\n"
#define LOAD(at) \
	"mov " at "(%rip), %rax\n mov " at "+8(%rip), %rbx\n mov " at "+16(%rip), %rcx\n mov " at "+24(%rip), %rdx\n" \
	"mov " at "+32(%rip), %rsi\n mov " at "+40(%rip), %rdi\n mov " at "+48(%rip), %rbp\n mov " at "+56(%rip), %r8\n" \
	"mov " at "+64(%rip), %r9\n mov " at "+72(%rip), %r10\n mov " at "+80(%rip), %r11\n mov " at "+88(%rip), %r12\n" \
	"mov " at "+96(%rip), %r13\n mov " at "+104(%rip), %r14\n mov " at "+112(%rip), %r15\n"
#define VECTORS(op, at) "mov mask(%rip), %eax\n xor %edx, %edx\n " op " " at "(%rip)\n"

FUNCTION __attribute__((naked)) void callee(void)
{
	__asm__(STORE("seen") VECTORS("xsave64", "seen_state") "mov %rsp, stack_seen(%rip)\n" VECTORS("xrstor64", "from_state") LOAD("from") "ret\n");
}

NOT_TRACED __attribute__((naked)) void caller(void)
{
	__asm__("push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n sub $8, %rsp\n mov %rsp, stack_before(%rip)\n"
		VECTORS("xrstor64", "to_state") LOAD("to") "call callee\n" STORE("got") VECTORS("xsave64", "got_state")
		"add $8, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");
}

static unsigned parts[8][2]; /* offset and size of what is beside the legacy area */

static void randomize(struct registers *r, char *state, uint64_t *seed)
{
	for (int i = 0; i < 15; i++)
		r->r[i] = random64(seed);
	memset(state, 0, sizeof to_state);
	*(uint16_t *)state = 0x37f;                                     /* fcw */
	state[4] = (char)0xff;                                          /* ftw: all are used */
	*(uint32_t *)(state + 24) = 0x1f80 | (random64(seed) & 0x6000); /* mxcsr */
	for (int i = 0; i < 8; i++)
		for (int b = 0; b < 10; b++)
			state[32 + 16 * i + b] = random64(seed);
	for (int i = 160; i < 416; i++)
		state[i] = random64(seed);
	for (int p = 2; p < 8; p++)
		for (unsigned i = 0; i < parts[p][1]; i++)
			state[parts[p][0] + i] = random64(seed);
	*(uint64_t *)(state + 512) = mask;
}

static int same(const char *a, const char *b)
{
	if (memcmp(a, b, 5) || memcmp(a + 24, b + 24, 4) || memcmp(a + 160, b + 160, 256))
		return 0;
	for (int i = 0; i < 8; i++)
		if (memcmp(a + 32 + 16 * i, b + 32 + 16 * i, 10))
			return 0;
	for (int p = 2; p < 8; p++)
		if (memcmp(a + parts[p][0], b + parts[p][0], parts[p][1]))
			return 0;
	return 1;
}

FUNCTION static uint64_t one(uint64_t seed)
{
	randomize(&to, to_state, &seed);
	randomize(&from, from_state, &seed);
	caller();
	CHECK(memcmp(&seen, &to, sizeof to), 0);
	CHECK(memcmp(&got, &from, sizeof from), 0);
	CHECK(same(seen_state, to_state), 1);
	CHECK(same(got_state, from_state), 1);
	CHECK(stack_before - 8, stack_seen);
	return seed;
}

int main(int argc, char **argv)
{
	unsigned a, b, c, d, low, high;
	begin(argc, argv);
	__cpuid_count(1, 0, a, b, c, d);
	if (!(c & bit_OSXSAVE)) {
		puts("no xsave");
		return ended();
	}
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	mask = low & 0xe7;
	for (int p = 2; p < 8; p++)
		if (mask >> p & 1) {
			__cpuid_count(0xd, p, a, b, c, d);
			parts[p][0] = b;
			parts[p][1] = a;
		}
	uint64_t seed = 88172645463325252;
	uint32_t usual = 0x1f80;
	for (long round = 0; more(round); round++)
		for (int i = 0; i < 50; i++) {
			seed = one(seed);
			__asm__ volatile("emms; ldmxcsr %0" ::"m"(usual));
		}
	return ended();
}
