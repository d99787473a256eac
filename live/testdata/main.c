/* Runs a little, says so, and waits. On a line of standard input it runs more,
   or writes its counters as at the end; it says so, and waits again. What waits
   and writes is not counted: the counters stay as they were read. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define UNCOUNTED __attribute__((noinline, no_profile_instrument_function))

extern void __gcov_dump(void);
int work(int n);

static void (*dump_library)(void);

#ifndef STATIC
static void load(const char *name)
{
	int (*run)(int);
	void *library = dlopen(name, RTLD_NOW);
	if (library && (run = (int (*)(int))dlsym(library, "run")))
		run(7);
	if (library)
		dump_library = (void (*)(void))dlsym(library, "dump");
}
#else
static void load(const char *name) { (void)name; }
#endif

static void more(void)
{
	for (int i = 0; i < 500; i++)
		work(i);
}

UNCOUNTED static void obey(void)
{
	char line[100];

	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "work\n")) {
			more();
		} else {
			if (dump_library)
				dump_library();
			__gcov_dump();
		}
		printf("done\n");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	long sum = 0;

	for (int i = 0; i < 1000; i++)
		sum += work(i);
	if (argc > 1)
		load(argv[1]);
	printf("ready %ld\n", sum);
	fflush(stdout);
	obey();
	return 0;
}
