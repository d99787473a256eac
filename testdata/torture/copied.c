/* Coroutines that share one stack: what one has on it is copied away while it waits, and
   back before it goes on, as greenlet (gevent) and continuations do. build: gcc; function: left */
#include "torture.h"
#include <setjmp.h>

static struct co { jmp_buf at; char *copy, *low; size_t size; int started, done; void (*run)(long); } co[2], *cur;
static char *base;
static jmp_buf scheduler;
static volatile long total;

NOT_TRACED void yield(void)
{
	if (setjmp(cur->at))
		return;
	cur->low = (char *)(((uintptr_t)__builtin_frame_address(0) - 512) & ~15ul);
	cur->size = base - cur->low;
	cur->copy = realloc(cur->copy, cur->size);
	memcpy(cur->copy, cur->low, cur->size);
	longjmp(scheduler, 1);
}
FUNCTION void leaf(long d) { total += d; yield(); total += d; __asm__ volatile(""); }
FUNCTION void left(long d) { leaf(d); total++; __asm__ volatile(""); }
FUNCTION void right(long d) { leaf(d + 1); total += 2; __asm__ volatile(""); }
NOT_TRACED void one(long n) { for (long i = 0; i < n; i++) left(i); }
NOT_TRACED void two(long n) { for (long i = 0; i < n; i++) right(i); }
NOT_TRACED void resume(void)
{
	volatile char room[8192]; /* below what is copied */
	room[0] = 0;
	(void)room[0];
	memcpy(cur->low, cur->copy, cur->size);
	longjmp(cur->at, 1);
}
NOT_TRACED void start(void) { cur->started = 1; cur->run(200); cur->done = 1; longjmp(scheduler, 1); }
NOT_TRACED void loop(void)
{
	static int k;
	base = (char *)__builtin_frame_address(0) - 256;
	setjmp(scheduler);
	while (!co[0].done || !co[1].done) {
		char pad[1024];
		__asm__ volatile("" ::"r"(pad) : "memory");
		cur = &co[k ^= 1];
		if (cur->done)
			continue;
		if (cur->started)
			resume();
		else
			start();
	}
}
int main(int argc, char **argv)
{
	begin(argc, argv);
	for (long round = 0; more(round); round++) {
		for (int i = 0; i < 2; i++)
			co[i].started = co[i].done = 0;
		total = 0;
		co[0].run = one;
		co[1].run = two;
		loop();
		CHECK(total, 2 * 200 * 200 + 3 * 200);
	}
	return ended();
}
