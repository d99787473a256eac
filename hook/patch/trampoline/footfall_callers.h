/* Count who calls a function: one line in it,
 *
 *	#include "footfall_callers.h"
 *
 *	void hot(void)
 *	{
 *		FOOTFALL_CALLERS(3);
 *		...
 *
 * counts each distinct chain of three callers, while the program runs, and
 *
 *	footfall callers PROGRAM hot
 *
 * shows them. There is no library and nothing to call. The callers are found by
 * frame pointers: compile the whole program with -fno-omit-frame-pointer.
 *
 * Counting is atomic, so that it is exact with threads; for programs without
 * threads define FOOTFALL_CALLERS_PLAIN before: it takes a third of the time.
 * FOOTFALL_CALLERS_SLOTS, a power of 2, is how many chains have room; calls that
 * find none are counted as lost. It is not for functions that are inline in C++,
 * or templates. GCC and Clang; x86-64 and arm64. Apache License 2.0.
 */
#ifndef FOOTFALL_CALLERS
#include <stdint.h>

#ifndef FOOTFALL_CALLERS_SLOTS
#define FOOTFALL_CALLERS_SLOTS 1024
#endif

/* footfall finds these by their section, and steps from one to the next by size. */
struct footfall_callers_head {
	char magic[8];
	uint32_t size, depth, slots, slot_size;
	uint64_t lost;
	const char *function;
};

/* A slot: its count, its state, and depth return addresses, 0 where there is none. */
#define FOOTFALL_CALLERS(depth_) \
	do { \
		static struct { \
			struct footfall_callers_head head; \
			struct { \
				uint64_t count; \
				uint32_t state, unused; \
				uintptr_t callers[depth_]; \
			} slots[FOOTFALL_CALLERS_SLOTS]; \
		} footfall_table __attribute__((section("footfall_callers"), aligned(64), used)) = { \
			{{'F', 'F', 'C', 'A', 'L', 'L', 'S', '1'}, sizeof footfall_table, depth_, FOOTFALL_CALLERS_SLOTS, \
			 sizeof footfall_table.slots[0], 0, __func__}, {{0, 0, 0, {0}}}}; \
		uintptr_t footfall_chain[depth_]; \
		footfall_callers_count(&footfall_table.head, (char *)footfall_table.slots, footfall_chain, depth_, \
				       (uintptr_t *)__builtin_frame_address(0)); \
	} while (0)

static inline __attribute__((always_inline)) void
footfall_callers_count(struct footfall_callers_head *head, char *slots, uintptr_t *chain, unsigned depth, uintptr_t *frame)
{
	enum { free_, writing, ready };
	uint64_t hash = 0;
	/* A frame begins with the address of its caller's, and the return address.
	 * What is not above it, and near, is none. */
	for (unsigned i = 0; i < depth; i++) {
		chain[i] = frame ? frame[1] : 0;
		hash = (hash ^ chain[i]) * 0x9E3779B97F4A7C15u;
		if (frame) {
			uintptr_t next = frame[0];
			frame = next > (uintptr_t)frame && next - (uintptr_t)frame < 1 << 20 && next % sizeof next == 0 ? (uintptr_t *)next : 0;
		}
	}
	for (unsigned try_ = 0; try_ < 32; try_++) {
		char *slot = slots + ((hash >> 32) + try_) % FOOTFALL_CALLERS_SLOTS * (16 + depth * sizeof(uintptr_t));
		uint64_t *count = (uint64_t *)slot;
		uint32_t *state = (uint32_t *)(slot + 8), seen;
		uintptr_t *callers = (uintptr_t *)(slot + 16);
		unsigned same = 0;
		while ((seen = __atomic_load_n(state, __ATOMIC_ACQUIRE)) == free_) {
			if (__atomic_compare_exchange_n(state, &seen, writing, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
				for (unsigned i = 0; i < depth; i++)
					callers[i] = chain[i];
				__atomic_store_n(state, ready, __ATOMIC_RELEASE);
			}
		}
		/* Another thread writes it, or what this one is in the handler of a signal
		 * for: it may be this chain or another. */
		for (unsigned spins = 0; seen == writing && spins < 1000; spins++)
			seen = __atomic_load_n(state, __ATOMIC_ACQUIRE);
		if (seen != ready)
			continue;
		while (same < depth && callers[same] == chain[same])
			same++;
		if (same == depth) {
#ifdef FOOTFALL_CALLERS_PLAIN
			++*count;
#else
			__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
#endif
			return;
		}
	}
	__atomic_fetch_add(&head->lost, 1, __ATOMIC_RELAXED);
}
#endif
