/* Functions of these programs count themselves, and say so at the end. */
#include <stdio.h>
#define OWN(name) static unsigned long own_##name;
#define COUNT(name) (own_##name++)
#define TELL(name) printf("count %s %lu\n", #name, own_##name)
#define NOINLINE __attribute__((noinline))
#ifdef __cplusplus
extern "C" {
#endif
int other(int n);
void tell_other(void);
#ifdef __cplusplus
}
#endif
