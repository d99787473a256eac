package coverage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomEdits returns edits of a text of 40 lines.
func randomEdits(r *rand.Rand) Edits {
	var edits Edits
	old, new := int32(1), int32(1)
	for {
		same := 1 + r.Int32N(12)
		e := Edit{Old: old + same, Deleted: r.Int32N(4), New: new + same, Inserted: r.Int32N(4)}
		if e.Old+e.Deleted > 40 {
			return edits
		}
		if e.Deleted+e.Inserted > 0 {
			edits = append(edits, e)
		}
		old, new = e.Old+e.Deleted, e.New+e.Inserted
	}
}

func TestEditsMapLines(t *testing.T) {
	for seed := range seeds(300) {
		edits := randomEdits(rand.New(rand.NewPCG(seed, 4)))
		// Where each line is, by making the new text.
		var text []int32 // the old line of each new one, 0: inserted
		next := int32(1)
		for _, e := range edits {
			for ; next < e.Old; next++ {
				text = append(text, next)
			}
			text = append(text, make([]int32, e.Inserted)...)
			next += e.Deleted
		}
		for ; next <= 60; next++ {
			text = append(text, next)
		}
		for i, want := range text {
			got, ok := edits.OldLine(int32(i + 1))
			if ok != (want != 0) || ok && got != want {
				t.Fatalf("%v: new line %d was %d (%v), want %d", edits, i+1, got, ok, want)
			}
		}
		for old := int32(1); old <= 40; old++ {
			want := int32(slices.Index(text, old) + 1)
			got, ok := edits.NewLine(old)
			if ok != (want != 0) || ok && got != want {
				t.Fatalf("%v: old line %d is %d (%v), want %d", edits, old, got, ok, want)
			}
		}
	}
}

// TestCompareIsComplete checks that each thing of both versions is in one
// category, and that lines are in the order of the new version.
func TestCompareIsComplete(t *testing.T) {
	for seed := range seeds(1000) {
		r := rand.New(rand.NewPCG(seed, 5))
		old, new := randomFile(r, "/a.c"), randomFile(r, "/a.c")
		edits := randomEdits(r)
		if r.IntN(4) == 0 {
			edits = nil
		}
		c := CompareFiles(old, new, edits)
		for _, pair := range []struct {
			name      string
			tally     Tally
			old, new  Ratio
			unchanged bool
		}{
			{"lines", c.Tallies.Lines, old.Totals().Lines, new.Totals().Lines, edits == nil},
			{"functions", c.Tallies.Functions, old.Totals().Functions, new.Totals().Functions, false},
			{"branches", c.Tallies.Branches, old.Totals().Branches, new.Totals().Branches, false},
			{"exception branches", c.Tallies.ExceptionBranches, old.Totals().ExceptionBranches, new.Totals().ExceptionBranches, false},
			{"conditions", c.Tallies.Conditions, old.Totals().Conditions, new.Totals().Conditions, false},
		} {
			tally := pair.tally
			covered := tally[GBC] + tally[GNC] + tally[GIC] + tally[CBC]
			if after := (Ratio{covered, covered + tally[LBC] + tally[UNC] + tally[UIC] + tally[UBC]}); after != pair.new {
				t.Fatalf("seed %d: %s are %v, want %v", seed, pair.name, after, pair.new)
			}
			covered = tally[LBC] + tally[CBC] + tally[ECB] + tally[DCB]
			before := Ratio{covered, covered + tally[UBC] + tally[GBC] + tally[EUB] + tally[DUB]}
			if before != pair.old && pair.name != "functions" { // of which new ones may be old
				t.Fatalf("seed %d: %s were %v, want %v", seed, pair.name, before, pair.old)
			}
			if n := pair.tally[UNC] + pair.tally[GNC] + pair.tally[DCB] + pair.tally[DUB]; pair.unchanged && n > 0 {
				t.Fatalf("seed %d: %d new or deleted %s in an unchanged file", seed, n, pair.name)
			}
		}
		last := int32(0)
		for _, l := range c.Lines {
			at := last
			if l.New != nil {
				at = l.New.Number
				if at <= last {
					t.Fatalf("seed %d: line %d after line %d", seed, at, last)
				}
			} else if now, _ := edits.NewLine(l.Old.Number); now < last {
				t.Fatalf("seed %d: old line %d, now at %d, after line %d", seed, l.Old.Number, now, last)
			}
			last = at
		}
	}
}

func TestCompareFiles(t *testing.T) {
	line := func(n int32, count int64) Line { return Line{Number: n, Count: count} }
	function := func(name string, from, to int32, count int64) *Function {
		return &Function{Name: name, StartLine: from, EndLine: to, Count: count, Instances: []Instance{{Name: name, Count: count}}}
	}
	// Line 3 became lines 3 and 4, line 8 is gone.
	edits := Edits{{Old: 3, Deleted: 1, New: 3, Inserted: 2}, {Old: 8, Deleted: 1, New: 9, Inserted: 0}}
	old := &File{
		Lines:     []Line{line(1, 1), line(2, 0), line(3, 5), line(4, 0), line(5, 7), line(6, 0), line(7, 1), line(8, 0), line(9, 1)},
		Functions: []*Function{function("same", 1, 2, 1), function("changed", 2, 4, 0), function("lost", 5, 9, 3), function("gone", 8, 8, 0)},
	}
	new := &File{
		Lines:     []Line{line(1, 4), line(2, 1), line(3, 1), line(4, 0), line(5, 0), line(6, 0), line(9, 1), line(10, 2), line(11, 0)},
		Functions: []*Function{function("same", 1, 2, 2), function("changed", 2, 5, 9), function("lost", 6, 9, 0), function("fresh", 4, 4, 0), function("other", 1, 1, 0)},
	}
	c := CompareFiles(old, new, edits)
	var lines, functions []string
	number := func(l *Line) int32 {
		if l == nil {
			return 0
		}
		return l.Number
	}
	for _, l := range c.Lines {
		lines = append(lines, fmt.Sprintf("%d-%d %v", number(l.Old), number(l.New), l.Category))
	}
	for _, f := range c.Functions {
		which := f.New
		if which == nil {
			which = f.Old
		}
		functions = append(functions, fmt.Sprintf("%s %v", which.Name, f.Category))
	}
	wantLines := []string{"1-1 CBC", "2-2 GBC", "3-0 DCB", "0-3 GNC", "0-4 UNC", "4-5 UBC", "5-6 LBC", "6-0 EUB", "7-0 ECB", "8-0 DUB", "9-9 CBC", "0-10 GIC", "0-11 UIC"}
	wantFunctions := []string{"same CBC", "changed GNC", "lost LBC", "fresh UNC", "other UIC", "gone DUB"}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Errorf("lines (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(wantFunctions, functions); diff != "" {
		t.Errorf("functions (-want +got)\n%s", diff)
	}
}

func TestCompareBranches(t *testing.T) {
	two := func(block int32, exception bool, counts ...int64) []Branch {
		var out []Branch
		for _, n := range counts {
			out = append(out, Branch{Block: block, Count: n, Exception: exception})
		}
		return out
	}
	tally := func(categories ...Category) Tally {
		var t Tally
		for _, c := range categories {
			t[c]++
		}
		return t
	}
	for _, test := range []struct {
		name             string
		old, new         []Branch
		want, exceptions Tally
	}{
		{"the same", two(0, false, 1, 0), two(0, false, 0, 1), tally(LBC, GBC), Tally{}},
		{"another before it", two(0, false, 1, 0), append(two(0, true, 1, 0), two(1, false, 1, 0)...), tally(CBC, UBC), tally(GIC, UIC)},
		{"one less", append(two(0, false, 1, 0), two(1, false, 1, 0)...), two(0, false, 1, 0), tally(CBC, UBC, DCB, DUB), Tally{}},
		{"undivided in a tracefile", two(-1, false, 1, 0, 1, 1), append(two(0, false, 1, 1), append(two(1, true, 1, 0), two(2, false, 0, 1)...)...), tally(CBC, GBC, LBC, CBC), tally(GIC, UIC)},
		{"one decision in a tracefile", two(0, false, 1, 0, 1, 1), append(two(0, false, 1, 1), two(1, false, 0, 1)...), tally(CBC, GBC, LBC, CBC), Tally{}},
		{"one decision, of exceptions too", append(two(0, false, 1, 0), two(1, true, 1, 1)...), two(0, false, 1, 1), tally(CBC, GBC), tally(DCB, DCB)},
	} {
		c := CompareFiles(&File{Lines: []Line{{Number: 1, Branches: test.old}}}, &File{Lines: []Line{{Number: 1, Branches: test.new}}}, nil)
		if c.Tallies.Branches != test.want {
			t.Errorf("%s: %v, want %v", test.name, c.Tallies.Branches, test.want)
		}
		if c.Tallies.ExceptionBranches != test.exceptions {
			t.Errorf("%s: of exceptions %v, want %v", test.name, c.Tallies.ExceptionBranches, test.exceptions)
		}
	}
}
