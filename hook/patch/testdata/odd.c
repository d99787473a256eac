// A program with threads of its own kind. It answers each line: "hello"; "pointerless"
// starts a thread whose thread pointer is 0 and which calls leaf, until "end"; "filter"
// has the kernel kill it when it makes system calls that it has no use for, "thread"
// calls leaf in a new thread.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int stop, tid;

__attribute__((noinline)) int leaf(int x)
{
	__asm__ volatile("");
	return x + 1;
}

static int calls(void *p)
{
	while (!stop)
		leaf(1);
	return 0;
}

static void *call(void *p)
{
	leaf(1);
	return p;
}

static void filter(void)
{
#define KILL(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
	struct sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), KILL(SYS_getpid), KILL(SYS_gettid),
		KILL(SYS_process_vm_readv), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog g = {sizeof f / sizeof *f, f};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &g);
}

int main(void)
{
	char line[100];
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "pointerless\n")) {
			char *stack = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			clone(calls, stack + (1 << 20), CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
				0, &tid, (void *)0, &tid);
		}
		if (!strcmp(line, "end\n"))
			for (stop = 1; tid;)
				usleep(1000);
		if (!strcmp(line, "filter\n"))
			filter();
		if (!strcmp(line, "thread\n")) {
			pthread_t t;
			pthread_create(&t, 0, call, 0);
			pthread_join(t, 0);
		}
		printf("%d\n", leaf(41));
		fflush(stdout);
	}
	return 0;
}
