package uprobe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"footfall/exe"
	"footfall/proc"
	"footfall/proc/needs"
)

// target calls, in 4 threads and whenever it is told to, functions that count
// themselves, and says how often.
const target = `
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static long leafs, outers, tails;
static volatile int sink;
#define COUNT(n) (sink = 1, __atomic_add_fetch(&n, 1, __ATOMIC_RELAXED))

__attribute__((noinline)) int leaf(int x) { COUNT(leafs); return x * 3 + 1; }
__attribute__((noinline)) int outer(int x)
{
	volatile char frame[600];
	COUNT(outers);
	frame[x & 63] = x;
	return leaf(x) + leaf(x + 1) + frame[0];
}
__attribute__((noinline)) int tail(int x) { COUNT(tails); return leaf(x); }

/* The kernel cannot step over its first instruction. */
int locked(void);
__asm__(".text\n.globl locked\n.type locked,@function\nlocked:\n"
	"\tlock addl $1, counter(%rip)\n\tmovl $0, %eax\n\tret\n.size locked, .-locked\n"
	".data\n.globl counter\ncounter: .long 0\n.text");

static void *work(void *p)
{
	for (int i = 0; i < 500; i++) {
		outer(i);
		tail(i);
		locked();
	}
	return p;
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	while (getchar() == '\n') {
		pthread_t t[4];
		leafs = outers = tails = 0;
		if (fork() == 0) { /* its calls are its own */
			work(0);
			_exit(0);
		}
		for (int i = 0; i < 4; i++)
			pthread_create(&t[i], 0, work, 0);
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], 0);
		wait(0);
		printf("%ld %ld %ld\n", leafs, outers, tails);
		fflush(stdout);
	}
	return 0;
}
`

// A program is a running target.
type program struct {
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Scanner
	path string
}

func build(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "target.c"), filepath.Join(dir, "target")
	if err := os.WriteFile(source, []byte(target), 0o666); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O2", "-o", path, source, "-lpthread"}, flags...)
	if out, err := exec.Command("gcc-12", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func start(t *testing.T, path string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(path), path: path}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	t.Cleanup(func() {
		in.Close()
		p.cmd.Wait()
	})
	if !p.out.Scan() { // until then its memory may be that of what it was before
		t.Fatal("the program has ended")
	}
	return p
}

// run lets the program call its functions, and returns how often it did.
func (p *program) run(t *testing.T) (leafs, outers, tails uint64) {
	t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil || !p.out.Scan() {
		t.Fatal("the program has ended: ", err)
	}
	if _, err := fmt.Sscan(p.out.Text(), &leafs, &outers, &tails); err != nil {
		t.Fatal(err)
	}
	return leafs, outers, tails
}

var names = []string{"leaf", "outer", "tail", "main", "locked"}

// probes finds the functions of names; their IDs are indexes of it.
func (p *program) probes(t *testing.T) []Probe {
	t.Helper()
	f, err := os.Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := exe.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	functions, err := file.Functions()
	if err != nil {
		t.Fatal(err)
	}
	var list []Probe
	for _, fn := range functions {
		if i := slices.Index(names, fn.Name); i >= 0 {
			list = append(list, Probe{File: p.path, Offset: file.FileOffset(fn.Addr), ID: uint32(i)})
		}
	}
	if len(list) != len(names) {
		t.Fatalf("found %v", list)
	}
	return list
}

// rows returns the unwind rows of the running program itself.
func (p *program) rows(t *testing.T) []exe.UnwindRow {
	t.Helper()
	process, err := proc.Open(p.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	maps, _, err := process.Maps()
	if err != nil {
		t.Fatal(err)
	}
	image := process.Images(maps)[0]
	f, err := image.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := exe.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := file.UnwindRows()
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i].Addr += file.Bias(image.Start)
	}
	return rows
}

// lostOf returns how many events or calls found no room.
func lostOf(s *Session) uint64 {
	events, _, _ := s.Lost()
	return events
}

func open(t *testing.T, o Options) *Session {
	t.Helper()
	s, err := Open(o)
	var refused *PermissionError
	if errors.As(err, &refused) {
		needs.Skip(t, needs.Uprobes, refused.Err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// attachTo attaches probes that are switched on.
func (p *program) attachTo(t *testing.T, s *Session, probes []Probe) map[uint32]error {
	t.Helper()
	if err := s.Switch(probes); err != nil {
		t.Fatal(err)
	}
	skipped, err := s.Attach(probes)
	if err != nil {
		t.Fatal(err)
	}
	return skipped
}

func (p *program) attach(t *testing.T, s *Session) {
	t.Helper()
	skipped := p.attachTo(t, s, p.probes(t))
	if len(skipped) != 1 || skipped[4] == nil {
		t.Errorf("skipped %v, want locked only", skipped)
	}
}

// ways are of setting probes, and of linking programs.
func ways(t *testing.T, test func(t *testing.T, path string, single bool)) {
	for name, flags := range map[string][]string{"pie": {"-pie"}, "no-pie": {"-no-pie"}} {
		path := build(t, flags...)
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/single=%v", name, single), func(t *testing.T) { test(t, path, single) })
		}
	}
}

// TestCounts compares counts with the program's own; those of another process
// that runs the same program, and of a child, do not count.
func TestCounts(t *testing.T) {
	ways(t, func(t *testing.T, path string, single bool) {
		p, other := start(t, path), start(t, path)
		s := open(t, Options{PID: p.cmd.Process.Pid, Mode: Counts, single: single})
		p.attach(t, s)
		for range 2 {
			other.run(t)
			p.run(t)
		}
		leafs, outers, tails := p.run(t)
		if err := s.Detach(); err != nil {
			t.Fatal(err)
		}
		p.run(t) // not watched
		counts, err := s.Counts()
		if err != nil {
			t.Fatal(err)
		}
		want := []uint64{3 * leafs, 3 * outers, 3 * tails, 0, 0}
		for i, name := range names {
			if counts[uint32(i)] != want[i] {
				t.Errorf("%s: %d calls, want %d", name, counts[uint32(i)], want[i])
			}
		}
		if leafs != 6000 || lostOf(s) != 0 {
			t.Errorf("%d leafs, want 6000; lost %d", leafs, lostOf(s))
		}
	})
}

// TestEvents checks that the events of each thread are those of calls within
// each other, in order, and that there are as many as calls.
func TestEvents(t *testing.T) {
	ways(t, func(t *testing.T, path string, single bool) {
		p := start(t, path)
		s := open(t, Options{PID: p.cmd.Process.Pid, Mode: Exits, BufferSize: 1 << 22, single: single})
		p.attach(t, s)
		leafs, outers, tails := p.run(t)
		if err := s.Detach(); err != nil {
			t.Fatal(err)
		}
		calls := make(map[uint32]uint64)
		stacks, last := make(map[int][]Event), make(map[int]uint64)
		n := s.Read(func(events []Event) {
			for _, e := range events {
				stack := stacks[e.TID]
				if e.Time < last[e.TID] {
					t.Fatalf("thread %d: time goes back", e.TID)
				}
				last[e.TID] = e.Time
				if !e.Exit {
					if len(stack) > 0 && e.Stack > stack[len(stack)-1].Stack {
						t.Fatalf("call of %s at %x, within one at %x", names[e.ID], e.Stack, stack[len(stack)-1].Stack)
					}
					calls[e.ID]++
					stacks[e.TID] = append(stack, e)
					continue
				}
				if len(stack) == 0 || stack[len(stack)-1].ID != e.ID || stack[len(stack)-1].Stack != e.Stack {
					t.Fatalf("exit of %s at %x, the open calls are %v", names[e.ID], e.Stack, stack)
				}
				stacks[e.TID] = stack[:len(stack)-1]
			}
		})
		if calls[0] != leafs || calls[1] != outers || calls[2] != tails || uint64(n) != 2*(leafs+outers+tails) || len(stacks) != 4 || lostOf(s) != 0 {
			t.Errorf("got %v, %d events of %d threads, want %d %d %d; lost %d", calls, n, len(stacks), leafs, outers, tails, lostOf(s))
		}
	})
}

// TestArguments adds up what leaf is called with, by both ways to set probes.
func TestArguments(t *testing.T) {
	ways(t, func(t *testing.T, path string, single bool) {
		p := start(t, path)
		s := open(t, Options{PID: p.cmd.Process.Pid, Mode: Exits, BufferSize: 1 << 22, single: single})
		probes := p.probes(t)
		for i := range probes {
			if names[probes[i].ID] == "leaf" {
				probes[i].Arguments = []Argument{{Index: 0}, {Index: 0, String: true}}
			}
		}
		p.attachTo(t, s, probes)
		leafs, _, _ := p.run(t)
		if err := s.Detach(); err != nil {
			t.Fatal(err)
		}
		var calls, sum uint64
		s.Read(func(events []Event) {
			for _, e := range events {
				switch {
				case e.Exit || names[e.ID] != "leaf":
					if e.Words != nil {
						t.Fatalf("%s has arguments %x", names[e.ID], e.Words)
					}
					continue
				case len(e.Words) != 3 || e.Words[2] != stringBad || uint32(e.Words[0]) != uint32(e.Words[1]):
					t.Fatalf("the arguments of leaf are %x", e.Words) // small numbers, which are no strings
				}
				calls++
				sum += uint64(uint32(e.Words[0]))
			}
		})
		// leaf(i), leaf(i + 1) and leaf(i), for i below 500, in 4 threads
		if want := uint64(4 * (3*(499*500/2) + 500)); calls != leafs || sum != want || lostOf(s) != 0 {
			t.Errorf("%d calls with the sum %d, want %d with %d; lost %d", calls, sum, leafs, want, lostOf(s))
		}
	})
}

func FuzzArgumentWords(f *testing.F) {
	f.Add(append(make([]byte, 8+8), "\x03\x00\x00\x00\x00\x00\x00\x00ab"+strings.Repeat("\x00", 54)...), uint8(2))
	f.Add([]byte("12345678"), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, strings uint8) {
		var arguments []Argument
		for i := range maxArguments {
			arguments = append(arguments, Argument{Index: i, String: strings>>i&1 != 0})
		}
		if words := argumentWords(b, arguments); len(words) > len(b)/8 {
			t.Errorf("%d words of %d bytes", len(words), len(b))
		}
	})
}

// TestLost fills a small buffer: what finds no room is counted.
func TestLost(t *testing.T) {
	p := start(t, build(t))
	s := open(t, Options{PID: p.cmd.Process.Pid, Mode: Entries, BufferSize: os.Getpagesize()})
	p.attach(t, s)
	leafs, outers, tails := p.run(t)
	n := s.Read(func([]Event) {})
	if lost := lostOf(s); lost == 0 || uint64(n)+lost != leafs+outers+tails {
		t.Errorf("%d events and %d lost, want %d together", n, lost, leafs+outers+tails)
	}
}

// TestChains counts the chains of callers of leaf, without frame pointers.
func TestChains(t *testing.T) {
	ways(t, func(t *testing.T, path string, single bool) {
		p := start(t, path)
		s := open(t, Options{PID: p.cmd.Process.Pid, Mode: Chains, BufferSize: 1 << 20, ChainDepth: 3, Rows: p.rows(t), single: single})
		probes := p.probes(t)
		p.attachTo(t, s, probes[slices.IndexFunc(probes, func(p Probe) bool { return names[p.ID] == "leaf" }):][:1])
		leafs, outers, _ := p.run(t)
		chains, err := s.Chains()
		if err != nil {
			t.Fatal(err)
		}
		// outer calls from two places, tail jumps: then work is the caller. Where
		// work was called from is in libc, which has no rows here.
		var counts []uint64
		total := uint64(0)
		for _, c := range chains {
			counts = append(counts, c.Count)
			total += c.Count
		}
		if total != leafs || lostOf(s) != 0 || !slices.Equal(counts, []uint64{outers, outers, outers}) {
			t.Errorf("got %v, want 3 chains of %d, %d in all; lost %d", chains, outers, leafs, lostOf(s))
		}
		depths := make(map[int]int)
		for _, c := range chains {
			depths[len(c.Addresses)]++
		}
		if depths[3] != 2 || depths[2] != 1 {
			t.Errorf("got %v, want two chains of 3 callers and one of 2", chains)
		}
	})
}

// TestFullTable counts chains that find no room.
func TestFullTable(t *testing.T) {
	p := start(t, build(t))
	s := open(t, Options{PID: p.cmd.Process.Pid, Mode: Chains, BufferSize: 1, ChainDepth: 30, Rows: p.rows(t)})
	if got := s.results.MaxEntries(); got != 256 {
		t.Errorf("room for %d chains", got)
	}
	// All rooms are taken by others.
	key := make([]byte, 8*30)
	for i := range 256 {
		key[100], key[101] = byte(i), 1
		if err := s.results.Put(key, uint64(0)); err != nil {
			t.Fatal(err)
		}
	}
	p.attach(t, s)
	leafs, outers, tails := p.run(t)
	if lost := lostOf(s); lost != leafs+outers+tails {
		t.Errorf("lost %d of %d", lost, leafs+outers+tails)
	}
}

// TestExit ends the program while it is watched.
func TestExit(t *testing.T) {
	p := start(t, build(t))
	s := open(t, Options{PID: p.cmd.Process.Pid, Mode: Counts})
	p.attach(t, s)
	p.cmd.Process.Kill()
	p.cmd.Wait()
	if skipped, err := s.Attach(p.probes(t)); err == nil && len(skipped) == 0 {
		t.Error("probes in a process that has ended")
	}
}

func TestIsCalled(t *testing.T) {
	for symbol, want := range map[string]bool{
		"main": true, "f.part.0": true, "_Z1fv": true, "coldest": true,
		"f.cold": false, "_init": false, "_rt0_amd64_linux": false, "f.cold.12": false, "_start": false, "vfork": false, "_dl_runtime_resolve_xsavec": false,
	} {
		if got := IsCalled(symbol); got != want {
			t.Errorf("IsCalled(%q) = %v", symbol, got)
		}
	}
}

func TestMisread(t *testing.T) {
	for code, want := range map[string]bool{
		"\xc5\xfa\x7e\x0e\xc5": true,  // vmovq (%rsi),%xmm1
		"\xc4\xc1\x7a\x7e\x0e": true,  // vmovq (%r14),%xmm1
		"\xc5\xf8\x77\xc3\x90": true,  // vzeroupper
		"\xc5\xf8\x57\xc0\xc3": false, // vxorps
		"\x7e\x0e\xc3\x90\x90": false, // jle
		"\x55\x48\x89\xe5\xc5": false, // push
		"\xc5":                 false,
		"\xc4\xc1":             false,
		"":                     false,
	} {
		if got := misread([]byte(code)); got != want {
			t.Errorf("% x: %v", code, got)
		}
	}
}
