/* Memory that is limited or locked. build: all; function: leaf */
#include "torture.h"
#include <sys/mman.h>
#include <sys/resource.h>

static volatile long sink;
FUNCTION long leaf(long x) { sink = x; return x + 1; }
FUNCTION long takes(int which)
{
	struct rlimit before, low;
	getrlimit(which, &before);
	low = before;
	low.rlim_cur = 1ul << 30;
	if (setrlimit(which, &low))
		return -1;
	char *p = malloc(1 << 20), *m = mmap(0, 1 << 22, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long got = (p != 0) + 2 * (m != MAP_FAILED) + leaf(0) - 1;
	free(p);
	if (m != MAP_FAILED)
		munmap(m, 1 << 22);
	setrlimit(which, &before);
	return got;
}
FUNCTION long locks(int flags)
{
	if (mlockall(flags))
		return errno;
	char *m = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long failed = m == MAP_FAILED || leaf(1) != 2;
	nap(2000);
	munmap(m, 1 << 16);
	return failed + munlockall();
}
int main(int argc, char **argv)
{
	begin(argc, argv);
	long may_lock = locks(MCL_CURRENT) == 0;
	for (long round = 0; more(round); round++) {
		CHECK(takes(RLIMIT_AS), 3);
		CHECK(takes(RLIMIT_DATA), 3);
		if (may_lock) {
			CHECK(locks(MCL_CURRENT), 0);
			CHECK(locks(MCL_CURRENT | MCL_FUTURE), 0);
		}
		nap(1000);
	}
	return ended();
}
