/* "enter" calls a function that answers further commands until "leave"; "go" calls another one
   a thousand times. */
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

static char line[100];
static int answer(const char *s)
{
	puts(s);
	fflush(stdout);
	return fgets(line, sizeof line, stdin) != 0;
}

NOINLINE int leaf(int x) { __asm__ volatile(""); return x + 1; }

NOINLINE int waits(void)
{
	while (answer("in") && strcmp(line, "leave\n"))
		for (int i = 0; i < 1000; i++)
			leaf(i);
	__asm__ volatile("");
	return 1;
}

int main(void)
{
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "enter\n"))
			waits();
		puts("out");
		fflush(stdout);
	}
	return 0;
}
