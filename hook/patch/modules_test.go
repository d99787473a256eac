//go:build linux

package patch

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// plugins builds libraries for loader.c.
func plugins(t *testing.T) (first, second string) {
	t.Helper()
	dir := t.TempDir()
	names := []string{"first", "second"}
	for i, name := range names {
		names[i] = filepath.Join(dir, name+".so")
		args := []string{"-O2", "-g", "-fpatchable-function-entry=5", "-shared", "-fpic", "-DNAME=" + name, "-o", names[i], "testdata/plugin.c"}
		if out, err := exec.Command("gcc-12", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return names[0], names[1]
}

// follow switches on what has been loaded, as a command does, and returns the
// names of these functions.
func (g *testProgram) follow(m *target.Modules, s *Session) string {
	g.t.Helper()
	for _, image := range s.Gone() {
		m.Forget(image)
	}
	fresh, changed, _ := m.Look()
	if !changed {
		return ""
	}
	var sites []*EntrySite
	var names []string
	for _, i := range fresh {
		found, _, err := Sites(i)
		if err != nil {
			g.t.Fatal(err)
		}
		for _, site := range found {
			sites = append(sites, site)
			names = append(names, site.Function.Name)
		}
	}
	if n, err := s.Add(sites); err != nil || n != len(sites) {
		g.t.Fatalf("Add = %d, %v, want %d; skipped: %v", n, err, len(sites), s.Skipped)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestModules traces libraries that come and go, also at the same place.
func TestModules(t *testing.T) {
	first, second := plugins(t)
	program := build(t, "gcc-12", "loader.c", "-fpatchable-function-entry=5", "-ldl")
	for _, mode := range []trace.Mode{trace.Entries, trace.Exits, trace.Filtered, trace.Counts} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			g := start(t, program)
			text := g.text()
			s := g.open(g.sites("leaf"), Options{Mode: mode})
			modules := g.modules()
			run := func(want string) {
				t.Helper()
				before := s.Counts()
				y := g.tally(s, "run 100")
				if mode == trace.Counts {
					for id, n := range s.Counts() {
						y.entries[s.Site(id).Function.Name] += int(n - before[id])
					}
				}
				got := fmt.Sprintf("leaf:%d first:%d second:%d plugin:%d", y.entries["leaf"], y.entries["first"], y.entries["second"], y.entries["plugin"])
				if got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
			load := func(path, want string) {
				t.Helper()
				if answer := g.say("load %s", path); answer != "loaded" {
					t.Fatal(answer)
				}
				if got := g.follow(modules, s); got != want {
					t.Errorf("switched on: %q, want %q", got, want)
				}
			}
			run("leaf:100 first:0 second:0 plugin:0")
			load(first, "first plugin")
			run("leaf:100 first:100 second:0 plugin:100")
			if again := g.follow(modules, s); again != "" {
				t.Errorf("switched on twice: %s", again)
			}
			// Unloaded and loaded between two looks, another library, unloaded and seen.
			g.say("unload")
			load(first, "first plugin")
			run("leaf:100 first:100 second:0 plugin:100")
			g.say("unload")
			load(second, "plugin second")
			run("leaf:100 first:0 second:100 plugin:100")
			g.say("unload")
			g.follow(modules, s)
			load(first, "first plugin")
			run("leaf:100 first:100 second:0 plugin:100")
			g.say("unload")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(text, g.text()) {
				t.Error("the code is not what it was")
			}
			g.say("load %s", second)
			if got := g.say("run 100"); got != "0 bad" {
				t.Errorf("afterwards the program says %q", got)
			}
			if n, err := Repair(g.p); n != 0 || err != nil {
				t.Errorf("Repair = %d, %v", n, err)
			}
		})
	}
}

// TestModulesChains walks through a library that was loaded meanwhile.
func TestModulesChains(t *testing.T) {
	first, second := plugins(t)
	g := start(t, build(t, "gcc-12", "loader.c", "-fpatchable-function-entry=5", "-ldl"))
	s := g.open(g.sites("leaf"), Options{Mode: trace.Chains, ChainDepth: 3})
	defer s.Close()
	modules := g.modules()
	for i, path := range []string{first, second, first} {
		if answer := g.say("load %s", path); answer != "loaded" {
			t.Fatal(answer)
		}
		for _, image := range s.Gone() {
			modules.Forget(image)
		}
		if _, changed, _ := modules.Look(); !changed {
			t.Error("the library is not seen")
		}
		if _, err := s.Add(nil); err != nil {
			t.Fatal(err)
		}
		if got := g.say("run 100"); got != "0 bad" {
			t.Errorf("the program says %q", got)
		}
		long := uint64(0)
		for _, c := range s.Chains() {
			if len(c.Addresses) == 3 {
				long += c.Count
			}
		}
		if want := uint64(100 * (i + 1)); long != want {
			t.Errorf("%d chains of three, want %d", long, want)
		}
		g.say("unload")
		modules.Look()
	}
}

// TestChildren restores the children, too.
func TestChildren(t *testing.T) {
	g := start(t, build(t, "gcc-12", "loader.c", "-fpatchable-function-entry=5", "-ldl"))
	text := g.text()
	s := g.open(g.sites("leaf"), Options{Mode: trace.Exits})
	var pid int
	if _, err := fmt.Sscan(g.say("fork"), &pid); err != nil {
		t.Fatal(err)
	}
	p, err := process.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	child := &testProgram{t: t, p: p}
	if bytes.Equal(text, child.text()) {
		t.Error("the child is not as its parent is")
	}
	if y := g.tally(s, "run 100"); y.entries["leaf"] != 100 {
		t.Errorf("events: %v", y)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Children != 1 {
		t.Errorf("%d children were restored", s.Children)
	}
	if !bytes.Equal(text, child.text()) {
		t.Error("the child's code is not what it was")
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// TestModulesThrow throws through functions of a library that has brought the
// unwinder with it.
func TestModulesThrow(t *testing.T) {
	library := filepath.Join(t.TempDir(), "thrower.so")
	if out, err := exec.Command("g++-12", "-O2", "-g", "-fpatchable-function-entry=5", "-shared", "-fpic", "-o", library, "testdata/thrower.cc").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g := start(t, build(t, "gcc-12", "loader.c", "-fpatchable-function-entry=5", "-ldl"))
	s := g.open(g.sites("leaf"), Options{Mode: trace.Exits})
	defer s.Close()
	modules := g.modules()
	first, _ := plugins(t)
	for _, path := range []string{first, library} { // all memory for code is there with the first
		if answer := g.say("load %s", path); answer != "loaded" {
			t.Fatal(answer)
		}
		g.follow(modules, s)
	}
	y := g.tally(s, "run 100")
	if y.entries["leaf"] != 100 || y.entries["plugin"] != 100 || y.exits["plugin"] != 100 || y.exits["_ZL7throwerPFiiEi"] != 0 {
		t.Errorf("events: %v", y)
	}
	if got := g.say("run 100"); got != "0 bad" {
		t.Errorf("the program says %q", got)
	}
}
