// Threads that call virtual functions, templates and the library.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

struct Shape {
	virtual ~Shape() {}
	virtual uint64_t area(uint64_t n) = 0;
};

static inline uint64_t turn(uint64_t n, uint64_t factor)
{
	uint64_t s = 0;
	for (uint64_t i = 0; i < n; i++) {
		s = s * factor + i;
		asm volatile("" : : "r"(s));
	}
	return s;
}

struct Square : Shape {
	__attribute__((noinline)) uint64_t area(uint64_t n) override { return turn(n, 31) + 1; }
};

struct Circle : Shape {
	__attribute__((noinline)) uint64_t area(uint64_t n) override { return turn(2 * n, 33) + 2; }
};

template <class T> __attribute__((noinline)) uint64_t measure(std::vector<T> &v, uint64_t n)
{
	uint64_t s = 1;
	for (auto *p : v)
		s += p->area(n) * 3;
	return s;
}

__attribute__((noinline)) uint64_t sorted(uint64_t n)
{
	std::vector<uint64_t> v;
	for (uint64_t i = 0; i < n; i++)
		v.push_back(i * 7919 % 10007);
	std::sort(v.begin(), v.end(), [](uint64_t a, uint64_t b) { return a < b; });
	return v[n / 2] + 1;
}

static void work(int k)
{
	Square s;
	Circle c;
	std::vector<Shape *> v{&s, &c};
	uint64_t sum = 0;
	for (int i = 0; i < 10; i++)
		sum += measure(v, 1000000 * k) + sorted(20000);
	printf("%llu\n", (unsigned long long)sum);
}

int main()
{
	std::vector<std::thread> threads;
	for (int k = 1; k <= 3; k++)
		threads.emplace_back(work, k);
	for (auto &t : threads)
		t.join();
}
