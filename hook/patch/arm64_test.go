//go:build linux

package patch

import (
	encoding "encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// TestARM64Instructions compares what is encoded with what binutils make of the
// same text, and the other way round.
func TestARM64Instructions(t *testing.T) {
	const at, code = 0x10000000, 0x10004000
	stub := func(mode trace.Mode) string {
		b := arm64.stubAt(mode, code, stubCode{at: at, resume: at - 0x123450, id: 0x2abcd})
		if len(b) != stubSize {
			t.Errorf("mode %d: a stub of %d bytes, want %d", mode, len(b), stubSize)
		}
		return string(b)
	}
	short := func(r routine) string { // a stub that sees no exit
		return fmt.Sprintf(`stp x16, x30, [sp, #-64]!
			bl .-4+%#x
			ldp x16, x30, [sp], #64
			b .-12-0x123450
			.fill 7, 4, 0xd4200000
			.word 0x2abcd`, code+arm64.offset(r)-at)
	}
	routine := func(r routine) uint64 { return code + arm64.offset(r) }
	for _, test := range []struct {
		name, got, text string
	}{
		{"near", string(arm64.jump(at, at+4)), "b .+4"},
		{"itself", string(arm64.jump(at, at)), "b ."},
		{"back", string(arm64.jump(at, at-4)), "b .-4"},
		{"farthest", string(arm64.jump(at, at+1<<27-4)), "b .+0x7fffffc"},
		{"farthest back", string(arm64.jump(at, at-1<<27)), "b .-0x8000000"},
		{"breakpoint", string(arm64.breakpoint), "brk #0"},
		{"entries", stub(trace.Entries), short(entryOnlyRoutine)},
		{"counts", stub(trace.Counts), short(countRoutine)},
		{"exits", stub(trace.Exits), fmt.Sprintf(`stp x16, x30, [sp, #-64]!
			bl .-4+%#x
			cbz x16, 1f
			ldr x16, [sp], #64
			bl .-16-0x123450
			stp x16, x30, [sp, #-64]!
			bl .-24+%#x
			ldp x16, x30, [sp], #64
			ret
			1: ldp x16, x30, [sp], #64
			b .-40-0x123450
			.word 0x2abcd`, routine(entryRoutine)-at, routine(exitRoutine)-at)},
	} {
		if want := assemble(t, test.text); test.got != want {
			t.Errorf("%s: % x, want % x", test.name, test.got, want)
		}
	}
	for _, target := range []uint64{at + 1<<27, at - 1<<27 - 4, at + 2} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a branch to %#x from %#x was encoded", target, uint64(at))
				}
			}()
			arm64.jump(at, target)
		}()
	}
	// A site and any stub of an island that it reaches reach each other.
	for _, site := range []uint64{at - uint64(arm64.reach) + 4, at + uint64(arm64.reach) - 4} {
		for _, stub := range []uint64{at + stubsAt, at + recordsAt - 4} {
			arm64.jump(site, stub)
			arm64.jump(stub, site)
		}
	}
}

// assemble returns the bytes of arm64 code.
func assemble(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	source, object, binary := filepath.Join(dir, "a.s"), filepath.Join(dir, "a.o"), filepath.Join(dir, "a.bin")
	if err := os.WriteFile(source, []byte(text+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"aarch64-linux-gnu-as", "-o", object, source},
		{"aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", object, binary},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	b, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSupports compares what is refused before a process is touched.
func TestSupports(t *testing.T) {
	p := &process.Process{PID: 1}
	for _, test := range []struct {
		name    string
		cpu     *cpu
		options Options
		refused bool
	}{
		{"amd64 filtered", amd64, Options{Mode: trace.Filtered, Arguments: true}, false},
		{"arm64 exits", arm64, Options{Mode: trace.Exits}, false},
		{"arm64 filtered", arm64, Options{Mode: trace.Filtered}, false},
		{"arm64 chains", arm64, Options{Mode: trace.Chains}, false},
		{"arm64 arguments", arm64, Options{Mode: trace.Entries, Arguments: true}, false},
		{"another", new(cpu), Options{Mode: trace.Counts}, true},
	} {
		if err := test.cpu.supports(p, &test.options); errors.Is(err, ErrNotSupported) != test.refused {
			t.Errorf("%s: error %v, want one: %t", test.name, err, test.refused)
		}
	}
}

// TestStackRange compares where stacks are with maps as kernels make them.
func TestStackRange(t *testing.T) {
	small := process.Maps{{Start: 0x400000, End: 0x401000}, {Start: 0x7ffffde000, End: 0x7ffffff000}}
	for _, test := range []struct {
		cpu  *cpu
		maps process.Maps
		want [2]uint64
	}{
		{arm64, process.Maps{{Start: 0xaaaaaaaa0000, End: 0xaaaaaaaa1000}, {Start: 0xfffffffdf000, End: 0x1000000000000}}, [2]uint64{0xfe0000000000, 1 << 41}},
		{arm64, small, [2]uint64{0x6000000000, 0x2000000000}},
	} {
		if got := test.cpu.stackRange(test.maps); got != test.want {
			t.Errorf("%+v: %#x, want %#x", test.maps, got, test.want)
		}
	}
}

// TestNotifierRoomARM64 compares where the jump goes in functions like that of dynamic
// linkers.
func TestNotifierRoomARM64(t *testing.T) {
	p, err := process.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	before := native
	native = arm64
	defer func() { native = before }()
	for text, want := range map[string]int{
		"ret; nop; nop; nop":           0,
		"ret; b .; b .; b .":           0,
		"bti c; ret; nop; nop":         4,
		"nop; ret; nop; nop":           -1,
		"bti c; bti c; ret; nop":       -1,
		"mov x0, x1; ret; nop; nop":    -1,
		"ret x1; ret; nop; nop":        -1,
		"bti j; ret; .word 0; .word 0": -1,
	} {
		code := []byte(assemble(t, ".arch armv8.5-a; "+text))
		begin := uint64(uintptr(unsafe.Pointer(&code[0])))
		n := &notifier{site: begin}
		got := -1
		if n.hasRoom(p, nil) {
			got = int(n.site - begin)
		}
		if got != want {
			t.Errorf("%s: at %d, want %d", text, got, want)
		} else if got >= 0 && string(n.old[:4]) != string(code[got:got+4]) {
			t.Errorf("%s: % x is to be put back", text, n.old)
		}
	}
}

// emulated is a program that qemu runs, with an island and a region that it has
// mapped from files: what the kernel would do for footfall, it does itself.
type emulated struct {
	*testProgram
	s     *Session
	island *os.File
	stubs map[trace.Mode][]*stub
}

const (
	emulatedIsland  = 0x3000000
	emulatedRegion = 0x200000000
	emulatedStacks = 0x100000000 // and so on: see testdata/arm64.c
	emulatedShadow = 0x10000000
	emulatedSize   = 0x4000000
)

func emulate(t *testing.T, flags ...string) *emulated {
	t.Helper()
	program := build(t, "aarch64-linux-gnu-gcc", "arm64.c", append(flags, "-static", "-fexceptions")...)
	e := &emulated{testProgram: start(t, "qemu-aarch64", program), stubs: make(map[trace.Mode][]*stub)}
	e.s = &Session{p: e.p, ownPID: e.p.PID, stubs: make(map[uint32]*EntrySite), threads: make(map[uint32]process.ThreadStatus)}
	e.s.options.RingSize, e.s.options.ChainDepth = 1<<20, 5
	b := &island{addr: emulatedIsland, room: maxStubs, byKey: make(map[stubKey][]*stub)}
	e.s.islands = []*island{b}
	e.mapRegion()

	place, err := strconv.ParseInt(e.say("place"), 10, 64)
	if err != nil || place >= 0 || place < arm64.threadBlock {
		t.Fatalf("threads have their ids at %d, error %v", place, err)
	}
	code := arm64.code(emulatedShadow, uint64(place), false, [2]uint64{emulatedStacks, emulatedSize}, e.s.islands, nil)
	code[sveAt] = 1
	e.island = e.file("island", islandSize)
	e.writeIsland(codeAt, code)
	e.writeIsland(unwindAt, arm64.unwindTable(b.addr+stubsAt, maxStubs*stubSize, emulatedShadow))
	for _, site := range arm64Sites(t, program) {
		for _, mode := range []trace.Mode{trace.Counts, trace.Entries, trace.Exits, trace.Filtered, trace.Chains, leads} {
			e.addStub(site, mode)
		}
	}
	if e.say("code %s %x %x", e.island.Name(), emulatedIsland, islandSize) != "1" {
		t.Fatal("the island cannot be mapped")
	}
	e.say("unwind %x", emulatedIsland+unwindAt)
	return e
}

// addStub writes a stub, which records the arguments of the site.
func (e *emulated) addStub(site *EntrySite, mode trace.Mode) {
	b := e.s.islands[0]
	session := Session{options: Options{Mode: mode, Arguments: true}}
	st := &stub{island: b, index: uint32(len(b.stubs)), site: site.Addr, resume: site.Addr + uint64(arm64.jumpSize), mode: mode, arguments: session.description(site)}
	b.add(st)
	e.s.stubs[st.id()] = site
	e.stubs[mode] = append(e.stubs[mode], st)
	id := st.id()
	if st.arguments != 0 {
		id |= argumentsFlag
	}
	e.writeIsland(int64(st.addr()-b.addr), arm64.stubAt(mode, b.addr+codeAt, stubCode{at: st.addr(), resume: st.resume, id: id, description: st.arguments}))
	e.writeIsland(int64(recordsAt+st.index*recordSize), st.record())
}

func (e *emulated) file(name string, size int64) *os.File {
	e.t.Helper()
	f, err := os.Create(filepath.Join(e.t.TempDir(), name))
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		e.t.Fatal(err)
	}
	return f
}

func (e *emulated) mapRegion() {
	e.t.Helper()
	r := &region{addr: emulatedRegion, ringSize: uint64(e.s.options.RingSize), framed: true, chains: true}
	size := int(r.size())
	r.file = e.file("region", int64(size))
	var err error
	if r.memory, err = unix.Mmap(int(r.file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = unix.Munmap(r.memory) })
	r.prepare(&e.s.options, e.p.PID)
	r.give(r.addr+r.ringsAt(), maxThreads)
	r.giveAll()
	if e.say("memory %s %x %x", r.file.Name(), emulatedRegion, size) != "1" {
		e.t.Fatal("the region cannot be mapped")
	}
	e.s.region = r
}

func (e *emulated) writeIsland(at int64, b []byte) {
	e.t.Helper()
	if _, err := e.island.WriteAt(b, at); err != nil {
		e.t.Fatal(err)
	}
}

// arm64Sites returns those of the functions that run counts.
func arm64Sites(t *testing.T, program string) []*EntrySite {
	t.Helper()
	image, err := target.OpenFile(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(image.Close)
	found, unusable, err := image.Sites()
	if err != nil || unusable != 0 {
		t.Fatalf("%d unusable, error %v", unusable, err)
	}
	var sites []*EntrySite
	for _, s := range found {
		if _, ok := callsOfRound[s.Function.Name]; ok || slices.Contains(furtherFunctions, s.Function.Name) {
			sites = append(sites, &EntrySite{Entry: *s})
		}
	}
	for _, s := range sites {
		if s.Function.Name == "told" {
			s.Arguments = []trace.Capture{{Kind: trace.CaptureWord, Index: 0}, {Kind: trace.CaptureWord, Index: 4}, {Kind: trace.CaptureWord, Index: 6}, {Kind: trace.CaptureString, Index: 7}, {Kind: trace.CaptureFloat, Index: 7}, {Kind: trace.CaptureWord, Index: 8}, {Kind: trace.CaptureString, Index: 9}, {Kind: trace.CaptureFloat, Index: 1}}
		}
	}
	if len(sites) != len(callsOfRound)+len(furtherFunctions) {
		t.Fatalf("sites of %d functions, want %d", len(sites), len(callsOfRound)+len(furtherFunctions))
	}
	return sites
}

// TestARM64Source compares where functions are said to be in the source with where
// they are.
func TestARM64Source(t *testing.T) {
	text, err := os.ReadFile("testdata/arm64.c")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, flags := range []string{"-fpatchable-function-entry=2", "-mbranch-protection=standard"} {
		program := build(t, "aarch64-linux-gnu-gcc", "arm64.c", "-static", "-fpatchable-function-entry=2", flags)
		for _, site := range arm64Sites(t, program) {
			file, line := site.Source()
			if filepath.Base(file) != "arm64.c" || line < 1 || line > len(lines) || !strings.Contains(lines[line-1], " "+site.Name()+"(") {
				t.Errorf("%s is said to be at %s:%d", site.Name(), file, line)
			}
			if site.Function.Name != "tailed" {
				continue
			}
			if parameters, err := site.Parameters(); err != nil || len(parameters) != 1 || parameters[0].Name != "x" {
				t.Errorf("%s is said to have the parameters %+v, error %v", site.Name(), parameters, err)
			}
		}
	}
}

// switchTo changes the sites from what they are to those of a mode; 0: off.
func (e *emulated) switchTo(from, to trace.Mode) {
	e.t.Helper()
	word := func(mode trace.Mode, i int) string {
		b := []byte("\x1f\x20\x03\xd5") // nop
		if mode != 0 {
			b = arm64.jump(e.stubs[mode][i].site, e.stubs[mode][i].addr())
		}
		return fmt.Sprintf("%x", encoding.LittleEndian.Uint32(b))
	}
	for i, st := range e.stubs[trace.Counts] {
		if had := e.say("change %x %s", st.site, word(to, i)); had != word(from, i) {
			e.t.Fatalf("at %#x is %s, not %s", st.site, had, word(from, i))
		}
	}
	table := uint64(0)
	if to != 0 {
		table = e.s.region.table()
	}
	e.writeIsland(0, encoding.LittleEndian.AppendUint64(nil, table))
	e.s.options.Mode = to
}

// What a round of testdata/arm64.c calls how often.
var callsOfRound = map[string]int{
	"leaf": 3, "middle": 1, "fib": 177, "tail": 1, "tailed": 1, "many": 1, "jumped": 1, "jumper": 1, "handled": 1, "empty": 1,
}

var furtherFunctions = []string{"told", "walk", "walked", "ender", "ended", "interrupted"}

// TestARM64 runs the trampoline under emulation: on several threads, with signals
// and longjmp, counts and events are exact, and the program works as before.
func TestARM64(t *testing.T) {
	for name, flags := range map[string][]string{
		"nops": {"-fpatchable-function-entry=2"},
		"one":  {"-fpatchable-function-entry=1"},
		"bti":  {"-fpatchable-function-entry=2", "-mbranch-protection=standard"},
	} {
		t.Run(name, func(t *testing.T) {
			e := emulate(t, flags...)
			const threads, rounds = 4, 100
			plain := e.walk()
			run := fmt.Sprintf("run %d %d", threads, rounds)

			e.switchTo(0, trace.Counts)
			if got := e.say("%s", run); got != "bad 0" {
				t.Errorf("counted it says %q", got)
			}
			counts := e.counts()
			for f, n := range callsOfRound {
				if counts[f] != n*threads*rounds {
					t.Errorf("%s: counted %d calls, want %d", f, counts[f], n*threads*rounds)
				}
			}
			e.clearRings()

			e.switchTo(trace.Counts, trace.Entries)
			e.check(e.tallyOf(run), threads*rounds, nil)
			e.check(e.tallyOf(fmt.Sprintf("main %d", rounds)), rounds, nil)
			e.checkMuted(rounds)

			e.switchTo(trace.Entries, trace.Exits)
			// The exit of tailed is that of tail; jumper never returns.
			e.check(e.tallyOf(run), threads*rounds, map[string]int{"tailed": -1, "jumper": -1})
			// The stack of main has no shadow.
			y := e.tallyOf(fmt.Sprintf("main %d", rounds))
			if len(y.exits) != 0 {
				t.Errorf("exits on a stack without a shadow: %v", y.exits)
			}
			e.check(y, rounds, nil)

			// Two stubs are between the frames of walk, walked and their caller.
			if frames := e.walk(); frames != [2]int{plain[0], plain[1] + 2} {
				t.Errorf("%d frames of the program and %d others, without stubs %d and %d", frames[0], frames[1], plain[0], plain[1])
			}
			if got, want := e.say("end"), "5 10"; got != want {
				t.Errorf("unwinding through stubs says %q, want %q", got, want)
			}

			// Threads that are muted, and those that are in the stubs when recording ends, leave all memory alone.
			e.readAll()
			e.checkMuted(rounds)
			e.writeIsland(0, make([]byte, 8))
			if got := e.tallyOf(run).total(); len(got) != 0 {
				t.Errorf("without a table of threads: events %v", got)
			}

			e.switchTo(trace.Exits, 0)
			e.s.options.Mode = trace.Exits
			for e.s.Read(func(process.ThreadStatus, []SiteEvent) {}) > 0 {
			}
			y = e.tallyOf(run)
			if len(y.entries)+len(y.exits) != 0 {
				t.Errorf("switched off: events %v", y)
			}
			if lost, noThread := e.s.Lost(); lost != 0 || noThread != 0 {
				t.Errorf("lost %d and %d", lost, noThread)
			}
		})
	}
}

// TestARM64Arguments compares arguments with those that the program passes. qemu-user
// cannot read strings as the kernel does.
func TestARM64Arguments(t *testing.T) {
	e := emulate(t, "-fpatchable-function-entry=2")
	const threads, rounds = 3, 200
	from := trace.Mode(0)
	for _, test := range []struct {
		mode   trace.Mode
		filter trace.Filter
	}{{trace.Entries, trace.Filter{}}, {trace.Filtered, trace.Filter{}}, {trace.Filtered, trace.Filter{MinTime: 1}}} {
		e.s.region.filter(test.filter, nil)
		e.switchTo(from, test.mode)
		from = test.mode
		if got := e.say("tell %d %d", threads, rounds); got != "bad 0" {
			t.Errorf("it says %q", got)
		}
		calls := make(map[string]int)
		for e.s.Read(func(_ process.ThreadStatus, events []SiteEvent) {
			for i := 0; i < len(events); i++ {
				site := e.s.Site(events[i].ID)
				var words []uint64
				for ; i+1 < len(events) && events[i+1].ID == WordFlag; i++ {
					words = append(words, events[i+1].Time)
				}
				if site.Function.Name == "told" && events[i-len(words)].ID&ExitFlag == 0 {
					words[0] &= 0xff // a char, and what else the register has
					words[1], words[6] = uint64(int64(int32(words[1]))), uint64(int64(int32(words[6])))
					calls[called(site, words)]++
				}
			}
		}) > 0 {
		}
		want := map[string]int{fmt.Sprintf(`told(120, -5, 7, ""!, %x, -9, ""!, %x)`, math.Float32bits(8.5), math.Float32bits(-0.25)): threads * rounds}
		if test.filter.MinTime > 0 { // those that took long enough
			for call := range want {
				want[call] = min(want[call], max(calls[call], 1))
			}
		}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Errorf("mode %d %+v: -want +got:\n%s", test.mode, test.filter, diff)
		}
	}
	if lost, noThread := e.s.Lost(); lost != 0 || noThread != 0 {
		t.Errorf("lost %d and %d", lost, noThread)
	}
}

// TestARM64Chains compares counted chains with the known ones, found by the tables that
// the program has, by frame pointers, and by traced callers.
func TestARM64Chains(t *testing.T) {
	const threads, rounds = 3, 100
	want := map[string]uint64{
		"leaf middle round_of runner":   3 * threads * rounds,
		"tailed round_of runner":        threads * rounds,
		"jumper jumped round_of runner": threads * rounds,
		"many round_of runner":          threads * rounds,
	}
	counted := map[string]trace.Mode{"leaf": trace.Chains, "tailed": trace.Chains, "jumper": trace.Chains, "many": trace.Chains}
	for _, test := range []struct {
		flags    string
		pointers bool
		traced   []string
	}{
		{flags: "-fomit-frame-pointer"},
		{flags: "-fno-omit-frame-pointer"},
		{flags: "-fomit-frame-pointer -mbranch-protection=standard"},
		{flags: "-fno-omit-frame-pointer", pointers: true},
		{flags: "-mbranch-protection=standard", pointers: true},
		{flags: "-fomit-frame-pointer", traced: []string{"middle", "tail", "jumped"}},
	} {
		t.Run(fmt.Sprintf("%s %v %v", test.flags, test.pointers, test.traced), func(t *testing.T) {
			e := emulate(t, append(strings.Fields(test.flags), "-fpatchable-function-entry=2")...)
			modes := maps.Clone(counted)
			for _, name := range test.traced {
				modes[name] = leads
			}
			e.writeChainRows(test.pointers, test.traced)
			on := e.switchSome(modes)
			if got := e.say("run %d %d", threads, rounds); got != "bad 0" {
				t.Errorf("it says %q", got)
			}
			got := make(map[string]uint64)
			for _, c := range e.s.Chains() {
				names := []string{""}
				for _, a := range c.Addresses {
					name := fmt.Sprintf("%#x", a)
					for _, fn := range on[0].Image.Names() {
						if fn.Addr < a && a <= fn.Addr+fn.Size {
							name = fn.Name
						}
					}
					if names = append(names, name); name == "runner" {
						break
					}
				}
				// Which function was counted does not belong to the chain.
				for chain := range want {
					if _, callers, _ := strings.Cut(chain, " "); callers == strings.Join(names[1:], " ") && callers != "round_of runner" {
						names[0] = strings.Fields(chain)[0]
					}
				}
				got[strings.TrimSpace(strings.Join(names, " "))] += c.Count
			}
			together := maps.Clone(want)
			delete(together, "tailed round_of runner")
			delete(together, "many round_of runner")
			together["round_of runner"] = 2 * threads * rounds
			if diff := cmp.Diff(together, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if lost, noThread := e.s.Lost(); lost != 0 || noThread != 0 {
				t.Errorf("lost %d and %d", lost, noThread)
			}
			steps, traced := uint64(0), uint64(0)
			for i := range maxThreads {
				steps += e.s.region.thread(i).byFP
				traced += e.s.region.thread(i).byTrace
			}
			if (steps > 0) != test.pointers || (traced > 0) != (test.traced != nil) {
				t.Errorf("%d steps by frame pointers, %d by traced callers", steps, traced)
			}
		})
	}
}

// writeChainRows gives the trampoline the program's rows, or, for frame pointers, none;
// traced functions have none of their own.
func (e *emulated) writeChainRows(pointers bool, traced []string) {
	e.t.Helper()
	rows := []chainRow{{0, rulePointer}}
	image := e.stubs[trace.Chains][0].image(e)
	own, err := image.File.UnwindRows()
	if err != nil || len(own) < 100 {
		e.t.Fatalf("%d rows, error %v", len(own), err)
	}
	for _, row := range own {
		if !pointers {
			rows = append(rows, chainRow{row.Addr, arm64.rule(row)})
		}
	}
	for _, st := range e.stubs[leads] {
		fn := e.s.Site(st.id()).Function
		if slices.Contains(traced, fn.Name) {
			low, high := fn.Addr, fn.Addr+fn.Size
			rows = slices.DeleteFunc(rows, func(r chainRow) bool { return low <= r.addr && r.addr < high })
			rows = append(rows, chainRow{low, ruleTraced | uint64(st.id())<<8})
		}
	}
	slices.SortFunc(rows, func(a, b chainRow) int { return int(int64(a.addr) - int64(b.addr)) })
	e.s.region.writeRows(rowsAt, rows)
	e.s.region.settings().rowCount = uint64(len(rows))
	if pointers {
		for i := range maxThreads {
			e.s.region.thread(i).low, e.s.region.thread(i).top = emulatedStacks, emulatedStacks+emulatedSize
		}
	}
}

func (st *stub) image(e *emulated) *target.Image { return e.s.Site(st.id()).Image }

// switchSome switches functions on, each with a mode.
func (e *emulated) switchSome(modes map[string]trace.Mode) (on []*EntrySite) {
	e.t.Helper()
	for mode, stubs := range e.stubs {
		for _, st := range stubs {
			if site := e.s.Site(st.id()); modes[site.Function.Name] == mode {
				e.say("change %x %x", st.site, encoding.LittleEndian.Uint32(arm64.jump(st.site, st.addr())))
				on = append(on, site)
			}
		}
	}
	if len(on) != len(modes) {
		e.t.Fatalf("%d functions are switched on, want %d", len(on), len(modes))
	}
	e.writeIsland(0, encoding.LittleEndian.AppendUint64(nil, e.s.region.table()))
	return on
}

// TestARM64Signals counts calls while signals come at any time, whose handlers make
// counted calls too.
func TestARM64Signals(t *testing.T) {
	e := emulate(t, "-fpatchable-function-entry=2")
	// storm returns how often each function was called.
	storm := func() map[string]int {
		var bad, rounds, interruptions int
		if n, err := fmt.Sscanf(e.say("storm 4 100"), "bad %d %d %d", &bad, &rounds, &interruptions); n != 3 || bad != 0 {
			t.Errorf("%d results are wrong, error %v", bad, err)
		}
		calls := map[string]int{"interrupted": interruptions}
		for f, n := range callsOfRound {
			calls[f] = n * rounds
		}
		return calls
	}
	e.switchTo(0, trace.Counts)
	want := storm()
	if diff := cmp.Diff(want, e.counts()); diff != "" {
		t.Errorf("counts: -want +got:\n%s", diff)
	}
	e.clearRings()
	e.switchTo(trace.Counts, trace.Exits)
	want = storm()
	got, all := 0, 0
	for f, n := range e.readAll().total() {
		got += n
		if f == "interrupted" && n > 2*want[f] {
			t.Errorf("%d events of calls by handlers, want %d", n, 2*want[f])
		}
	}
	for _, n := range want {
		all += 2 * n
	}
	all -= want["tailed"] + want["jumper"] // which have no exits
	if lost, _ := e.s.Lost(); got+int(lost) != all {
		t.Errorf("%d events read and %d lost, of %d", got, lost, all)
	}
}

// TestARM64Lost compares what was read and what was lost with the number of calls,
// where rings are too small.
func TestARM64Lost(t *testing.T) {
	e := emulate(t, "-fpatchable-function-entry=2")
	e.switchTo(0, trace.Exits)
	const threads, rounds = 2, 1000
	e.say("run %d %d", threads, rounds)
	got, want := 0, 0
	for _, n := range e.readAll().total() {
		got += n
	}
	for _, n := range callsOfRound {
		want += 2 * n * threads * rounds
	}
	want -= 2 * threads * rounds // exits of tailed and jumper
	lost, _ := e.s.Lost()
	if got+int(lost) != want || lost == 0 {
		t.Errorf("%d events read and %d lost, of %d", got, lost, want)
	}
}

// counts are those of all threads by function.
func (e *emulated) counts() map[string]int {
	counts := make(map[string]int)
	for id, n := range e.s.Counts() {
		counts[e.s.Site(id).Function.Name] += int(n)
	}
	return counts
}

// readAll reads what the rings have.
func (e *emulated) readAll() tally {
	y := tally{make(map[string]int), make(map[string]int)}
	for e.s.Read(y.add(e.s)) > 0 {
	}
	return y
}

// total is the number of events by function.
func (y tally) total() map[string]int {
	all := maps.Clone(y.entries)
	for f, n := range y.exits {
		all[f] += n
	}
	return all
}

// checkMuted has the threads muted that there are, and unmutes them.
func (e *emulated) checkMuted(rounds int) {
	e.t.Helper()
	run := fmt.Sprintf("main %d", rounds)
	for i := range maxThreads {
		if id, _ := e.s.region.thread(i).occupant(); id != 0 {
			e.s.region.thread(i).mute(id)
		}
	}
	if all := e.tallyOf(run).total(); len(all) > 0 {
		e.t.Errorf("a muted thread has recorded %v", all)
	}
	for i := range maxThreads {
		if id, muted := e.s.region.thread(i).occupant(); muted {
			atomic.StoreUint32(&e.s.region.thread(i).id, id)
		}
	}
	e.check(e.tallyOf(run), rounds, nil)
}

// clearRings makes events of rings that had counts.
func (e *emulated) clearRings() {
	for i := range maxThreads {
		if e.s.region.thread(i).id != 0 {
			clear(e.s.region.ring(i))
		}
	}
}

// tallyOf gives the command and reads the events afterwards: there is room for
// all of them.
func (e *emulated) tallyOf(command string) tally {
	e.t.Helper()
	if got := e.say("%s", command); got != "bad 0" {
		e.t.Errorf("%s: %q", command, got)
	}
	y := tally{make(map[string]int), make(map[string]int)}
	count := y.add(e.s)
	open := make(map[process.ThreadStatus][]SiteEvent)
	for e.s.Read(func(thread process.ThreadStatus, events []SiteEvent) {
		count(thread, events)
		open[thread] = e.nest(open[thread], events)
	}) > 0 {
	}
	return y
}

// nest checks that times grow and that exits are those of calls that are open.
func (e *emulated) nest(open, events []SiteEvent) []SiteEvent {
	e.t.Helper()
	last := uint64(0)
	for i, event := range events {
		if event.Time < last {
			e.t.Fatalf("event %d of %d: time %d after %d", i, len(events), event.Time, last)
		}
		last = event.Time
		if event.ID&ExitFlag == 0 {
			open = append(open, event)
			continue
		}
		n := len(open) - 1
		for n >= 0 && ((open[n].ID^event.ID)&IDMask != 0 || open[n].Stack != event.Stack) {
			n-- // left by longjmp or a tail call
		}
		if n < 0 {
			e.t.Fatalf("event %d of %d: an exit of %s at %#x without an entry", i, len(events), e.s.Site(event.ID).Name(), event.Stack)
		}
		open = open[:n]
	}
	return open
}

// walk returns how many frames an unwinder finds in the program and elsewhere.
func (e *emulated) walk() (frames [2]int) {
	e.t.Helper()
	if n, err := fmt.Sscan(e.say("walk"), &frames[0], &frames[1]); n != 2 {
		e.t.Fatal(err)
	}
	return frames
}

// check compares the calls in a number of rounds; more says of which functions
// other exits are seen, in each round.
func (e *emulated) check(y tally, rounds int, more map[string]int) {
	e.t.Helper()
	for f, n := range callsOfRound {
		if y.entries[f] != n*rounds {
			e.t.Errorf("%s: %d entries, want %d", f, y.entries[f], n*rounds)
		}
		if want := (n + more[f]) * rounds; more != nil && y.exits[f] != want {
			e.t.Errorf("%s: %d exits, want %d", f, y.exits[f], want)
		}
	}
}
