namespace shop {

volatile unsigned long sink;

template <typename T> struct Box {
	static inline __attribute__((always_inline)) void fill(T n)
	{
		for (T i = 0; i < n; i++)
			sink = sink + i; // line 9
	}
};

static inline __attribute__((always_inline)) void wrap(unsigned long n)
{
	Box<unsigned long>::fill(n); // line 15
}

struct Shop {
	__attribute__((noinline)) void serve(unsigned long n);
};

void Shop::serve(unsigned long n)
{
	wrap(n); // line 24
}

}

int main()
{
	shop::Shop s;
	for (int i = 0; i < 100; i++)
		s.serve(1000000);
}
