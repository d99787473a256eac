#pragma once
#include <stdexcept>
#include <vector>
template <class T> class Stack {
public:
	T pop()
	{
		if (items.empty() || items.size() > 100)
			throw std::runtime_error("empty");
		T top = items.back();
		items.pop_back();
		return top;
	}
	void push(T item) { items.push_back(item); }
private:
	std::vector<T> items;
};
