//go:build linux

package live

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wrapped is a program with many counters that makes children, which wait before libgcov's wrapper of fork has set theirs to zero.
const wrapped = `
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void once(void), work(void), many(void);
int spawn(void);

static void held(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(creat("held", 0666));
	while (access("go", F_OK))
		usleep(1000);
}

int main(void)
{
	pthread_atfork(0, 0, held);
	signal(SIGCHLD, SIG_IGN);
	once();
	many();
	puts("ready");
	fflush(stdout);
	for (int how; (how = getchar()) != EOF;) {
		if (how == '\n')
			continue;
		int pid = how == 'd' ? fork() : spawn(); /* as daemon(3), which libgcov does not wrap */
		if (!pid) {
			work(), work(), work();
			close(creat("done", 0666));
			for (;;)
				pause();
		}
		many();
		printf("%d\n", pid);
		fflush(stdout);
	}
}
`

// manyFunctions fill more than manyPages pages with their counters: an -O0 function without branches has one.
const manyFunctions = 2 * manyPages * pageSize / 8

// startWrapped starts such a program, with another one in between, and has a family follow it.
func startWrapped(t *testing.T) (i *inheritance, parent *member) {
	dir := t.TempDir()
	var many, all strings.Builder
	for n := range manyFunctions {
		fmt.Fprintf(&many, "static void f%d(void) {}\n", n)
		fmt.Fprintf(&all, "f%d();\n", n)
	}
	for name, text := range map[string]string{
		"main.c":  wrapped,
		"once.c":  "void once(void) {}",
		"work.c":  "void work(void) {}",
		"spawn.c": "#include <unistd.h>\nint spawn(void) { return fork(); }",
		"many.c":  many.String() + "void many(void) {\n" + all.String() + "}\n",
	} {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	build(t, dir, "gcc-12", "-w", "-c", "main.c")
	build(t, dir, "gcc-12", "--coverage", "-o", "prog", "main.o", "once.c", "work.c", "spawn.c", "many.c")
	i = &inheritance{t: t, dir: dir, p: run(t, dir, "sh", "-c", "./prog; :"), Family: NewFamily(func(int) bool { return false })}
	t.Cleanup(i.Close)
	t.Cleanup(func() { // it writes its data files
		i.p.In.Close()
		_ = i.p.cmd.Wait()
	})
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", i.p.Pid()))
	if err != nil {
		t.Skip(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Add(pid); err != nil {
		t.Fatal(err)
	}
	for parent = i.member(pid); !parent.attended || !parent.whole; time.Sleep(time.Millisecond) {
		if problems := i.Problems(); problems != nil {
			t.Skip(problems) // it may not be traced here
		}
		i.look(parent, running)
	}
	return i, parent
}

// forks has the program make a child, which waits in front of the clearing of its counters.
func (i *inheritance) forks(how string) (pid int) {
	i.t.Helper()
	pid = i.begins(how)
	for held := filepath.Join(i.dir, "held"); os.Remove(held) != nil; time.Sleep(time.Millisecond) {
	}
	for i.member(pid) == nil {
		time.Sleep(time.Millisecond)
	}
	return pid
}

// isKilled kills a child and waits until it has been added up.
func (i *inheritance) isKilled(pid int) {
	i.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		i.t.Fatal(err)
	}
	for i.member(pid) != nil {
		time.Sleep(time.Millisecond)
	}
}

// clearing tells what is known of the clearing of a child's counters.
func (i *inheritance) clearing(pid int) *clearing {
	m := i.member(pid)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.images[0].clears
}

// TestClearedForCertain: what a child has in its counters that are about to be cleared is neither read nor counted, whether it
// runs, waits there for long or is killed, also where its parent has counted more since that was read last; what it counts after
// that is. A child of a fork without libgcov's wrapper has what it has inherited.
func TestClearedForCertain(t *testing.T) {
	i, parent := startWrapped(t)
	i.isKilled(i.forks("w"))
	for parent.clears.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	i.sees("a first one", 1, 0, 0)

	pid := i.forks("w")
	if i.clearing(pid) == nil {
		t.Fatal("what was inherited has been read")
	}
	if i.sees("it waits", 1, 0, 0); i.Settled() {
		t.Error("it is settled what the child has counted")
	}
	i.isKilled(pid)
	i.sees("it was killed before", 1, 0, 0)

	pid = i.forks("w")
	write(t, filepath.Join(i.dir, "go"), nil)
	for done := filepath.Join(i.dir, "done"); os.Remove(done) != nil; time.Sleep(time.Millisecond) {
	}
	if i.sees("it goes on", 1, 3, 0); !i.Settled() || i.clearing(pid) != nil {
		t.Error("it is not settled what the child has counted")
	}
	i.isKilled(pid)
	i.sees("it was killed", 1, 3, 0)
	pid = i.forks("w")
	for done := filepath.Join(i.dir, "done"); os.Remove(done) != nil; time.Sleep(time.Millisecond) {
	}
	i.isKilled(pid)
	i.sees("nobody has looked at it", 1, 6, 0)

	os.Remove(filepath.Join(i.dir, "go"))
	pid = i.forks("d")
	if i.clearing(pid) != nil {
		t.Error("libgcov's wrapper has not made it")
	}
	i.sees("one of another fork", 1, 6, 0)
	i.isKilled(pid)
	i.sees("it was killed", 1, 6, 0)
	units, err := i.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range units {
		if strings.HasSuffix(u.Name, "many.gcda") && u.Counts.Largest() != 6 {
			t.Errorf("a function of the parent's ran %d times, want 6", u.Counts.Largest())
		}
	}
}
