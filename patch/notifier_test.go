package patch

import (
	"bytes"
	"fmt"
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
