/* Runs a little, says so, and waits. On a line of standard input it runs more,
   or has its counters written; it says so, and waits again. This is not
   compiled with counters: they stay as they were read. */
#include <stdio.h>
#include <string.h>
#ifndef STATIC
#include <dlfcn.h>
#endif

int work(int n);
void dump(void);

static void (*dump_library)(void);

static void load(const char *name)
{
#ifndef STATIC
	int (*run)(int);
	void *library = dlopen(name, RTLD_NOW);
	if (library && (run = (int (*)(int))dlsym(library, "run")))
		run(7);
	if (library)
		dump_library = (void (*)(void))dlsym(library, "dump");
#endif
}

int main(int argc, char **argv)
{
	char line[100];
	long sum = 0;
	int i;

	for (i = 0; i < 1000; i++)
		sum += work(i);
	if (argc > 1)
		load(argv[1]);
	printf("ready %ld\n", sum);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "work\n")) {
			for (i = 0; i < 500; i++)
				work(i);
		} else {
			if (dump_library)
				dump_library();
			dump();
		}
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
