//go:build linux

package patch

import (
	"fmt"
	"footfall/process/target"
	"footfall/trace"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bareFlags leave nothing by which callers are found on the stack.
var bareFlags = []string{"-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fpatchable-function-entry=5"}

// noCFI returns the functions without call-frame information of all images of the target.
func (g *testProgram) noCFI() (all []NoCFI) {
	g.t.Helper()
	images, err := target.Images(g.p)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, i := range images {
		g.t.Cleanup(i.Close)
		var moves func(string) bool
		if moving && !isSystem(i.Path) {
			moves = func(string) bool { return true }
		}
		found, err := FindNoCFI(g.p, i, moves)
		if err != nil {
			g.t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// chains returns the chains, by the names of functions down to the outermost one
// that is no longer of interest.
func (g *testProgram) chains(s *Session) map[string]uint64 {
	g.t.Helper()
	images, err := target.Images(g.p)
	if err != nil {
		g.t.Fatal(err)
	}
	named := make(map[string]uint64)
	for _, c := range s.Chains() {
		var names []string
		for _, a := range c.Addresses {
			name := fmt.Sprintf("%#x", a)
			for _, i := range images {
				if !i.Contains(a - 1) {
					continue
				}
				name = filepath.Base(i.Path) // where nothing has names
				if fn, _ := i.Function(a - 1); fn != nil {
					name = fn.Name
				}
			}
			if strings.Contains(name, "qsort") || strings.Contains(name, "msort") {
				name = "qsort"
			}
			names = append(names, name)
			if name == "main" || name == "run" {
				break
			}
		}
		named[strings.Join(names, " ")] += c.Count
	}
	for _, i := range images {
		i.Close()
	}
	return named
}

// difference says in which lines two maps differ.
func difference(got, want map[string]uint64) string {
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if want[k] != got[k] {
			lines = append(lines, fmt.Sprintf("%s: %d, want %d", k, got[k], want[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[k]; !ok {
			lines = append(lines, fmt.Sprintf("%s: none, want %d", k, want[k]))
		}
	}
	return strings.Join(lines, "\n")
}

// TestTracedCallers compares the chains in a program that has neither tables nor
// frame pointers with those that .eh_frame gives in the same program: recursion,
// tail calls, longjmp, callbacks of libc, threads.
func TestTracedCallers(t *testing.T) {
	for _, command := range []string{"work 50", "threads 50"} {
		for _, function := range []string{"leaf", "tree"} {
			t.Run(command+" "+function, func(t *testing.T) {
				g := start(t, build(t, "gcc-12", "chains.c", "-fomit-frame-pointer", "-fpatchable-function-entry=5"))
				s := g.open(g.sites(function), Options{Mode: trace.Chains, ChainDepth: 12, NoCFI: g.noCFI()})
				g.say(command)
				want := g.chains(s)
				if way := s.ChainWay(s.Chains()); way != (ChainWay{Described: true}) || s.Leading() != 0 {
					t.Errorf("with tables callers were found %+v, %d functions traced", way, s.Leading())
				}
				s.Close()

				g = start(t, build(t, "gcc-12", "chains.c", bareFlags...))
				text := g.text()
				s = g.open(g.sites(function), Options{Mode: trace.Chains, ChainDepth: 12, NoCFI: g.noCFI()})
				g.say(command)
				if diff := difference(g.chains(s), want); diff != "" {
					t.Error(diff)
				}
				if way := s.ChainWay(s.Chains()); !way.Traced || way.Pointers {
					t.Errorf("callers were found %+v", way)
				}
				if lost, _ := s.Lost(); lost != 0 || len(want) < 3 {
					t.Errorf("%d calls lost, %d chains", lost, len(want))
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if string(text) != string(g.text()) {
					t.Error("the code is not what it was")
				}
				g.say(command)
			})
		}
	}
}

// TestTracedCallersApart checks chains through functions without room.
func TestTracedCallersApart(t *testing.T) {
	g := start(t, build(t, "gcc-12", "chains.c", bareFlags...))
	s := g.open(g.sites("leaf"), Options{Mode: trace.Chains, ChainDepth: 12, NoCFI: g.noCFI()})
	defer s.Close()
	g.say("apart 50")
	want := map[string]uint64{"plain over apart main": 50, "left through above apart main": 50}
	if moving { // which these functions need no room for
		want = map[string]uint64{"plain plainer over apart main": 50, "left through above apart main": 50}
	}
	if diff := difference(g.chains(s), want); diff != "" {
		t.Error(diff)
	}
}

// TestTracedCallersSignals checks that handlers at any time do not mix up chains.
func TestTracedCallersSignals(t *testing.T) {
	const command = "threads 2000"
	all := make(map[bool]map[string]uint64)
	for _, bare := range []bool{false, true} {
		flags := []string{"-fomit-frame-pointer", "-fpatchable-function-entry=5"}
		if bare {
			flags = bareFlags
		}
		g := start(t, build(t, "gcc-12", "chains.c", flags...))
		s := g.open(g.sites("leaf"), Options{Mode: trace.Chains, ChainDepth: 8, NoCFI: g.noCFI()})
		stop, stopped := make(chan bool), make(chan bool)
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					_ = syscall.Kill(g.cmd.Process.Pid, syscall.SIGUSR1)
				}
			}
		}()
		g.say(command)
		close(stop)
		<-stopped
		chains := g.chains(s)
		maps.DeleteFunc(chains, func(chain string, _ uint64) bool { return strings.HasPrefix(chain, "left on_signal") })
		all[bare] = chains
		s.Close()
	}
	if diff := difference(all[true], all[false]); diff != "" {
		t.Error(diff)
	}
}

// TestTracedCallersSwitched switches on and off while threads call: what had begun
// before ends its chain, and nothing else happens to it.
func TestTracedCallersSwitched(t *testing.T) {
	g := start(t, build(t, "gcc-12", "chains.c", bareFlags...))
	text, sites := g.text(), g.sites("leaf", "tree")
	noCFI := g.noCFI()
	stop, done := make(chan bool), make(chan string)
	go func() {
		for {
			select {
			case <-stop:
				close(done)
				return
			case done <- g.say("threads 1000"):
			}
		}
	}()
	for range 20 {
		s := g.open(sites, Options{Mode: trace.Chains, ChainDepth: 8, NoCFI: noCFI})
		if got := <-done; got != "threads 1000" {
			t.Errorf("the program says %q", got)
		}
		s.Close()
	}
	go close(stop)
	for range done {
	}
	if string(text) != string(g.text()) {
		t.Error("the code is not what it was")
	}
}

// TestTracedCallersDeep checks that chains end where there are more open calls than
// are noted, and only there.
func TestTracedCallersDeep(t *testing.T) {
	g := start(t, build(t, "gcc-12", "chains.c", bareFlags...))
	s := g.open(g.sites("leaf"), Options{Mode: trace.Chains, ChainDepth: 4, NoCFI: g.noCFI()})
	defer s.Close()
	g.say("down 100000")
	g.say("down 1")
	want := map[string]uint64{"down": 1, "down down main": 1}
	if diff := difference(g.chains(s), want); diff != "" {
		t.Error(diff)
	}
}

// FuzzNoCFI reads code that is none.
func FuzzNoCFI(f *testing.F) {
	f.Add([]byte("\x55\x48\x89\xe5\xe8\x00\x00\x00\x00\x5d\xc3"))
	f.Add([]byte("\x55\x53\x48\x89\xe5\xc3"))
	f.Fuzz(func(t *testing.T, code []byte) {
		if (keepsFramePointerAMD64(code) && len(code) < 4) || keepsFramePointerARM64(code) && len(code) < 8 {
			t.Errorf("% x: a frame pointer", code)
		}
		if !callsAMD64(code) && keepsFramePointerAMD64(append([]byte{0x55, 0x48, 0x89, 0xe5}, code...)) != true {
			t.Errorf("% x: no frame pointer", code)
		}
	})
}

func TestKeepsFramePointer(t *testing.T) {
	for code, want := range map[string]bool{
		"\x55\x48\x89\xe5\xc3":             true,  // push %rbp; mov %rsp,%rbp
		"\x55\x31\xc0\x48\x89\xe5\xc3":     true,  // another instruction between
		"\x55\x53\x48\x89\xe5\xc3":         false, // push %rbx between: %rbp is something else
		"\x55\x48\x83\xec\x18\x48\x89\xe5": false, // sub $24,%rsp between
		"\x53\xc3":                         false,
	} {
		if got := keepsFramePointerAMD64([]byte(code)); got != want {
			t.Errorf("% x: %v", code, got)
		}
	}
}

// TestARM64Function compares what is said of functions with what is written.
func TestARM64Function(t *testing.T) {
	for text, want := range map[string][2]bool{
		"stp x29, x30, [sp, #-32]!; mov x29, sp; bl .":                    {true, true},
		"sub sp, sp, #48; stp x29, x30, [sp, #32]; add x29, sp, #32; ret": {true, false},
		"paciasp; stp x29, x30, [sp, #-512]!; mov x29, sp; blr x3":        {true, true},
		"stp x29, x30, [sp, #-32]!; mov x29, x0; blr x30":                 {false, true},
		"mov x29, sp; stp x29, x30, [sp, #-32]!; blraaz x2":               {false, true},
		"str x30, [sp, #-16]!; bl .-64":                                   {false, true},
		"stp x28, x30, [sp, #-16]!; add x29, sp, #16; br x3; b .":         {false, false},
		"blraa x1, sp": {false, true},
		"ret":          {false, false},
	} {
		code := []byte(assemble(t, ".arch armv8.3-a; "+text))
		if got := [2]bool{keepsFramePointerARM64(code), callsARM64(code)}; got != want {
			t.Errorf("%s: keeps a frame pointer, calls: %v, want %v", text, got, want)
		}
	}
}
