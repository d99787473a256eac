#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

class Shape {
public:
	explicit Shape(std::string name) : name_(std::move(name)) { count_++; }
	virtual ~Shape() { count_--; }
	virtual double area() const = 0;
	const std::string &name() const { return name_; }
	static int count() { return count_; }

private:
	std::string name_;
	static int count_;
};

class Square : public Shape {
public:
	explicit Square(double side) : Shape("square"), side_(side)
	{
		if (side < 0)
			throw std::invalid_argument("negative side");
	}
	double area() const override { return side_ * side_; }

private:
	double side_;
};

class Circle : public Shape {
public:
	explicit Circle(double radius) : Shape("circle"), radius_(radius) {}
	double area() const override { return 3 * radius_ * radius_; }
	double radius() const { return radius_; }

private:
	double radius_;
};

template <class T, class Less>
T largest(const std::vector<T> &all, Less less)
{
	if (all.empty())
		throw std::out_of_range("nothing");
	T best = all[0];
	for (const T &t : all)
		if (less(best, t)) best = t;
	return best;
}

template <int N> int power(int n)
{
	if constexpr (N == 0)
		return 1;
	else
		return n * power<N - 1>(n);
}

template <class T> struct Box {
	T value;
	bool operator<(const Box &other) const
	{
		return value < other.value;
	}
	T get() const { return value; }
	T doubled() const
	{
		auto twice = [](T t) {
			if (t == T())
				return t;
			return t + t;
		};
		return twice(value);
	}
};

double total(const std::vector<std::unique_ptr<Shape>> &shapes);
