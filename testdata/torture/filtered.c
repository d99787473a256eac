/* A program that after a while has the kernel kill it for system calls that it does not
   make itself; then come new threads. build: glibc; function: step */
#include "torture.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static volatile long sum;
FUNCTION void tick(void) { sum++; __asm__ volatile(""); }
/* Its strings are in the program: others are read by a system call, for some time after there is a filter. */
FUNCTION long step(const char *s, const char *t) { __asm__ volatile(""); return s ? *s + *t : 1; }
static void *work(void *p)
{
	long *bad = p;
	for (int i = 0; i < 50; i++)
		if (step("in a thread", " ") != 'i' + ' ' || step(0, 0) != 1)
			++*bad;
	return 0;
}
FUNCTION void filter(void)
{
#define KILL(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
	struct sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), KILL(SYS_getpid), KILL(SYS_process_vm_readv),
		KILL(SYS_memfd_create), KILL(SYS_ftruncate), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog g = {sizeof f / sizeof *f, f};
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &g), 0);
}
int main(int argc, char **argv)
{
	begin(argc, argv);
	for (long round = 0; more(round); round++) {
		if (round == 100)
			filter();
		for (int i = 0; i < 4; i++) {
			pthread_t t;
			long bad = 0;
			pthread_create(&t, 0, work, &bad);
			pthread_join(t, 0);
			CHECK(bad, 0);
		}
		tick();
		nap(500);
	}
	return ended();
}
