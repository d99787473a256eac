//go:build linux

package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"footfall/process"
	"footfall/process/needs"
)

const nobody = 65534

// letOthersIn lets all users run a file in the directory of the program, if they come
// as far as the one for temporary files, whose mode is not ours to change.
func (p *program) letOthersIn(t *testing.T, file string) {
	t.Helper()
	temporary := filepath.Clean(os.TempDir())
	for name := filepath.Join(p.dir, file); name != temporary && name != "/"; name = filepath.Dir(name) {
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for dir := temporary; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o001 == 0 {
			t.Skipf("needs a directory for temporary files that other users may enter: %s", dir)
		}
	}
}

// runAs starts the program again, as another user.
func (p *program) runAs(t *testing.T, uid uint32) *program {
	t.Helper()
	p.letOthersIn(t, "prog")
	other := &program{dir: p.dir, cmd: exec.Command("./prog")}
	other.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	other.begin(t)
	return other
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestNoLeaks opens, reads and closes again and again.
func TestNoLeaks(t *testing.T) {
	p := started(t, sleeper, "-O0")
	pid := p.cmd.Process.Pid
	once := func() {
		process, err := Open(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer process.Close()
		for range 10 {
			snapshot(t, process)
		}
	}
	once()
	before := descriptors(t)
	for range 100 {
		once()
		if _, err := Open(os.Getpid()); err == nil {
			t.Error("the test has counters")
		}
	}
	process := opened(t, p)
	for range 3 {
		_, err := process.HardReset(nil)
		if skipForbidden(t, err); err != nil {
			t.Fatal(err)
		}
	}
	process.Close()
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// TestKilled kills the program between reads and in the middle of one.
func TestKilled(t *testing.T) {
	for range 20 {
		p := started(t, spinner, "-O0")
		target := opened(t, p)
		go func() {
			time.Sleep(2 * time.Millisecond)
			_ = p.cmd.Process.Kill()
		}()
		var err error
		for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end); {
			_, err = target.Snapshot()
		}
		if !errors.Is(err, process.ErrExited) {
			t.Fatalf("%v", err)
		}
		if _, err := target.HardReset(nil); err == nil {
			t.Fatal("a process that has ended was reset")
		}
	}
}

// TestExec reads while the program becomes another one.
func TestExec(t *testing.T) {
	const source = `#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
	if (argc == 1) { puts("ready"); fflush(stdout); getchar(); execl(argv[0], argv[0], "again", (char *)0); exit(1); }
	puts("done"); fflush(stdout);
	for (;;) pause();
}
`
	p := started(t, source, "-O0")
	target := opened(t, p)
	snapshot(t, target)
	p.tell("")
	if _, err := target.Snapshot(); !errors.Is(err, process.ErrReplaced) {
		t.Errorf("after exec: %v", err)
	}
	again := opened(t, p)
	if units := snapshot(t, again); len(units) != 1 {
		t.Errorf("%d units", len(units))
	}
	if target.Key() == again.Key() {
		t.Error("both programs have the same baseline")
	}
}

// TestFork reads a program whose children come and go.
func TestFork(t *testing.T) {
	const source = `#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
	puts("ready"); fflush(stdout);
	for (;;) { pid_t child = fork(); if (!child) _exit(0); waitpid(child, 0, 0); }
}
`
	process := opened(t, started(t, source, "-O0"))
	last := int64(0)
	for range 200 {
		n := largest(snapshot(t, process))
		if n < last {
			t.Errorf("%d after %d", n, last)
		}
		last = n
	}
	_, err := process.HardReset(nil)
	if skipForbidden(t, err); err != nil {
		t.Error(err)
	}
}

// TestFirstThreadEnded reads and resets a program whose main has ended by pthread_exit, also
// one that was opened before, and then a thread on which all hung.
func TestFirstThreadEnded(t *testing.T) {
	const source = `#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_t first;
static char line[80];
static void work(void) {}
static void *second(void *x) { for (;;) { work(); usleep(1000); } return x; }
static void *other(void *x) {
	pthread_t t;
	pthread_join(first, 0);
	puts("done"); fflush(stdout);
	fgets(line, sizeof line, stdin);
	pthread_create(&t, 0, second, 0);
	puts("done"); fflush(stdout);
	return x;
}
int main(void) {
	pthread_t t;
	first = pthread_self();
	puts("ready"); fflush(stdout);
	fgets(line, sizeof line, stdin);
	pthread_create(&t, 0, other, 0);
	pthread_exit(0);
}
`
	p := started(t, source, "-O0 -pthread")
	before := opened(t, p)
	p.tell("end")
	process := opened(t, p)
	if process.Key() != before.Key() {
		t.Error("taken for another process")
	}
	snapshot(t, before)
	for _, u := range snapshot(t, process) {
		if u.Load == nil || !u.Load.Program {
			t.Errorf("%s is not known to be of the program", u.Name)
		}
	}
	p.tell("go on")
	for _, process := range []*CountedProcess{before, process} {
		_, err := process.HardReset(nil)
		if skipForbidden(t, err); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); largest(snapshot(t, process)) == 0; {
			if time.Now().After(end) {
				t.Fatal("no counts after the reset")
			}
		}
	}
}

// TestThreadStorm resets while threads come and go without end.
func TestThreadStorm(t *testing.T) {
	const source = `#include <pthread.h>
#include <stdio.h>
static void *leaf(void *x) { return x; }
static void *storm(void *x) {
	for (;;) { pthread_t t[8]; int n = 0; while (n < 8 && !pthread_create(&t[n], 0, leaf, x)) n++; while (n) pthread_join(t[--n], 0); }
}
int main(void) {
	pthread_t t;
	for (int i = 0; i < 4; i++) pthread_create(&t, 0, storm, 0);
	puts("ready"); fflush(stdout);
	storm(0);
}
`
	p := started(t, source, "-O0 -fprofile-update=atomic")
	process := opened(t, p)
	resets := 20
	if testing.Short() {
		resets = 5
	}
	for range resets {
		r, err := process.HardReset(nil)
		if skipForbidden(t, err); err != nil {
			t.Fatal(err)
		}
		if len(r.Undone) > 0 {
			t.Errorf("%+v", r)
		}
	}
	// It runs on.
	before := largest(snapshot(t, process))
	for end := time.Now().Add(time.Minute); largest(snapshot(t, process)) == before; {
		if time.Now().After(end) {
			t.Fatal("the program stands still")
		}
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil || !strings.Contains(string(b), "TracerPid:\t0\n") {
		t.Errorf("still traced: %v", err)
	}
}

// TestLibraries reads while a library is opened and closed.
func TestLibraries(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "library.c"), []byte("int run(int n) { int s = 0; while (n--) s += n; return s; }\n"))
	build(t, dir, "gcc-12", "--coverage", "-shared", "-fPIC", "-o", "library.so", "library.c")
	const source = `#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
	puts("ready"); fflush(stdout);
	for (;;) {
		void *l = dlopen(argv[1], RTLD_NOW);
		int (*run)(int) = (int (*)(int))dlsym(l, "run");
		run(1000);
		dlclose(l);
	}
}
`
	process := opened(t, started(t, source, "-O0", filepath.Join(dir, "library.so")))
	seen := make(map[int]int)
	refused := 0
	for end := time.Now().Add(time.Minute); (seen[1] == 0 || seen[2] == 0 || len(seen) == 0) && time.Now().Before(end); {
		units, err := process.Snapshot()
		if err != nil && len(units) == 0 {
			refused++ // it changed in each of three tries
			continue
		}
		seen[len(units)]++
		for _, u := range units {
			if !strings.HasSuffix(u.Name, "prog.gcda") && !strings.HasSuffix(u.Name, "prog-prog.gcda") && !strings.HasSuffix(u.Name, "library.gcda") && !strings.HasSuffix(u.Name, "library.so-library.gcda") {
				t.Fatalf("unit %q", u.Name)
			}
		}
	}
	t.Logf("units %v, refused %d", seen, refused)
	if seen[1] == 0 || seen[2] == 0 {
		t.Errorf("the library was not seen to come and go: %v", seen)
	}
}

// TestPermission asks as a user who may not look into the process.
func TestPermission(t *testing.T) {
	if os.Getenv("FOOTFALL_TEST_PID") != "" {
		asNobody(t)
		return
	}
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "to ask as another user")
	}
	p := started(t, sleeper, "-O0")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(p.dir, "live.test")
	if err := os.WriteFile(copied, b, 0o755); err != nil {
		t.Fatal(err)
	}
	p.letOthersIn(t, "live.test")
	cmd := exec.Command(copied, "-test.run", "^TestPermission$", "-test.v")
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("FOOTFALL_TEST_PID=%d", p.cmd.Process.Pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: TestPermission") {
		t.Errorf("%v\n%s", err, out)
	}
}

func asNobody(t *testing.T) {
	var pid int
	if _, err := fmt.Sscan(os.Getenv("FOOTFALL_TEST_PID"), &pid); err != nil {
		t.Fatal(err)
	}
	_, err := Open(pid)
	want := fmt.Sprintf("process %d: not permitted: it belongs to user 0, footfall runs as user 65534: run footfall as root or with CAP_SYS_PTRACE, or as user 0", pid)
	if !errors.Is(err, fs.ErrPermission) || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestChroot reads a program that sees another root.
func TestChroot(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "to start a program in another root")
	}
	v := variant{flags: "-DSTATIC -static", sources: c}
	outside := v.start(t, "gcc-12")
	p := &program{dir: "/", cmd: exec.Command("/prog")}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: outside.dir}
	p.begin(t)
	process := opened(t, p)
	p.tell("work")
	units := snapshot(t, process)
	if root := fmt.Sprintf("/proc/%d/root", p.cmd.Process.Pid); process.Root() != root {
		t.Errorf("root %q", process.Root())
	}
	inPlace(t, process, units)
	for _, u := range units {
		if _, err := os.Stat(filepath.Join(outside.dir, u.Name)); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(u.Name); err == nil {
			t.Errorf("%s was written in our root", u.Name)
		}
	}
	if inside := opened(t, outside); inside.Root() != "" {
		t.Errorf("root %q of a program in ours", inside.Root())
	}
}

// TestReplaced reads a program whose file has been replaced or removed.
func TestReplaced(t *testing.T) {
	for what, do := range map[string]func(name string) error{
		"removed": os.Remove,
		"replaced": func(name string) error {
			return errors.Join(os.Remove(name), os.WriteFile(name, []byte("other"), 0o777))
		},
	} {
		v := variant{sources: c, flags: "-O2"}
		p := v.start(t, "gcc-12")
		if err := do(filepath.Join(p.dir, "prog")); err != nil {
			t.Fatal(err)
		}
		process := opened(t, p)
		p.tell("work")
		units := snapshot(t, process)
		p.tell("dump")
		t.Log(what)
		compare(t, p.dir, units)
	}
}
