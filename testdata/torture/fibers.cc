// Coroutines of Boost: fibers of Boost.Context, whose ends are unwound by an exception,
// and Boost.Coroutine2. build: boost; function: leaf
#include "torture.h"
#include <boost/context/fiber.hpp>
#include <boost/coroutine2/all.hpp>
#include <stdexcept>
#include <utility>

namespace context = boost::context;
using pull = boost::coroutines2::coroutine<long>::pull_type;
using push = boost::coroutines2::coroutine<long>::push_type;

static long destroyed;
struct Counted {
	~Counted() { destroyed++; }
};
FUNCTION long leaf(long x) { return x * 2 + 1; }
FUNCTION long nested(context::fiber &caller, long x, int depth)
{
	Counted counted;
	if (depth)
		return nested(caller, x, depth - 1) + 1;
	caller = std::move(caller).resume();
	return leaf(x);
}
FUNCTION long fibers(long n)
{
	long sum = 0;
	context::fiber f{[&](context::fiber &&caller) {
		for (long i = 0; i < n; i++)
			sum += nested(caller, i, 3);
		return std::move(caller);
	}};
	while (f)
		f = std::move(f).resume();
	return sum;
}
FUNCTION long left()
{
	destroyed = 0;
	{
		context::fiber f{[&](context::fiber &&caller) {
			nested(caller, 1, 4);
			return std::move(caller);
		}};
		f = std::move(f).resume();
	} // its stack is unwound
	return destroyed;
}
FUNCTION void produce(push &to, long n)
{
	for (long i = 0; i < n; i++)
		to(leaf(i));
	throw std::runtime_error("no more");
}
FUNCTION long pulled(long n)
{
	long sum = 0;
	try {
		for (long v : pull([n](push &to) { produce(to, n); }))
			sum += v;
	} catch (const std::runtime_error &) {
		return sum;
	}
	return -1;
}
int main(int argc, char **argv)
{
	begin(argc, argv);
	for (long round = 0; more(round); round++)
		for (int i = 0; i < 20; i++) {
			CHECK(fibers(10), 10 * 9 + 10 + 30);
			CHECK(left(), 5);
			CHECK(pulled(10), 100);
		}
	return ended();
}
