/* Functions whose first instructions are of each kind that is moved, or not. After "go" it
   calls each so many times and says what they have returned: name sum, and the flags and
   registers that they leave alone have to be as they were (else "wrong"). */
#include <stdio.h>
#include <string.h>

#define FUNCTION(name, body) \
	long name(long); \
	__asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n" body "\n.cfi_endproc\n.size " #name ", . - " #name "\n.p2align 4\n");

long variable = 40, pointer_to_twice;
long twice(long x) { return 2 * x; }

FUNCTION(plain, "push %rbx\n.cfi_adjust_cfa_offset 8\npush %r12\n.cfi_adjust_cfa_offset 8\nmov %rdi, %rbx\nlea 1(%rbx), %rax\npop %r12\n.cfi_adjust_cfa_offset -8\npop %rbx\n.cfi_adjust_cfa_offset -8\nret")
FUNCTION(loads, "mov variable(%rip), %rax\nadd %rdi, %rax\nret")
FUNCTION(stores, "addq $3, variable2(%rip)\nmov variable2(%rip), %rax\nret\n.data\nvariable2: .quad 5\n.text")
FUNCTION(conditional, "test %edi, %edi\njs 1f\nmov $7, %eax\nret\n1: mov $8, %eax\nret")
FUNCTION(far_conditional, "test $1, %dil\njnz 1f\nmov $9, %eax\nret\n.skip 300, 0xcc\n1: mov $10, %eax\nret")
FUNCTION(jumps, "jmp 1f\n.skip 200, 0x90\n1: lea 11(%rdi), %rax\nret")
FUNCTION(short_jump, "xor %eax, %eax\njmp 1f\nnop\nnop\nnop\n1: lea 12(%rdi, %rax), %rax\nret")
FUNCTION(calls, "call helper\nadd $1, %rax\nret")
FUNCTION(pushes_and_calls, "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\ncall twice\nadd $8, %rsp\n.cfi_adjust_cfa_offset -8\nret")
FUNCTION(tail, "jmp twice")
FUNCTION(through_pointer, "jmp *pointer_to_twice(%rip)")
FUNCTION(returns, "mov %edi, %eax\nret")
FUNCTION(only_returns, "ret")
FUNCTION(landing, "endbr64\nxor %eax, %eax\nmov %edi, %eax\nadd $2, %eax\nret")
FUNCTION(vectors, "movq %rdi, %xmm0\npaddq constants(%rip), %xmm0\nmovq %xmm0, %rax\nret\n.section .rodata\n.p2align 4\nconstants: .quad 100, 0\n.text")
/* not */
FUNCTION(itself, "1: dec %edi\njg itself\nmov %edi, %eax\nret")
FUNCTION(led_into, "xor %eax, %eax\n1: add $5, %eax\ndec %edi\njg 1b\nret")
FUNCTION(carries, "adc $0, %edi\nmov %edi, %eax\nret")
FUNCTION(counts_down, "jrcxz 1f\nnop\nnop\nnop\n1: mov %edi, %eax\nret")
FUNCTION(system_call, "mov $39, %al\nsyscall\nmov %edi, %eax\nret")
__asm__(".text\n.p2align 4\n.type helper, @function\nhelper: lea 20(%rdi), %rax\nret\n.size helper, . - helper\n.type crowded, @function\ncrowded: mov %edi, %eax\nret\n.size crowded, . - crowded\n"
	".type neighbour, @function\nneighbour: lea 5(%rdi), %rax\nret\n.size neighbour, . - neighbour\n");
long crowded(long);

static const struct { const char *name; long (*call)(long); } functions[] = {
#define F(name) {#name, name}
	F(plain), F(loads), F(stores), F(conditional), F(far_conditional), F(jumps), F(short_jump), F(calls), F(pushes_and_calls), F(tail), F(through_pointer),
	F(returns), F(landing), F(vectors), F(itself), F(led_into), F(counts_down), F(crowded),
};

/* Calls f with known registers, and tells whether those that calls preserve are as before. */
static long called(long (*f)(long), long x, int *wrong)
{
	long result = 0, after[5];
	__asm__ volatile(
		"push %%rbx\n push %%r12\n push %%r13\n push %%r14\n push %%r15\n sub $8, %%rsp\n"
		"mov $0x1003, %%ebx\n mov $0x100c, %%r12d\n mov $0x100d, %%r13d\n mov $0x100e, %%r14d\n mov $0x100f, %%r15d\n xor %%ecx, %%ecx\n"
		"call *%[f]\n"
		"add $8, %%rsp\n xor $0x1003, %%rbx\n xor $0x100c, %%r12\n xor $0x100d, %%r13\n xor $0x100e, %%r14\n xor $0x100f, %%r15\n"
		"or %%r12, %%rbx\n or %%r13, %%rbx\n or %%r14, %%rbx\n or %%r15, %%rbx\n mov %%rbx, %%rdx\n"
		"pop %%r15\n pop %%r14\n pop %%r13\n pop %%r12\n pop %%rbx\n"
		: "=a"(result), "=d"(after[0]), "+D"(x) : [f] "S"(f) : "rcx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0");
	*wrong |= after[0] != 0;
	return result;
}

int main(void)
{
	char line[100];
	pointer_to_twice = (long)twice;
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "go\n")) {
			printf("ready\n");
			fflush(stdout);
			continue;
		}
		for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++) {
			long sum = 0;
			int wrong = 0;
			for (long x = -3; x < 100; x++)
				sum += functions[i].call == only_returns ? 0 : called(functions[i].call, x, &wrong);
			only_returns(1);
			if (functions[i].call == stores)
				sum = 0;
			printf("%s %ld%s ", functions[i].name, sum, wrong ? " wrong" : "");
		}
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
