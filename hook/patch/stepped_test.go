//go:build linux

package patch

import (
	"fmt"
	"footfall/trace"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// TestStepped steps through stubs and trampoline, in each mode, and has libgcc unwind at
// each instruction: it must find the true callers, and what is in registers there.
func TestStepped(t *testing.T) {
	unwindsAlways = true
	defer func() { unwindsAlways = false }()
	testStepped(t)
}

// TestSteppedByLibunwind has GNU libunwind unwind, which is told in all modes.
func TestSteppedByLibunwind(t *testing.T) {
	testStepped(t, "-DLIBUNWIND", "-lunwind")
}

// TestSteppedRan has GNU libunwind unwind at each instruction of stubs that note what runs, of functions
// and of blocks.
func TestSteppedRan(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	program := build(t, "gcc-12", "stepped.c", "-shared-libgcc", "-fcf-protection=none", "-DLIBUNWIND", "-lunwind")
	stepped := []string{"outer", "many", "pushes", "framed", "leaf", "jumps", "jumped"}
	for name, all := range map[string]func(*testProgram) []*EntrySite{"functions": (*testProgram).moved, "blocks": (*testProgram).blocks} {
		t.Run(name, func(t *testing.T) {
			g := start(t, program)
			sites := slices.DeleteFunc(all(g), func(s *EntrySite) bool { return !slices.Contains(stepped, s.Function.Name) })
			r := g.openRan(sites)
			for _, how := range []string{"calls", "thread", "calls"} {
				step(t, g, how, 30)
			}
			if ran, err := r.Close(); err != nil || len(ran) < len(stepped) {
				t.Errorf("%d ran, %v", len(ran), err)
			}
		})
	}
}

func testStepped(t *testing.T, with ...string) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	filter := trace.Filter{Depth: 100}
	modes := map[string]Options{
		"counts":           {Mode: trace.Counts},
		"entries":          {Mode: trace.Entries},
		"exits":            {Mode: trace.Exits},
		"filtered":         {Mode: trace.Filtered, Filter: filter},
		"minimal duration": {Mode: trace.Filtered, Filter: trace.Filter{Depth: 3, MinTime: 1000}},
		"arguments":        {Mode: trace.Entries, Arguments: true},
		"with filters":     {Mode: trace.Filtered, Arguments: true, Filter: filter},
		"flight recorder":  {Mode: trace.Exits, RingSize: 4096, Newest: true},
		"full":             {Mode: trace.Exits, RingSize: 4096},
		"chains":           {Mode: trace.Chains, ChainDepth: 5},
	}
	for _, flags := range []string{"-fcf-protection=none", "-fcf-protection -fno-omit-frame-pointer"} {
		program := build(t, "gcc-12", "stepped.c", slices.Concat([]string{"-shared-libgcc", "-fpatchable-function-entry=5"}, strings.Fields(flags), with)...)
		for name, o := range modes {
			for _, returns := range []bool{false, true} {
				if returns && o.Mode != trace.Exits && o.Mode != trace.Filtered {
					continue
				}
				t.Run(fmt.Sprintf("%s %s, replaced: %v", name, flags, returns), func(t *testing.T) {
					stepThrough(t, start(t, program), o, returns)
				})
			}
		}
	}
}

func stepThrough(t *testing.T, g *testProgram, o Options, returns bool) {
	o.returns = returns
	sites := g.sites("outer", "many", "pushes", "framed", "leaf", "jumps", "jumped")
	if o.Arguments {
		for _, site := range sites {
			site.Arguments = []trace.Capture{{Kind: trace.CaptureWord, Index: 0}, {Kind: trace.CaptureString, Index: 1}, {Kind: trace.CaptureFloat, Index: 0}, {Kind: trace.CaptureWord, Index: 7}}
		}
	}
	s := g.open(sites, o)
	for _, how := range []string{"calls", "thread", "calls"} {
		step(t, g, how, 100)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// What is there from before is known, and what is new.
	s = g.open(g.sites("outer", "many", "pushes", "framed", "leaf", "jumps", "jumped"), Options{Mode: trace.Exits})
	defer s.Close()
	step(t, g, "calls", 100)
}

// step steps through the functions, of which at least so many steps are to be in code of ours.
func step(t *testing.T, g *testProgram, how string, least int) {
	t.Helper()
	var steps, within, places, wrong int
	if _, err := fmt.Sscanf(g.say(how), "%d steps %d within %d places %d wrong", &steps, &within, &places, &wrong); err != nil {
		t.Fatal(err)
	}
	if t.Logf("%s: %d steps, %d within, %d places", how, steps, within, places); within < least || wrong > 0 {
		t.Errorf("%s: %d of %d steps within were wrong", how, wrong, within)
	}
}

// TestTablesHaveRoom looks whether what is written to the page of an island's unwind table fits
// there.
func TestTablesHaveRoom(t *testing.T) {
	size := uint64(stubsAt - codeAt + maxStubs*stubSize)
	r := returnStubs{addr: 1 << 40, size: mostReturns * returnStubSize}
	for _, c := range []struct {
		name     string
		from, to uint64
		length   int
	}{
		{"table", unwindAt, dynamicAt, len(frameTable(0, size)) + len(amd64.breakpoint)},
		{"entries", dynamicAt, dynamicTableAt, (1 + maxIslands) * dynamicSize},
		{"an entry", 0, dynamicSize, len((&dynamic{}).entry(0))},
		{"libunwind's", dynamicTableAt, unwindAt + pageSize, len(dynamicTable(0, frameRules(0), size))},
		{"of return stubs", 0, returnsDynamicAt, len(r.unwindTable()) + len(amd64.breakpoint)},
		{"of return stubs, libunwind's", returnsDynamicAt, returnsToldAt, len(dynamicTable(0, r.rules(false), r.size))},
	} {
		if room := c.to - c.from; uint64(c.length) > room {
			t.Errorf("%s: %d bytes, there is room for %d", c.name, c.length, room)
		}
	}
}

// TestReturnedAddress decodes functions that return an address.
func TestReturnedAddress(t *testing.T) {
	for code, want := range map[string]uint64{
		"\x48\x8d\x05\x49\x0d\x01\x00\xc3":                 0x11d50, // lea 0x10d49(%rip),%rax; ret, at 0x1000
		"\xf3\x0f\x1e\xfa\x48\x8d\x05\x49\x0d\x01\x00\xc3": 0x11d54,
		"\xb8\x40\x20\x40\x00\xc3":                         0x402040, // mov $0x402040,%eax; ret
		"\x53\xb8\x40\x20\x40\x00\xc3":                     0,
		"\xe8\x40\x20\x40\x00\xc3":                         0,
		"\x48\x8d\x05\x49":                                 0,
		"":                                                 0,
	} {
		if got := returnedAddress([]byte(code), 0x1000); got != want {
			t.Errorf("% x: %#x, not %#x", code, got, want)
		}
	}
}

// TestFrames looks whether the rows of the trampoline are of all of its instructions, and
// do not depend on how one gets there.
func TestFrames(t *testing.T) {
	rows := trampolineFrames(amd64.trampoline, amd64.calledRoutines())
	lost := 0
	for at, row := range rows {
		inst, err := x86asm.Decode(amd64.trampoline[at:], 64)
		if err != nil {
			t.Fatal(err)
		}
		next := row.after(inst)
		if inst.Op == x86asm.RET && row != justCalled {
			t.Errorf("%#x: it returns with %+v", at, row)
		}
		if target, ok := inst.Args[0].(x86asm.Rel); ok && inst.Op != x86asm.CALL {
			if there := rows[at+inst.Len+int(target)]; there != row {
				t.Errorf("%#x: from %+v it goes to where %+v is expected", at, row, there)
			}
		}
		if inst.Op == x86asm.RET || inst.Op == x86asm.JMP {
			continue
		}
		if there, ok := rows[at+inst.Len]; ok && there != next {
			t.Errorf("%#x: %+v is followed by %+v", at, next, there)
		} else if !ok {
			lost++
		}
	}
	if lost > 0 || len(rows) < 1000 {
		t.Errorf("%d instructions, behind %d of them is none", len(rows), lost)
	}
}
