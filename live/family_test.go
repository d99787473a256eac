//go:build linux

package live

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"footfall/process"
)

// inheritors are programs of which each child keeps what it has inherited, so that its data files have it a second time. A
// child stands still wherever a test says so.
const inheritors = `
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void once(void), work(void), become(const char *);
void __gcov_dump(void);
static int stops, waits;

static void tell(const char *name) { close(creat(name, 0666)); }
static void await(const char *name)
{
	while (access(name, F_OK))
		nanosleep(&(struct timespec){0, 1000000}, 0);
	unlink(name);
}

/* As libgcov closes a data file: stopped before it takes the next one, or says that it has done all. */
int fclose(FILE *f)
{
	int closed = ((int (*)(FILE *))dlsym(RTLD_NEXT, "fclose"))(f);
	if (stops && !--stops)
		tell("done"), raise(SIGSTOP);
	return closed;
}

/* As libgcov locks a data file: waits before that, as for another process that writes it. */
int fcntl(int fd, int command, ...)
{
	va_list more;
	va_start(more, command);
	void *how = va_arg(more, void *);
	va_end(more);
	if (command == F_SETLKW && waits && !--waits)
		tell("done"), pause();
	return ((int (*)(int, int, void *))dlsym(RTLD_NEXT, "fcntl"))(fd, command, how);
}

static void child(const char *how, void *library)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	await("begin");
	work(), work(), work();
	if (!strcmp(how, "exec"))
		become("done");
	sscanf(how, "stop%d", &stops);
	sscanf(how, "wait%d", &waits);
	if (!strcmp(how, "close"))
		dlclose(library);
	else
		__gcov_dump();
	tell("done");
	pause();
}

int main(int argc, char **argv)
{
	if (argc == 2) {
		tell(argv[1]);
		pause();
	}
	void *library = argc > 2 ? dlopen(argv[2], RTLD_NOW) : 0;
	once();
	if (library)
		((void (*)(void))dlsym(library, "inlibrary"))();
	char how[99];
	puts("ready");
	fflush(stdout);
	while (fgets(how, sizeof how, stdin)) {
		int pid = 0;
		how[strcspn(how, "\n")] = 0;
		if (!(pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)))
			child(how, library);
		printf("%d\n", pid);
		fflush(stdout);
	}
}
`

// inheritance is a family of such a program and its children, whose lifetimes the test tells.
type inheritance struct {
	*Family
	t   *testing.T
	dir string
	p   *program
}

func startInheritors(t *testing.T) *inheritance {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "lib.c"), []byte("void inlibrary(void) {}"))
	build(t, dir, "gcc-12", "--coverage", "-shared", "-fPIC", "-o", "lib.so", "lib.c")
	become := "#include <unistd.h>\nvoid become(const char *said) { execl(\"/proc/self/exe\", \"again\", said, (char *)0); }"
	return startFamily(t, dir, inheritors, become, "parent", "./lib.so")
}

// startFamily is the family of a program of the text of main, which is not counted, once, work and more, which are.
func startFamily(t *testing.T, dir, main, more string, args ...string) *inheritance {
	for name, text := range map[string]string{"main.c": main, "once.c": "void once(void) {}", "work.c": "void work(void) {}", "more.c": more} {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	build(t, dir, "gcc-12", "-w", "-c", "-D_GNU_SOURCE", "main.c")
	build(t, dir, "gcc-12", "--coverage", "-o", "prog", "main.o", "once.c", "work.c", "more.c")
	i := &inheritance{t: t, dir: dir, p: run(t, dir, "./prog", args...), Family: NewFamily(func(int) bool { return false })}
	t.Cleanup(i.Close)
	i.becomes(i.p.Pid())
	return i
}

// becomes has a process be a member that runs, in which all is found: it waits for what it is told, and it is known which files have
// no counters.
func (i *inheritance) becomes(pid int) *member {
	i.t.Helper()
	m, err := newMember(pid)
	if err != nil {
		i.t.Fatal(err)
	}
	i.join(m)
	for !m.whole {
		i.look(m, running)
	}
	return m
}

// makes has the program make a child, which has been told of and has done what it is to do.
func (i *inheritance) makes(how string) (pid int) {
	i.t.Helper()
	pid = i.begins(how)
	i.tell(func(goOn func()) { lifetimes{i.Family}.Forked(pid, i.p.Pid(), process.Fork{}, func(bool) { goOn() }) })
	i.does(pid, how)
	return pid
}

// begins has the program make a child, which has run nothing so far that counts.
func (i *inheritance) begins(how string) (pid int) {
	i.t.Helper()
	pid, err := strconv.Atoi(i.p.Say("%s", how))
	if err != nil {
		i.t.Fatal(err)
	}
	return pid
}

// does has a child do what it is to do.
func (i *inheritance) does(pid int, how string) {
	i.t.Helper()
	write(i.t, filepath.Join(i.dir, "begin"), nil)
	for done := filepath.Join(i.dir, "done"); os.Remove(done) != nil; time.Sleep(time.Millisecond) {
	}
	if strings.HasPrefix(how, "stop") {
		i.awaitStop(pid)
	}
}

// awaitStop waits until a signal has stopped a process.
func (i *inheritance) awaitStop(pid int) {
	i.t.Helper()
	p, err := process.Open(pid)
	if err != nil {
		i.t.Fatal(err)
	}
	defer p.Close()
	for !p.Suspended() {
		time.Sleep(time.Millisecond)
	}
}

// tell tells of an event, and returns when the process may go on.
func (i *inheritance) tell(event func(goOn func())) {
	goesOn := make(chan struct{})
	event(func() { close(goesOn) })
	<-goesOn
}

// atMost is for what need not be known so far: it is not more than what ran.
const atMost = -1

// sees expects the calls of once and work, and of the library's function, in a snapshot.
func (i *inheritance) sees(when string, once, work, library int64) {
	i.t.Helper()
	units, err := i.Snapshot()
	if err != nil {
		i.t.Fatal(err)
	}
	want := map[string]int64{"once": once, "work": work, "lib": library}
	most := map[string]int64{"once": 1, "work": 3, "lib": 1}
	for _, u := range units {
		for name, n := range want {
			if got := leafCalls(u); strings.HasSuffix(u.Name, name+".gcda") && got != n && (n != atMost || got > most[name]) {
				i.t.Errorf("%s: %s ran %d times, want %d", when, name, got, n)
			}
		}
	}
	for _, err := range i.Problems() {
		i.t.Errorf("%s: %v", when, err)
	}
}

// TestInheritedAtExec: what a child has inherited and written before it became another program counts once, also before that is
// told of, and while it waits to be dealt with.
func TestInheritedAtExec(t *testing.T) {
	i := startInheritors(t)
	pid := i.makes("exec")
	i.sees("not told of", 1, 3, atMost)
	for range maxSlow { // others are looked into
		i.looking <- struct{}{}
	}
	i.tell(func(goOn func()) {
		lifetimes{i.Family}.Replaced(pid, false, func(bool) { goOn() })
		i.sees("told of", 1, 3, atMost)
		for range maxSlow {
			<-i.looking
		}
	})
	i.sees("dealt with", 1, 3, 1)
	if i.members[pid] != nil || i.replaced != 1 {
		t.Error("it is a member still")
	}
}

// TestInheritedAtExecWhileRead is the same for a child that somebody reads when that is told.
func TestInheritedAtExecWhileRead(t *testing.T) {
	i := startInheritors(t)
	pid := i.makes("exec")
	m := i.members[pid]
	m.mu.Lock()
	i.tell(func(goOn func()) {
		lifetimes{i.Family}.Replaced(pid, false, func(bool) { goOn() })
		m.mu.Unlock()
	})
	i.sees("dealt with", 1, 3, 1)
}

// TestInheritedAtEnd has a process end between a snapshot's look at the data files and that at the members.
func TestInheritedAtEnd(t *testing.T) {
	i := startInheritors(t)
	pid := i.makes("dump")
	files := i.members[pid].images[0].files
	seen := make(chan struct{})
	letOn := i.snapshotHeldAfter(files, seen)
	i.tell(func(goOn func()) {
		lifetimes{i.Family}.Ending(pid, func() {
			letOn()
			select {
			case <-seen: // what is to be added was not so far
				close(seen)
			case <-time.After(50 * time.Millisecond):
			}
			goOn()
		})
	})
	<-seen
	i.sees("it has ended", 1, 3, 1)
}

// snapshotHeldAfter begins with a snapshot that has read a set of data files and stands still until it is let on; then it is
// told that it is done.
func (i *inheritance) snapshotHeldAfter(files *fileSet, done chan<- struct{}) (letOn func()) {
	held := &fileSet{layout: &layout{image: &image{}, plan: &plan{}}}
	held.mu.Lock()
	i.mu.Lock()
	i.sets = append(i.sets, held) // the last that is read
	i.mu.Unlock()
	go func() {
		i.sees("it ends", 1, 3, 1)
		done <- struct{}{}
	}()
	for read := false; !read; time.Sleep(time.Millisecond) {
		files.mu.Lock()
		read = files.runs > 0
		files.mu.Unlock()
	}
	return held.mu.Unlock
}

// TestOneMoreHasWritten: who writes data files and ends while it is looked whether another process has is not taken for that
// one.
func TestOneMoreHasWritten(t *testing.T) {
	i := startInheritors(t)
	files := i.members[i.makes("exec")].images[0].files
	wrote := make(chan bool)
	i.mu.Lock()
	go func() { wrote <- files.wroteOneMore(i.Family) }()
	time.Sleep(50 * time.Millisecond)
	i.does(i.begins("dump"), "dump")
	files.dumps++
	i.mu.Unlock()
	if !<-wrote {
		t.Error("the first one has not written them")
	}
	if files.wroteOneMore(i.Family) {
		t.Error("one more has")
	}
}

// TestStoppedWhileWriting stops processes that have written some of their data files, or all, and have none locked: their counters
// may be sums with those of the files.
func TestStoppedWhileWriting(t *testing.T) {
	for n := 1; n <= 3; n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			i := startInheritors(t)
			i.makes("stop" + strconv.Itoa(n))
			i.sees("stopped", atMost, atMost, 1)
			if n == 2 {
				time.Sleep(writePatience + 100*time.Millisecond) // it gets no processor
				i.sees("stopped for long", atMost, atMost, 1)
			}
		})
	}
}

// TestWaitsWhileWriting has a process wait, with nothing locked, when it has added to its counters what some data files hold.
func TestWaitsWhileWriting(t *testing.T) {
	i := startInheritors(t)
	i.makes("dump")
	pid := i.makes("wait3")
	for m := i.member(pid); !m.proc.Sleeps(); time.Sleep(time.Millisecond) {
	}
	units, err := i.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range units {
		if n := leafCalls(u); strings.HasSuffix(u.Name, "work.gcda") && n > 6 {
			t.Errorf("work ran %d times, 6 at most", n)
		}
	}
	if i.Settled() {
		t.Error("it is settled what the process has counted")
	}
}

// TestWaitsWhileOthersWrite is the same where another one has written meanwhile what the process had written: the files hold more than its
// counters do.
func TestWaitsWhileOthersWrite(t *testing.T) {
	i := startInheritors(t)
	i.makes("dump")
	i.makes("wait3")
	i.makes("dump")
	if n := i.total(); n > 9 {
		t.Errorf("work ran %d times, 9 at most", n)
	}
	if i.Settled() {
		t.Error("it is settled what the process has counted")
	}
}

// TestWaitsWhileWritingAlone is the same for who reads that process by itself, a moment after the first file was written.
func TestWaitsWhileWritingAlone(t *testing.T) {
	i := startInheritors(t)
	i.makes("dump")
	p, err := Open(i.makes("wait3"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	units, err := p.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	written := time.Now().Add(-10 * moment)
	files, _ := filepath.Glob(filepath.Join(i.dir, "*.gcda"))
	for _, name := range files {
		if err := os.Chtimes(name, written, written); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.unsettled(units, p.fileStamps(), time.Now())) == 0 {
		t.Error("it seems not to be writing its data files")
	}
}

// TestLibraryClosed: a process that closes a library writes the library's data files, and ends: nobody else has written them.
func TestLibraryClosed(t *testing.T) {
	i := startInheritors(t)
	pid := i.begins("close")
	i.tell(func(goOn func()) {
		lifetimes{i.Family}.Forked(pid, i.p.Pid(), process.Fork{ByLibrary: true}, func(bool) { goOn() })
	})
	for _, im := range i.member(pid).images {
		im.inherited = nil // as in a child in which libgcov's wrapper of fork has cleared it
	}
	i.does(pid, "close")
	i.tell(func(goOn func()) { lifetimes{i.Family}.Ending(pid, goOn) })
	for _, s := range i.files {
		if n := s.dumps; strings.HasSuffix(s.path, "lib.so") && n != 1 {
			t.Errorf("%s was written %d times, want 1", s.path, n)
		}
	}
}

// TestInheritedByLibrary: a child closes a library, which writes its data files then.
func TestInheritedByLibrary(t *testing.T) {
	i := startInheritors(t)
	pid := i.makes("close")
	i.sees("closed", 1, 3, 1)
	i.tell(func(goOn func()) { lifetimes{i.Family}.Ending(pid, goOn) })
	i.sees("ended", 1, 3, 1)
}

// TestEndsUnattended: what a process has written that was not attended is not counted a second time by what was read of it last.
func TestEndsUnattended(t *testing.T) {
	i := startInheritors(t)
	i.sees("it runs", 1, 0, 1)
	if err := i.p.In.Close(); err != nil {
		t.Fatal(err)
	}
	if err := i.p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	i.sees("it has ended", 1, 0, 1)
	i.sees("its data files are read", 1, 0, 1)
}

// TestKilledUnattended: of one that was killed what was read last stays.
func TestKilledUnattended(t *testing.T) {
	i := startInheritors(t)
	i.sees("it runs", 1, 0, 1)
	i.p.Kill()
	i.sees("it was killed", 1, 0, 1)
}

// TestSeenWhileWriting: a process that is seen first when it has written some of its data files, and then the others, has not counted what
// these had.
func TestSeenWhileWriting(t *testing.T) {
	i := startInheritors(t)
	i.makes("dump")
	before := i.total()
	pid := i.begins("stop1")
	i.does(pid, "stop1")
	time.Sleep(2 * clockTick)
	m := i.becomes(pid)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for im := m.images[0]; im.flagsAt(m.proc, im.at)&rootDumped == 0; time.Sleep(time.Millisecond) {
	}
	i.tell(func(goOn func()) { lifetimes{i.Family}.Ending(pid, goOn) })
	if got := i.total() - before; got != 3 {
		t.Errorf("work ran %d times more, want 3", got)
	}
}

// total is how often work ran, by a snapshot.
func (i *inheritance) total() (n int64) {
	i.t.Helper()
	units, err := i.Snapshot()
	if err != nil {
		i.t.Fatal(err)
	}
	for _, u := range units {
		if strings.HasSuffix(u.Name, "work.gcda") {
			n += leafCalls(u)
		}
	}
	return n
}
