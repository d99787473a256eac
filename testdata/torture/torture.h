/* What the programs of scripts/target-torture have in common: each does rounds, at least
   those of its first argument and until standard input ends, checks what comes out, and
   says at the end what was wrong. What it prints does not depend on how many there were. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline)) /* is traced */
#define NOT_TRACED __attribute__((noinline, patchable_function_entry(0)))

static volatile long wrong_things;
static long first_rounds = 1;

static inline void wrong(const char *what, long is, long expected)
{
	if (__atomic_add_fetch(&wrong_things, 1, __ATOMIC_SEQ_CST) <= 5)
		printf("%s: %ld, expected %ld\n", what, is, expected), fflush(stdout);
}

#define CHECK(is, expected) \
	do { \
		long is_ = (long)(is), expected_ = (long)(expected); \
		if (is_ != expected_) \
			wrong(#is, is_, expected_); \
	} while (0)

/* Its output goes to the file of $TORTURE_OUTPUT, as the tracer may write to the same standard output. */
static inline void begin(int argc, char **argv)
{
	const char *to = getenv("TORTURE_OUTPUT");
	if (to && !freopen(to, "w", stdout))
		exit(70);
	first_rounds = argc > 1 ? atol(argv[1]) : 1;
}

/* more tells whether there is to be another round. */
static inline int more(long round)
{
	struct pollfd in = {0, POLLIN, 0};
	char line[64];
	if (round < first_rounds)
		return 1;
	return poll(&in, 1, 0) <= 0 || !(in.revents & (POLLIN | POLLHUP | POLLERR)) || ((in.revents & POLLIN) && read(0, line, sizeof line) > 0);
}

static inline int ended(void)
{
	printf("%ld wrong\n", wrong_things);
	fflush(stdout);
	return wrong_things != 0;
}

static inline void nap(long microseconds)
{
	struct timespec t = {0, microseconds * 1000};
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static inline uint64_t random64(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}
