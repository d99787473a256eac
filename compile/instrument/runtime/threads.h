/*
 * Counters of threads. With --update=thread, in a program, the base of gs, a register that
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
#define FOOTFALL_THREADS 0 /* 1: stand in for what makes threads, 2: the linker does that, by --wrap */
#endif

#if FOOTFALL_THREADS && defined(__x86_64__)
#include <dlfcn.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>

enum { most_copies = 8192 };

/* A copy of the counters. */
struct copy {
	int64_t distance;
	int thread; /* whose it is; 0: of one that begins, -1: nobody's */
	int process; /* the thread's */
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
		/* A filter of system calls may kill who opens a file. */
		int fd = prctl(PR_GET_SECCOMP) != 0 ? -1 : open_file(S.name, O_RDWR);
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
	return thread < 0 || (thread > 0 && syscall(SYS_tgkill, c->process, thread, 0) < 0 && errno == ESRCH);
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
	if (c) {
		c->thread = 0;
		c->process = S.pid;
	}
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
#define MAKES(name) name
static int create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = (__typeof__(next))dlsym(RTLD_NEXT, "pthread_create");
	return next ? next(thread, attr, start, arg) : EAGAIN;
}

static int create_clone(int (*start)(void *), void *stack, int flags, void *arg, void *parent, void *tls, void *child)
{
	int (*next)(int (*)(void *), void *, int, void *, ...) = (__typeof__(next))dlsym(RTLD_NEXT, "clone");
	return next ? next(start, stack, flags, arg, parent, tls, child) : (errno = EAGAIN, -1);
}
#else
#define MAKES(name) __wrap_##name
#define create __real_pthread_create
#define create_clone __real_clone
int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int create_clone(int (*)(void *), void *, int, void *, ...);
#endif

/* In the program pthread_create is this function, unless another one has been linked in
 * its place: then threads have no copies. */
__attribute__((used)) static int footfall_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
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

__attribute__((weak, alias("footfall_create"))) int MAKES(pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Of what the thread returns its joiner takes an int. */
__attribute__((weak)) int MAKES(thrd_create)(pthread_t *thread, int (*start)(void *), void *arg)
{
	int result = footfall_create(thread, NULL, (void *(*)(void *))(void (*)(void))start, arg);
	return result == 0 ? 0 : result == ENOMEM ? 3 : 2; /* thrd_success, _nomem, _error */
}

static int begin_clone(void *p)
{
	struct copy *c = p;
	int (*start)(void *) = (int (*)(void *))(void (*)(void))c->start;
	void *arg = c->arg;
	c->process = syscall(SYS_getpid);
	use_copy(c);
	return start(arg);
}

/* What shares the memory and runs at the same time is a thread here. */
__attribute__((weak)) int MAKES(clone)(int (*start)(void *), void *stack, int flags, void *arg, ...)
{
	struct copy *c = threads.on && (flags & (CLONE_VM | CLONE_VFORK)) == CLONE_VM ? take_copy() : NULL;
	void *parent, *tls, *child;
	va_list more;
	int result;
	va_start(more, arg);
	parent = va_arg(more, void *);
	tls = va_arg(more, void *);
	child = va_arg(more, void *);
	va_end(more);
	if (!c)
		return create_clone(start, stack, flags, arg, parent, tls, child);
	c->start = (void *(*)(void *))(void (*)(void))start;
	c->arg = arg;
	result = create_clone(begin_clone, stack, flags, c, parent, tls, child);
	if (result < 0)
		__atomic_store_n(&c->thread, -1, __ATOMIC_RELEASE);
	return result;
}

#if FOOTFALL_THREADS == 1
/* What a thread is to do that the C library makes for a timer or a message (SIGEV_THREAD). They
 * stay: nobody says when the last one has been made. */
struct notification {
	void (*function)(union sigval);
	union sigval value;
};

static struct {
	uint32_t n;
	struct notification of[1024];
} notifications;

static void begin_notified(union sigval v)
{
	struct notification n = *(struct notification *)v.sival_ptr;
	struct copy *c = take_copy();
	if (c)
		use_copy(c);
	n.function(n.value);
}

/* Has the thread of an event begin here. */
static const struct sigevent *notified(const struct sigevent *event, struct sigevent *ours)
{
	uint32_t i;
	if (!threads.on || !event || event->sigev_notify != SIGEV_THREAD)
		return event;
	pthread_mutex_lock(&threads.lock);
	for (i = 0; i < notifications.n; i++)
		if (notifications.of[i].function == event->sigev_notify_function && notifications.of[i].value.sival_ptr == event->sigev_value.sival_ptr)
			break;
	if (i == notifications.n && i < sizeof notifications.of / sizeof *notifications.of) {
		notifications.of[i].function = event->sigev_notify_function;
		notifications.of[i].value = event->sigev_value;
		notifications.n++;
	}
	pthread_mutex_unlock(&threads.lock);
	if (i == sizeof notifications.of / sizeof *notifications.of) {
		lost("too many different timers with threads ");
		return event;
	}
	*ours = *event;
	ours->sigev_notify_function = begin_notified;
	ours->sigev_value.sival_ptr = &notifications.of[i];
	return ours;
}

__attribute__((weak)) int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	int (*next)(clockid_t, const struct sigevent *, timer_t *) = (__typeof__(next))dlsym(RTLD_NEXT, "timer_create");
	struct sigevent ours;
	return next ? next(clock, notified(event, &ours), timer) : (errno = EAGAIN, -1);
}

__attribute__((weak)) int mq_notify(int queue, const struct sigevent *event)
{
	int (*next)(int, const struct sigevent *) = (__typeof__(next))dlsym(RTLD_NEXT, "mq_notify");
	struct sigevent ours;
	return next ? next(queue, notified(event, &ours)) : (errno = ENOSYS, -1);
}
#endif

/* See instrument/unlock.go. */
#define TEXT(name) #name
#define NAME(name) TEXT(name)
__asm__(".pushsection footfall_threads,\"a\",%progbits\n.balign 4\n"
        ".hidden __footfall_threads\n.weak __footfall_threads\n__footfall_threads:\n"
        ".long " NAME(MAKES(pthread_create)) "-.\n.long footfall_create-.\n.popsection\n");
extern char __footfall_threads[] __attribute__((weak, visibility("hidden")));

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
	__asm__ volatile("" : : "r"(__footfall_threads)); /* linkers keep what is used */
	for (b = next_block(NULL); wanted && b && (b->flags & 15) != 2; b = next_block(b))
		;
	threads.on = wanted && b;
}
#else
static uint64_t count_of_all(const uint64_t *p) { return *p; }
static void threads_forget(void) {}
static void threads_begin(int wanted) { (void)wanted; }
#endif
