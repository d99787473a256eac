//go:build linux

package collect

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"footfall/process"
	"footfall/process/needs"
	"footfall/process/processtest"
	"footfall/report/source"
)

// ranOptions are those for tests: libraries are watched as far as they are named.
func ranOptions(t *testing.T, include ...string) RanOptions {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("instructions are moved on x86-64 only")
	}
	sources, err := source.NewSources(source.Options{Include: include})
	if err != nil {
		t.Fatal(err)
	}
	return RanOptions{Sources: sources, Stderr: io.Discard, Notes: io.Discard}
}

// runWatched runs a program from its beginning to its end, and returns what it wrote and what of it ran.
func runWatched(t *testing.T, o RanOptions, input []byte, args ...string) (out []byte, programs []*RanProgram) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout = bytes.NewReader(input), &stdout
	p, release, err := process.StartAtEntry(cmd)
	if errors.Is(err, os.ErrPermission) {
		needs.Skip(t, needs.Ptrace, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	r, err := OpenRanOf(p, o)
	if err == nil {
		err = release()
	}
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, next, err := r.Look()
		if errors.Is(err, process.ErrExited) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(next)
	}
	if err := errors.Join(cmd.Wait(), r.Close()); err != nil {
		t.Fatal(err)
	}
	return stdout.Bytes(), r.Programs()
}

// callgrind runs a program and returns which addresses of instructions ran, by the path of the file,
// and what it wrote.
//
//	ob=(2) /usr/bin/program      the name with the number's first use, which may be cob=
//	0x1230 12 3                  an instruction at an address, a line and counts
//	+4 12 3                      that far behind the one before; * is the same one
//	calls=1 0x2000 30            is of the next line's instruction
func callgrind(t *testing.T, input []byte, args ...string) (ran map[string]map[uint64]bool, out []byte) {
	t.Helper()
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		needs.Skip(t, needs.Tools, err)
	}
	dir := t.TempDir()
	cmd := exec.Command(valgrind, append([]string{"-q", "--tool=callgrind", "--dump-instr=yes", "--callgrind-out-file=" + filepath.Join(dir, "%p")}, args...)...)
	cmd.Stdin = bytes.NewReader(input)
	if out, err = cmd.Output(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir) // of children, too
	if err != nil {
		t.Fatal(err)
	}
	ran = make(map[string]map[uint64]bool)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		addExecuted(t, string(b), ran)
	}
	return ran, out
}

func addExecuted(t *testing.T, text string, ran map[string]map[uint64]bool) {
	names := make(map[string]string)
	object := func(s string) string {
		number, name, named := strings.Cut(s, " ")
		if named {
			names[number] = name
		}
		return names[number]
	}
	var now map[uint64]bool
	at, err := uint64(0), error(nil)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if called, is := strings.CutPrefix(line, "cob="); is {
			object(called)
			continue
		}
		if file, is := strings.CutPrefix(line, "ob="); is {
			name := object(file)
			if ran[name] == nil {
				ran[name] = make(map[uint64]bool)
			}
			now = ran[name]
			continue
		}
		position, _, counted := strings.Cut(line, " ")
		switch {
		case !counted || now == nil || strings.Contains(position, "=") || strings.HasSuffix(position, ":"):
			continue
		case position == "*":
		case position[0] == '+':
			d, _ := strconv.ParseUint(position[1:], 0, 64)
			at += d
		case position[0] == '-':
			d, _ := strconv.ParseUint(position[1:], 0, 64)
			at -= d
		default:
			if at, err = strconv.ParseUint(position, 0, 64); err != nil {
				t.Fatalf("callgrind says %q", line)
			}
		}
		now[at] = true
	}
}

// A callgrindRun is a program that runs, and what it reads.
type callgrindRun struct {
	name  string
	input string
	args  []string
}

// besideCallgrind runs programs watched, each as a subtest, and compares the output with what they write
// otherwise; compare gets each program, and the addresses in it at which callgrind saw an instruction run. If
// FOOTFALL_RAN names a program, it is that alone, with the input FOOTFALL_RAN_INPUT.
func besideCallgrind(t *testing.T, lines bool, runs []callgrindRun, compare func(t *testing.T, p *RanProgram, executed map[uint64]bool)) {
	if program := os.Getenv("FOOTFALL_RAN"); program != "" {
		runs = []callgrindRun{{"given", os.Getenv("FOOTFALL_RAN_INPUT"), strings.Fields(program)}}
	}
	for _, run := range runs {
		t.Run(run.name, func(t *testing.T) {
			program, err := exec.LookPath(run.args[0])
			if err != nil {
				t.Fatal(err)
			}
			args := append([]string{program}, run.args[1:]...)
			executed, want := callgrind(t, []byte(run.input), args...)
			o := ranOptions(t)
			o.Lines = lines
			out, programs := runWatched(t, o, []byte(run.input), args...)
			if !bytes.Equal(out, want) {
				t.Errorf("it writes %q, without being watched %q", out, want)
			}
			for _, p := range programs {
				compare(t, p, executed[p.Path])
			}
		})
	}
}

// TestRanCallgrind compares the functions that ran with those of which callgrind saw the first instruction run.
func TestRanCallgrind(t *testing.T) {
	const landing = 4 // endbr64, which a jump leaves in front of it
	besideCallgrind(t, false, []callgrindRun{
		{"program", "", []string{processtest.Compile(t, ranProgram, "-O2", "-g", "-lpthread"), "3"}},
		{"stripped", "", []string{processtest.Compile(t, ranProgram, "-O2", "-s", "-lpthread"), "3"}},
		{"fixed addresses", "", []string{processtest.Compile(t, ranProgram, "-O2", "-no-pie", "-fcf-protection=full", "-lpthread"), "3"}},
	}, func(t *testing.T, p *RanProgram, executed map[uint64]bool) {
		ran, unknown := 0, 0
		for _, fn := range p.Functions {
			did := executed[fn.Addr] || executed[fn.Addr+landing] && fn.Size > landing
			switch {
			case fn.Unknown != 0:
				unknown++
				t.Logf("%s: %s", fn.Name(), fn.Unknown)
			case fn.Ran != did:
				t.Errorf("%s: %s at %#x ran: %v, callgrind: %v", p.ShortName(), fn.Name(), fn.Addr, fn.Ran, did)
			case did:
				ran++
			}
		}
		if ran == 0 || unknown > 2 {
			t.Errorf("%s: %d of %d functions ran, %d unknown", p.ShortName(), ran, len(p.Functions), unknown)
		}
		t.Logf("%s: %d of %d functions ran, %d unknown", p.ShortName(), ran, len(p.Functions), unknown)
	})
}

// ranProgram calls some of its functions: directly, through pointers, recursively, in handlers of
// signals, in threads and children, and leaves some by longjmp.
const ranProgram = `
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))
static jmp_buf back;
static volatile int handled, sink;

APART int add(int a, int b) { return a + b; }
APART int only_child(int a) { return a * 3 + sink; }
APART int only_thread(int a) { return a * 5 + sink; }
APART int only_handler(int a) { return a * 7 + sink; }
APART int never(int a) { return a * 11 + sink; }
APART int never_either(int a) { return never(a) + add(a, 1); }
APART int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
APART int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
APART void leave(int n) { if (n > 0) longjmp(back, n); sink++; }
APART void middle(int n) { leave(n); sink += 2; }
APART int chosen(int n) {
	switch (n) {
	case 0: return add(1, 2);
	case 1: return never(1);
	case 2: return fib(5);
	case 3: return fib(10);
	case 4: return never_either(2);
	case 5: return add(5, sink);
	}
	return -1;
}
APART int tail(int n) { return fib(n + 1); }
APART void nothing(void) {}
static void handler(int s) { handled += only_handler(s); }
static void *thread(void *p) { sink += only_thread(*(int *)p); return 0; }
static int (*table[])(int) = { fib, chosen, tail, never };

int main(int argc, char **argv) {
	int n = atoi(argv[1]), a[] = { 5, 3, 9, 1 };
	setvbuf(stdout, 0, _IONBF, 0);
	qsort(a, 4, sizeof *a, compare);
	printf("%d %d\n", a[0], a[3]);
	for (int i = 0; i < n; i++)
		printf("%d\n", table[i](3));
	if (!setjmp(back))
		middle(n);
	nothing();
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	pthread_t t;
	pthread_create(&t, 0, thread, &n);
	pthread_join(t, 0);
	pid_t child = fork();
	if (child == 0)
		_exit(only_child(n) > 0 ? 7 : 8);
	int status;
	waitpid(child, &status, 0);
	printf("%d %d %d\n", handled, sink, WEXITSTATUS(status));
	return 0;
}
`

// compileRan compiles a text in a directory of the test, and returns the path.
func compileRan(t *testing.T, dir, name, text string, flags ...string) string {
	t.Helper()
	source, out := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	processtest.Run(t, "", "gcc-12", append([]string{"-w", "-O2", "-g", "-o", out, source}, flags...)...)
	return out
}

// openRan watches processes until the test ends.
func openRan(t *testing.T, targets ...string) *Ran {
	t.Helper()
	r, err := OpenRan(targets, ranOptions(t))
	if errors.Is(err, os.ErrPermission) {
		needs.Skip(t, needs.Ptrace, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// lookUntil looks until something is so.
func lookUntil(t *testing.T, r *Ran, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is not seen", what)
		}
		if _, _, err := r.Look(); err != nil {
			t.Fatal(err)
		}
	}
}

// function returns one by its name, nil if there is none.
func (r *Ran) function(name string) *RanFunction {
	for _, p := range r.programs {
		for _, fn := range p.Functions {
			if fn.Name() == name {
				return fn
			}
		}
	}
	return nil
}

// TestRanLibraries loads a library, twice: its functions are watched as soon as it is seen.
func TestRanLibraries(t *testing.T) {
	dir := t.TempDir()
	compileRan(t, dir, "library.so", "int called(int a) { return a * 3; }\nint not_called(int a) { return a * 5; }\n", "-shared", "-fPIC")
	program := compileRan(t, dir, "loads", ranLoads)
	g := processtest.Start(t, exec.Command(program, filepath.Join(dir, "library.so")))
	g.Say("hello")
	r := openRan(t, strconv.Itoa(g.Pid()))
	for range 2 {
		if is := strings.TrimSpace(g.Say("load")); is != "loaded" {
			t.Fatal(is)
		}
		lookUntil(t, r, "the library", func() bool { return r.function("called") != nil })
		if is := strings.TrimSpace(g.Say("call")); is != "9" {
			t.Fatal(is)
		}
		lookUntil(t, r, "the call", func() bool { return r.function("called").Ran })
		if r.function("not_called").Ran {
			t.Error("what was not called ran")
		}
		if is := strings.TrimSpace(g.Say("unload")); is != "unloaded" {
			t.Fatal(is)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if is := strings.TrimSpace(g.Say("hello")); is != "?" {
		t.Fatal(is)
	}
}

const ranLoads = `
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
	char line[100];
	void *l = 0;
	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "load\n"))
			puts((l = dlopen(argv[1], RTLD_NOW)) ? "loaded" : dlerror());
		else if (!strcmp(line, "call\n"))
			printf("%d\n", ((int (*)(int))dlsym(l, "called"))(3));
		else if (!strcmp(line, "unload\n"))
			puts(dlclose(l) ? "stays" : "unloaded");
		else
			puts("?");
	}
	return 0;
}
`

// TestRanFamily looks at all processes that run a file, also one that begins later, and at children
// made by fork: what any of them ran, ran.
func TestRanFamily(t *testing.T) {
	program := compileRan(t, t.TempDir(), "family", ranFamily)
	first := processtest.Start(t, exec.Command(program))
	first.Say("hello")
	r := openRan(t, program)
	second := processtest.Start(t, exec.Command(program))
	second.Say("hello")
	lookUntil(t, r, "the second process", func() bool { return len(r.processes) == 2 })
	if is := strings.TrimSpace(first.Say("fork")); is != "7" {
		t.Fatal(is)
	}
	if is := strings.TrimSpace(second.Say("second")); is != "15" {
		t.Fatal(is)
	}
	for _, name := range []string{"in_child", "in_second"} {
		lookUntil(t, r, name, func() bool { return r.function(name).Ran })
	}
	if r.function("in_none").Ran {
		t.Error("what was not called ran")
	}
	second.Kill()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if fn := r.function("in_none"); fn.Ran || fn.Unknown != 0 {
		t.Errorf("%+v", fn)
	}
	if fn := r.function("main"); fn.Ran || fn.Unknown == 0 {
		t.Errorf("%+v", fn)
	}
	if is := strings.TrimSpace(first.Say("second")); is != "15" {
		t.Fatal(is)
	}
}

const ranFamily = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))
static volatile int sink;
APART int in_child(int a) { sink++; return a + 4; }
APART int in_second(int a) { sink++; return a * 5; }
APART int in_none(int a) { sink++; return a * 7; }
int main(int argc, char **argv) {
	char line[100];
	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "fork\n")) {
			int status, child = fork();
			if (child == 0)
				_exit(in_child(3));
			waitpid(child, &status, 0);
			printf("%d\n", WEXITSTATUS(status));
		} else if (!strcmp(line, "second\n"))
			printf("%d\n", in_second(3));
		else if (!strcmp(line, "none\n"))
			printf("%d\n", in_none(3));
		else
			puts("?");
	}
	return 0;
}
`

// TestRanReplaced says that a process has become another program, what the first one ran, and the other since then.
func TestRanReplaced(t *testing.T) {
	dir := t.TempDir()
	program := compileRan(t, dir, "becomes", ranBecomes)
	g := processtest.Start(t, exec.Command(program, compileRan(t, dir, "family", ranFamily)))
	g.Say("hello")
	var said bytes.Buffer
	o := ranOptions(t)
	o.Stderr = &said
	r, err := OpenRan([]string{strconv.Itoa(g.Pid())}, o)
	if errors.Is(err, os.ErrPermission) {
		needs.Skip(t, needs.Ptrace, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if is := strings.TrimSpace(g.Say("exec")); is != "gone" {
		t.Fatal(is)
	}
	if is := strings.TrimSpace(g.Say("second")); is != "15" { // of the other program
		t.Fatal(is)
	}
	if _, _, err := r.Look(); err != nil {
		t.Errorf("%v", err)
	}
	if !strings.Contains(said.String(), "(becomes) has become another program (exec): what that has run until now is not seen") {
		t.Errorf("it says %q", said.String())
	}
	g.Say("fork")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for name, ran := range map[string]bool{"before": true, "in_child": true, "in_none": false, "in_second": false} {
		if fn := r.function(name); fn.Ran != ran || fn.Unknown != 0 {
			t.Errorf("%+v", fn)
		}
	}
	if is := strings.TrimSpace(g.Say("second")); is != "15" {
		t.Fatal(is)
	}
}

const ranBecomes = `
#include <stdio.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline, noclone)) void before(void) { puts("gone"); fflush(stdout); }
int main(int argc, char **argv) {
	char line[100];
	setvbuf(stdin, 0, _IONBF, 0);
	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "exec\n")) {
			before();
			execl(argv[1], argv[1], (char *)0);
		}
		puts("?");
	}
	return 0;
}
`

// TestRanRefuses says nothing of a program of which too many functions cannot be watched.
func TestRanRefuses(t *testing.T) {
	text := "#include <stdio.h>\nint main(void) { puts(\"?\"); fflush(stdout); getchar(); return 0; }\n"
	for i := range fewUnarmed + 1 { // functions that jump to their own beginning
		text += strings.ReplaceAll("__asm__(\".globl fN\\n.type fN,@function\\nfN: dec %edi\\njnz fN\\nret\\n.size fN,.-fN\\n.balign 16\");\n", "N", strconv.Itoa(i))
	}
	g := processtest.Start(t, exec.Command(compileRan(t, t.TempDir(), "refused", text)))
	if line := g.Line(); line != "?" {
		t.Logf("it says %q", line)
	}
	r, err := OpenRan([]string{strconv.Itoa(g.Pid())}, ranOptions(t))
	if errors.Is(err, os.ErrPermission) {
		needs.Skip(t, needs.Ptrace, err)
	}
	if err == nil {
		_ = r.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "too many for a figure of the whole") {
		t.Errorf("%v", err)
	}
}
