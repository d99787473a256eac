// Does everything that is hard on a tracer, in several threads, and checks its
// results, until standard input ends.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <stdexcept>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#define NOINLINE __attribute__((noinline))

static std::atomic<bool> stop;
static std::atomic<long> rounds, bad, signals;
static volatile int sink;

static void check(bool ok, const char *what)
{
	if (!ok && bad++ < 10)
		fprintf(stderr, "stress: %s is wrong\n", what);
}

NOINLINE int leaf(int x) { return x * 3 + 1; }
NOINLINE int deep(int n)
{
	if (n == 0)
		return 0;
	int below = deep(n - 1);
	sink = below;
	return below + 1;
}
NOINLINE int tailed(int x) { sink = x; return x + 1; }
NOINLINE int tail(int x) { sink = x; return tailed(x * 2); }
NOINLINE double floating(double a, float b) { sink = 1; return a * b + leaf(2); }
NOINLINE long many(long a, long b, long c, long d, long e, long f, long g, long h) { sink = 2; return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h; }

struct Destroyed {
	int &count;
	~Destroyed() { count++; }
};
NOINLINE int thrower(int n, int &destroyed)
{
	Destroyed d{destroyed};
	if (n == 0)
		throw std::runtime_error("thrown");
	int below = thrower(n - 1, destroyed);
	sink = below;
	return below + 1;
}
NOINLINE int catcher(int n)
{
	int destroyed = 0;
	try {
		thrower(n, destroyed);
	} catch (const std::runtime_error &e) {
		check(destroyed == n + 1, "number of destructors");
		return n;
	}
	return -1;
}

NOINLINE void jumper(jmp_buf &env, int n)
{
	if (n == 0)
		longjmp(env, 7);
	jumper(env, n - 1);
	sink = n;
}
NOINLINE int jumps(int n)
{
	jmp_buf env;
	int v = setjmp(env);
	if (v == 0)
		jumper(env, n);
	return v;
}

NOINLINE void handled(int) { signals++; check(leaf(5) == 16, "leaf in a handler"); }
static void handler(int n) { int e = errno; handled(n); errno = e; }

static thread_local ucontext_t from, to;
static thread_local int steps;
NOINLINE int coleaf(int x) { sink = x; return x + 1; }
static void coroutine()
{
	for (;;) {
		steps = coleaf(steps);
		swapcontext(&to, &from);
	}
}
NOINLINE int switches(int n)
{
	static thread_local char *stack = (char *)malloc(1 << 16);
	steps = 0;
	getcontext(&to);
	to.uc_stack.ss_sp = stack;
	to.uc_stack.ss_size = 1 << 16;
	makecontext(&to, coroutine, 0);
	for (int i = 0; i < n; i++)
		swapcontext(&from, &to);
	return steps;
}

NOINLINE int child()
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(leaf(4) + deep(20));
	int status = 0;
	while (waitpid(pid, &status, 0) < 0)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void work(int id)
{
	stack_t alternate = {};
	alternate.ss_sp = malloc(1 << 16);
	alternate.ss_size = 1 << 16;
	sigaltstack(&alternate, nullptr);
	for (int i = 0; !stop; i++) {
		check(leaf(i & 0xff) == (i & 0xff) * 3 + 1, "leaf");
		check(deep(50) == 50, "deep");
		check(tail(i & 0xff) == (i & 0xff) * 2 + 1, "tail");
		check(floating(2.5, 4) == 17, "floating");
		check(many(1, 2, 3, 4, 5, 6, 7, 8) == 204, "many");
		check(catcher(5) == 5, "catcher");
		check(jumps(4) == 7, "jumps");
		check(switches(5) == 5, "switches");
		if (i % 256 == id)
			check(child() == 33, "child");
		rounds++;
	}
	alternate.ss_flags = SS_DISABLE;
	void *p = alternate.ss_sp;
	sigaltstack(&alternate, nullptr);
	free(p);
}

NOINLINE static void *brief(void *p) { *(int *)p = leaf(1); return p; }
static void churn()
{
	while (!stop) {
		int v = 0;
		pthread_t t;
		if (pthread_create(&t, nullptr, brief, &v) == 0) {
			pthread_join(t, nullptr);
			check(v == 4, "brief");
		}
		usleep(200);
	}
}

int main()
{
	struct sigaction action = {};
	action.sa_handler = handler;
	action.sa_flags = SA_ONSTACK | SA_RESTART;
	sigaction(SIGALRM, &action, nullptr);
	itimerval timer = {{0, 500}, {0, 500}};
	setitimer(ITIMER_REAL, &timer, nullptr);
	std::vector<std::thread> threads;
	for (int i = 0; i < 6; i++)
		threads.emplace_back(work, i);
	threads.emplace_back(churn);
	char line[100];
	while (fgets(line, sizeof line, stdin)) {
		printf("%ld rounds %ld signals %ld bad\n", rounds.load(), signals.load(), bad.load());
		fflush(stdout);
	}
	stop = true;
	for (auto &t : threads)
		t.join();
	printf("end: %ld bad\n", bad.load());
	return bad != 0;
}
