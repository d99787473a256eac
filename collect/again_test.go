//go:build linux

package collect

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/formats/gcov"
	"footfall/process/needs"
	"footfall/process/processtest"
	"footfall/report/exclude"
	"footfall/report/source"
)

// watched does what it is told, a letter a line.
const watched = `#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "shared.h"
void __gcov_reset(void);
static void *library;
static int a(int n) { return n > 3 ? shared(n) : n; }
static int b(int n) { int s = 0; while (n-- > 0) s += n & 1 ? a(n) : 1; return s; }
static int never(int n) { // LCOV_EXCL_START
	return puts("end") + n;
} // LCOV_EXCL_STOP
static void library_runs(int n) {
	int (*f)(int) = library ? dlsym(library, "work") : 0;
	if (f) f(n);
}
int main(int argc, char **argv) {
	char line[64];
	for (;;) {
		puts("ready"); fflush(stdout);
		if (!fgets(line, sizeof line, stdin)) return never(0);
		int n = line[1] - '0';
		switch (line[0]) {
		case 'a': a(n); break;
		case 'b': b(n); break;
		case 'l': library_runs(n); break;
		case 'o': if (!library) library = dlopen("./l.so", RTLD_NOW); break;
		case 'c': if (library) dlclose(library); library = 0; break;
		case 'r': __gcov_reset(); break;
		case 'f': if (fork()) break;
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;) { usleep(1000); b(n); }
		case 'x': execl(argv[0], argv[0], (char *)0); return 1;
		}
	}
}
`

const watchedLibrary = `#include "shared.h"
int work(int n) { return n > 5 ? shared(n) : -n; }
`

const watchedHeader = `static inline int shared(int n) {
	return n & 1 ? n / 2 : n * 3;
}
`

// TestLooksAgain looks at a program again and again that does things at random, and
// compares what is made of each look with what is made of the same counters by who sees
// them first.
func TestLooksAgain(t *testing.T) {
	for _, flags := range []string{"-O0", "-O2"} {
		t.Run(flags, func(t *testing.T) { looksAgain(t, flags) })
	}
}

func looksAgain(t *testing.T, flags string) {
	if _, err := exec.LookPath("gcc-12"); err != nil {
		needs.Skip(t, needs.Tools, err)
	}
	dir := t.TempDir()
	t.Setenv("GCOV_PREFIX", filepath.Join(dir, "data"))
	for name, text := range map[string]string{"prog.c": watched, "lib.c": watchedLibrary, "shared.h": watchedHeader} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{
		"gcc-12 --coverage " + flags + " -o prog prog.c -ldl",
		"gcc-12 --coverage " + flags + " -fPIC -shared -o l.so lib.c",
	} {
		c := exec.Command("sh", "-c", command)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	rng := rand.New(rand.NewPCG(3, 5))
	program := startWatched(t, dir)
	l := watching(t, fmt.Sprint(program.Pid()))
	for step := range 60 {
		word := []string{"a", "b", "l", "o", "c", "r", "x", "", "", "reset", "fork"}[rng.IntN(11)]
		switch word {
		case "": // nothing changes
		case "reset":
			if err := l.ResetCounts(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		case "fork": // both have the same notes
			program.tell("f5")
			l = watching(t, append(program.children(), fmt.Sprint(program.Pid()))...)
		default:
			program.tell(fmt.Sprint(word, rng.IntN(10)))
		}
		compareLook(t, fmt.Sprint("step ", step, " ", word), l)
	}
}

// compareLook looks, and compares.
func compareLook(t *testing.T, what string, l *Targets) {
	t.Helper()
	snapshots, err := l.TakeAgain()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got, err := l.Collect(snapshots, false)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	var readings []gcov.Reading
	for _, s := range snapshots {
		for _, u := range s.units {
			readings = append(readings, gcov.Reading{Name: u.Name, Root: s.root(), Counts: u.Counts})
		}
	}
	o := l.options.Options
	o.Cache, o.Exclusions = nil, exclusions(t, o.Sources)
	want := Objects(l.finder.Pair(readings), o)
	if diff := cmp.Diff(want.Set.Files(), got.Set.Files()); diff != "" {
		t.Fatalf("%s: (-anew +again)\n%.4000s", what, diff)
	}
	if diff := cmp.Diff(want.Excluded, got.Excluded); diff != "" {
		t.Fatalf("%s: (-anew +again)\n%s", what, diff)
	}
	if len(got.Excluded.List) == 0 || got.Set.Totals() == (coverage.Totals{}) {
		t.Fatalf("%s: nothing was excluded, or nothing is left", what)
	}
}

func exclusions(t testing.TB, sources *source.Sources) *exclude.Exclusions {
	e, err := exclude.New(exclude.Options{MarkerPrefixes: exclude.MarkerPrefixes, ReadInto: sources.ReadInto})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// watching opens processes as footfall live --watch does.
func watching(t testing.TB, pids ...string) *Targets {
	t.Helper()
	sources, err := source.NewSources(source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenTargets(pids, TargetOptions{
		Options: Options{Sources: sources, Exclusions: exclusions(t, sources)}, Follow: true, Total: true, Stderr: io.Discard, Notes: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// startWatched starts a program that says when it is ready, and again when it has done what
// it was told.
func startWatched(t *testing.T, dir string) watchedProgram {
	t.Helper()
	cmd := exec.Command("./prog")
	cmd.Dir = dir
	p := watchedProgram{processtest.Start(t, cmd), t}
	p.Expect("ready")
	return p
}

type watchedProgram struct {
	*processtest.Program
	t *testing.T
}

func (p watchedProgram) tell(what string) {
	p.t.Helper()
	fmt.Fprintln(p.In, what)
	p.Expect("ready")
}

// children are the processes that the program has forked, at most two of them.
func (p watchedProgram) children() []string {
	p.t.Helper()
	pid := p.Pid()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	list := strings.Fields(string(b))
	if err != nil || len(list) == 0 {
		p.t.Fatalf("children of %d: %q, %v", pid, b, err)
	}
	return list[:min(2, len(list))]
}
