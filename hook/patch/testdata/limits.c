// A program that limits itself: its argument says how. It answers each line.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static volatile int sink;
__attribute__((noinline)) int leaf(int x)
{
	sink = x; // so that it is larger than a jump
	return x + 1;
}

int main(int argc, char **argv)
{
	struct rlimit small = {2 << 20, 2 << 20}, few = {3, 3};
	char line[100];
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "addresses"))
		setrlimit(RLIMIT_AS, &small);
	if (!strcmp(argv[1], "files"))
		setrlimit(RLIMIT_NOFILE, &few);
	if (!strcmp(argv[1], "locks and refuses"))
		prctl(65, 1, 0, 0, 0); // PR_SET_MDWE: nothing becomes executable later
	if (!strncmp(argv[1], "locks", 5))
		mlockall(MCL_FUTURE);
	while (fgets(line, sizeof line, stdin)) {
		printf("%d\n", leaf(41));
		fflush(stdout);
	}
	return 0;
}
