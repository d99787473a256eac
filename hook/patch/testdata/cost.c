/* Measures what a call costs: "leaf N" calls a function N times, "inline N" one
 * that writes two records with the time by itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
#define UNTRACED __attribute__((patchable_function_entry(0)))

static volatile int sink;

NOINLINE int leaf(int x) { sink = x; return x + 1; }
NOINLINE int third(int x) { int v = leaf(x); sink = v; return v; }
NOINLINE int second(int x) { int v = third(x); sink = v; return v; }
NOINLINE int first(int x) { int v = second(x); sink = v; return v; }

NOINLINE int text(const char *s) { sink = *s; return 1; }

struct record { uint64_t time; uint32_t id, slot; };
static struct record ring[1 << 20];
static uint32_t head;

UNTRACED static inline void record(uint32_t id)
{
	struct record *r = &ring[head++ & ((1 << 20) - 1)];
#ifdef __aarch64__
	uint64_t time;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(time));
#else
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	uint64_t time = (uint64_t)hi << 32 | lo;
#endif
	r->id = id;
	r->slot = (uint32_t)(uintptr_t)__builtin_frame_address(0);
	r->time = time;
}
UNTRACED NOINLINE int inlined(int x)
{
	record(1);
	sink = x;
	record(2);
	return x + 1;
}

UNTRACED static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

UNTRACED int main(void)
{
	char line[100], what[100];
	int n;
	memset(ring, 1, sizeof ring);
	while (fgets(line, sizeof line, stdin)) {
		double begin = now(), best = 1e18;
		if (sscanf(line, "%99s %d", what, &n) != 2) {
			printf("%s", line);
		} else {
			/* The best of four parts: other programs run, too. */
			for (int part = 0; part < 4; part++) {
				begin = now();
				if (!strcmp(what, "leaf"))
					for (int i = 0; i < n / 4; i++) leaf(i);
				else if (!strcmp(what, "text"))
					for (int i = 0; i < n / 4; i++) text("twenty-one characters");
				else if (!strcmp(what, "chain"))
					for (int i = 0; i < n / 4; i++) first(i);
				else
					for (int i = 0; i < n / 4; i++) inlined(i);
				double t = now() - begin;
				if (t < best) best = t;
			}
			printf("%.3f\n", best / (n / 4));
		}
		fflush(stdout);
	}
	return 0;
}
