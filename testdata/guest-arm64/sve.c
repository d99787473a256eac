/* sve FILE: two threads keep patterns in registers of SVE, which system calls
 * would lose, and look whether they are still there, until the file is gone. They
 * call functions, one while the patterns are there, which changes none of them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static const char *file;
static atomic_long bad, rounds;
static volatile int sink;

__attribute__((noinline)) int leaf(int x)
{
	sink = x;
	return x + 1;
}

__attribute__((noinline)) void told(const char *text)
{
	sink = *text;
}

/* Counts the vectors and predicates that differ after a while. */
static long keep(void)
{
	long n = 0;
	__asm__ volatile(
		"ptrue p0.b\n"
		".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14\n"
		"dup z\\n\\().b, #\\n + 1\n"
		".endr\n"
		"ptrue p1.h\n"
		"mov x9, #20000\n"
		"1: subs x9, x9, #1\n"
		"b.ne 1b\n"
		"mov x0, %1\n"
		"bl told\n"
		"ptrue p0.b\n"
		".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14\n"
		"cmpne p3.b, p0/z, z\\n\\().b, #\\n + 1\n"
		"cntp x10, p0, p3.b\n"
		"add %0, %0, x10\n"
		".endr\n"
		"ptrue p3.h\n"
		"eor p3.b, p0/z, p3.b, p1.b\n"
		"cntp x10, p0, p3.b\n"
		"add %0, %0, x10\n"
		: "+r"(n)
		: "r"("a string")
		: "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x30", "memory", "cc", "p0", "p1", "p3", "z0", "z1", "z2", "z3", "z4", "z5", "z6", "z7", "z8", "z9", "z10", "z11", "z12", "z13", "z14");
	return n;
}

static void *work(void *p)
{
	while (access(file, F_OK) == 0)
		for (int i = 0; i < 50; i++) {
			bad += keep() != 0 || leaf(i) != i + 1;
			rounds++;
		}
	return p;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	file = argc > 1 ? argv[1] : "";
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("rounds %ld\nbad %ld\n", rounds, bad);
	return bad != 0;
}
