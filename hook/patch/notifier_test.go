//go:build linux

package patch

import (
	"bytes"
	"fmt"
	"footfall/process/processtest"
	"footfall/process/target"
	"footfall/trace"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// On a busy machine answers may be late. Only where we are killed nobody shall wait long.
func init() {
	if os.Getenv("PATCH_NOTIFIED") == "" {
		patience = time.Minute
	}
}

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
func (g *testProgram) serve(m *target.Modules, s *Session, read func(), command string, args ...any) string {
	g.t.Helper()
	changed := s.LoadNotifications()
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
	for _, mode := range []trace.Mode{trace.Entries, trace.Exits, trace.Filtered, trace.Counts} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			g := start(t, program)
			text := g.text()
			s := g.open(g.sites("leaf"), Options{Mode: mode, NotifyLoads: true})
			defer s.Close()
			modules := g.modules()
			y := tally{make(map[string]int), make(map[string]int)}
			for range 2 {
				if same := g.serve(modules, s, func() { s.Read(y.add(s)) }, "cycle 100 %s,%s", first, second); same != "99" {
					t.Logf("cycle: %s times at the same place", same)
				}
			}
			for s.Read(y.add(s)) > 0 {
			}
			if mode == trace.Counts {
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
			wantExits := want
			if !exitsAreSites { // plugin jumps to leaf
				wantExits = strings.Replace(want, "leaf:22400", "leaf:22200", 1)
			}
			if exits := got(y.exits); mode >= trace.Exits && exits != wantExits {
				t.Errorf("exits %s", exits)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s.Unanswered != 0 {
				t.Errorf("%d notices were not answered", s.Unanswered)
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
	for _, mode := range []trace.Mode{trace.Exits, trace.Filtered} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			g := start(t, program)
			s := g.open(g.sites("leaf"), Options{Mode: mode, NotifyLoads: true})
			defer s.Close()
			modules := g.modules()
			y := tally{make(map[string]int), make(map[string]int)}
			const cycles = 20
			const each = 101 // calls of plugin while the library is there
			late, seen := 0, 0
			read := func() {
				s.Read(y.add(s))
				late += s.putOffExits(seen, "plugin")
				seen = len(s.putOff)
			}
			if answer := g.serve(modules, s, read, "cycle %d %s", cycles, thrower); answer[0] == '-' {
				t.Errorf("cycle: %s", answer)
			}
			for s.Read(y.add(s)) > 0 {
			}
			// An old word on the stack may put an exit off, as long as the library is there: then
			// none of these calls is seen to return. What has filters sees by the next event of
			// the stack that a call was left, as those of thrower are.
			const want = cycles * each
			returned, left := want-late*each, 0
			if mode == trace.Filtered {
				returned, left = want, want
			}
			if late == cycles {
				t.Error("no exit of plugin has been on")
			}
			if y.entries["plugin"] != want || y.exits["plugin"] != returned || y.entries["_ZL7throwerPFiiEi"] != want || y.exits["_ZL7throwerPFiiEi"] != left {
				t.Errorf("of %d calls %d of plugin are to return and %d of thrower to be left, where plugin's exit was put off %d of %d times: %v", want, returned, left, late, cycles, y)
			}
		})
	}
}

// putOffExits returns 1 if an exit of a function is among the stubs that were put off, from a
// place of the list on, else 0.
func (s *Session) putOffExits(from int, function string) int {
	for _, st := range s.putOff[from:] {
		if st.leaves() && s.stubs[uint32(st.arguments)].Function.Name == function {
			return 1
		}
	}
	return 0
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
		lines, kill := g.another("PATCH_NOTIFIED", "on")
		answer := make(chan string)
		go func() { answer <- g.say("cycle 100 %s,%s", first, second) }()
		for range 1 + rand.IntN(50) {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		kill()
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
	s := g.open(g.sites("leaf"), Options{Mode: trace.Exits, NotifyLoads: true})
	modules := g.modules()
	changed := s.LoadNotifications()
	fmt.Println("on")
	for range changed {
		notice, _ := s.Noticed()
		g.follow(modules, s)
		s.Answer(notice)
		fmt.Println("answered")
	}
}

// TestNoticesMusl does it with another dynamic linker, which never unloads.
func TestNoticesMusl(t *testing.T) {
	first, second := library(t, "musl-gcc", "notified.c", "first"), library(t, "musl-gcc", "notified.c", "second")
	g := start(t, build(t, "musl-gcc", "loader.c", "-fpatchable-function-entry=5", "-rdynamic"))
	s := g.open(g.sites("leaf"), Options{Mode: trace.Counts, NotifyLoads: true})
	defer s.Close()
	modules := g.modules()
	if answer := g.serve(modules, s, func() {}, "cycle 4 %s,%s", first, second); answer != "0" {
		t.Errorf("cycle: %s", answer)
	}
	counts := make(map[string]uint64)
	for id, n := range s.Counts() {
		counts[s.Site(id).Function.Name] += n
	}
	if got := fmt.Sprint(counts); got != "map[begin:2 first:102 leaf:208 plugin:4 second:102]" {
		t.Errorf("counts are %s", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	code := make([]byte, len(s.notifier.old))
	if _, err := g.p.ReadAt(code, int64(s.notifier.site)); err != nil || !bytes.Equal(code, s.notifier.old[:]) {
		t.Errorf("the linker's code is % x, error %v", code, err)
	}
}

// TestNotifierRoom looks for room at functions like that of dynamic linkers.
func TestNotifierRoom(t *testing.T) {
	for _, test := range []struct {
		code string
		want bool
	}{
		{".p2align 4; hook: ret; .p2align 4; ret", true},
		{".p2align 4; hook: endbr64; ret; .p2align 4; ret", true},
		{".p2align 4; hook: ret; nop; nop; next: nop; nop; nop; ret", true}, // nobody says that next is a function
		{".p2align 4; hook: .cfi_startproc; ret; .cfi_endproc; nop; nop; next: .cfi_startproc; nop; nop; nop; ret; .cfi_endproc", false},
		{".p2align 4; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; hook: ret; .fill 20, 1, 0x90", false}, // another may begin at 16
		{".p2align 4; hook: ret; ret; .p2align 4", false},
		{".p2align 4; hook: mov %eax, %eax; ret; .p2align 4", false},
	} {
		text := fmt.Sprintf("#include <stdio.h>\nextern char hook[];\n__asm__(\".text; .globl hook; %s; .byte 0xcc\");\n"+
			"int main(void) { char line[99]; while (fgets(line, 99, stdin)) { printf(\"%%p\\n\", hook); fflush(stdout); } return 0; }\n", test.code)
		program := processtest.Compile(t, text)
		g := start(t, program)
		n := new(notifier)
		if _, err := fmt.Sscan(g.say("where"), &n.site); err != nil {
			t.Fatal(err)
		}
		maps, _, err := g.p.Maps()
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range g.p.Images(maps) {
			if i.Path == program {
				if got := n.hasRoom(g.p, i); got != test.want {
					t.Errorf("%s: room: %v", test.code, got)
				}
			}
		}
	}
}

// TestNoticesThreads counts calls of libraries that several threads load and unload.
func TestNoticesThreads(t *testing.T) {
	var libraries []string
	for _, name := range []string{"first", "second", "third"} {
		libraries = append(libraries, library(t, "gcc-12", "loaded.c", name, "-ldl"))
	}
	libraries = append(libraries, library(t, "gcc-12", "loaded.c", "outer", "-ldl", fmt.Sprintf("-DLOADS=%q", libraries[0])))
	program := build(t, "gcc-12", "loaders.c", "-fpatchable-function-entry=5", "-rdynamic", "-ldl")
	for _, mode := range []trace.Mode{trace.Counts, trace.Exits} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			g := start(t, program, libraries...)
			s := g.open(g.sites("leaf"), Options{Mode: mode, NotifyLoads: true})
			defer s.Close()
			modules := g.modules()
			y := tally{make(map[string]int), make(map[string]int)}
			answer := g.serve(modules, s, func() { s.Read(y.add(s)) }, "run 25")
			for s.Read(y.add(s)) > 0 {
			}
			if mode == trace.Counts {
				for id, n := range s.Counts() {
					y.entries[s.Site(id).Function.Name] += int(n)
				}
			}
			inLibraries := 0
			for _, name := range []string{"first", "second", "third", "outer"} {
				inLibraries += y.entries[name]
			}
			if want := fmt.Sprintf("%d calls, 0 bad", y.entries["leaf"]); answer != want || inLibraries != y.entries["leaf"] || inLibraries == 0 {
				t.Errorf("the program says %q; events: %v", answer, y.entries)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s.Unanswered != 0 {
				t.Errorf("%d notices were not answered", s.Unanswered)
			}
			if answer := g.say("run 1"); !strings.HasSuffix(answer, " calls, 0 bad") {
				t.Errorf("afterwards the program says %q", answer)
			}
		})
	}
}
