// Calls of every kind in C++.
#include "calls.h"
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

OWN(area) OWN(thrower) OWN(catcher) OWN(sum) OWN(made) OWN(gone) OWN(lambda) OWN(thunk)

struct Shape {
	NOINLINE Shape() { COUNT(made); }
	virtual NOINLINE ~Shape() { COUNT(gone); }
	virtual int area() = 0;
};
struct Named {
	virtual int name() { return 1; }
	virtual ~Named() {}
};
struct Square : Shape {
	int n;
	explicit Square(int n) : n(n) {}
	NOINLINE int area() override { COUNT(area); return n * n; }
};
struct Both : Shape, Named {
	NOINLINE int area() override { COUNT(area); return 2; }
	NOINLINE int name() override { COUNT(thunk); return 3; }
};

// One in each unit that uses it.
template <typename T> NOINLINE T sum(T a, T b) { COUNT(sum); return a + b; }

static NOINLINE int thrower(int n)
{
	COUNT(thrower);
	std::string text = "thrown";
	if (n % 3 == 0)
		throw std::runtime_error(text);
	return n;
}

static NOINLINE int catcher(int n)
{
	COUNT(catcher);
	try {
		return thrower(n);
	} catch (const std::runtime_error &e) {
		return e.what()[0];
	}
}

int main()
{
	std::map<std::string, int> words;
	std::vector<Shape *> shapes;
	int total = 0;
	for (int i = 0; i < 20; i++) {
		if (i % 4)
			shapes.push_back(new Square(i));
		else
			shapes.push_back(new Both);
		words["word" + std::to_string(i % 7)] += catcher(i);
		total += sum(i, 1) + (int)sum(1.5, 2.5) + sum(std::string("a"), std::string("b")).size();
	}
	Both both;
	Named *named = &both;
	for (auto s : shapes)
		total += s->area() + named->name();
	for (auto s : shapes)
		delete s;
	auto count = [&](int n) NOINLINE { COUNT(lambda); return n + total; };
	for (auto &w : words)
		total += w.second + count(1) % 2;
	printf("total %d\n", total + other(4));
	TELL(area); TELL(thrower); TELL(catcher); TELL(sum); TELL(lambda); TELL(thunk); TELL(made);
	printf("count gone %lu\n", own_gone + 1); // one more when main returns
	tell_other();
	return 0;
}
