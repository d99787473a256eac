/* loads FILE LIBRARY TIMES: loads the library when the file is there and unloads it, so
 * often, and says how often its functions were called. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef LIBRARY
void count(void);
__attribute__((noinline)) void called(void) { count(); }
__attribute__((constructor)) static void begin(void) { called(); }
__attribute__((destructor)) static void end(void) { called(); called(); }
#else
static long calls;
void count(void) { calls++; }

int main(int argc, char **argv)
{
	while (access(argv[1], F_OK) != 0)
		usleep(20000);
	for (int i = 0; i < atoi(argv[argc - 1]); i++) {
		void *library = dlopen(argv[2], RTLD_NOW);
		if (!library)
			return 1;
		dlclose(library);
	}
	printf("called %ld\n", calls);
	return 0;
}
#endif
