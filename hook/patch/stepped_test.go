package patch

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// TestStepped steps through stubs and trampoline, in each mode, and has libgcc unwind at
// each instruction: it must find the true callers, and what is in registers there.
func TestStepped(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	filter := Filter{Depth: 100}
	modes := map[string]Options{
		"counts":           {Mode: Counts},
		"entries":          {Mode: Entries},
		"exits":            {Mode: Exits},
		"filtered":         {Mode: Filtered, Filter: filter},
		"minimal duration": {Mode: Filtered, Filter: Filter{Depth: 3, MinTime: 1000}},
		"arguments":        {Mode: Entries, Arguments: true},
		"with filters":     {Mode: Filtered, Arguments: true, Filter: filter},
		"flight recorder":  {Mode: Exits, RingSize: 4096, Newest: true},
		"full":             {Mode: Exits, RingSize: 4096},
		"chains":           {Mode: Chains, ChainDepth: 5},
	}
	for _, flags := range []string{"-fcf-protection=none", "-fcf-protection -fno-omit-frame-pointer"} {
		program := build(t, "gcc-12", "stepped.c", append([]string{"-shared-libgcc", "-fpatchable-function-entry=5"}, strings.Fields(flags)...)...)
		for name, o := range modes {
			for _, returns := range []bool{false, true} {
				if returns && o.Mode != Exits && o.Mode != Filtered {
					continue
				}
				t.Run(fmt.Sprintf("%s %s, replaced: %v", name, flags, returns), func(t *testing.T) {
					stepThrough(t, start(t, program), o, returns)
				})
			}
		}
	}
}

func stepThrough(t *testing.T, g *target, o Options, returns bool) {
	unwindsAlways, o.returns = true, returns
	defer func() { unwindsAlways = false }()
	sites := g.sites("outer", "many", "pushes", "framed", "leaf", "jumps", "jumped")
	if o.Arguments {
		for _, site := range sites {
			site.Arguments = []Argument{{Kind: Value, Index: 0}, {Kind: String, Index: 1}, {Kind: Float, Index: 0}, {Kind: Value, Index: 7}}
		}
	}
	s := g.open(sites, o)
	defer s.Close()
	for _, how := range []string{"calls", "thread", "calls"} {
		var steps, within, places, wrong int
		if _, err := fmt.Sscanf(g.say(how), "%d steps %d within %d places %d wrong", &steps, &within, &places, &wrong); err != nil {
			t.Fatal(err)
		}
		if t.Logf("%s: %d steps, %d within, %d places", how, steps, within, places); within < 100 || wrong > 0 {
			t.Errorf("%s: %d of %d steps within were wrong", how, wrong, within)
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
