/*
 * Signals with --update=split. An increment is three instructions there:
 *
 *     4c 8b 1d ....   mov  counter(%rip),%r11
 *     4d 8d 5b 01     lea  1(%r11),%r11           <- a signal comes before this
 *     4c 89 1d ....   mov  %r11,counter(%rip)     <- or this
 *
 * A handler that counts there itself would be undone by the store. So handlers are
 * entered through a function that completes such an increment first, by one
 * instruction, and has the program go on behind it. Of handlers that are installed by
 * a bare system call nothing is known here.
 */
#ifndef FOOTFALL_SIGNALS
#define FOOTFALL_SIGNALS 0 /* 1: stand in for what installs handlers, 2: the linker does that, by --wrap */
#endif

#if FOOTFALL_SIGNALS && defined(__x86_64__)
#include <dlfcn.h>

typedef void (*handler)(int);

enum { last_signal = 64 };

/* The program's handlers. */
static handler handlers[last_signal + 1];

/* The byte before p's page can be read. */
static int readable_before(const unsigned char *p)
{
	unsigned char in_memory;
	uintptr_t page = ((uintptr_t)p & -(uintptr_t)4096) - 4096;
	return syscall(SYS_mincore, page, 4096, &in_memory) == 0;
}

static void complete(ucontext_t *u)
{
	static const unsigned char load[] = {0x4c, 0x8b, 0x1d}, add_store[] = {0x4d, 0x8d, 0x5b, 0x01, 0x4c, 0x89, 0x1d};
	const unsigned char *p = (const unsigned char *)u->uc_mcontext.gregs[REG_RIP], *first;
	int32_t to_load, to_store;
	if (p[0] == add_store[0] && !memcmp(p, add_store, 7))
		first = p - 7;
	else if (p[0] == add_store[4] && !memcmp(p, add_store + 4, 3))
		first = p - 11;
	else
		return;
	if (((uintptr_t)p & 4095) < 11 && !readable_before(p))
		return;
	memcpy(&to_load, first + 3, 4);
	memcpy(&to_store, first + 14, 4);
	if (memcmp(first, load, 3) || memcmp(first + 7, add_store, 7) || to_store != to_load - 11)
		return;
	__asm__ volatile("incq %0" : "+m"(*(volatile uint64_t *)(first + 7 + to_load)));
	u->uc_mcontext.gregs[REG_RIP] = (greg_t)(first + 18);
}

/* The kernel gives the context to all handlers, with SA_SIGINFO or without. */
static void handle(int signal, siginfo_t *info, void *context)
{
	complete(context);
	((void (*)(int, siginfo_t *, void *))(void (*)(void))handlers[signal])(signal, info, context);
}

#define HANDLE ((handler)(void (*)(void))handle)

/* Whether h is a handler of the program, and not SIG_DFL, SIG_IGN, SIG_HOLD or SIG_ERR. */
static int programs(int signal, handler h)
{
	return signal > 0 && signal <= last_signal && (uintptr_t)h > 15 && h != SIG_ERR && h != HANDLE;
}

/* What is installed for the program's handler. It is called at any moment from then on. */
static handler installed(int signal, handler h)
{
	if (!programs(signal, h))
		return h;
	__atomic_store_n(&handlers[signal], h, __ATOMIC_RELEASE);
	return HANDLE;
}

#if FOOTFALL_SIGNALS == 1
#define INSTALLS(name) name
#define NEXT(name, type) static type next; if (!next) next = (type)dlsym(RTLD_NEXT, #name)
#else
#define INSTALLS(name) __wrap_##name
#define NEXT(name, type) extern __typeof__(*(type)0) __real_##name; type next = __real_##name
#endif

typedef int (*sigaction_function)(int, const struct sigaction *, struct sigaction *);
typedef handler (*signal_function)(int, handler);

__attribute__((weak)) int INSTALLS(sigaction)(int signal, const struct sigaction *act, struct sigaction *old)
{
	handler before = signal > 0 && signal <= last_signal ? handlers[signal] : NULL;
	struct sigaction ours;
	int result;
	NEXT(sigaction, sigaction_function);
	if (act) {
		ours = *act;
		ours.sa_handler = installed(signal, act->sa_handler);
		act = &ours;
	}
	result = next(signal, act, old);
	if (result == 0 && old && old->sa_handler == HANDLE)
		old->sa_handler = before;
	return result;
}

#define SIGNAL(name)                                                                                 \
	__attribute__((weak)) handler INSTALLS(name)(int signal, handler h)                          \
	{                                                                                            \
		handler before = signal > 0 && signal <= last_signal ? handlers[signal] : NULL, old; \
		NEXT(name, signal_function);                                                         \
		old = next(signal, installed(signal, h));                                            \
		return old == HANDLE ? before : old;                                                 \
	}
SIGNAL(signal)
SIGNAL(bsd_signal)
SIGNAL(__sysv_signal)
SIGNAL(sigset)
#ifdef __GLIBC__
SIGNAL(ssignal)
SIGNAL(sysv_signal)
#endif

/* Has all found: dlsym is nothing for a handler that installs another. */
static void signals_begin(void)
{
	struct sigaction now;
	INSTALLS(sigaction)(SIGCHLD, NULL, &now);
}
#else
static void signals_begin(void) {}
#endif
