// What leaves functions otherwise than by their ends: exceptions through many of them,
// of several threads, rethrown, out of handlers of exceptions; longjmp; tail calls; and
// C++20's coroutines. build: all; function: leaf
#include "torture.h"
#include <coroutine>
#include <csetjmp>
#include <exception>
#include <pthread.h>
#include <stdexcept>
#include <string>

static volatile long sink;
struct Counted {
	long &n;
	explicit Counted(long &n) : n(n) {}
	~Counted() { n++; }
};

FUNCTION long leaf(long x) { sink = x; return x * 3 + 1; }
FUNCTION long thrower(long n, long &destroyed)
{
	Counted counted(destroyed);
	if (n == 0)
		throw std::runtime_error("at the bottom of it");
	long below = thrower(n - 1, destroyed) + leaf(n);
	return below + 1;
}
FUNCTION long rethrower(long n, long &destroyed)
{
	try {
		return thrower(n, destroyed);
	} catch (const std::exception &) {
		Counted counted(destroyed);
		throw;
	}
}
FUNCTION long within(long n)
{
	long destroyed = 0;
	try {
		rethrower(n, destroyed);
	} catch (const std::runtime_error &e) {
		long inner = 0;
		try {
			thrower(2, inner);
		} catch (...) {
			inner += leaf(1);
		}
		return destroyed * 1000 + inner + (std::string(e.what()) == "at the bottom of it" ? 0 : 500);
	}
	return -1;
}
FUNCTION void jumper(jmp_buf at, long n)
{
	if (n == 0)
		longjmp(at, 9);
	jumper(at, n - 1);
	sink = n;
}
FUNCTION long jumps(long n)
{
	jmp_buf at;
	long code = setjmp(at);
	if (code == 0)
		jumper(at, n);
	return code;
}
FUNCTION long last(long a, long b) { sink = a; return a - b; }
FUNCTION long tail(long a, long b) { return last(b, a); }
struct Base {
	virtual ~Base() {}
	virtual long run(long x) { return leaf(x); }
};
struct Derived : Base {
	FUNCTION long run(long x) override { return Base::run(x) + 1; }
};

struct Generator {
	struct promise_type {
		long value;
		Generator get_return_object() { return Generator{std::coroutine_handle<promise_type>::from_promise(*this)}; }
		std::suspend_always initial_suspend() { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		std::suspend_always yield_value(long v) { value = v; return {}; }
		void return_void() {}
		void unhandled_exception() { throw; }
	};
	std::coroutine_handle<promise_type> handle;
	~Generator() { handle.destroy(); }
	FUNCTION bool next() { handle.resume(); return !handle.done(); }
};
FUNCTION Generator numbers(long to)
{
	for (long i = 0; i < to; i++)
		co_yield leaf(i);
	throw std::out_of_range("the end");
}
FUNCTION long generated(long to)
{
	long sum = 0;
	Generator a = numbers(to), b = numbers(to);
	try {
		while (a.next() && b.next())
			sum += a.handle.promise().value - 2 * b.handle.promise().value;
	} catch (const std::out_of_range &) {
		return sum;
	}
	return -1;
}

static void once()
{
	Derived derived;
	Base *base = &derived;
	CHECK(within(7), 9 * 1000 + 7);
	CHECK(jumps(6), 9);
	CHECK(tail(3, 10), 7);
	CHECK(base->run(5), 17);
	CHECK(generated(10), -145);
}
static void *work(void *)
{
	for (int i = 0; i < 20; i++)
		once();
	return nullptr;
}
int main(int argc, char **argv)
{
	begin(argc, argv);
	for (long round = 0; more(round); round++) {
		pthread_t t[3];
		for (auto &thread : t)
			pthread_create(&thread, nullptr, work, nullptr);
		work(nullptr);
		for (auto &thread : t)
			pthread_join(thread, nullptr);
	}
	return ended();
}
