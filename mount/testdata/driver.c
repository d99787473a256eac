/* Says ready, and obeys lines of standard input; it says done after each. This
   is not compiled with counters: they stay as they were read. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int work(int n);
extern void __gcov_dump(void);

int main(int argc, char **argv)
{
	char line[4096];

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(line, "work")) {
			work(7);
		} else if (!strcmp(line, "dump")) {
			__gcov_dump();
		} else if (!strncmp(line, "load ", 5)) {
			void *library = dlopen(line + 5, RTLD_NOW);
			int (*run)(int) = library ? (int (*)(int))dlsym(library, "run") : NULL;
			if (run)
				run(3);
		} else if (!strncmp(line, "exec ", 5)) {
			execl(line + 5, line + 5, (char *)NULL);
		}
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
