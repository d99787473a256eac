// ray N: casts N x N rays into a scene of spheres and a plane, and prints a sum of what comes back. A ray
// that was reflected too often is given up by an exception, which passes all the calls that it is in.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

struct Vector {
	double x, y, z;
	Vector operator+(const Vector &b) const { return {x + b.x, y + b.y, z + b.z}; }
	Vector operator-(const Vector &b) const { return {x - b.x, y - b.y, z - b.z}; }
	Vector operator*(double k) const { return {x * k, y * k, z * k}; }
};
static double dot(const Vector &a, const Vector &b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static Vector unit(const Vector &a) { return a * (1 / std::sqrt(dot(a, a))); }

struct Ray {
	Vector from, to;
};

struct TooDeep : std::runtime_error {
	int depth;
	explicit TooDeep(int d) : std::runtime_error("reflected too often"), depth(d) {}
};

class Shape {
public:
	virtual ~Shape() = default;
	virtual double meets(const Ray &) const = 0;
	virtual Vector normal(const Vector &) const = 0;
	virtual double mirror() const { return 0.3; }
	virtual double shade(const Vector &) const = 0;
};

class Sphere : public Shape {
	Vector center;
	double radius;

public:
	Sphere(Vector c, double r) : center(c), radius(r) {}
	double meets(const Ray &r) const override
	{
		Vector o = r.from - center;
		double b = dot(o, r.to), c = dot(o, o) - radius * radius, d = b * b - c;
		return d < 0 ? -1 : -b - std::sqrt(d);
	}
	Vector normal(const Vector &p) const override { return unit(p - center); }
	double mirror() const override { return radius > 1 ? 0.9 : 0.5; }
	double shade(const Vector &) const override { return 0.6; }
};

class Plane : public Shape {
public:
	double meets(const Ray &r) const override { return r.to.y >= 0 ? -1 : -(r.from.y + 1) / r.to.y; }
	Vector normal(const Vector &) const override { return {0, 1, 0}; }
	double shade(const Vector &p) const override { return ((long)std::floor(p.x) + (long)std::floor(p.z)) & 1 ? 0.2 : 0.8; }
};

template <class T> struct Found {
	const T *shape;
	double at;
};

class Scene {
	std::vector<std::unique_ptr<Shape>> shapes;
	Found<Shape> nearest(const Ray &r) const
	{
		Found<Shape> f{nullptr, 1e9};
		for (auto &s : shapes) {
			double t = s->meets(r);
			if (t > 1e-6 && t < f.at)
				f = {s.get(), t};
		}
		return f;
	}

public:
	template <class T, class... A> void add(A... a) { shapes.push_back(std::make_unique<T>(a...)); }
	double trace(const Ray &r, int depth) const
	{
		if (depth > 4)
			throw TooDeep(depth);
		auto f = nearest(r);
		if (!f.shape)
			return 0.5 + 0.5 * r.to.y;
		Vector p = r.from + r.to * f.at, n = f.shape->normal(p);
		double k = f.shape->mirror();
		return f.shape->shade(p) * (1 - k) + k * trace({p, r.to - n * (2 * dot(n, r.to))}, depth + 1);
	}
};

int main(int argc, char **argv)
{
	int n = argc > 1 ? std::atoi(argv[1]) : 100;
	Scene scene;
	scene.add<Plane>();
	for (int i = -2; i <= 2; i++)
		scene.add<Sphere>(Vector{i * 1.1, 0.1 * i, 4 + 0.3 * i}, i % 2 ? 1.2 : 0.6);
	double sum = 0;
	long given_up = 0;
	for (int y = 0; y < n; y++)
		for (int x = 0; x < n; x++)
			try {
				sum += scene.trace({{0, 0, -1}, unit({2.0 * x / n - 1, 1 - 2.0 * y / n, 1})}, 0);
			} catch (const TooDeep &e) {
				given_up += e.depth;
			}
	std::printf("%.6f %ld\n", sum, given_up);
}
