/*
 * Counters of threads. With --update=thread the base of gs, a register that
 * nothing else uses on x86-64, is how far the thread's own copy of the counters is
 * from those of the executable:
 *
 *     incq %gs:counter(%rip)
 *
 *     the executable's   | target | count | count |   first, and other threads: 0
 *     a thread's copy    |   0    | count | count |   + base of gs
 *
 * A count is the sum of all copies. Copies are pages of the file, each with a head
 * of its own, so that the sum can be read at any time and outlives the process. The
 * copy of a thread that has ended goes on with another, as it is. A thread that
 * is not known here counts where the one does that made it.
 */
#ifndef FOOTFALL_THREADS
#define FOOTFALL_THREADS 0 /* 1: stand in for pthread_create, 2: the linker does that, by --wrap */
#endif

#if FOOTFALL_THREADS && defined(__x86_64__)
#include <dlfcn.h>

enum { most_copies = 8192 };

/* A copy of the counters. */
struct copy {
	int64_t distance;
	int thread; /* whose it is; 0: of one that begins, -1: nobody's */
	void *(*start)(void *);
	void *arg;
};

static struct {
	int on, said;
	pthread_mutex_t lock;
	uint32_t n, next;
	struct copy copy[most_copies];
} threads = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The count at p, of all threads. */
static uint64_t count_of_all(const uint64_t *p)
{
	uint64_t sum = *p;
	uint32_t i;
	for (i = 0; i < threads.n; i++)
		sum += *(const uint64_t *)((const char *)p + threads.copy[i].distance);
	return sum;
}

static void lost(const char *why)
{
	if (!__atomic_exchange_n(&threads.said, 1, __ATOMIC_RELAXED))
		complain(why, S.on ? S.name : "", "; some of their counts may be lost");
}

static size_t counts_room(void) { return ROUND(address(__stop_footfall_counts) - address(__start_footfall_counts)); }

/* Adds the part of a copy to the file and maps its counters. */
static char *map_copy(int fd)
{
	struct part p;
	char *at = MAP_FAILED;
	uint64_t size = lock_file(fd), start = ROUND(size), done;
	/* The user may have put another file in the place of ours. */
	if (pread(fd, &p, sizeof p, S.offset) != sizeof p || memcmp(p.magic, "FOOTFALL", 8) || p.pid != S.pid || p.process != this_process())
		return at;
	p.flags = 2;
	p.table_size = p.names_size = p.maps_size = 0;
	p.table_offset = p.names_offset = p.maps_offset = p.counts_offset = PAGE;
	p.size = PAGE + counts_room();
	if (allowed(start + p.size) && lseek(fd, start + PAGE, SEEK_SET) >= 0) {
		for (done = PAGE; done < p.size && write_all(fd, zeros, PAGE); done += PAGE)
			;
		if (done == p.size)
			at = mmap(NULL, counts_room(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, start + PAGE);
		if (at != MAP_FAILED && (lseek(fd, start, SEEK_SET) < 0 || !write_all(fd, &p, sizeof p))) {
			munmap(at, counts_room());
			at = MAP_FAILED;
		}
	}
	if (at == MAP_FAILED)
		(void)!ftruncate(fd, size);
	return at;
}

/* Makes a copy and returns its distance, 0 if that fails. */
static int64_t make_copy(void)
{
	char *at;
	if (S.on) {
		int fd = open_file(S.name, O_RDWR);
		at = fd < 0 ? MAP_FAILED : map_copy(fd);
		if (fd >= 0)
			close_file(fd);
	} else
		at = mmap(NULL, counts_room(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		lost("no room for counters of threads ");
		return 0;
	}
	return address(at) - address(__start_footfall_counts);
}

static int has_ended(const struct copy *c)
{
	int thread = __atomic_load_n(&c->thread, __ATOMIC_ACQUIRE);
	return thread < 0 || (thread > 0 && syscall(SYS_tgkill, S.pid, thread, 0) < 0 && errno == ESRCH);
}

/* A copy for a thread that begins, NULL if there is none. Eight copies are looked
 * at: so there are hardly more than threads at a time, and many of these cost no more. */
static struct copy *take_copy(void)
{
	struct copy *c = NULL;
	uint32_t i;
	int saved = errno;
	pthread_mutex_lock(&threads.lock);
	for (i = 0; i < 8 && !c && i < threads.n; i++) {
		struct copy *old = &threads.copy[threads.next++ % threads.n];
		if (has_ended(old))
			c = old;
	}
	if (!c && threads.n < most_copies) {
		struct copy *fresh = &threads.copy[threads.n];
		if ((fresh->distance = make_copy())) {
			threads.n++;
			c = fresh;
		}
	}
	if (c)
		c->thread = 0;
	pthread_mutex_unlock(&threads.lock);
	errno = saved;
	return c;
}

/* Sets the base of gs. The system call, which is for CPUs and kernels (before 5.9)
 * without the instruction, refuses a negative one: of a program loaded above all else. */
static int set_gs(int64_t base)
{
	if (!(getauxval(AT_HWCAP2) & 2)) /* HWCAP2_FSGSBASE */
		return syscall(SYS_arch_prctl, 0x1001, base) == 0;
	__asm__ volatile("wrgsbase %0" : : "r"(base));
	return 1;
}

static void use_copy(struct copy *c)
{
	if (set_gs(c->distance))
		__atomic_store_n(&c->thread, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
	else {
		__atomic_store_n(&c->thread, -1, __ATOMIC_RELEASE);
		lost("threads cannot have counters of their own ");
	}
}

static void *begin_thread(void *p)
{
	struct copy *c = p;
	void *(*start)(void *) = c->start, *arg = c->arg;
	use_copy(c);
	return start(arg);
}

#if FOOTFALL_THREADS == 1
#define CREATE pthread_create
static int create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = (__typeof__(next))dlsym(RTLD_NEXT, "pthread_create");
	return next ? next(thread, attr, start, arg) : EAGAIN;
}
#else
#define CREATE __wrap_pthread_create
#define create __real_pthread_create
int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
#endif

__attribute__((weak)) int CREATE(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	struct copy *c = threads.on ? take_copy() : NULL;
	int result;
	if (!c)
		return create(thread, attr, start, arg);
	c->start = start;
	c->arg = arg;
	result = create(thread, attr, begin_thread, c);
	if (result)
		__atomic_store_n(&c->thread, -1, __ATOMIC_RELEASE);
	return result;
}

/* In a child of fork: the copies are the parent's. */
static void threads_forget(void)
{
	uint32_t i;
	if (threads.on)
		set_gs(0);
	for (i = 0; i < threads.n; i++)
		munmap(__start_footfall_counts + threads.copy[i].distance, counts_room());
	threads.n = threads.on = 0;
	pthread_mutex_init(&threads.lock, NULL);
}

/* Threads that begin have copies if that is wanted and anything counts so. */
static void threads_begin(int wanted)
{
	const struct block *b;
	for (b = next_block(NULL); wanted && b && (b->flags & 15) != 2; b = next_block(b))
		;
	threads.on = wanted && b;
}
#else
static uint64_t count_of_all(const uint64_t *p) { return *p; }
static void threads_forget(void) {}
static void threads_begin(int wanted) { (void)wanted; }
#endif
