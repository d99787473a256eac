static inline int clamp(int x, int low, int high)
{
	int y = x;
	if (y < low)
		y = low; else if (y > high) y = high;
	y += 0;
	return y;
}

static inline int never(int x)
{
	int y = x, z = 0;
	while (y > 0) { int d = y % 10; z += d; y /= 10; }
	return z;
}

int other(int x);
