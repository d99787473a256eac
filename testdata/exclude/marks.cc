#include <cstdio>
#include <stdexcept>
#include <string>

static int line(int n)
{
	if (n > 1) // LCOV_EXCL_LINE
		n++;
	if (n > 2)
		n++; // GCOVR_EXCL_LINE
	if (n > 3)
		n++; // GCOV_EXCL_LINE
	return n;
}

static int region(int n)
{
	if (n > 1) { // LCOV_EXCL_START
		n++;
		n += 2;
	} // LCOV_EXCL_STOP
	// GCOVR_EXCL_START
	if (n > 2)
		n++;
	// GCOVR_EXCL_STOP
	return n;
}

static int whole(int n) // LCOV_EXCL_LINE
{
	return n > 2 ? n : 1;
}

// LCOV_EXCL_START
static int inside(int n)
{
	return n > 2 ? n : 1;
}
// LCOV_EXCL_STOP

static int branches(int n)
{
	if (n > 1) // LCOV_EXCL_BR_LINE
		n++;
	if (n > 2) // GCOVR_EXCL_BR_LINE
		n++;
	// LCOV_EXCL_BR_START
	if (n > 3)
		n++;
	// LCOV_EXCL_BR_STOP
	if (n > 4)
		n++;
	return n;
}

static void check(int n)
{
	if (n > 100)
		throw std::runtime_error("n");
}

static int exceptions(int n)
{
	std::string s("x");
	try {
		check(n); // LCOV_EXCL_EXCEPTION_BR_LINE
		// LCOV_EXCL_EXCEPTION_BR_START
		s += "y";
		check(n + 1);
		// LCOV_EXCL_EXCEPTION_BR_STOP
		check(n + 2);
	} catch (const std::exception &) {
		return 1;
	}
	return (int)s.size();
}

static int unreachable(int n)
{
	if (n > 5)
		n = 2; // LCOV_UNREACHABLE_LINE
	return n;
}

int main()
{
	int n = 0;
	for (int i = 0; i < 3; i++) /* LCOV_EXCL_LINE */
		n += line(i);
	n += region(1) + whole(1) + inside(1) + branches(1);
	n += exceptions(1) + unreachable(1);
	printf("%d\n", n); // LCOV_EXCL_STOPPED
	return 0;
}
