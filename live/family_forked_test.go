//go:build linux

package live

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"footfall/process"
)

// forker makes children that stop before libgcov's wrapper of fork has set their counters to zero.
const forker = `
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

void once(void), work(void);
int spawn(void);
void __gcov_dump(void);

static void held(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raise(SIGSTOP);
}

static void dump(int signal)
{
	__gcov_dump();
	close(creat("dumped", 0666));
}

int main(void)
{
	pthread_atfork(0, 0, held);
	once();
	puts("ready");
	fflush(stdout);
	for (int how; (how = getchar()) != EOF;) {
		if (how == '\n')
			continue;
		int pid = how == 'd' ? fork() : spawn(); /* as daemon(3), which libgcov does not wrap */
		if (!pid) {
			work(), work(), work();
			close(creat("done", 0666));
			signal(SIGUSR1, dump);
			for (;;)
				pause();
		}
		printf("%d\n", pid);
		fflush(stdout);
	}
}
`

// startForker is a family of such a program and a child, seen first when that has stopped.
func startForker(t *testing.T) (i *inheritance, child *member) {
	i, pid := startForking(t, "w")
	return i, i.becomes(pid)
}

// startForking starts such a program, which has made a child that has stopped.
func startForking(t *testing.T, how string) (i *inheritance, pid int) {
	i = startFamily(t, t.TempDir(), forker, "#include <unistd.h>\nint spawn(void) { return fork(); }")
	pid = i.begins(how)
	i.awaitStop(pid)
	return i, pid
}

// TestSeenBeforeCleared: what a child has inherited that was forked before it was seen is not counted, though it has not got as far as
// setting that to zero; and then all that it counts is.
func TestSeenBeforeCleared(t *testing.T) {
	i, child := startForker(t)
	i.sees("forked", 1, 0, 0)
	if i.Settled() {
		t.Error("it is settled what the child has counted")
	}
	i.goesOn(child.pid, syscall.SIGCONT, "done")
	i.sees("it goes on", 1, 3, 0)
	if !i.Settled() {
		t.Error("it is not settled what the child has counted")
	}
	i.tell(func(goOn func()) { lifetimes{i.Family}.Ending(child.pid, goOn) })
	i.sees("it has ended", 1, 3, 0)
}

// TestEndsBeforeCleared: the same for a child that is killed before.
func TestEndsBeforeCleared(t *testing.T) {
	i, child := startForker(t)
	i.tell(func(goOn func()) { lifetimes{i.Family}.Ending(child.pid, goOn) })
	i.sees("it has ended", 1, 0, 0)
}

// TestEndsInDoubt: of a child that was not seen past its fork, and ends, all is counted if it has counted something.
func TestEndsInDoubt(t *testing.T) {
	_, child := startForker(t)
	child.mu.Lock()
	for _, im := range child.images {
		w := im.buffer()
		if err := im.read(child.proc, im.at, w); err != nil {
			t.Fatal(err)
		}
		im.eachCounterOf(im.units[0], func(at, n int) { w[at]++ })
		if !im.unsure {
			t.Errorf("%s is not in doubt", im.path)
		}
		if im.believeAtEnd(w); im.unsure || im.inherited != nil {
			t.Errorf("%s is in doubt still", im.path)
		}
	}
	child.mu.Unlock()
}

// TestForkedByLibrary: a child that a library has forked keeps what it has inherited, though the program has libgcov's wrapper of
// fork. It is in its data files again, and counts once.
func TestForkedByLibrary(t *testing.T) {
	i, pid := startForking(t, "d")
	i.tell(func(goOn func()) {
		lifetimes{i.Family}.Forked(pid, i.p.Pid(), process.Fork{ByLibrary: true}, func(bool) { goOn() })
	})
	i.goesOn(pid, syscall.SIGCONT, "done")
	i.sees("it runs", 1, 3, 0)
	i.goesOn(pid, syscall.SIGUSR1, "dumped")
	i.sees("it has written its data files", 1, 3, 0)
	i.tell(func(goOn func()) { lifetimes{i.Family}.Ending(pid, goOn) })
	i.sees("it has ended", 1, 3, 0)
}

// goesOn sends a signal to a child, and waits until it has done what it does then, and waits for another one.
func (i *inheritance) goesOn(pid int, signal syscall.Signal, done string) {
	i.t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		i.t.Fatal(err)
	}
	for done := filepath.Join(i.dir, done); os.Remove(done) != nil; time.Sleep(time.Millisecond) {
	}
	for m := i.member(pid); !m.proc.Sleeps(); time.Sleep(time.Millisecond) {
	}
}
