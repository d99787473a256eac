/* Each linked object has a runtime of its own, so this is in each. DUMP is what
   the compiler's runtime calls it. It is not compiled with counters. */
void DUMP(void);

void dump(void)
{
	DUMP();
}
