//go:build linux

package patch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"footfall/process"
	"footfall/process/needs"
	"footfall/process/processtest"
	"footfall/process/target"
	"footfall/trace"
)

// testProgram is a running test program which reads commands and answers each with
// a line.
type testProgram struct {
	*processtest.Program
	t   testing.TB
	cmd *exec.Cmd
	p   *process.Process
}

// moving is for programs that are built without room: their first instructions are moved.
var moving = os.Getenv("PATCH_MOVING") != ""

// isSystem tells whether a file is one of the system's, whose functions are not the tests'.
func isSystem(path string) bool {
	return strings.HasPrefix(path, "/usr/") || strings.HasPrefix(path, "/lib")
}

// build compiles a program of testdata.
func build(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	return buildIn(t, t.TempDir(), compiler, source, flags...)
}

func buildIn(t testing.TB, dir, compiler, source string, flags ...string) string {
	t.Helper()
	program := filepath.Join(dir, strings.TrimSuffix(source, filepath.Ext(source)))
	if moving {
		flags = slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return strings.HasPrefix(f, "-fpatchable-function-entry") })
	}
	args := append([]string{"-O2", "-g", "-o", program, filepath.Join("testdata", source), "-lpthread"}, flags...)
	processtest.Run(t, "", compiler, args...)
	return program
}

func start(t testing.TB, program string, args ...string) *testProgram {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	g := &testProgram{Program: processtest.Start(t, cmd), t: t, cmd: cmd}
	g.say("hello")
	var err error
	if g.p, err = process.Open(g.Pid()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.p.Close() })
	return g
}

// say sends a command and returns the answer.
func (g *testProgram) say(format string, args ...any) string {
	g.t.Helper()
	return strings.TrimSpace(g.Say(format, args...))
}

// sites returns those of the functions.
func (g *testProgram) sites(names ...string) []*EntrySite {
	g.t.Helper()
	images, err := target.Images(g.p)
	if err != nil {
		g.t.Fatal(err)
	}
	var sites []*EntrySite
	for _, i := range images {
		g.t.Cleanup(i.Close)
		all, _, err := Sites(i)
		if moving && !isSystem(i.Path) {
			all, _, err = Moved(i)
		}
		if err != nil {
			g.t.Fatal(err)
		}
		for _, s := range all {
			for _, name := range names {
				if ok, _ := filepath.Match(name, s.Function.Name); ok {
					sites = append(sites, s)
					break
				}
			}
		}
	}
	if len(sites) == 0 {
		g.t.Fatalf("no sites of %v", names)
	}
	return sites
}

func (g *testProgram) open(sites []*EntrySite, o Options) *Session {
	g.t.Helper()
	if o.RingSize == 0 {
		o.RingSize = 16 << 20 // so that nothing is lost however late we read
	}
	s, err := Open(g.p, sites, o)
	if skipForbidden(g.t, err); err != nil {
		g.t.Fatal(err)
	}
	// Where a handler of a signal waits for a processor, within which a thread would return into the
	// middle of a jump, sites are put off: however long that takes is no error.
	for end := time.Now().Add(10 * time.Second); len(s.putOff) > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := s.retry(); err != nil {
			g.t.Fatal(err)
		}
	}
	for site, why := range s.Skipped {
		if why != putOff {
			g.t.Errorf("%s: %s", site.Function.Name, why)
		}
	}
	return s
}

// modules opens the images of the process, until the test ends.
func (g *testProgram) modules() *target.Modules {
	g.t.Helper()
	m, err := target.OpenModules(g.p)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { m.Close() })
	return m
}

// skipForbidden skips tests where the system allows no ptrace.
func skipForbidden(t testing.TB, err error) {
	t.Helper()
	var access *process.AccessError
	if errors.As(err, &access) {
		needs.Skip(t, needs.Ptrace, err)
	}
}

// tally counts entries and exits by function until the program has answered
// and all events are there.
type tally struct{ entries, exits map[string]int }

func (g *testProgram) tally(s *Session, command string) tally {
	g.t.Helper()
	done := make(chan string)
	go func() { done <- g.say("%s", command) }()
	y := tally{make(map[string]int), make(map[string]int)}
	read := func() int { return s.Read(y.add(s)) }
	for {
		select {
		case <-done:
			for read() > 0 {
			}
			return y
		default:
			if read() == 0 {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
}

// add returns what counts the events of a session that are read.
func (y tally) add(s *Session) func(process.ThreadStatus, []SiteEvent) {
	return func(_ process.ThreadStatus, events []SiteEvent) {
		for _, e := range events {
			if e.ID&GapFlag != 0 {
				continue
			}
			name := s.Site(e.ID &^ ExitFlag).Function.Name
			if e.ID&ExitFlag != 0 {
				y.exits[name]++
			} else {
				y.entries[name]++
			}
		}
	}
}

// text returns the code of the program as it is in memory.
func (g *testProgram) text() []byte {
	g.t.Helper()
	maps, _, err := g.p.Maps()
	if err != nil {
		g.t.Fatal(err)
	}
	var text []byte
	for _, m := range maps {
		if m.Exec && strings.HasPrefix(m.Path, "/") && !strings.HasPrefix(m.Path, "/memfd:") {
			b := make([]byte, m.End-m.Start)
			if _, err := g.p.ReadAt(b, int64(m.Start)); err != nil {
				g.t.Fatal(err)
			}
			text = append(text, b...)
		}
	}
	return text
}

func (g *testProgram) descriptors() int {
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.p.PID))
	if err != nil {
		g.t.Fatal(err)
	}
	return len(names)
}

var builds = map[string]map[string][]string{"amd64": {
	"gcc":      {"gcc-12", "-fpatchable-function-entry=5"},
	"gcc16,11": {"gcc-12", "-fpatchable-function-entry=16,11", "-fcf-protection"},
	"nopie":    {"gcc-12", "-fpatchable-function-entry=5", "-fno-pie", "-no-pie"},
	"mcount":   {"gcc-12", "-pg", "-mfentry", "-mnop-mcount", "-mrecord-mcount", "-fno-pie", "-no-pie"},
	"clang":    {"clang-16", "-fpatchable-function-entry=5"},
	"xray":     {"clang-16", "-fxray-instrument", "-fxray-instruction-threshold=1"},
	"static":   {"gcc-12", "-fpatchable-function-entry=5", "-static"},
}, "arm64": {
	"gcc":      {"gcc-12", "-fpatchable-function-entry=2"},
	"one":      {"gcc-12", "-fpatchable-function-entry=1"},
	"gcc4,2":   {"gcc-12", "-fpatchable-function-entry=4,2"},
	"bti":      {"gcc-12", "-fpatchable-function-entry=2", "-mbranch-protection=standard"},
	"nopie":    {"gcc-12", "-fpatchable-function-entry=2", "-fno-pie", "-no-pie"},
	"clang":    {"clang-16", "-fpatchable-function-entry=2"},
	"clangbti": {"clang-16", "-fpatchable-function-entry=2", "-mbranch-protection=standard"},
	"static":   {"gcc-12", "-fpatchable-function-entry=2", "-static"},
}}[runtime.GOARCH]

// exitsAreSites tells whether a tail call is the exit of one function and the entry of
// the next.
const exitsAreSites = runtime.GOARCH == "amd64"

// TestEvents compares events with the number of calls that the program makes,
// and the program with what it was.
func TestEvents(t *testing.T) {
	for name, b := range builds {
		t.Run(name, func(t *testing.T) {
			g := start(t, build(t, b[0], "calls.c", b[1:]...))
			text, descriptors := g.text(), g.descriptors()
			for _, o := range []Options{{Mode: trace.Entries}, {Mode: trace.Exits}, {Mode: trace.Exits, returns: true}, {Mode: trace.Filtered}, {Mode: trace.Filtered, returns: true}, {Mode: trace.Exits}} {
				mode := o.Mode
				s := g.open(g.sites("leaf", "middle", "fib", "tail", "tailed"), o)
				y := g.tally(s, "run 1000")
				if lost, threads := s.Lost(); lost != 0 || threads != 0 || s.NoReturns() != 0 {
					t.Fatalf("mode %d: lost %d and %d, %d exits", mode, lost, threads, s.NoReturns())
				}
				// fib(10) makes 177 calls.
				want := map[string]int{"leaf": 3000, "middle": 1000, "fib": 177000, "tail": 1000, "tailed": 1000}
				for f, n := range want {
					if y.entries[f] != n {
						t.Errorf("mode %d: %s: %d entries, want %d", mode, f, y.entries[f], n)
					}
					if f == "tailed" && (o.returns || !exitsAreSites) {
						n = 0 // its exit is that of tail
					}
					if mode != trace.Entries && y.exits[f] != n {
						t.Errorf("mode %d: %s: %d exits, want %d", mode, f, y.exits[f], n)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(text, g.text()) {
				t.Error("the code is not what it was")
			}
			if n := g.descriptors(); n != descriptors {
				t.Errorf("%d descriptors, before %d", n, descriptors)
			}
			if got, want := g.say("run 1"), "ok 1"; got != want {
				t.Errorf("afterwards the program says %q, want %q", got, want)
			}
		})
	}
}

// TestSteps switches sites on and off one after another, with their exits, while the program runs on in between.
func TestSteps(t *testing.T) {
	before := mostAtOnce
	mostAtOnce = 1
	defer func() { mostAtOnce = before }()
	g := start(t, build(t, builds["gcc"][0], "calls.c", builds["gcc"][1:]...))
	text := g.text()
	for _, mode := range []trace.Mode{trace.Counts, trace.Exits} {
		s := g.open(g.sites("leaf"), Options{Mode: mode})
		if on, off, err := s.Switch(g.sites("leaf", "middle", "fib")); err != nil || on != 2 || off != 0 {
			t.Errorf("mode %d: %d on, %d off, %v", mode, on, off, err)
		}
		if on, off, err := s.Switch(g.sites("leaf", "tail", "tailed")); err != nil || on != 2 || off != 2 {
			t.Errorf("mode %d: %d on, %d off, %v", mode, on, off, err)
		}
		entries, exits := make(map[string]int), make(map[string]int)
		if mode == trace.Counts {
			g.say("run 1000")
			for id, n := range s.Counts() {
				entries[s.Site(id).Function.Name] = int(n)
			}
		} else {
			y := g.tally(s, "run 1000")
			entries, exits = y.entries, y.exits
		}
		for f, n := range map[string]int{"leaf": 3000, "middle": 0, "fib": 0, "tail": 1000, "tailed": 1000} {
			if entries[f] != n || mode == trace.Exits && exits[f] != n && (f != "tailed" || exitsAreSites) {
				t.Errorf("mode %d: %s: %d entries, %d exits, want %d", mode, f, entries[f], exits[f], n)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, g.text()) {
			t.Errorf("mode %d: the code is not what it was", mode)
		}
	}
}

func TestCounts(t *testing.T) {
	g := start(t, build(t, "gcc-12", "calls.c", "-fpatchable-function-entry=5"))
	s := g.open(g.sites("leaf", "fib"), Options{Mode: trace.Counts})
	defer s.Close()
	g.say("run 1000")
	got := make(map[string]uint64)
	for id, n := range s.Counts() {
		got[s.Site(id).Function.Name] = n
	}
	if got["leaf"] != 3000 || got["fib"] != 177000 {
		t.Errorf("counts are %v", got)
	}
}

// TestTrampoline checks that the bytes are those of the source.
func TestTrampoline(t *testing.T) {
	for name, test := range map[string]struct {
		cpu               *cpu
		compiler, objcopy string
	}{
		"amd64": {amd64, "gcc-12", "objcopy"},
		"arm64": {arm64, "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objcopy"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			object, binary := filepath.Join(dir, "a.o"), filepath.Join(dir, "a.bin")
			for _, args := range [][]string{
				{test.compiler, "-c", "-o", object, "trampoline/" + name + ".S"},
				{test.objcopy, "-O", "binary", "-j", ".text", object, binary},
			} {
				if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
			}
			b, err := os.ReadFile(binary)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b, test.cpu.trampoline) {
				t.Errorf("trampoline/%[1]s.bin is not made from trampoline/%[1]s.S: assemble it again", name)
			}
			if n := len(test.cpu.trampoline); n > stubsAt-codeAt {
				t.Errorf("it has %d bytes, there is room for %d", n, stubsAt-codeAt)
			}
		})
	}
}
