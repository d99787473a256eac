#include "stack.h"
#include <string>
static int kind(int n)
{
	switch (n) {
	case 1: return 2;
	case 2: return 4;
	case 9: return 7;
	default: return n > 3 && n < 10 ? 1 : 0;
	}
}
int main()
{
	Stack<std::string> s;
	Stack<int> t;
	for (int i = 0; i < 3; i++) { s.push("x"); if (i) t.push(kind(i)); }
	try {
		while (true)
			s.pop();
	} catch (const std::runtime_error &e) {
		return t.pop() ? 0 : 1;
	}
}
