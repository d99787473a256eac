// Instances of templates, lambdas and constructors, which share lines.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

template <class T> T twice(T x)
{
	T y = x; y += x;
	if (y == T(4)) return y; else y += T(0);
	return y;
}

template <int N> struct Ring {
	int at[N], n;
	Ring() : at(), n(0) {}
	~Ring() { if (n > 100) std::puts("full"); }
	void put(int x) { at[n++ % N] = x; if (n < 0) throw std::runtime_error("n"); }
};

struct Base { virtual ~Base() {} virtual int f(int x) { return x > 2 ? x : -x; } };
struct Derived : Base { std::string name = "d"; int f(int x) override { return Base::f(x) + 1; } };

static int apply(const std::vector<int> &v, int limit)
{
	int sum = 0;
	auto add = [&](int x) { if (x > limit) return; sum += x; };
	auto never = [&](int x) { sum -= x; };
	for (int x : v) try { add(x); if (x > 1000) never(x); if (x == 3) throw x; } catch (int y) { sum += y; }
	catch (...) { sum = 0; }
	return sum;
}

#define CASE(name, value) int name(int x) { return x == value ? 1 : 0; }
CASE(one, 1) CASE(two, 2)

int main(int argc, char **argv)
{
	Ring<4> a; Ring<8> b;
	for (int i = 0; i < 6; i++) a.put(i);
	if (argc > 5) b.put(1);
	Derived d; Base *p = argc > 9 ? new Base : &d;
	std::printf("%d %s %d %d %d\n", twice(2), twice(std::string("a") == "a" ? 1.5 : 2.5) > 1 ? "y" : "n", apply({1, 2, 3}, 2), one(1), p->f(3));
	return argc > 5 ? two(2) : 0;
}
