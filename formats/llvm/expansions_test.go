package llvm

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/formats/llvm/fixtures"
)

// TestExpansions compares what a Set says of macros with what is shown by llvm-cov show -show-expansions, which tests of
// tool compare with that: of those that one function uses at a place, as llvm-cov shows each function's.
func TestExpansions(t *testing.T) {
	compared, nested := 0, 0
	for _, f := range fixtures.All(t) {
		run := f.Run("export-lcov")
		if run == nil || refused[f.Name()] != "" {
			continue
		}
		l := parseLcovRun(run.Cmd, f.Version)
		set, _ := collected(t, f, l)
		c := Load(binariesOf(t, f, l.objects), readFixture(t, f, l.profiles[0]), setRules)
		var compare func(list []Expanded, of []coverage.Expansion, depth int)
		compare = func(list []Expanded, of []coverage.Expansion, depth int) {
			at := func(e Expanded) coverage.Expansion {
				return coverage.Expansion{Line: int32(e.Line), Column: int32(e.Column), File: e.Function.Files[e.Expanded]}
			}
			for _, e := range list {
				same := func(o Expanded) bool { return coverage.CompareExpansions(at(e), at(o)) == 0 }
				i := slices.IndexFunc(of, func(o coverage.Expansion) bool { return coverage.CompareExpansions(at(e), o) == 0 })
				if i < 0 {
					t.Errorf("%s: %+v is not there", f.Name(), at(e))
					continue
				}
				if first := slices.IndexFunc(list, same); slices.ContainsFunc(list[first+1:], same) {
					continue
				}
				var want coverage.Hits
				last := int32(0)
				d := c.ExpansionData(e)
				lineCounts(d.Segments, &setRules, func(l LineCount) { want = want.Add(&last, int32(l.Number), clamp(l.Count)) })
				if diff := cmp.Diff(want, of[i].Lines); diff != "" {
					t.Errorf("%s: %+v (-llvm-cov +Set)\n%s", f.Name(), at(e), diff)
				}
				if compared++; depth > 0 {
					nested++
				}
				compare(d.Expansions, of[i].Within, depth+1)
			}
		}
		for _, file := range set.All() {
			compare(c.FileData(file.Name).Expansions, file.Expansions, 0)
		}
	}
	if compared < 200 || nested < 20 {
		t.Errorf("%d expansions compared, %d of them in others", compared, nested)
	}
}
