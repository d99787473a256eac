/* Calls functions with known arguments; forks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile long sink;

NOINLINE long six(char a, unsigned short b, int c, long d, void *e, const char *f)
{
	return sink = a + b + c + d + (e != 0) + (f != 0);
}
NOINLINE long many(long a, long b, long c, long d, long e, long f, int g, const char *h, long i, const char *j)
{
	return sink = a + b + c + d + e + f + g + (h != 0) + i + (j != 0);
}
NOINLINE double mixed(double x, int n, float y, const char *s)
{
	sink = n;
	return x + n + y + (s != 0);
}
NOINLINE long text(const char *s) { return sink = (long)s; }

int main(void)
{
	char line[100];
	long page = sysconf(_SC_PAGESIZE);
	char *pages = mmap(0, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(pages + page, page);
	memcpy(pages + page - 3, "end", 3);
	while (fgets(line, sizeof line, stdin)) {
		int n;
		if (sscanf(line, "run %d", &n) == 1) {
			double r = 0;
			for (int i = 0; i < n; i++) {
				r += six('x', 65535, -5, 1L << 40, line, "hello");
				r += many(1, 2, 3, 4, 5, 6, -7, "on the stack", 8, "further");
				r += mixed(2.5, -9, -0.25f, "");
			}
			printf("ok %d\n", r != 0 ? n : -1);
		} else if (strcmp(line, "texts\n") == 0) {
			text(0);
			text((char *)16);
			text((char *)0xffff800000000000);
			text(pages + page);
			text(pages + page - 3);
			text("0123456789012345678901234567890123456789012345678");
			text("012345678901234567890123456789012345678901234567");
			memcpy(pages, "01234567890123456789012345678901234567890123456", 48);
			text(pages);
			text(pages + 40);
			text("a \"quote\", \n\001 and \303\244");
			puts("ok");
		} else if (sscanf(line, "fork %d", &n) == 1) {
			int bad = 0, status;
			for (int i = 0; i < n; i++) {
				pid_t child = fork();
				if (child == 0) {
					for (int j = 0; j < 1000; j++)
						many(j, getpid(), 3, 4, 5, 6, 7, "child", 8, "the same");
					_exit(i % 100);
				}
				waitpid(child, &status, 0);
				bad += WEXITSTATUS(status) != i % 100;
				text("parent");
			}
			printf(bad ? "bad %d\n" : "ok %d\n", bad ? bad : n);
		} else {
			printf("%s", line);
		}
		fflush(stdout);
	}
	return 0;
}
