/* The second file of calls.c, with a static function of the same name. */
#include "calls.h"

OWN(helper) OWN(other)

__thread int shared_local = 3;

static NOINLINE int helper(int n) { COUNT(helper); return n - 1; }
int other(int n) { COUNT(other); return n <= 0 ? 0 : helper(n) + other(n - 2); }

void tell_other(void)
{
	TELL(other);
	printf("count helper@other.c %lu\n", own_helper);
}
