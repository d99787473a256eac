/* Calls functions in two threads while it opens and closes libraries, writes its
   counters and sets them to zero, forks, and has children become other programs:
   all that libgcov can do, and a reader from outside must see through.

   From outside it cannot be seen that counters were set to zero, or a library was
   opened again, if all of them have counted beyond what they were when they were
   read last. So there is always a function that is not called until the next
   time.

   server TRUTH LIBRARIES SEED */
#define _GNU_SOURCE
#include "truth.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void __gcov_dump(void);
void __gcov_reset(void);

static struct truth *truth;
static struct process *self;
static const char *truth_name, *library_dir;
static void *handle[libraries];
static uint64_t closed_at;  /* the stop after which slow libraries were closed */
static int children;
static double zero_at; /* when counters were set to zero last, in seconds */

/* Who counts has it for reading; who dumps, resets or forks for writing: libgcov
   adds to counters without a lock. */
static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;

int f0(int a) { return a + 1; }
int f1(int a) { return a + 2; }
int f2(int a) { return a + 3; }
int f3(int a) { return a + 4; }
int f4(int a) { return a + 5; }
int f5(int a) { return a + 6; }
int f6(int a) { return a + 7; }
int f7(int a) { return a + 8; }
static int (*const function[functions])(int) = {f0, f1, f2, f3, f4, f5, f6, f7};

static void call(struct calls *c, int (*f)(int), int argument)
{
	c->begun++;
	c->all++;
	f(argument);
	c->done++;
}

static void begin(struct process *p)
{
	self = p;
	p->pid = getpid();
}

static void work(unsigned *seed, int n)
{
	for (; n > 0; n--) {
		int i = rand_r(seed) % functions;
		if (i != (int)(self->epoch / 2 % functions))
			call(&self->calls[i], function[i], 1);
	}
}

static void *thread(void *argument)
{
	unsigned seed = (uintptr_t)argument;
	for (;;) {
		pthread_rwlock_rdlock(&gate);
		work(&seed, 1 + rand_r(&seed) % 100);
		pthread_rwlock_unlock(&gate);
		usleep(rand_r(&seed) % 500);
	}
	return NULL;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void start_from_zero(void (*how)(void))
{
	self->epoch++;
	how();
	for (int i = 0; i < functions; i++)
		self->calls[i].begun = self->calls[i].done = 0;
	self->dumped = 0;
	self->epoch++;
	zero_at = now();
}

static void dump_and_reset(void)
{
	__gcov_dump();
	__gcov_reset();
}

static void open_library(int i)
{
	struct library *l = &truth->library[i];
	char name[4096];
	snprintf(name, sizeof name, "%s/library%d.so", library_dir, i);
	l->calls.begun = l->calls.done = 0;
	l->epoch++;
	handle[i] = dlopen(name, RTLD_NOW);
	if (!handle[i]) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	l->epoch++;
	truth->opened++;
}

static void close_library(int i)
{
	truth->library[i].epoch++;
	dlclose(handle[i]);
	handle[i] = NULL;
	truth->library[i].epoch++;
}

static void call_library(int i, int n)
{
	char name[20];
	snprintf(name, sizeof name, "g%d", i);
	int (*g)(int) = (int (*)(int))dlsym(handle[i], name);
	for (; n > 0; n--)
		call(&truth->library[i].calls, g, truth->library[i].epoch / 4 % functions);
}

/* A library is opened, called or closed. Slow ones are closed when the test has
   seen what they had. */
static void use_library(int i, unsigned *seed)
{
	if (!handle[i])
		open_library(i);
	else if (rand_r(seed) % 4)
		call_library(i, rand_r(seed) % 20);
	else if (i >= (int)truth->slow)
		close_library(i);
}

static struct process *next_process(void)
{
	uint64_t n = ++truth->used;
	return n < processes ? &truth->process[n] : NULL;
}

/* A child counts for a while, then becomes another program or ends. */
static void live(unsigned seed)
{
	int turns = 50 + rand_r(&seed) % 300;
	for (int i = 0; i < turns; i++) {
		work(&seed, rand_r(&seed) % 50);
		usleep(rand_r(&seed) % 4000);
		if (rand_r(&seed) % 100 == 0)
			start_from_zero(rand_r(&seed) % 2 ? __gcov_reset : dump_and_reset);
	}
	struct process *next;
	switch (rand_r(&seed) % 4) {
	case 0:
		if ((next = next_process())) {
			char number[20], seeds[20];
			snprintf(number, sizeof number, "%d", (int)(next - truth->process));
			snprintf(seeds, sizeof seeds, "%u", seed);
			truth->execs++;
			execl("/proc/self/exe", "server", truth_name, number, seeds, "child", NULL);
		}
		break;
	case 1:
		raise(SIGKILL);
		break;
	case 2:
		_exit(0);
	}
	exit(0);
}

static void fork_child(unsigned *seed)
{
	struct process *p;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		children--;
	if (children >= 4 || !(p = next_process()))
		return;
	unsigned child_seed = rand_r(seed);
	switch (fork()) { /* the compiler makes it __gcov_fork, which sets the child's counters to zero */
	case 0:
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		begin(p);
		live(child_seed);
	case -1:
		break;
	default:
		children++;
		truth->forks++;
	}
}

static void stand_still(void)
{
	uint64_t stop = truth->stop;
	while (now() - zero_at < .05)
		usleep(1000);
	pthread_rwlock_wrlock(&gate);
	truth->stopped = stop;
	while (truth->stop == stop)
		usleep(200);
	pthread_rwlock_unlock(&gate);
}

static void serve(unsigned seed)
{
	for (uintptr_t i = 1; i <= 2; i++) {
		pthread_t t;
		pthread_create(&t, NULL, thread, (void *)(seed + i));
	}
	for (;;) {
		if (truth->stop)
			stand_still();
		for (int i = 0; closed_at != truth->close && i < (int)truth->slow; i++)
			if (handle[i])
				close_library(i);
		closed_at = truth->close;
		unsigned what = rand_r(&seed) % 200;
		if (what < 180) {
			use_library(rand_r(&seed) % truth->libraries, &seed);
		} else {
			pthread_rwlock_wrlock(&gate);
			if (what < 190 && now() - zero_at < .02) {
				/* too early: little has run so far */
			} else if (what < 184) {
				start_from_zero(__gcov_reset);
				truth->resets++;
			} else if (what < 188) {
				start_from_zero(dump_and_reset);
				truth->resets++;
				truth->dumps++;
			} else if (what < 190) {
				self->dumps++;
				self->dumped = 1;
				__gcov_dump();
				truth->dumps++;
			} else {
				fork_child(&seed);
			}
			pthread_rwlock_unlock(&gate);
		}
		usleep(rand_r(&seed) % 3000);
	}
}

int main(int argc, char **argv)
{
	int fd = argc > 3 ? open(argv[1], O_RDWR) : -1;
	truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (truth == MAP_FAILED) {
		perror(argv[0]);
		return 1;
	}
	truth_name = argv[1];
	if (argc > 4) {
		begin(&truth->process[atoi(argv[2])]);
		live(atoi(argv[3]));
	}
	library_dir = argv[2];
	begin(&truth->process[0]);
	serve(atoi(argv[3]));
}
