// What the files here are samples of; see make.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static uint64_t turn(uint64_t n)
{
	uint64_t s = 0;
	for (uint64_t i = 0; i < n; i++) {
		s = s * 31 + i;
		__asm__ volatile("" : : "r"(s));
	}
	return s;
}

__attribute__((noinline)) static uint64_t descend(int depth, uint64_t n)
{
	return depth == 0 ? turn(n) + 1 : descend(depth - 1, n) * 3 + 1;
}

__attribute__((noinline)) static uint64_t touch(size_t pages)
{
	volatile char *p = malloc(pages << 12);
	for (size_t i = 0; i < pages; i++)
		p[i << 12] = 1;
	uint64_t s = p[pages << 11] + 1;
	free((void *)p);
	return s;
}

__attribute__((noinline)) static void *worker(void *n)
{
	return (void *)(uintptr_t)(descend(5, (uintptr_t)n) + 1);
}

int main(int argc, char **argv)
{
	if (argc > 1) { // the program that it becomes in a child
		uint64_t s = descend(2, 60000000) + touch(300);
		return s == 1;
	}
	pthread_t threads[2];
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, worker, (void *)((i + 1) * 40000000));
	pid_t child = fork();
	if (child == 0) {
		turn(20000000);
		execl("/proc/self/exe", "renamed", "again", (char *)0);
		_exit(1);
	}
	uint64_t s = descend(1, 50000000);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	waitpid(child, 0, 0);
	return s == 1;
}
