//go:build linux

package patch

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"footfall/process"
	"footfall/process/needs"
	"footfall/process/target"
	"footfall/trace"
)

// TestChains compares counted chains with the known ones, in programs without
// and with frame pointers.
func TestChains(t *testing.T) {
	builds := []string{"-fomit-frame-pointer", "-fno-omit-frame-pointer", "-fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables"}
	if native == arm64 {
		builds = append(builds, "-fomit-frame-pointer -mbranch-protection=standard", "-mbranch-protection=standard -fno-asynchronous-unwind-tables -fno-unwind-tables")
	}
	for _, flags := range builds {
		t.Run(flags, func(t *testing.T) {
			g := start(t, build(t, "gcc-12", "cost.c", append([]string{"-fpatchable-function-entry=5", "-fno-inline", "-fno-ipa-cp"}, strings.Fields(flags)...)...))
			s := g.open(g.sites("leaf"), Options{Mode: trace.Chains, ChainDepth: 4})
			defer s.Close()
			g.say("chain 4000")
			g.say("leaf 400")
			images, err := target.Images(g.p)
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]uint64)
			for _, c := range s.Chains() {
				var names []string
				for _, a := range c.Addresses {
					for _, i := range images {
						if i.Contains(a - 1) {
							if fn, _ := i.Function(a - 1); fn != nil {
								names = append(names, fn.Name)
							}
						}
					}
				}
				if len(names) > 1 && names[0] == "main" {
					names = names[:1] // the functions of libc around it have many names
				}
				got[strings.Join(names, " ")] += c.Count
			}
			if way := s.ChainWay(s.Chains()); way != (ChainWay{Described: true, Pointers: strings.Contains(flags, "tables")}) {
				t.Errorf("callers were found %+v", way)
			}
			if len(got) != 2 || got["third second first main"] != 4000 || got["main"] != 400 {
				t.Errorf("chains are %v", got)
			}
		})
	}
}

// TestChainsNewThread checks that a thread that is made meanwhile learns where its
// stack is, and follows frame pointers.
func TestChainsNewThread(t *testing.T) {
	g := start(t, build(t, "gcc-12", "newthread.c", "-fpatchable-function-entry=5", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-ipa-cp"))
	s := g.open(g.sites("leaf"), Options{Mode: trace.Chains, ChainDepth: 2})
	defer s.Close()
	g.say("thread")
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if err := s.Recycle(); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(s.Chains(), func(c trace.Chain) bool { return len(c.Addresses) == 2 }) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("chains are %v", s.Chains())
		}
	}
}

// TestFilters compares the calls that filters let pass.
func TestFilters(t *testing.T) {
	program := build(t, "gcc-12", "calls.c", "-fpatchable-function-entry=5")
	jumped := 0 // calls of the function which tail jumps to, where durations count: it has exits of its own then
	if exitsAreSites {
		jumped = 100
	}
	for name, test := range map[string]struct {
		filter trace.Filter
		root   string
		want   string
	}{
		"depth": {trace.Filter{Depth: 1}, "", "fib:100 middle:100 tail:100 tailed:0 leaf:0"},
		"two":   {trace.Filter{Depth: 2}, "", "fib:300 middle:100 tail:100 tailed:100 leaf:300"},
		"roots": {trace.Filter{Roots: true}, "middle", "fib:0 middle:100 tail:0 tailed:0 leaf:300"},
		"long":  {trace.Filter{MinTime: 1 << 60}, "", "fib:0 middle:0 tail:0 tailed:0 leaf:0"},
		"short": {trace.Filter{MinTime: 1}, "", fmt.Sprintf("fib:17700 middle:100 tail:100 tailed:%d leaf:300", jumped)},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, program)
			sites := g.sites("leaf", "middle", "fib", "tail", "tailed")
			for _, s := range sites {
				s.Root = s.Function.Name == test.root
			}
			s := g.open(sites, Options{Mode: trace.Filtered, Filter: test.filter})
			defer s.Close()
			y := g.tally(s, "run 100")
			got := fmt.Sprintf("fib:%d middle:%d tail:%d tailed:%d leaf:%d", y.entries["fib"], y.entries["middle"], y.entries["tail"], y.entries["tailed"], y.entries["leaf"])
			if got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
			for f, n := range y.entries {
				if y.exits[f] != n && (exitsAreSites || f != "tailed") {
					t.Errorf("%s: %d entries, %d exits", f, n, y.exits[f])
				}
			}
		})
	}
}

// TestSample checks that of calls which take turns all kinds are sampled.
func TestSample(t *testing.T) {
	g := start(t, build(t, "gcc-12", "calls.c", "-fpatchable-function-entry=5"))
	s := g.open(g.sites("fib", "middle", "tail"), Options{Mode: trace.Filtered, Filter: trace.Filter{Depth: 1, Period: 3}})
	defer s.Close()
	y := g.tally(s, "run 3000")
	for _, f := range []string{"fib", "middle", "tail"} {
		if n := y.entries[f]; n < 800 || n > 1200 || y.exits[f] != n {
			t.Errorf("%s: %d entries of 3000, %d exits", f, n, y.exits[f])
		}
	}
}

// TestNewest checks that the newest events are kept when nobody reads.
func TestNewest(t *testing.T) {
	g := start(t, build(t, "gcc-12", "calls.c", "-fpatchable-function-entry=5"))
	s := g.open(g.sites("middle", "tail"), Options{Mode: trace.Entries, Newest: true, RingSize: 4096})
	defer s.Close()
	g.say("run 10001")
	if err := s.SwitchOff(); err != nil {
		t.Fatal(err)
	}
	var last string
	n := s.Read(func(_ process.ThreadStatus, events []SiteEvent) {
		last = s.Site(events[len(events)-1].ID).Function.Name
	})
	if n != 256 || last != "tail" {
		t.Errorf("%d events, the last one of %q", n, last)
	}
}

// TestKilled kills a footfall in the middle of a trace: the program goes on,
// and the next one restores it.
func TestKilled(t *testing.T) {
	if os.Getenv("PATCH_VICTIM") != "" {
		victim(t)
		return
	}
	g := start(t, build(t, "gcc-12", "calls.c", "-fpatchable-function-entry=5"))
	text := g.text()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("PATCH_VICTIM=%d", g.p.PID))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	switch {
	case line == "PASS\n": // it has skipped the test
		_ = cmd.Wait()
		needs.Skip(t, needs.Ptrace, "the system allows it to the parent of a program only")
	case err != nil || line != "on\n":
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the other process says %q, %v", line, err)
	}
	sites := g.sites("leaf", "fib")
	if _, err := Open(g.p, sites, Options{Mode: trace.Exits}); err == nil || !strings.Contains(err.Error(), "traces it already") {
		t.Errorf("a second session: error %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if bytes.Equal(text, g.text()) {
		t.Error("the code is not changed by the one that was killed")
	}
	if got := g.say("run 20000"); got != "ok 20000" {
		t.Errorf("the program says %q", got)
	}
	n, err := Repair(g.p)
	if err != nil || n != len(sites) {
		t.Errorf("Repair = %d, %v, want %d", n, err, len(sites))
	}
	if !bytes.Equal(text, g.text()) {
		t.Error("the code is not what it was")
	}
	if got := g.say("run 10"); got != "ok 10" {
		t.Errorf("the program says %q", got)
	}
	s := g.open(sites, Options{Mode: trace.Exits})
	defer s.Close()
	if y := g.tally(s, "run 10"); y.entries["leaf"] != 30 || y.exits["leaf"] != 30 {
		t.Errorf("afterwards: %v", y)
	}
}

// victim traces and waits to be killed.
func victim(t *testing.T) {
	g := targetIn(t, "PATCH_VICTIM")
	g.open(g.sites("leaf", "fib"), Options{Mode: trace.Exits})
	fmt.Println("on")
	time.Sleep(time.Minute)
}
