/* A function whose calls the test counts, and eight that it calls, but for one,
   which is another one each time the library is open. */
#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)

static int h0(int a) { return a + 1; }
static int h1(int a) { return a + 2; }
static int h2(int a) { return a + 3; }
static int h3(int a) { return a + 4; }
static int h4(int a) { return a + 5; }
static int h5(int a) { return a + 6; }
static int h6(int a) { return a + 7; }
static int h7(int a) { return a + 8; }

int NAME(g, NUMBER)(int but)
{
	static int (*const h[])(int) = {h0, h1, h2, h3, h4, h5, h6, h7};
	for (int i = 0; i < 8; i++)
		if (i != but)
			h[i](but);
	return but;
}
