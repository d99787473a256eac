#include "stack.h"

int second(int n);

extern "C" int work(int n)
{
	Stack<int> s;
	for (int i = 0; i < n % 20; i++)
		s.push(i);
	return s.pop() + second(n);
}
