//go:build linux

package live

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"footfall/process"
	"footfall/process/needs"
)

// started builds a C program from its source, with gcc-12 --coverage and
// flags, and starts it.
func started(t *testing.T, source, flags string, args ...string) *program {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "prog.c"), []byte(source))
	build(t, dir, "gcc-12", strings.Fields("--coverage -o prog prog.c -ldl -pthread -fprofile-update=single "+flags)...)
	return run(t, dir, "./prog", args...)
}

// opened opens a program's process.
func opened(t *testing.T, p *program) *CountedProcess {
	t.Helper()
	process, err := Open(p.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { process.Close() })
	return process
}

// skipForbidden skips tests where the system allows no ptrace, without which nothing
// is written.
func skipForbidden(t *testing.T, err error) {
	t.Helper()
	var access *process.AccessError
	if errors.As(err, &access) {
		needs.Skip(t, needs.Ptrace, err)
	}
}

func snapshot(t *testing.T, p *CountedProcess) []Unit {
	t.Helper()
	units, err := p.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return units
}

// TestBaseline reads what was counted between two snapshots.
func TestBaseline(t *testing.T) {
	for _, compiler := range compilers(t) {
		t.Run(compiler, func(t *testing.T) {
			t.Parallel()
			v := variant{flags: "-O2 -fprofile-generate", sources: c}
			p := v.start(t, compiler)
			process := opened(t, p)
			kept := &Baselines{t.TempDir()}
			if err := kept.Store(process.Key(), NewBaseline(snapshot(t, process))); err != nil {
				t.Fatal(err)
			}
			p.tell("work")
			units := snapshot(t, process)
			base, err := kept.Load(process.Key())
			if err != nil {
				t.Fatal(err)
			}
			history, err := NewHistory(base)
			if err != nil {
				t.Fatal(err)
			}
			if events := history.Take(units); len(events) > 0 {
				t.Errorf("%v", events)
			}
			units = history.Units()
			calls := map[string]int64{"main.c.gcda": 0, "work.c.gcda": 0}
			for _, u := range units {
				var most int64
				for i := range u.Counts.Functions {
					if arcs := u.Counts.Functions[i].Of(0); arcs != nil {
						for k := range arcs.Len() {
							most = max(most, arcs.At(k))
						}
					}
				}
				calls[filepath.Base(u.Name)] = most
			}
			// more() calls work 500 times, each with 1 to 5 turns of its loop.
			if calls["main.c.gcda"] != 500 || calls["work.c.gcda"] != 1500 && calls["work.c.gcda"] != 1000 {
				t.Errorf("most counts since the reset: %v", calls)
			}
			if was, err := kept.Remove(process.Key()); !was || err != nil {
				t.Error(was, err)
			}
			if base, err := kept.Load(process.Key()); base != nil || err != nil {
				t.Error("a baseline that was removed: ", base, err)
			}
		})
	}
}

func TestBaselinesTidy(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	p := started(t, sleeper, "-O0")
	process := opened(t, p)
	kept, err := OpenBaselines()
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Store(process.Key(), NewBaseline(snapshot(t, process))); err != nil {
		t.Fatal(err)
	}
	if kept, err = OpenBaselines(); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(kept.dir); len(entries) != 1 {
		t.Errorf("%d baselines of a running process", len(entries))
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	if kept, err = OpenBaselines(); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(kept.dir); len(entries) != 0 {
		t.Errorf("%d baselines of a process that has ended", len(entries))
	}
	if err := os.Chmod(kept.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBaselines(); err == nil {
		t.Error("a directory for everybody was taken")
	}
}

const sleeper = `#include <stdio.h>
int main(void) { puts("ready"); fflush(stdout); return getchar(); }
`

// spinner counts as fast as it can.
const spinner = `#include <stdio.h>
int v;
__attribute__((noinline)) void leaf(void) { __asm__ volatile("" ::: "memory"); v++; }
int main(void) {
	puts("ready"); fflush(stdout);
	for (;;) leaf();
}
`

// TestHardReset sets hot counters to zero again and again. With atomic counters
// none comes back; without some do, which the result must tell.
func TestHardReset(t *testing.T) {
	const enough = 1_000_000 // more than can be counted until the program is looked at again
	tries := 1000
	if testing.Short() {
		tries = 50
	}
	for _, build := range []struct {
		name, flags string
		atomic      bool
	}{
		{"atomic", "-O0 -fprofile-update=atomic", true},
		{"atomic O2", "-O2 -fprofile-update=atomic", true},
		{"plain", "-O0", false},
	} {
		t.Run(build.name, func(t *testing.T) {
			p := started(t, spinner, build.flags)
			process := opened(t, p)
			undone, judged := 0, 0
			n := tries
			if build.name != "atomic" {
				n = max(tries/10, 50)
			}
			for range n {
				before := largest(snapshot(t, process))
				for deadline := time.Now().Add(time.Minute); before < enough && time.Now().Before(deadline); before = largest(snapshot(t, process)) {
				}
				r, err := process.HardReset(nil)
				if skipForbidden(t, err); err != nil {
					t.Fatal(err)
				}
				if r.Units != 1 || r.Counters == 0 {
					t.Fatalf("%+v", r)
				}
				judged++
				if r.UndoneCounters > 0 {
					undone++
				}
			}
			t.Logf("%d of %d resets were undone", undone, judged)
			if build.atomic && undone > 0 {
				t.Errorf("%d of %d resets of atomic counters were undone", undone, judged)
			}
			u, err := process.Updates()
			if err != nil {
				t.Fatal(err)
			}
			if build.atomic != (u.Plain == 0) || build.atomic != (u.Atomic > 0) {
				t.Errorf("updates %+v", u)
			}
		})
	}
}

func largest(units []Unit) int64 {
	var n int64
	for _, u := range units {
		n = max(n, u.Counts.Largest())
	}
	return n
}

// TestHardResetValues sets lists of values to zero.
func TestHardResetValues(t *testing.T) {
	for _, flags := range []string{"-O2 -fprofile-generate", "-m32 -O2 -fprofile-generate"} {
		v := variant{flags: flags, sources: c}
		p := v.start(t, "gcc-12")
		process := opened(t, p)
		p.tell("work") // now it waits where nothing is counted
		r, err := process.HardReset(nil)
		if skipForbidden(t, err); err != nil || len(r.Undone) > 0 {
			t.Fatal(r, err)
		}
		for _, u := range snapshot(t, process) {
			for _, f := range u.Counts.Functions {
				for _, k := range f.Counters {
					sites, ok := []int64(nil), true
					if !isList(u.Counts.Version, k.Kind) {
						sites = k.Values
					} else {
						for at := 0; at < len(k.Values); at += 2 + 2*int(k.Values[at+1]) {
							sites = append(sites, k.Values[at])
							for n := range int(k.Values[at+1]) {
								sites = append(sites, k.Values[at+3+2*n])
							}
						}
					}
					for _, x := range sites {
						ok = ok && x == 0
					}
					if !ok {
						t.Errorf("%s: %s: kind %d: %v", flags, filepath.Base(u.Name), k.Kind, k.Values)
					}
				}
			}
		}
		// The program counts on, and its own files hold what footfall reads.
		p.tell("work")
		units := snapshot(t, process)
		p.tell("dump")
		compare(t, p.dir, units)
	}
}

// TestHardResetOne resets one object of two.
func TestHardResetOne(t *testing.T) {
	v := variant{sources: c}
	p := v.start(t, "gcc-12")
	process := opened(t, p)
	p.tell("work")
	r, err := process.HardReset(NameMatch("work.c"))
	if skipForbidden(t, err); err != nil || r.Units != 1 {
		t.Fatal(r, err)
	}
	for _, u := range snapshot(t, process) {
		if zero := u.Counts.Largest() == 0; zero != (filepath.Base(u.Name) == "work.c.gcda") {
			t.Errorf("%s: all zero: %v", u.Name, zero)
		}
	}
	if _, err := process.HardReset(NameMatch("ork.c")); err == nil {
		t.Error("no object has that name")
	}
}

// TestUpdatesHeld finds loops that keep counters in registers.
func TestUpdatesHeld(t *testing.T) {
	const loop = `#include <stdio.h>
volatile int v;
__attribute__((noinline)) int f(int n) { int s = 0; for (int i = 0; i < n; i++) { if (i % 3) s += i; else s -= v; } return s; }
int main(int argc, char **argv) { puts("ready"); fflush(stdout); while (getchar() != EOF) v += f(argc * 100); return 0; }
`
	for flags, held := range map[string]bool{
		"-O0": false, "-O1": true, "-O2": true, "-O3": true, "-Og": false,
		"-O2 -fPIC": true, "-O2 -fno-tree-loop-im": false, "-O2 -fprofile-update=atomic": false,
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			process := opened(t, started(t, loop, flags))
			u, err := process.Updates()
			if err != nil {
				t.Fatal(err)
			}
			if (u.Held > 0) != held || held != (len(u.HeldIn) == 1) || u.Plain+u.Atomic < 4 {
				t.Errorf("%+v", u)
			}
		})
	}
}
