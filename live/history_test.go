//go:build linux

package live

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
)

// opener opens its libraries and closes them, without end.
const opener = `#include <dlfcn.h>
#include <stdio.h>
int main(void) {
	puts("ready"); fflush(stdout);
	for (;;) {
		void *h[9]; char name[20];
		for (int i = 0; i < 8; i++) { sprintf(name, "./l%d.so", i); if (!(h[i] = dlopen(name, RTLD_NOW))) return 1; }
		for (int i = 0; i < 8; i++) dlclose(h[i]);
	}
}
`

// TestLibrariesComeAndGo reads a program whose libraries come and go all the time:
// the program's own counters are always there, and counts of libraries never fall.
func TestLibrariesComeAndGo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GCOV_PREFIX", filepath.Join(dir, "data"))
	write(t, filepath.Join(dir, "prog.c"), []byte(opener))
	write(t, filepath.Join(dir, "lib.c"), []byte("__attribute__((constructor)) static void loaded(void) {}\n"))
	build(t, dir, "gcc-12", "--coverage", "-o", "prog", "prog.c", "-ldl")
	for _, name := range []string{"l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7"} {
		build(t, dir, "gcc-12", "--coverage", "-fPIC", "-shared", "-o", name+".so", "lib.c")
	}
	process := opened(t, run(t, dir, "./prog"))
	process.FollowFiles = true
	history, err := NewHistory(nil)
	if err != nil {
		t.Fatal(err)
	}
	last := make(map[string]int64)
	libraries := 0
	for range 60 {
		units, err := process.Snapshot()
		var goes *ComesAndGoesError
		if err != nil && !errors.As(err, &goes) {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(units, func(u Unit) bool { return u.Load.Program }) {
			t.Fatalf("the program is not there: %v", err)
		}
		libraries = max(libraries, len(units)-1)
		history.Take(units)
		for _, u := range history.Units() {
			if n := u.Counts.Largest(); n < last[u.Image] {
				t.Fatalf("%s: %d, before %d", u.Image, n, last[u.Image])
			} else {
				last[u.Image] = n
			}
		}
	}
	if libraries == 0 {
		t.Error("no library was ever read")
	}
}

// dumper writes its data files, and sets its counters to zero, when it is told to.
const dumper = `#include <stdio.h>
#include <string.h>
void __gcov_dump(void); void __gcov_reset(void);
int leaf(int a) { return a + 1; }
int main(void) {
	char line[80];
	puts("ready"); fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		for (char *c = line; *c; c++) { if (*c == 'g') leaf(1); if (*c == 'd') __gcov_dump(); if (*c == 'r') __gcov_reset(); }
		puts("done"); fflush(stdout);
	}
}
`

// TestDumped reads a program that writes its data files over those of earlier
// runs, by which their counts come into its memory. Its root is found without
// symbols, too.
func TestDumped(t *testing.T) {
	for _, flags := range []string{"-O0", "-O0 -s"} {
		p := started(t, dumper, flags)
		earlier := run(t, p.dir, "./prog")
		earlier.tell("ggggg")
		earlier.tell("d")
		process := opened(t, p)
		process.FollowFiles = true
		history, err := NewHistory(nil)
		if err != nil {
			t.Fatal(err)
		}
		look := func(tell string, want int64, dumped, counted bool, events ...CounterEventKind) {
			t.Helper()
			if tell != "" {
				p.tell(tell)
			}
			var got []CounterEventKind
			for _, e := range history.Take(snapshot(t, process)) {
				got = append(got, e.Kind)
			}
			u := history.Units()[0]
			if n := leafCalls(u); n != want || u.Load.Dumped != dumped || u.Load.Counted != counted || !slices.Equal(got, events) {
				t.Errorf("%s, after %q: %d calls of %d, %+v, events %v", flags, tell, n, want, *u.Load, got)
			}
		}
		look("gg", 2, false, false)
		look("gd", 3, true, true)
		look("g", 4, true, true)
		look("rg", 1, false, true, WasReset)
		look("gd", 2, true, true)

		// Who sees it only now cannot know.
		process = opened(t, p)
		process.FollowFiles = true
		if history, err = NewHistory(nil); err != nil {
			t.Fatal(err)
		}
		look("", 10, true, true, Uncertain)
		history.Reset(nil)
		look("ggg", 3, false, true)
	}
}

// leafCalls is the counter of the function of a unit that has a single one.
func leafCalls(u Unit) int64 {
	for i := range u.Counts.Functions {
		if arcs := u.Counts.Functions[i].Of(0); arcs.Len() == 1 {
			return arcs.At(0)
		}
	}
	return -1
}

func TestWriteLocks(t *testing.T) {
	const locks = `1: POSIX  ADVISORY  WRITE 4711 fd:00:1234 0 EOF
1: -> POSIX  ADVISORY  WRITE 4711 fd:00:1235 0 EOF
2: POSIX  ADVISORY  READ 4711 fd:00:1236 0 EOF
3: POSIX  ADVISORY  WRITE 4711 fd:00:1237 128 255
4: FLOCK  ADVISORY  WRITE 4711 fd:00:1238 0 EOF
5: POSIX  ADVISORY  WRITE 14711 fd:00:1239 0 EOF
6: POSIX  ADVISORY  WRITE 4711
`
	if got := writeLocks([]byte(locks), 4711); !slices.Equal(got, []uint64{1234, 1235}) {
		t.Error(got)
	}
}
