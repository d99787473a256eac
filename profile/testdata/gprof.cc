// Functions of C++ for gprof: many that cost the same, templates, cycles, static functions.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>
struct Shape { virtual ~Shape() {} virtual double area() const = 0; };
struct Square : Shape { double a; explicit Square(double a) : a(a) {} double area() const override { return a * a; } };
struct Circle : Shape { double r; explicit Circle(double r) : r(r) {} double area() const override { return 3.14 * r * r; } };
template <class T> T total(const std::vector<T> &v) { T s{}; for (const T &x : v) s += x; return s; }
static int even(int n); static int odd(int n) { return n ? even(n - 1) : 0; } static int even(int n) { return n ? odd(n - 1) : 1; }
namespace { int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); } struct Local { int operator()(int a) const { return a + 1; } }; }
namespace { int a(int), b(int), c(int); int a(int n) { return n > 0 ? b(n - 1) + c(n - 2) : 1; } int b(int n) { return n > 0 ? c(n - 1) : 2; } int c(int n) { return n > 0 ? a(n - 3) + c(n - 1) : 3; } }
int main(int argc, char **) {
	std::map<std::string, int> m; std::set<int> s; std::vector<double> v; double sum = 0;
	for (int i = 0; i < 6000; i++) { std::ostringstream o; o << i % 997; m[o.str()] += i; s.insert(i * 7919 % 10007); v.push_back(i * 0.5); }
	std::sort(v.begin(), v.end(), [](double x, double y) { return x > y; });
	std::vector<std::unique_ptr<Shape>> shapes;
	for (int i = 0; i < 5000; i++) if (i % 2) shapes.emplace_back(new Square(i)); else shapes.emplace_back(new Circle(i));
	for (auto &p : shapes) sum += p->area();
	std::function<int(int)> f = Local();
	int n = 0; for (int i = 0; i < 100000; i++) n = f(n);
	for (int i = 0; i < 2000; i++) try { if (i % 3 == 0) throw std::runtime_error("x"); n++; } catch (const std::exception &e) { n += e.what()[0]; }
	return (total(v) + sum + fib(27) + even(200) + a(30) + n + m.size() + s.size()) < 0 || argc > 5;
}
