//go:build linux

package uprobe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"footfall/binary"
	"footfall/binary/unwind"
	"footfall/process"
	"footfall/process/needs"
	"footfall/process/processtest"
	"footfall/trace"
)

// target calls, in 4 threads and whenever it is told to, functions that count
// themselves, and says how often.
const target = `
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
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

static void *serve(void *p)
{
	puts("ready");
	fflush(stdout);
	for (int c; (c = getchar()) == '\n' || c == 'f' || c == 'h';) {
		pthread_t t[4];
		if (c == 'h') { /* another thread goes on when this one has ended */
			pthread_create(&t[0], 0, serve, 0);
			pthread_detach(t[0]);
			return 0;
		}
		if (c == 'f') { /* a child that waits */
			int child = fork();
			if (child == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				for (;;)
					pause();
			}
			printf("%d\n", child);
			fflush(stdout);
			continue;
		}
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

int main(int argc, char **argv)
{
	pthread_t t;
	if (argc == 1)
		return serve(0) != 0;
	pthread_create(&t, 0, serve, 0);
	pthread_exit(0);
}
`

// A program is a running target.
type program struct {
	*processtest.Program
	cmd  *exec.Cmd
	path string
}

func build(t *testing.T, flags ...string) string {
	t.Helper()
	return processtest.Compile(t, target, append([]string{"-O2", "-lpthread"}, flags...)...)
}

func start(t *testing.T, path string, args ...string) *program {
	t.Helper()
	cmd := exec.Command(path, args...)
	p := &program{processtest.Start(t, cmd), cmd, path}
	p.Line() // until then its memory may be that of what it was before
	return p
}

// run lets the program call its functions, and returns how often it did.
func (p *program) run(t *testing.T) (leafs, outers, tails uint64) {
	t.Helper()
	if _, err := fmt.Sscan(p.Say(""), &leafs, &outers, &tails); err != nil {
		t.Fatal(err)
	}
	return leafs, outers, tails
}

var names = []string{"leaf", "outer", "tail", "main", "locked"}

// probes finds the functions of names.
func (p *program) probes(t *testing.T) []Probe {
	t.Helper()
	return p.probesOf(t, names)
}

// probesOf finds functions; their IDs are indexes of names.
func (p *program) probesOf(t *testing.T, names []string) []Probe {
	t.Helper()
	f, err := os.Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := binary.Open(f)
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

// image opens the program that a process runs. bias is what to add to addresses of the file.
func image(t *testing.T, pid int) (p *process.Process, file *binary.File, bias uint64) {
	t.Helper()
	p, err := process.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	maps, _, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	image := p.Images(maps)[0]
	f, err := image.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if file, err = binary.Open(f); err != nil {
		t.Fatal(err)
	}
	return p, file, file.Bias(image.Start)
}

// rows returns the unwind rows of the running program itself.
func (p *program) rows(t *testing.T) []unwind.CompactRow {
	t.Helper()
	_, file, bias := image(t, p.cmd.Process.Pid)
	rows, err := file.UnwindRows()
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i].Addr += bias
	}
	return rows
}

// lostOf returns how many events or calls found no room.
func lostOf(s *ProbeSet) uint64 {
	events, _, _ := s.Lost()
	return events
}

func open(t *testing.T, o Options) *ProbeSet {
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
func (p *program) attachTo(t *testing.T, s *ProbeSet, probes []Probe) map[uint32]error {
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

func (p *program) attach(t *testing.T, s *ProbeSet) {
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
		s := open(t, Options{PID: p.cmd.Process.Pid, Mode: trace.Counts, single: single})
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
		s := open(t, Options{PID: p.cmd.Process.Pid, Mode: trace.Exits, BufferSize: 1 << 22, single: single})
		p.attach(t, s)
		leafs, outers, tails := p.run(t)
		if err := s.Detach(); err != nil {
			t.Fatal(err)
		}
		calls := make(map[uint32]uint64)
		stacks, last := make(map[int][]ProbeEvent), make(map[int]uint64)
		n := s.Read(func(events []ProbeEvent) {
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
		s := open(t, Options{PID: p.cmd.Process.Pid, Mode: trace.Exits, BufferSize: 1 << 22, single: single})
		probes := p.probes(t)
		for i := range probes {
			if names[probes[i].ID] == "leaf" {
				probes[i].Arguments = []trace.Capture{{Kind: trace.CaptureWord}, {Kind: trace.CaptureString}}
			}
		}
		p.attachTo(t, s, probes)
		leafs, _, _ := p.run(t)
		if err := s.Detach(); err != nil {
			t.Fatal(err)
		}
		var calls, sum uint64
		s.Read(func(events []ProbeEvent) {
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
		var arguments []trace.Capture
		for i := range maxArguments {
			arguments = append(arguments, trace.Capture{Kind: trace.CaptureWord + trace.CaptureKind(strings>>i&1), Index: i})
		}
		if words := argumentWords(b, arguments); len(words) > len(b)/8 {
			t.Errorf("%d words of %d bytes", len(words), len(b))
		}
	})
}

// TestLost fills a small buffer: what finds no room is counted.
func TestLost(t *testing.T) {
	p := start(t, build(t))
	s := open(t, Options{PID: p.cmd.Process.Pid, Mode: trace.Entries, BufferSize: os.Getpagesize()})
	p.attach(t, s)
	leafs, outers, tails := p.run(t)
	n := s.Read(func([]ProbeEvent) {})
	if lost := lostOf(s); lost == 0 || uint64(n)+lost != leafs+outers+tails {
		t.Errorf("%d events and %d lost, want %d together", n, lost, leafs+outers+tails)
	}
}

// TestChains counts the chains of callers of leaf, without frame pointers.
func TestChains(t *testing.T) {
	ways(t, func(t *testing.T, path string, single bool) {
		p := start(t, path)
		s := open(t, Options{PID: p.cmd.Process.Pid, Mode: trace.Chains, BufferSize: 1 << 20, ChainDepth: 3, Rows: p.rows(t), single: single})
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
	s := open(t, Options{PID: p.cmd.Process.Pid, Mode: trace.Chains, BufferSize: 1, ChainDepth: 30, Rows: p.rows(t)})
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
	s := open(t, Options{PID: p.cmd.Process.Pid, Mode: trace.Counts})
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
