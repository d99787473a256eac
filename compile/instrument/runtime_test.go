//go:build linux

package instrument

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// counted builds a program of C text and returns its directory and path.
func counted(t *testing.T, text string, flags ...string) (dir, program string) {
	t.Helper()
	dir = t.TempDir()
	b := build{compiler: "gcc-12", flags: "-O1", cpu: "amd64"}
	program = filepath.Join(dir, "prog")
	link(t, b, dir, text, program, flags...)
	return dir, program
}

func link(t *testing.T, b build, dir, text, to string, flags ...string) {
	t.Helper()
	source := to + ".c"
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	words := append([]string{b.compiler}, b.words()...)
	words = append(words, b.object(t, dir, source, true), b.runtimeObject(t, dir), "-o", to)
	command(t, dir, append(words, flags...)...)
}

func readCounts(t *testing.T, name string) *CountsFile {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadCounts(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

func callsOf(c *CountsFile, name string) uint64 {
	for _, im := range c.Images {
		for _, f := range im.Functions {
			if f.Name == name {
				return f.Calls
			}
		}
	}
	return 0
}

// countsFiles returns the counts files in dir.
func countsFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.counts*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// run runs a program in dir and returns its output, of both kinds.
func run(t *testing.T, dir string, env []string, words ...string) string {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

const twoCalls = `#include <stdio.h>
__attribute__((noinline)) int f(int n) { return n + 1; }
int main(int argc, char **argv) { printf("%d\n", f(argc) + f(2)); return 0; }
`

func TestLiveAndKilled(t *testing.T) {
	dir, program := counted(t, `#include <stdio.h>
__attribute__((noinline)) void f(volatile int *n) { ++*n; }
int main(void) { int c, n = 0; while ((c = getchar()) != EOF) { f(&n); f(&n); putchar(c); fflush(stdout); } return 0; }
`)
	cmd := exec.Command(program)
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Round(0) // by the clock that the program has
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, fmt.Sprintf("footfall.%d.counts", cmd.Process.Pid))
	for i := range uint64(5) {
		fmt.Fprint(in, "x")
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if got := callsOf(readCounts(t, file), "f"); got != 2*(i+1) {
			t.Errorf("%d calls while it runs, want %d", got, 2*(i+1))
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c := readCounts(t, file)
	if got := callsOf(c, "f"); got != 10 {
		t.Errorf("%d calls after it was killed, want 10", got)
	}
	im := c.Images[0]
	if im.PID != cmd.Process.Pid || im.Path != program || im.BuildID == "" || im.WordSize != 8 || im.Unmapped || len(im.Maps) < 2 || im.Started.Before(begin) || im.Started.After(time.Now()) {
		t.Errorf("image %+v", im)
	}
}

func TestForkAndExec(t *testing.T) {
	dir, program := counted(t, `#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
__attribute__((noinline)) void f(volatile int *n) { ++*n; }
int main(int argc, char **argv)
{
	int i, n = 0;
	f(&n);
	if (argc > 1)
		return 0;
	if (fork() == 0) {
		for (i = 0; i < 10; i++)
			f(&n);
		_exit(0);
	}
	wait(NULL);
	for (i = 0; i < 100; i++)
		f(&n);
	execl(argv[0], argv[0], "again", NULL);
	return 1;
}
`)
	for _, named := range []string{"", "out"} {
		var env []string
		if named != "" {
			env = []string{"FOOTFALL_OUT=" + named + ".counts"}
		}
		run(t, dir, env, program)
		got := make(map[uint64]int)
		files := countsFiles(t, dir)
		for _, name := range files {
			c := readCounts(t, name)
			calls := callsOf(c, "f")
			got[calls]++
			if (calls == 10) != (c.Images[0].Parent != 0) {
				t.Errorf("%s: %d calls, parent %d", name, calls, c.Images[0].Parent)
			}
			_ = os.Remove(name)
		}
		if len(files) != 3 || got[101] != 1 || got[10] != 1 || got[1] != 1 {
			t.Errorf("FOOTFALL_OUT=%s: %q with calls %v, want one each of 101 (before exec), 10 (forked), 1 (after)", named, files, got)
		}
	}
}

func TestLibraries(t *testing.T) {
	dir := t.TempDir()
	b := build{compiler: "gcc-12", flags: "-O1 -fPIC", cpu: "amd64"}
	for _, name := range []string{"linked", "opened"} {
		text := fmt.Sprintf("int callback(int);\n__attribute__((noinline)) static int twice(int n) { return callback(n) * 2; }\nint %s(int n) { return twice(n) + twice(n + 1); }\n", name)
		link(t, b, dir, text, filepath.Join(dir, "lib"+name+".so"), "-shared")
	}
	program := filepath.Join(dir, "prog")
	link(t, b, dir, `#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int linked(int);
__attribute__((noinline)) int callback(int n) { return n - 1; }
int main(void)
{
	void *lib = dlopen("./libopened.so", RTLD_NOW);
	int (*opened)(int) = lib ? dlsym(lib, "opened") : 0;
	printf("%d\n", lib ? opened(1) + opened(2) + linked(3) : -1);
	fflush(stdout);
	if (dlclose(lib) == 0 && fork() == 0)
		_exit(callback(1));
	wait(NULL);
	return 0;
}
`, program, "-rdynamic", "-L.", "-llinked", "-Wl,-rpath,"+dir)
	if got := run(t, dir, nil, program); got != "18\n" {
		t.Errorf("printed %q", got)
	}
	var c *CountsFile
	files := countsFiles(t, dir)
	if len(files) != 2 {
		t.Errorf("files %q, want two", files)
	}
	for _, name := range files {
		if f := readCounts(t, name); f.Images[0].Parent == 0 {
			c = f
		} else if len(f.Images) != 2 || callsOf(f, "callback") != 1 {
			t.Errorf("%d images after fork, %d calls; want 2 and 1", len(f.Images), callsOf(f, "callback"))
		}
	}
	if c == nil {
		t.Fatal("no counts file")
	}
	want := map[string]uint64{"main>opened": 2, "main>linked": 1, "opened>twice": 4, "linked>twice": 2, "twice>callback": 6}
	got := make(map[string]uint64)
	for _, a := range c.Arcs() {
		if a.Callee != nil {
			got[a.Caller.Name+">"+a.Callee.Name] += a.Count
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if len(c.Images) != 3 || callsOf(c, "callback") != 6 {
		t.Errorf("%d images, %d calls of callback; want 3 and 6", len(c.Images), callsOf(c, "callback"))
	}
}

// threaded starts four threads, three times, that call f and g through a pointer
// too. With an argument it starts a thread that forks, or waits.
const threaded = `#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) void f(volatile int *n) { ++*n; }
__attribute__((noinline)) void g(volatile int *n) { ++*n; }
static void (*volatile pointers[2])(volatile int *) = {f, g};
static void *work(void *arg)
{
	int i, n = 0;
	for (i = 0; i < 200000; i++) {
		f(&n);
		pointers[i % 2](&n);
	}
	return arg;
}
static void *alone(void *arg)
{
	int n = 0;
	f(&n);
	if (fork() == 0) {
		f(&n);
		g(&n);
		work(arg);
		_exit(0);
	}
	wait(NULL);
	f(&n);
	puts("ready");
	fflush(stdout);
	pause();
	return arg;
}
int main(int argc, char **argv)
{
	pthread_t t[4];
	int i, k;
	if (argc > 1 && pthread_create(&t[0], 0, alone, 0) == 0)
		pthread_join(t[0], 0);
	for (k = 0; k < 3; k++) {
		for (i = 0; i < 4; i++)
			pthread_create(&t[i], 0, work, 0);
		for (i = 0; i < 4; i++)
			pthread_join(t[i], 0);
	}
	return 0;
}
`

func TestThreads(t *testing.T) {
	for _, b := range []build{
		{compiler: "gcc-12", flags: "-O1", cpu: "amd64", update: Atomic},
		{compiler: "gcc-12", flags: "-O1", cpu: "amd64", update: Thread},
		{compiler: "clang-16", flags: "-O1 -no-pie", cpu: "amd64", update: Thread},
		{compiler: "gcc-12", flags: "-O1 -static", cpu: "amd64", update: Thread},
		{compiler: "gcc-12", flags: "-O1 -static-pie", cpu: "amd64", update: Thread},
	} {
		t.Run(b.String(), func(t *testing.T) {
			dir := t.TempDir()
			program := filepath.Join(dir, "prog")
			link(t, b, dir, threaded, program, "-pthread")
			run(t, dir, nil, program)
			file := countsFiles(t, dir)[0]
			c := readCounts(t, file)
			if f, g := callsOf(c, "f"), callsOf(c, "g"); f != 3600000 || g != 1200000 {
				t.Errorf("f %d, g %d calls; want 3600000 and 1200000", f, g)
			}
			checkArcs(t, c, true)
			data, err := os.ReadFile(file)
			if n := bytes.Count(data, []byte(partMagic)); err != nil || b.update == Thread && (n < 2 || n > 9) {
				t.Errorf("%d parts, want one and those of the threads, which take over each other's; %v", n, err)
			}

			// The table at the end adds up too, with a file or without.
			for _, out := range []string{"", "out.counts"} {
				run(t, dir, []string{"FOOTFALL_STATS=1", "FOOTFALL_OUT=" + out}, program)
				stats, err := os.ReadFile(filepath.Join(dir, "stats"))
				if err != nil || !strings.Contains(string(stats), " 3600000 ") || !strings.Contains(string(stats), " 1200000 ") {
					t.Errorf("stats: %v\n%s", err, stats)
				}
			}
		})
	}
}

// TestThreadForksAndIsKilled has a thread with its own counters fork, and then
// be killed.
func TestThreadForksAndIsKilled(t *testing.T) {
	dir := t.TempDir()
	b := build{compiler: "gcc-12", flags: "-O1", cpu: "amd64", update: Thread}
	program := filepath.Join(dir, "prog")
	link(t, b, dir, threaded, program, "-pthread")
	cmd := exec.Command(program, "alone")
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Error(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	files := countsFiles(t, dir)
	if len(files) != 2 {
		t.Errorf("files %q, want two", files)
	}
	for _, name := range files {
		c := readCounts(t, name)
		want := [2]uint64{2, 0}
		if c.Images[0].Parent != 0 {
			want = [2]uint64{300001, 100001}
		}
		if got := [2]uint64{callsOf(c, "f"), callsOf(c, "g")}; got != want {
			t.Errorf("%s: calls %v, want %v", name, got, want)
		}
	}
}

// TestThreadsOfLibraries has threads that a C++ library makes.
func TestThreadsOfLibraries(t *testing.T) {
	dir := t.TempDir()
	b := build{compiler: "gcc-12", flags: "-O1", cpu: "amd64", update: Thread}
	source, program := filepath.Join(dir, "prog.cc"), filepath.Join(dir, "prog")
	text := `#include <thread>
#include <future>
static volatile int n;
__attribute__((noinline)) static void f() { n = n + 1; }
static void work() { for (int i = 0; i < 500000; i++) f(); }
int main()
{
	std::thread a(work), b(work);
	auto c = std::async(std::launch::async, work);
	work();
	a.join();
	b.join();
	c.get();
}
`
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "g++-12", "-O1", b.object(t, dir, source, true), b.runtimeObject(t, dir), "-o", program)
	run(t, dir, nil, program)
	if got := callsOf(readCounts(t, countsFiles(t, dir)[0]), "_ZL1fv"); got != 2000000 {
		t.Errorf("%d calls, want 2000000", got)
	}
}

// TestThreadRefusesLibraries links counters of threads to a library.
func TestThreadRefusesLibraries(t *testing.T) {
	dir := t.TempDir()
	b := build{compiler: "gcc-12", flags: "-O1 -fPIC", cpu: "amd64", update: Thread}
	source := filepath.Join(dir, "lib.c")
	if err := os.WriteFile(source, []byte("int f(int n) { return n + 1; }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	object := b.object(t, dir, source, true)
	for _, linker := range []string{"bfd", "gold", "lld"} {
		out, err := exec.Command("gcc-12", "-shared", "-fuse-ld="+linker, object, "-o", filepath.Join(dir, "lib.so")).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("footfall_update_thread_is_for_executables")) {
			t.Errorf("%s: %v\n%s", linker, err, out)
		}
	}
}

// TestCannotWrite has programs that cannot have a counts file. They run as ever
// and say so in one line.
func TestCannotWrite(t *testing.T) {
	dir, program := counted(t, twoCalls)
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, []byte("not counts, but long enough to look like a file that matters"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, out string
		words     []string
	}{
		{"no such directory", "/nonexistent/out", nil},
		{"another's file", precious, nil},
		{"a device", "/dev/full", nil},
		{"a file size limit", "limited", []string{"prlimit", "--fsize=4096"}},
	} {
		out := run(t, dir, []string{"FOOTFALL_OUT=" + c.out}, append(c.words, program)...)
		if !strings.HasSuffix(out, "5\n") || strings.Count(out, "\n") != 2 || !strings.HasPrefix(out, "footfall: cannot write ") {
			t.Errorf("%s: printed %q", c.what, out)
		}
	}
	if data, err := os.ReadFile(precious); err != nil || !bytes.HasPrefix(data, []byte("not counts")) {
		t.Errorf("another's file was changed to %q, %v", data, err)
	}
	if out := run(t, dir, []string{"FOOTFALL_OUT="}, program); out != "5\n" {
		t.Errorf("without a file: printed %q", out)
	}
	if files := countsFiles(t, dir); files != nil {
		t.Errorf("left %q", files)
	}
}

// TestFullDisk fills a file system of 64 KB.
func TestFullDisk(t *testing.T) {
	dir, program := counted(t, twoCalls)
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); errors.Is(err, syscall.EPERM) {
		t.Skip("needs to mount a tmpfs")
	} else if err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(disk, 0)
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 60<<10), 0o666); err != nil {
		t.Fatal(err)
	}
	out := run(t, disk, nil, program)
	if !strings.HasPrefix(out, "footfall: cannot write ") || !strings.Contains(out, "no space") || !strings.HasSuffix(out, "\n5\n") {
		t.Errorf("printed %q", out)
	}
	if files := countsFiles(t, disk); files != nil {
		t.Errorf("left %q", files)
	}
}

// TestSameName runs programs that name the same file, one after the other and
// one within the other.
func TestSameName(t *testing.T) {
	dir, program := counted(t, `#include <stdlib.h>
__attribute__((noinline)) void f(volatile int *n) { ++*n; }
int main(int argc, char **argv) { int n = 0; f(&n); if (argc > 1) { f(&n); return system(argv[1]); } return 0; }
`)
	env := []string{"FOOTFALL_OUT=out.counts"}
	run(t, dir, env, program)
	run(t, dir, env, program)
	if files := countsFiles(t, dir); len(files) != 1 {
		t.Errorf("files %q, want that of the second run only", files)
	}
	run(t, dir, env, program, program)
	if got := callsOf(readCounts(t, filepath.Join(dir, "out.counts")), "f"); got != 2 {
		t.Errorf("%d calls, want the 2 of the outer program", got)
	}
	if files := countsFiles(t, dir); len(files) != 2 {
		t.Errorf("files %q, want one of each program", files)
	}
}
