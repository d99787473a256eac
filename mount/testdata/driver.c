/* Says ready, and obeys lines of standard input; it says done after each. This
   is not compiled with counters: they stay as they were read. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int work(int n);
/* Not there in a program without counters. */
extern void __gcov_dump(void) __attribute__((weak));
extern void __gcov_reset(void) __attribute__((weak));

int main(int argc, char **argv)
{
	char line[4096];
	void *library = NULL;

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(line, "work")) {
			work(7);
		} else if (!strcmp(line, "dump")) {
			__gcov_dump();
		} else if (!strcmp(line, "reset")) {
			__gcov_reset();
		} else if (!strncmp(line, "load ", 5)) {
			library = dlopen(line + 5, RTLD_NOW);
		} else if (!strcmp(line, "run")) {
			((int (*)(int))dlsym(library, "run"))(3);
		} else if (!strcmp(line, "unload")) {
			dlclose(library);
		} else if (!strncmp(line, "exec ", 5)) {
			execl(line + 5, line + 5, (char *)NULL);
		}
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
