/* What the program knows of itself, in a file that it shares with the test. A
   call is begun before the compiler's counter is increased and done after it:
   begun >= counter >= done, at any time. */
#include <stdatomic.h>
#include <stdint.h>

enum { functions = 8, libraries = 50, processes = 4096 };

typedef _Atomic uint64_t number;

struct calls {
	number begun, done; /* since the counter was zero */
	number all;         /* begun since the program began */
};

/* A program: a process, until it runs another by exec. */
struct process {
	number pid;    /* 0: none so far */
	number epoch;  /* increased before and after counters are set to zero */
	number dumped; /* since then: libgcov has added the data files to the counters */
	number dumps;  /* how often that was */
	struct calls calls[functions];
};

struct library {
	number epoch; /* modulo 4: 0 closed, 1 being opened, 2 open, 3 being closed */
	struct calls calls;
};

struct truth {
	number stop;    /* not 0: the test wants the server to stand still; its number */
	number stopped; /* the number for which it does */
	number slow;    /* libraries below this number are closed only when told to */
	number close;   /* the number of the stop after which that may be done */
	number libraries; /* how many there are */
	number resets, dumps, forks, execs, opened; /* what it has done */
	number used;    /* processes */
	struct library library[libraries];
	struct process process[processes]; /* the first one is the server */
};
