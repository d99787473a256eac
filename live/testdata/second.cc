#include "stack.h"

int second(int n)
{
	Stack<int> a;
	Stack<long> b;
	a.push(n);
	b.push(n);
	return a.pop() + (int)b.pop();
}
