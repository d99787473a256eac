/*
 * The runtime of programs whose assembly footfall has instrumented. It is linked
 * into each program and shared library, once, and maps their counters to a file,
 * so that others can read them at any time and they outlive the process.
 *
 *     FOOTFALL_OUT=FILE   the file (%p in it is the process); FOOTFALL_OUT= none.
 *                         Unset: footfall.PID.counts in the working directory.
 *     FOOTFALL_STATS=1    also write a table to the file stats at exit, or to
 *                         the file that it names if it has a slash
 *
 * Never does the program notice: what fails here is said in at most one line on
 * standard error, errno stays, no descriptor stays open, no memory comes from
 * malloc. An image (executable or library) adds a part to the file of its
 * process; a child of fork makes a file of its own. Parts are drawn in
 * instrument/counts.go.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__aarch64__)
#define PAGE 65536 /* the largest that kernels have */
#define PAGES "65536"
#else
#define PAGE 4096
#define PAGES "4096"
#endif
#define ROUND(n) (((n) + PAGE - 1) / PAGE * PAGE)

/* The counters start a page, and a page of padding follows: nothing else of the
 * program may lie in a page that is mapped, since fork would share it. They have
 * names because ld.lld --gc-sections does not keep a section for its __start_. */
__asm__(".pushsection footfall_counts,\"aw\",%nobits\n.balign " PAGES "\n"
        ".globl __footfall_page\n.hidden __footfall_page\n__footfall_page:\n.popsection\n"
        ".pushsection footfall_padding,\"aw\",%nobits\n.balign " PAGES "\n"
        ".globl __footfall_padding\n.hidden __footfall_padding\n__footfall_padding:\n.zero " PAGES "\n.popsection\n");
extern char __footfall_page[] __attribute__((visibility("hidden")));
extern char __footfall_padding[] __attribute__((visibility("hidden")));

#define BOUND(name) extern char name[] __attribute__((weak, visibility("hidden")))
BOUND(__start_footfall_counts);
BOUND(__stop_footfall_counts);
BOUND(__start_footfall_table);
BOUND(__stop_footfall_table);
BOUND(__start_footfall_names);
BOUND(__stop_footfall_names);
extern const ElfW(Ehdr) __ehdr_start __attribute__((weak, visibility("hidden")));

/* The compiler would say that two arrays never meet. */
static uintptr_t address(const char *p)
{
	__asm__("" : "+r"(p));
	return (uintptr_t)p;
}

/* The head of a part of the file. */
struct part {
	char magic[8];
	uint32_t version, order;
	uint64_t size; /* of the part */
	uint32_t word, flags; /* flags: 1 unmapped, 2 a thread's copy */
	uint32_t pid, parent; /* parent: 0 if the process was not forked by a counting one */
	uint64_t process;     /* tells programs that the same process runs one after the other */
	uint64_t started;     /* nanoseconds since 1970 */
	uint64_t bias;        /* of addresses in memory over those in the image's file */
	uint64_t table, table_size, table_offset;
	uint64_t names, names_size, names_offset;
	uint64_t counts, counts_size, counts_offset;
	uint64_t maps_size, maps_offset;
	uint32_t build_id_size, path_size;
	unsigned char build_id[64];
	char path[1024];
};

/* What is known of this image's part. Weak, so that the runtime may be linked
 * twice into an image. */
struct state {
	int on, child;
	uint32_t pid, parent;
	uint64_t offset; /* of the part in the file */
	uint32_t unmapped;
	char dir[2048], out[2048], name[2304];
};
__attribute__((weak, visibility("hidden"))) struct state __footfall_state;
#define S __footfall_state

static size_t text(char *to, size_t at, size_t size, const char *s)
{
	while (*s && at + 1 < size)
		to[at++] = *s++;
	to[at] = 0;
	return at;
}

static size_t number(char *to, size_t at, size_t size, uint64_t n)
{
	char digits[24];
	int i = sizeof digits;
	digits[--i] = 0;
	do
		digits[--i] = '0' + n % 10;
	while (n /= 10);
	return text(to, at, size, digits + i);
}

static void complain(const char *what, const char *name, const char *why)
{
	char line[3000];
	size_t n = text(line, 0, sizeof line, "footfall: ");
	n = text(line, n, sizeof line, what);
	n = text(line, n, sizeof line, name);
	n = text(line, n, sizeof line, why);
	n = text(line, n, sizeof line, "\n");
	(void)!syscall(SYS_write, 2, line, n);
}

static int write_all(int fd, const void *data, size_t size)
{
	const char *p = data;
	while (size > 0) {
		long n = syscall(SYS_write, fd, p, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		p += n;
		size -= n;
	}
	return 1;
}

static int open_file(const char *name, int flags)
{
	return syscall(SYS_openat, AT_FDCWD, name, flags | O_CLOEXEC | O_NOFOLLOW, 0666);
}

/* Candidate number n for the name of the file. */
static void name_file(int n)
{
	size_t at = 0;
	int pid_in_name = 0;
	const char *s;
	if (S.out[0] == 0) {
		at = text(S.name, 0, sizeof S.name, S.dir);
		at = text(S.name, at, sizeof S.name, "/footfall.");
		at = number(S.name, at, sizeof S.name, S.pid);
		if (n > 1) {
			at = text(S.name, at, sizeof S.name, ".");
			at = number(S.name, at, sizeof S.name, n);
		}
		text(S.name, at, sizeof S.name, ".counts");
		return;
	}
	if (S.out[0] != '/') {
		at = text(S.name, 0, sizeof S.name, S.dir);
		at = text(S.name, at, sizeof S.name, "/");
	}
	for (s = S.out; *s; s++) {
		char one[2] = {*s, 0};
		if (s[0] == '%' && s[1] == 'p') {
			at = number(S.name, at, sizeof S.name, S.pid);
			pid_in_name = 1;
			s++;
		} else
			at = text(S.name, at, sizeof S.name, one);
	}
	if (!pid_in_name && (S.child || n > 1)) {
		at = text(S.name, at, sizeof S.name, ".");
		at = number(S.name, at, sizeof S.name, S.pid);
		n -= !S.child;
	}
	if (n > 1) {
		at = text(S.name, at, sizeof S.name, ".");
		number(S.name, at, sizeof S.name, n);
	}
}

/* The file for this process, new or made by another of its images. A file of
 * another process is never written, since it may be mapped there: its name gets
 * free if the process is gone and the user chose the name, else the next is
 * taken. */
static int choose_file(uint64_t process)
{
	struct part head;
	struct stat st;
	int n, fd;
	for (n = 1; n < 100; n++) {
		name_file(n);
		fd = open_file(S.name, O_RDWR | O_CREAT | O_EXCL);
		if (fd >= 0 || errno != EEXIST)
			return fd;
		fd = open_file(S.name, O_RDWR | O_NONBLOCK);
		if (fd < 0)
			return -1;
		memset(&head, 0, sizeof head);
		if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		    syscall(SYS_read, fd, &head, offsetof(struct part, table)) < 0 ||
		    (memcmp(head.magic, "FOOTFALL", 8) && head.size)) {
			close(fd);
			errno = EEXIST;
			return -1;
		}
		if (head.pid == S.pid && head.process == process)
			return fd;
		close(fd);
		if (st.st_size > 0 && memcmp(head.magic, "FOOTFALL", 8)) {
			errno = EEXIST;
			return -1;
		}
		if (S.out[0] && head.pid && head.pid != S.pid && kill(head.pid, 0) < 0 && errno == ESRCH) {
			unlink(S.name);
			n--;
		}
	}
	errno = EEXIST;
	return -1;
}

/* Has the file to itself until close_file, and returns its size, where a part
 * goes. Whoever else may lock it does not stop the program. */
static uint64_t lock_file(int fd)
{
	struct timespec millisecond = {0, 1000000};
	struct stat st;
	int n;
	for (n = 0; n < 1000 && flock(fd, LOCK_EX | LOCK_NB) < 0 && (errno == EWOULDBLOCK || errno == EINTR); n++)
		syscall(SYS_nanosleep, &millisecond, NULL);
	return fstat(fd, &st) < 0 ? 0 : st.st_size;
}

/* A child of fork may have the descriptor too, so that closing does not unlock. */
static void close_file(int fd)
{
	flock(fd, LOCK_UN);
	close(fd);
}

static uint64_t this_process(void)
{
	const unsigned char *p = (const unsigned char *)getauxval(AT_RANDOM);
	uint32_t h = 2166136261u; /* not the bytes themselves: the stack guard is made of them */
	int i;
	for (i = 0; p && i < 16; i++)
		h = (h ^ p[i]) * 16777619u;
	return h | 1ull << 32;
}

static void describe_image(struct part *p)
{
	const ElfW(Ehdr) *eh = &__ehdr_start;
	const ElfW(Phdr) *ph, *first = NULL;
	int i;
	if (!eh)
		return;
	ph = (const ElfW(Phdr) *)((const char *)eh + eh->e_phoff);
	for (i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && !first) {
			first = &ph[i];
			p->bias = (uintptr_t)eh - (first->p_vaddr - first->p_offset);
		}
	for (i = 0; i < eh->e_phnum; i++) {
		const char *note = (const char *)(uintptr_t)(p->bias + ph[i].p_vaddr), *end = note + ph[i].p_memsz;
		if (ph[i].p_type != PT_NOTE)
			continue;
		while (end - note >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *nh = (const void *)note;
			const char *desc = note + sizeof *nh + (nh->n_namesz + 3) / 4 * 4;
			if (nh->n_type == NT_GNU_BUILD_ID && nh->n_namesz == 4 && nh->n_descsz <= sizeof p->build_id) {
				p->build_id_size = nh->n_descsz;
				memcpy(p->build_id, desc, nh->n_descsz);
			}
			note = desc + (nh->n_descsz + 3) / 4 * 4;
		}
	}
}

static uint64_t hex(const char **s)
{
	uint64_t n = 0;
	for (;; ++*s) {
		char c = **s;
		if (c >= '0' && c <= '9')
			n = n * 16 + c - '0';
		else if (c >= 'a' && c <= 'f')
			n = n * 16 + c - 'a' + 10;
		else
			return n;
	}
}

/* Finds the path of this image in /proc/self/maps. */
static void find_path(struct part *p, const char *maps)
{
	uint64_t here = (uintptr_t)__start_footfall_table;
	const char *s = maps;
	while (*s) {
		uint64_t from = hex(&s), to;
		const char *end = strchr(s, '\n'), *path;
		s += *s == '-';
		to = hex(&s);
		if (!end)
			return;
		if (from <= here && here < to && (path = memchr(s, '/', end - s)) && end - path < (ptrdiff_t)sizeof p->path) {
			p->path_size = end - path;
			memcpy(p->path, path, end - path);
			return;
		}
		s = end + 1;
	}
}

enum { maps_max = 1 << 18 };

static size_t read_maps(char *to)
{
	size_t size = 0;
	long n;
	int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	while (size < maps_max - 1 && (n = syscall(SYS_read, fd, to + size, maps_max - 1 - size)) > 0)
		size += n;
	close(fd);
	to[size] = 0;
	return size;
}

/* Whether files may grow to size: beyond the limit, writing would send SIGXFSZ. */
static int allowed(uint64_t size)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

static const char zeros[PAGE];

/* Writes all of a part but its head. A child's counters begin at zero. */
static int write_part(int fd, const struct part *p, const char *maps)
{
	uint64_t at;
	if (lseek(fd, S.offset + sizeof *p, SEEK_SET) < 0 ||
	    !write_all(fd, __start_footfall_table, p->table_size) ||
	    !write_all(fd, __start_footfall_names, p->names_size) ||
	    !write_all(fd, maps, p->maps_size) ||
	    lseek(fd, S.offset + p->counts_offset, SEEK_SET) < 0)
		return 0;
	/* Every page is written, so that none is missing on a full disk later. */
	if (!S.child)
		return write_all(fd, __start_footfall_counts, ROUND(p->counts_size));
	for (at = 0; at < p->counts_size; at += PAGE)
		if (!write_all(fd, zeros, PAGE))
			return 0;
	return 1;
}

static int map_part(int fd, const struct part *p)
{
	uint64_t at = S.offset + p->counts_offset, size = ROUND(p->counts_size);
	if (address(__footfall_page) % PAGE || address(__footfall_padding) != address(__start_footfall_counts) + size || getauxval(AT_PAGESZ) > PAGE)
		return 0;
	return mmap(__start_footfall_counts, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, at) != MAP_FAILED;
}

/* Makes this image's part and maps the counters to it. */
static int make_part(void)
{
	struct part p;
	struct timespec now;
	uint64_t size;
	char *maps;
	int fd, ok, fresh;

	memset(&p, 0, sizeof p);
	memcpy(p.magic, "FOOTFALL", 8);
	p.version = 1;
	p.order = 0x01020304;
	p.word = sizeof(void *);
	p.pid = S.pid;
	p.parent = S.parent;
	p.process = this_process();
	clock_gettime(CLOCK_REALTIME, &now);
	p.started = now.tv_sec * 1000000000ull + now.tv_nsec;
	maps = mmap(NULL, maps_max, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (maps == MAP_FAILED)
		return 0;
	p.maps_size = read_maps(maps);
	describe_image(&p);
	find_path(&p, maps);
	p.table = (uintptr_t)__start_footfall_table;
	p.table_size = __stop_footfall_table - __start_footfall_table;
	p.table_offset = sizeof p;
	p.names = (uintptr_t)__start_footfall_names;
	p.names_size = __stop_footfall_names - __start_footfall_names;
	p.names_offset = p.table_offset + p.table_size;
	p.maps_offset = p.names_offset + p.names_size;
	p.counts = (uintptr_t)__start_footfall_counts;
	p.counts_size = __stop_footfall_counts - __start_footfall_counts;
	p.counts_offset = ROUND(p.maps_offset + p.maps_size);
	p.size = ROUND(p.counts_offset + p.counts_size);

	fd = choose_file(p.process);
	size = fd < 0 ? 0 : lock_file(fd);
	fresh = size == 0;
	S.offset = ROUND(size);
	ok = fd >= 0 && (allowed(S.offset + p.size) || (errno = EFBIG, 0)) && write_part(fd, &p, maps);
	if (ok) {
		p.flags = S.unmapped = !map_part(fd, &p);
		/* The head comes last: whoever reads one can read all. */
		ok = lseek(fd, S.offset, SEEK_SET) >= 0 && write_all(fd, &p, sizeof p);
	}
	if (!ok) {
		complain("cannot write ", S.name, errno == EEXIST ? ": the file exists and is no counts file; counts will be lost" :
		    errno == ENOSPC || errno == EFBIG ? ": no space; counts will be lost" : "; counts will be lost, FOOTFALL_OUT=FILE names another place");
		if (fd >= 0 && fresh)
			unlink(S.name);
		else if (fd >= 0)
			(void)!ftruncate(fd, size);
	}
	if (fd >= 0)
		close_file(fd);
	munmap(maps, maps_max);
	return ok;
}

/* The table of functions, see instrument/table.go. */
struct block {
	uint32_t size, flags;
	int32_t counter, code, names;
	uint32_t code_size, name, aliases, calls;
	int32_t more;
	uint32_t n_more;
	uint32_t rest[];
};
#define AT(field) ((char *)&(field) + (field))

static const struct block *next_block(const struct block *b)
{
	const char *end = __stop_footfall_table;
	b = b ? (const void *)((const char *)b + b->size) : (const void *)__start_footfall_table;
	return (const char *)b + sizeof *b <= end && b->size >= sizeof *b && b->size % 4 == 0 && b->size <= (size_t)(end - (const char *)b) ? b : NULL;
}

#include "threads.h"
#include "signals.h"
#include "stats.h"

static void child_of_fork(void)
{
	int saved = errno, mapped = S.on && !S.unmapped;
	size_t size = ROUND(__stop_footfall_counts - __start_footfall_counts);
	S.parent = S.pid;
	S.pid = syscall(SYS_getpid);
	S.child = 1;
	threads_forget();
	if (S.on && !make_part()) {
		S.on = 0;
		if (mapped) /* leave the parent's file alone */
			mmap(__start_footfall_counts, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	if (!mapped)
		memset(__start_footfall_counts, 0, __stop_footfall_counts - __start_footfall_counts);
	threads_begin(S.on ? !S.unmapped : stats.on);
	errno = saved;
}

__attribute__((constructor(101))) static void begin(void)
{
	int saved = errno;
	const char *out = getenv("FOOTFALL_OUT");
	if (S.pid || address(__start_footfall_counts) == address(__stop_footfall_counts) || getauxval(AT_SECURE))
		return;
	S.pid = syscall(SYS_getpid);
	if (syscall(SYS_getcwd, S.dir, sizeof S.dir) <= 0)
		text(S.dir, 0, sizeof S.dir, ".");
	if (out)
		text(S.out, 0, sizeof S.out, out);
	if (out ? *out != 0 : !FOOTFALL_STATS_ONLY)
		S.on = make_part();
	signals_begin();
	stats_begin();
	threads_begin(S.on ? !S.unmapped : stats.on);
	pthread_atfork(NULL, NULL, child_of_fork);
	errno = saved;
}

/* At exit a file that could not be mapped is written. */
__attribute__((destructor(101))) static void end(void)
{
	int saved = errno, fd;
	struct part p;
	stats_end();
	if (S.on && S.unmapped && (fd = open_file(S.name, O_RDWR)) >= 0) {
		if (lseek(fd, S.offset, SEEK_SET) >= 0 && syscall(SYS_read, fd, &p, sizeof p) == sizeof p &&
		    lseek(fd, S.offset + p.counts_offset, SEEK_SET) >= 0)
			write_all(fd, __start_footfall_counts, p.counts_size);
		close(fd);
	}
	errno = saved;
}
