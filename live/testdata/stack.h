template <class T> struct Stack {
	T items[16];
	int n = 0;
	void push(T x)
	{
		if (n < 16)
			items[n++] = x;
	}
	T pop() { return n ? items[--n] : T(); }
};
