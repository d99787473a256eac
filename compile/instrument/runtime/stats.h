/*
 * The table that a program writes at its end, if asked: functions with calls,
 * time and callers. Time is sampled within the process, by SIGPROF: no better
 * than the kernel's tick, and none if the program uses that signal itself.
 * footfall profile has neither limit.
 */
#ifndef FOOTFALL_STATS_ONLY
#define FOOTFALL_STATS_ONLY 0 /* 1: always stats, a counts file only if asked */
#endif

/* A function of the table. */
struct entry {
	uintptr_t code, end;
	const struct block *block;
	uint32_t ticks;
	uint32_t caller; /* the first link, + 1 */
};

/* A name of a function. */
struct name {
	const char *text;
	uint32_t entry, local, weak, next; /* next: with the same hash, + 1 */
};

/* A call of a function by another. */
struct caller {
	uint32_t from, next;
	uint64_t calls;
};

static struct {
	int on;
	char name[2304];
	struct entry *entries; /* sorted by address */
	struct name *names;
	uint32_t *buckets, n, n_names, mask; /* the mask is of hashes */
	struct caller *callers;
	uint32_t links, max_links;
	uint32_t elsewhere;
	struct sigaction before;
} stats;

static const char *block_string(const struct block *b, uint32_t offset) { return AT(b->names) + offset; }
static uint64_t block_count(const struct block *b, uint32_t i)
{
	return count_of_all((const uint64_t *)AT(b->counter) + i);
}

static void *pages(size_t size)
{
	void *p = mmap(NULL, size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* The function that holds an address, NULL if none does. */
static struct entry *entry_at(uintptr_t pc)
{
	uint32_t low = 0, high = stats.n;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (stats.entries[mid].code <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	return low > 0 && pc < stats.entries[low - 1].end ? &stats.entries[low - 1] : NULL;
}

static void stats_tick(int signal, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
#if defined(__x86_64__)
	uintptr_t pc = u->uc_mcontext.gregs[REG_RIP];
#elif defined(__i386__)
	uintptr_t pc = u->uc_mcontext.gregs[REG_EIP];
#else
	uintptr_t pc = u->uc_mcontext.pc;
#endif
	struct entry *e = entry_at(pc);
	__atomic_fetch_add(e ? &e->ticks : &stats.elsewhere, 1, __ATOMIC_RELAXED);
}

static void sort_entries(void)
{
	uint32_t gap, i, j;
	for (gap = stats.n / 2; gap > 0; gap /= 2)
		for (i = gap; i < stats.n; i++)
			for (j = i; j >= gap && stats.entries[j - gap].code > stats.entries[j].code; j -= gap) {
				struct entry e = stats.entries[j];
				stats.entries[j] = stats.entries[j - gap];
				stats.entries[j - gap] = e;
			}
}

static void stats_timer(long microseconds)
{
	struct itimerval t = {{0, microseconds}, {0, microseconds}};
	setitimer(ITIMER_PROF, &t, NULL);
}

static void stats_begin(void)
{
	const char *asked = getenv("FOOTFALL_STATS");
	const struct block *b;
	struct sigaction act;
	size_t at = 0;
	/* Libraries would fight about the signal and the file. */
	if (!&__ehdr_start || getauxval(AT_PHDR) != (uintptr_t)&__ehdr_start + __ehdr_start.e_phoff)
		return;
	if (asked ? !*asked || !strcmp(asked, "0") : !FOOTFALL_STATS_ONLY)
		return;
	for (b = next_block(NULL); b; b = next_block(b)) {
		stats.n++;
		stats.n_names += 1 + b->aliases;
		stats.max_links += 5 * b->calls + b->n_more;
	}
	stats.mask = 1;
	while (stats.mask < 2 * stats.n_names)
		stats.mask *= 2;
	stats.entries = pages(stats.n * sizeof *stats.entries);
	stats.names = pages(stats.n_names * sizeof *stats.names);
	stats.buckets = pages(stats.mask * sizeof *stats.buckets);
	if (!stats.entries || !stats.names || !stats.buckets)
		return;
	stats.mask--;
	stats.n = 0;
	for (b = next_block(NULL); b; b = next_block(b)) {
		struct entry *e = &stats.entries[stats.n++];
		e->block = b;
		e->code = (uintptr_t)AT(b->code);
		e->end = e->code + b->code_size;
	}
	sort_entries();
	if (!asked || !strchr(asked, '/')) {
		at = text(stats.name, 0, sizeof stats.name, S.dir);
		at = text(stats.name, at, sizeof stats.name, "/stats");
	} else
		at = text(stats.name, 0, sizeof stats.name, asked);
	stats.on = 1;
	memset(&act, 0, sizeof act);
	act.sa_sigaction = stats_tick;
	act.sa_flags = SA_SIGINFO | SA_RESTART;
	if (sigaction(SIGPROF, &act, &stats.before) == 0)
		stats_timer(1000);
}

static uint32_t hash_name(const char *s)
{
	uint32_t h = 2166136261u;
	while (*s)
		h = (h ^ (unsigned char)*s++) * 16777619u;
	return h & stats.mask;
}

/* The function that a unit means by a name: not a weak one if the linker had another. */
static struct entry *entry_named(const struct block *from, const char *name, int local)
{
	uint32_t i = stats.buckets[hash_name(name)];
	const struct name *found = NULL;
	for (; i; i = stats.names[i - 1].next) {
		const struct name *n = &stats.names[i - 1];
		const struct block *b = stats.entries[n->entry].block;
		if (n->local == (uint32_t)local && (!local || AT(b->names) == AT(from->names)) && !strcmp(n->text, name) && (!found || found->weak))
			found = n;
	}
	return found ? &stats.entries[found->entry] : NULL;
}

static void add_caller(struct entry *to, uint32_t from, uint64_t calls)
{
	struct caller *c;
	uint32_t i;
	if (!to || !calls || stats.links == stats.max_links)
		return;
	for (i = to->caller; i; i = c->next) {
		c = &stats.callers[i - 1];
		if (!strcmp(block_string(stats.entries[c->from].block, stats.entries[c->from].block->name),
		    block_string(stats.entries[from].block, stats.entries[from].block->name))) {
			c->calls += calls;
			return;
		}
	}
	c = &stats.callers[stats.links++];
	c->from = from;
	c->calls = calls;
	c->next = to->caller;
	to->caller = stats.links;
}

static void add_name(uint32_t entry, const char *text, uint32_t local, uint32_t weak)
{
	uint32_t *bucket = &stats.buckets[hash_name(text)];
	struct name *n = &stats.names[stats.n_names++];
	n->text = text;
	n->entry = entry;
	n->local = local;
	n->weak = weak;
	n->next = *bucket;
	*bucket = stats.n_names;
}

/* Adds the calls of a site that are in its unit's table. */
static void add_further(uint32_t from, uint32_t counter)
{
	const struct block *b = stats.entries[from].block;
	const uint64_t *site = (const uint64_t *)AT(b->counter) + counter, *more = (const uint64_t *)AT(b->more);
	uint32_t i;
	for (i = 0; i < b->n_more; i++, more += 2)
		if (*more && *more >> 48 == (uint64_t)(site - (const uint64_t *)AT(b->more)))
			add_caller(entry_at(*more & 0xffffffffffff), from, count_of_all(more + 1));
}

/* Links each function to its callers, and gives it the time of its other parts. */
static void link_callers(void)
{
	uint32_t i, k, j;
	stats.n_names = 0;
	for (i = 0; i < stats.n; i++) {
		const struct block *b = stats.entries[i].block;
		if (b->flags >> 4 & 1)
			continue;
		add_name(i, block_string(b, b->name), b->flags >> 5 & 1, b->flags >> 6 & 1);
		for (k = 0; k < b->aliases; k++)
			add_name(i, block_string(b, b->rest[k] & 0x3fffffff), b->rest[k] >> 31, b->rest[k] >> 30 & 1);
	}
	for (i = 0; i < stats.n; i++) {
		const struct block *b = stats.entries[i].block;
		const uint32_t *c = b->rest + b->aliases;
		struct entry *whole = b->flags >> 4 & 1 ? entry_named(b, block_string(b, b->name), b->flags >> 5 & 1) : NULL;
		if (whole) {
			whole->ticks += stats.entries[i].ticks;
			stats.entries[i].ticks = 0;
		}
		for (k = 0; k < b->calls; k++, c += 4) {
			if ((c[0] & 0xff) < 2)
				add_caller(entry_named(b, block_string(b, c[3]), c[0] >> 8 & 1), i, block_count(b, c[1]));
			else {
				for (j = 0; j < 4; j++)
					add_caller(entry_at(block_count(b, c[1] + 2 * j)), i, block_count(b, c[1] + 2 * j + 1));
				add_further(i, c[1]);
			}
		}
	}
}

/* A line of output. */
static struct {
	char text[8192];
	size_t size;
	int fd;
} line;

static void put(const char *s) { line.size = text(line.text, line.size, sizeof line.text - 2, s); }

static void put_right(uint64_t n, size_t width, int decimals)
{
	char digits[32], *p = digits;
	size_t size = number(digits, 0, sizeof digits, n);
	for (; decimals && size <= (size_t)decimals; size++) { /* 7 is 0.07 */
		memmove(digits + 1, digits, size + 1);
		digits[0] = '0';
	}
	if (decimals) {
		memmove(digits + size - decimals + 1, digits + size - decimals, decimals + 1);
		digits[size++ - decimals] = '.';
	}
	for (; size < width; width--)
		put(" ");
	put(p);
}

static void put_line(void)
{
	line.text[line.size++] = '\n';
	write_all(line.fd, line.text, line.size);
	line.size = 0;
}

/* Has the callers in the order of their calls. */
static void sort_callers(struct entry *e)
{
	uint32_t i, next, sorted = 0, *at;
	for (i = e->caller; i; i = next) {
		struct caller *c = &stats.callers[i - 1];
		next = c->next;
		for (at = &sorted; *at && stats.callers[*at - 1].calls >= c->calls; at = &stats.callers[*at - 1].next)
			;
		c->next = *at;
		*at = i;
	}
	e->caller = sorted;
}

static void put_entry(struct entry *e, uint32_t ticks, uint64_t cpu)
{
	const struct block *b = e->block;
	uint32_t i, all = ticks ? ticks : 1;
	size_t before = line.size;
	put(block_string(b, b->name));
	if (b->flags >> 5 & 1) {
		put(" (");
		put(block_string(b, 0));
		put(")");
	}
	while (line.size - before < 30)
		put(" ");
	put_right(block_count(b, 0), 14, 0);
	put_right(cpu / 1000 * e->ticks / all / 10000, 9, 2);
	put_right(1000ull * e->ticks / all, 9, 1);
	sort_callers(e);
	for (i = e->caller; i; i = stats.callers[i - 1].next) {
		struct entry *from = &stats.entries[stats.callers[i - 1].from];
		put(i == e->caller ? "  " : ", ");
		put(block_string(from->block, from->block->name));
		put(" ");
		put_right(stats.callers[i - 1].calls, 0, 0);
	}
	put_line();
}

static int comes_before(const struct entry *a, const struct entry *b)
{
	uint64_t x = block_count(a->block, 0), y = block_count(b->block, 0);
	return a->ticks != b->ticks ? a->ticks > b->ticks : x != y ? x > y : a->code < b->code;
}

static void stats_table(uint64_t cpu)
{
	uint32_t i, j, n = 0, ticks = stats.elsewhere;
	struct entry **order = pages(stats.n * sizeof *order);
	if (!order)
		return;
	for (i = 0; i < stats.n; i++) {
		struct entry *e = &stats.entries[i];
		ticks += e->ticks;
		if (e->block->flags >> 4 & 1 || !(e->ticks || block_count(e->block, 0)))
			continue;
		for (j = n++; j > 0 && comes_before(e, order[j - 1]); j--)
			order[j] = order[j - 1];
		order[j] = e;
	}
	put("function                               calls  seconds  percent  callers");
	put_line();
	for (i = 0; i < n; i++)
		put_entry(order[i], ticks, cpu);
	if (stats.elsewhere) {
		put("(elsewhere)                                 ");
		put_right(cpu / 1000 * stats.elsewhere / (ticks ? ticks : 1) / 10000, 9, 2);
		put_right(1000ull * stats.elsewhere / (ticks ? ticks : 1), 9, 1);
		put_line();
	}
}

static void stats_end(void)
{
	struct timespec cpu;
	if (!stats.on)
		return;
	stats_timer(0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	stats.callers = pages(stats.max_links * sizeof *stats.callers);
	if (S.child) {
		size_t at = text(stats.name, strlen(stats.name), sizeof stats.name, ".");
		number(stats.name, at, sizeof stats.name, S.pid);
	}
	line.fd = stats.callers ? syscall(SYS_openat, AT_FDCWD, stats.name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
	if (line.fd < 0) {
		complain("cannot write ", stats.name, "");
		return;
	}
	link_callers();
	stats_table(cpu.tv_sec * 1000000000ull + cpu.tv_nsec);
	close(line.fd);
}
