// A coroutine on a small stack, which sleeps now and then. What lies below that stack
// belongs to another thread, which writes and reads it all the time. Each line is
// answered with how often something else was there.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <pthread.h>
#include <stdexcept>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

constexpr size_t others = 4096, small = 3072;
static volatile unsigned long *words;
static std::atomic<long> bad;
static ucontext_t context, coroutine;

extern "C" __attribute__((noinline)) int leaf(int x)
{
	if (x == 7)
		throw std::runtime_error("caught");
	return x + 1;
}

static void body()
{
	struct timespec brief = {0, 1000000};
	for (int n = 8;; n = leaf(8))
		syscall(SYS_nanosleep, &brief, nullptr);
}

static void *own(void *)
{
	for (unsigned long v = 1;; v++) {
		for (size_t i = 0; i < others / sizeof v; i++)
			words[i] = v;
		for (size_t i = 0; i < others / sizeof v; i++)
			bad += words[i] != v;
	}
}

static void *answer(void *)
{
	char line[100];
	while (fgets(line, sizeof line, stdin)) {
		printf("%ld\n", bad.load());
		fflush(stdout);
	}
	exit(0);
}

int main()
{
	auto memory = static_cast<char *>(aligned_alloc(4096, others + small));
	pthread_t thread;
	try {
		leaf(7); // the unwinder is ready
	} catch (std::exception &) {
	}
	words = reinterpret_cast<unsigned long *>(memory);
	pthread_create(&thread, nullptr, own, nullptr);
	pthread_create(&thread, nullptr, answer, nullptr);
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = memory + others;
	coroutine.uc_stack.ss_size = small;
	makecontext(&coroutine, body, 0);
	swapcontext(&context, &coroutine);
}
