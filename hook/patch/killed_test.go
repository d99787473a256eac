//go:build linux

package patch

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process"
	"footfall/process/needs"
	"footfall/trace"
)

// TestKilledAnywhere kills footfalls while they put code into a program and take
// it out again: the program goes on, and can be restored and traced.
func TestKilledAnywhere(t *testing.T) {
	if os.Getenv("PATCH_SWITCHER") != "" {
		switcher(t)
		return
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	program := build(t, "g++-12", "stress.cc", "-fpatchable-function-entry=5")
	for range 3 {
		g := start(t, program)
		text := g.text()
		for range 8 {
			g.killed("PATCH_SWITCHER", "switching", text)
		}
		s := g.open(g.sites("*"), Options{Mode: trace.Exits})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		g.In.Close()
		if end := g.Line(); end != "end: 0 bad" {
			t.Errorf("at its end the program says %q", end)
		}
	}
}

// killed kills another footfall in the role at a random moment: the program goes on right, and its code is text
// again after Repair.
func (g *testProgram) killed(role, ready string, text []byte) {
	g.t.Helper()
	_, kill := g.another(role, ready)
	time.Sleep(time.Duration(rand.IntN(30000)) * time.Microsecond)
	kill()
	if answer := g.say("status"); !strings.HasSuffix(answer, " 0 bad") {
		g.t.Fatalf("after a kill the program says %q", answer)
	}
	if _, err := Repair(g.p); err != nil {
		g.t.Fatal(err)
	}
	if !bytes.Equal(text, g.text()) {
		g.t.Fatal("the code is not what it was")
	}
}

// TestKilledNow kills a footfall and repairs what it has left at once, while it dies, and while
// nobody has asked for its status.
func TestKilledNow(t *testing.T) {
	if os.Getenv("PATCH_OPENED") != "" {
		g := targetIn(t, "PATCH_OPENED")
		g.open(g.sites("text"), Options{Mode: trace.Entries})
		fmt.Println("on")
		time.Sleep(time.Hour)
	}
	g := start(t, build(t, "gcc-12", "arguments.c", "-fpatchable-function-entry=5"))
	text := g.text()
	g.another("PATCH_OPENED", "on") // whose end nobody waits for
	islands, err := findIslands(g.p)
	if err != nil || len(islands) == 0 {
		t.Fatalf("%d islands, %v", len(islands), err)
	}
	owner := int(islands[0].owner)
	if _, err := Repair(g.p); err == nil || !strings.Contains(err.Error(), "traces it already") {
		t.Errorf("Repair beside a footfall that lives: %v", err)
	}
	if err := unix.Kill(owner, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if n, err := Repair(g.p); err != nil || n == 0 {
		t.Errorf("Repair = %d, %v", n, err)
	}
	if !bytes.Equal(text, g.text()) {
		t.Error("the code is not what it was")
	}
}

// another runs the test again, in a process that finds the number of the program in the
// variable, until it says the word; lines is what it says then.
func (g *testProgram) another(variable, word string) (lines *bufio.Reader, kill func()) {
	g.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+g.t.Name()+"$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, g.p.PID))
	out, err := cmd.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	kill = func() {
		if err := cmd.Process.Kill(); err != nil {
			g.t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	lines = bufio.NewReader(out)
	switch line, err := lines.ReadString('\n'); {
	case line == "PASS\n": // it has skipped the test
		_ = cmd.Wait()
		needs.Skip(g.t, needs.Ptrace, "the system allows it to the parent of a program only")
	case err != nil || line != word+"\n":
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		g.t.Fatalf("the other process says %q, %v", line, err)
	}
	return lines, kill
}

// targetIn opens the process whose number a variable of the environment has.
func targetIn(t *testing.T, variable string) *testProgram {
	var pid int
	if _, err := fmt.Sscan(os.Getenv(variable), &pid); err != nil {
		t.Fatal(err)
	}
	p, err := process.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	return &testProgram{t: t, p: p}
}

// switcher switches everything on and off until it is killed.
func switcher(t *testing.T) {
	g := targetIn(t, "PATCH_SWITCHER")
	sites := g.sites("*")
	fmt.Println("switching")
	for {
		if err := g.open(sites, Options{Mode: trace.Exits, RingSize: 1 << 16}).Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRivals has two footfalls begin and end traces of one program at the same time: each of them finds that it is
// the only one, or leaves the program alone.
func TestRivals(t *testing.T) {
	if os.Getenv("PATCH_RIVAL") != "" {
		rival(t)
		return
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	g := start(t, build(t, "g++-12", "stress.cc", "-fpatchable-function-entry=5"))
	text := g.text()
	for range 3 {
		_, killFirst := g.another("PATCH_RIVAL", "ready")
		_, killSecond := g.another("PATCH_RIVAL", "ready")
		time.Sleep(150 * time.Millisecond)
		killFirst()
		killSecond()
		if answer := g.say("status"); !strings.HasSuffix(answer, " 0 bad") {
			t.Fatalf("the program says %q", answer)
		}
		if _, err := Repair(g.p); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, g.text()) {
			t.Fatal("the code is not what it was")
		}
	}
	g.In.Close()
	if end := g.Line(); end != "end: 0 bad" {
		t.Errorf("at its end the program says %q", end)
	}
}

// rival is one of the two.
func rival(t *testing.T) {
	g := targetIn(t, "PATCH_RIVAL")
	sites := g.sites("*")
	for begun := false; ; {
		s, err := Open(g.p, sites, Options{Mode: trace.Exits, RingSize: 1 << 16})
		if skipForbidden(t, err); err != nil {
			continue // the other one traces it
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !begun {
			fmt.Println("ready")
			begun = true
		}
		time.Sleep(2 * time.Millisecond) // for the other one
	}
}
