#include "shape.h"

#include <iostream>
#include <map>

namespace {

std::string describe(int n)
{
	static const std::map<int, std::string> names{{1, "one"}, {2, "two"}};
	auto found = names.find(n);
	return found == names.end() ? "many" : found->second;
}

int attempts(const char *text)
{
	int n = 0;
	try {
		n = std::stoi(text);
		if (n > 100)
			throw n;
	} catch (const std::invalid_argument &) {
		return -1;
	} catch (int large) {
		return large - 100;
	} catch (...) {
		return -2;
	}
	return n;
}

struct Guard {
	int &n;
	~Guard() { n++; }
};

} // namespace

int main(int argc, char **argv)
{
	std::vector<std::unique_ptr<Shape>> shapes;
	for (int i = 0; i < argc; i++) {
		shapes.push_back(std::make_unique<Square>(i));
		shapes.emplace_back(new Circle(i * 6));
	}
	int released = 0;
	try {
		Guard guard{released};
		shapes.push_back(std::make_unique<Square>(-1));
	} catch (const std::exception &e) {
		std::cout << e.what() << '\n';
	}
	std::vector<int> numbers{3, 9, 4};
	std::vector<Box<std::string>> boxes{{"pear"}, {"apple"}};
	int best = largest(numbers, [](int a, int b) { return a < b; });
	auto first = largest(boxes, [](const auto &a, const auto &b) { return b < a; });
	std::cout << describe(argc) << ' ' << best << ' ' << first.get() << ' ' << boxes[0].doubled() << ' ' << power<3>(2) << ' '
		  << total(shapes) << ' ' << attempts("12") + attempts("x") + attempts("150") << '\n';
	bool right = Shape::count() == 2 * argc && released == 1;
	return right && argv[argc] == nullptr ? 0 : 1;
}
