package patch

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// library builds one of testdata for loader.c.
func library(t testing.TB, compiler, source, name string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".so")
	args := append([]string{"-O2", "-g", "-fpatchable-function-entry=5", "-shared", "-fpic", "-DNAME=" + name, "-o", path, "testdata/" + source}, flags...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// serve does while the program does what it is told as a command does: it follows
// libraries when a thread waits for that, and only then.
func (g *target) serve(m *Modules, s *Session, read func(), command string, args ...any) string {
	g.t.Helper()
	changed := s.Notices()
	if changed == nil {
		g.t.Fatal("no notices")
	}
	answer := make(chan string)
	go func() { answer <- g.say(command, args...) }()
	for {
		select {
		case <-changed:
			notice, _ := s.Noticed()
			g.follow(m, s)
			s.Answer(notice)
		case text := <-answer:
			return text
		case <-time.After(time.Millisecond):
		}
		read()
	}
}

// TestNotices counts all calls of libraries that come and go at the same place.
func TestNotices(t *testing.T) {
	first, second := library(t, "gcc-12", "notified.c", "first"), library(t, "gcc-12", "notified.c", "second")
	program := build(t, "gcc-12", "loader.c", "-fpatchable-function-entry=5", "-rdynamic", "-ldl")
	for _, mode := range []Mode{Entries, Exits, Filtered, Counts} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			g := start(t, program)
			text := g.text()
			s := g.open(g.sites("leaf"), Options{Mode: mode, Notices: true})
			defer s.Close()
			modules, err := OpenModules(g.p)
			if err != nil {
				t.Fatal(err)
			}
			defer modules.Close()
			y := tally{make(map[string]int), make(map[string]int)}
			for range 2 {
				if same := g.serve(modules, s, func() { s.Read(y.add(s)) }, "cycle 100 %s,%s", first, second); same != "99" {
					t.Logf("cycle: %s times at the same place", same)
				}
			}
			for s.Read(y.add(s)) > 0 {
			}
			if mode == Counts {
				for id, n := range s.Counts() {
					y.entries[s.Site(id).Function.Name] += int(n)
				}
			}
			want := "begin:200 end:200 first:11100 second:11100 leaf:22400 plugin:200"
			got := func(counts map[string]int) string {
				var b []string
				for _, name := range []string{"begin", "end", "first", "second", "leaf", "plugin"} {
					b = append(b, fmt.Sprintf("%s:%d", name, counts[name]))
				}
				return strings.Join(b, " ")
			}
			if entries := got(y.entries); entries != want {
				t.Errorf("entries %s\n   want %s", entries, want)
			}
			if exits := got(y.exits); mode >= Exits && exits != strings.Replace(want, "leaf:22400", "leaf:22200", 1) {
				t.Errorf("exits %s", exits)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(text, g.text()) {
				t.Error("the code is not what it was")
			}
			if answer := g.say("cycle 3 %s", first); answer != "2" {
				t.Errorf("afterwards %s", answer)
			}
		})
	}
}

// TestNoticesThrow throws through functions of a library from its constructor on. It
// brings the unwinder with it.
func TestNoticesThrow(t *testing.T) {
	thrower := library(t, "g++-12", "thrower.cc", "thrower")
	program := build(t, "gcc-12", "loader.c", "-fpatchable-function-entry=5", "-rdynamic", "-ldl")
	for _, mode := range []Mode{Exits, Filtered} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			g := start(t, program)
			s := g.open(g.sites("leaf"), Options{Mode: mode, Notices: true})
			defer s.Close()
			modules, err := OpenModules(g.p)
			if err != nil {
				t.Fatal(err)
			}
			defer modules.Close()
			y := tally{make(map[string]int), make(map[string]int)}
			const cycles = 20
			if answer := g.serve(modules, s, func() { s.Read(y.add(s)) }, "cycle %d %s", cycles, thrower); answer[0] == '-' {
				t.Errorf("cycle: %s", answer)
			}
			for s.Read(y.add(s)) > 0 {
			}
			const want = cycles * 101
			if y.entries["plugin"] != want || y.exits["plugin"] != want || y.entries["_ZL7throwerPFiiEi"] != want || y.exits["_ZL7throwerPFiiEi"] != 0 {
				t.Errorf("events, of %d calls: %v", want, y)
			}
		})
	}
}

// TestNoticesKilled kills a footfall while libraries are loaded and unloaded: the
// program goes on, and can be restored.
func TestNoticesKilled(t *testing.T) {
	if os.Getenv("PATCH_NOTIFIED") != "" {
		notified(t)
		return
	}
	first, second := library(t, "gcc-12", "notified.c", "first"), library(t, "gcc-12", "notified.c", "second")
	g := start(t, build(t, "gcc-12", "loader.c", "-fpatchable-function-entry=5", "-rdynamic", "-ldl"))
	text := g.text()
	for range 5 {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestNoticesKilled$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("PATCH_NOTIFIED=%d", g.p.PID))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); err != nil || line != "on\n" {
			t.Skipf("the other process says %q, %v", line, err)
		}
		answer := make(chan string)
		go func() { answer <- g.say("cycle 100 %s,%s", first, second) }()
		for range 1 + rand.IntN(50) {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if same := <-answer; same[0] == '-' {
			t.Errorf("cycle: %s", same)
		}
		if n, err := Repair(g.p); err != nil || n == 0 {
			t.Errorf("Repair = %d, %v", n, err)
		}
		if !bytes.Equal(text, g.text()) {
			t.Fatal("the code is not what it was")
		}
	}
}

// notified follows libraries until it is killed.
func notified(t *testing.T) {
	g := targetIn(t, "PATCH_NOTIFIED")
	s := g.open(g.sites("leaf"), Options{Mode: Exits, Notices: true})
	modules, err := OpenModules(g.p)
	if err != nil {
		t.Fatal(err)
	}
	changed := s.Notices()
	fmt.Println("on")
	for range changed {
		notice, _ := s.Noticed()
		g.follow(modules, s)
		s.Answer(notice)
		fmt.Println("answered")
	}
}
