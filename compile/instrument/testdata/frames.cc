// Calls functions of several classes in turn, while signals interrupt it all the time:
// from wherever it is, an unwinder finds main.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unwind.h>

struct base {
	virtual long f(long x) { return x + 1; }
};
template <int n> struct other : base {
	long f(long x) override { return x * n; }
};

static volatile sig_atomic_t looked, missed;
static _Unwind_Ptr start;

static _Unwind_Reason_Code frame(_Unwind_Context *c, void *found)
{
	if (_Unwind_GetRegionStart(c) == start)
		*static_cast<bool *>(found) = true;
	return _URC_NO_REASON;
}

static void look(int)
{
	bool found = false;
	_Unwind_Backtrace(frame, &found);
	looked = looked + 1;
	if (!found)
		missed = missed + 1;
}

__attribute__((noinline)) static long twice(base *b, long x, long y, long z)
{
	long r = b->f(x) + y;
	return r ^ b->f(r) ^ z;
}

__attribute__((noinline)) static long tail(base *b, long x)
{
	return b->f(x);
}

int main()
{
	base b;
	other<2> c; other<3> d; other<5> e; other<7> f; other<11> g; other<13> h;
	base *all[] = {&b, &c, &d, &e, &f, &g, &h, &c};

	start = reinterpret_cast<_Unwind_Ptr>(&main);
	look(0);
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_handler = look;
	sigaction(SIGPROF, &a, nullptr);
	itimerval often = {{0, 100}, {0, 100}};
	setitimer(ITIMER_PROF, &often, nullptr);
	long sum = 0;
	for (unsigned long i = 0; looked < 100; i++)
		sum += twice(all[i & 7], sum, long(i), sum) + tail(all[i >> 1 & 7], sum);
	often = {};
	setitimer(ITIMER_PROF, &often, nullptr);
	printf("%s, main missed %d times\n", sum == 42 ? "yes" : "no", int(missed));
}
