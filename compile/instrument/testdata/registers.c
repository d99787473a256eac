/* Functions that need all registers, and what compilers know of such calls. */
#include "calls.h"

OWN(bump) OWN(deeper) OWN(many) OWN(heavy) OWN(kept) OWN(chain) OWN(first) OWN(last)

#if defined(__has_attribute)
#if __has_attribute(preserve_most) && defined(__clang__)
#define KEEPS __attribute__((preserve_most))
#endif
#endif
#ifndef KEEPS
#define KEEPS
#endif

static long total;

/* GCC knows that these leave r11 alone, and keeps a value of many's there. */
static NOINLINE void deeper(void) { COUNT(deeper); total++; }
static NOINLINE void bump(void) { COUNT(bump); if (total & 1) deeper(); total += 2; }

static NOINLINE long many(const long *v, long n)
{
	long a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5], h = v[6], i = v[7], j = v[8], k = v[9], x;
	COUNT(many);
	for (x = 0; x < n; x++) {
		bump();
		a += b ^ x; b += c * 3; c ^= d; d += e; e ^= f + x; f += h; h ^= i; i += j; j ^= k; k += a;
		bump();
	}
	return a + b + c + d + e + f + h + i + j + k;
}

/* Of several more the address is kept, too, where calls must go through registers. */
static NOINLINE void first(void) { COUNT(first); total ^= 5; }
static NOINLINE void last(void) { COUNT(last); total += 7; }

static NOINLINE long chain(const long *v, long n)
{
	long a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5];
	COUNT(chain);
	while (n-- > 0) {
		first(); a += b ^ n; last(); b += c ^ n; deeper(); c += d ^ n;
		first(); d += e ^ n; last(); e += f ^ n; bump(); f += a ^ n;
	}
	return a + b + c + d + e + f;
}

/* No calls, but all registers. */
static NOINLINE long heavy(const long *v)
{
	long a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5], g = v[6], h = v[7], i = v[8], j = v[9], k = a ^ b, l = c ^ d, m = e ^ f, n;
	COUNT(heavy);
	for (n = 0; n < 9; n++) {
		a += b; b ^= c; c += d; d ^= e; e += f; f ^= g; g += h; h ^= i; i += j; j ^= k; k += l; l ^= m; m += a * n;
	}
	return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l ^ m;
}

/* Clang's callers of this keep all registers but r11. */
KEEPS static NOINLINE void kept(void) { COUNT(kept); total += 3; }

int main(int argc, char **argv)
{
	long v[10], sum = 0, n;
	(void)argv;
	for (n = 0; n < 10; n++)
		v[n] = n * argc + 7;
	for (n = 0; n < 100; n++) {
		sum = sum * 31 + many(v, 10) + chain(v, 7);
		kept();
		v[n % 10] ^= heavy(v);
	}
	printf("%ld %ld\n", sum, total);
	TELL(bump); TELL(deeper); TELL(many); TELL(heavy); TELL(kept); TELL(chain); TELL(first); TELL(last);
	return 0;
}
