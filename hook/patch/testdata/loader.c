/* Loads and unloads libraries and forks, on command. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static volatile int sink;

NOINLINE int leaf(int x) { sink = x; return x + 1; }

/* Loads one library after the other, calls its function and unloads it. The answer
   is how often two were at the same place. */
static int cycle(int n, char *paths[], int count)
{
	void *before = 0;
	int same = 0;
	for (int i = 0; i < n; i++) {
		void *library = dlopen(paths[i % count], RTLD_NOW);
		int (*plugin)(int (*)(int), int) = (int (*)(int (*)(int), int))dlsym(library, "plugin");
		if (!plugin || plugin(leaf, i) != i + 1)
			return -1;
		same += before == (void *)plugin;
		before = (void *)plugin;
		if (dlclose(library) != 0)
			return -2;
	}
	return same;
}

int main(void)
{
	char line[4000], path[4000];
	void *library = 0;
	int (*plugin)(int (*)(int), int) = 0;
	while (fgets(line, sizeof line, stdin)) {
		int n, bad = 0;
		if (sscanf(line, "load %s", path) == 1) {
			library = dlopen(path, RTLD_NOW);
			plugin = library ? (int (*)(int (*)(int), int))dlsym(library, "plugin") : 0;
			printf("%s\n", plugin ? "loaded" : dlerror());
		} else if (!strcmp(line, "unload\n")) {
			printf("%d\n", dlclose(library));
			plugin = 0;
		} else if (sscanf(line, "run %d", &n) == 1) {
			for (int i = 0; i < n; i++)
				bad += (plugin ? plugin(leaf, i) : leaf(i)) != i + 1;
			printf("%d bad\n", bad);
		} else if (sscanf(line, "cycle %d %s", &n, path) == 2) {
			char *paths[9];
			int count = 0;
			for (char *next = strtok(path, ","); next && count < 9; next = strtok(0, ","))
				paths[count++] = next;
			printf("%d\n", cycle(n, paths, count));
		} else if (!strcmp(line, "fork\n")) {
			int pid = fork();
			if (pid == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				for (;;) {
					leaf(1);
					usleep(1000);
				}
			}
			printf("%d\n", pid);
		} else {
			printf("%s", line);
		}
		fflush(stdout);
	}
	return 0;
}
