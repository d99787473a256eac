package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
)

// readBack writes r in a format and reads that.
func readBack(t *testing.T, r *Report, format string) *coverage.Set {
	t.Helper()
	name := filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(name, []byte(written(t, r, format)), 0o666); err != nil {
		t.Fatal(err)
	}
	set, problems, err := ReadFile(name, nil)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return set
}

func TestJSONRoundTrip(t *testing.T) {
	r := example()
	r.Shown = func(path string) string { return path }
	r.Set.At(0).Lines[1].Branches[0].To = 4
	r.Set.At(0).Tests = []coverage.Test{{Name: "a, \"b\"", Hits: coverage.AppendHits(nil, r.Set.At(0).Lines)}}
	if diff := cmp.Diff(r.Set.Files(), readBack(t, r, "json").Files()); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
}

// TestRoundTrips compares totals of what is written with those of what is read
// back. Where a format does not tell something, it is left out of want.
func TestRoundTrips(t *testing.T) {
	r := example()
	r.Shown = func(path string) string { return path }
	r.ExceptionBranches = true
	for _, test := range []struct {
		format string
		known  func(*coverage.Totals)
	}{
		{"json", func(*coverage.Totals) {}},
		{"lcov", func(w *coverage.Totals) { w.Calls = coverage.Ratio{} }},
		{"lcov2", func(w *coverage.Totals) { w.Calls, w.Conditions = coverage.Ratio{}, coverage.Ratio{} }},
		{"lcov1", func(w *coverage.Totals) { w.Calls = coverage.Ratio{} }},
		{"gcovr", func(w *coverage.Totals) {}},
		{"gcovr5", func(w *coverage.Totals) { w.Calls, w.Conditions = coverage.Ratio{}, coverage.Ratio{} }},
		{"cobertura", func(w *coverage.Totals) { w.Calls, w.Conditions = coverage.Ratio{}, coverage.Ratio{} }},
	} {
		t.Run(test.format, func(t *testing.T) {
			want, got := r.Set.Totals(), readBack(t, r, test.format).Totals()
			test.known(&want)
			// Only what is marked as such is an exception's; each instance of
			// a function is one where the format has no more than its name.
			for _, totals := range []*coverage.Totals{&want, &got} {
				totals.Branches, totals.ExceptionBranches = totals.Branches.Plus(totals.ExceptionBranches), coverage.Ratio{}
				if test.format == "lcov1" || test.format == "lcov2" {
					totals.Functions = coverage.Ratio{}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-written +read)\n%s", diff)
			}
		})
	}
}

func TestLcovKeepsTests(t *testing.T) {
	lines := func(counts ...int64) (list []coverage.Line) {
		for i, n := range counts {
			list = append(list, coverage.Line{Number: int32(i + 1), Count: n})
		}
		return list
	}
	hits := func(counts ...int64) coverage.Hits { return coverage.AppendHits(nil, lines(counts...)) }
	for _, test := range []struct {
		name string
		file coverage.File
		want string
	}{
		{"one test", coverage.File{Lines: lines(1, 0), Tests: []coverage.Test{{Name: "a", Hits: hits(1)}}},
			"TN:a\nSF:/a.c\nFNF:0\nFNH:0\nDA:1,1\nDA:2,0\nLF:2\nLH:1\nend_of_record\n"},
		{"two tests and none", coverage.File{Lines: lines(1, 0, 6), Tests: []coverage.Test{{Name: "a", Hits: hits(1, 0, 2)}, {Name: "b,c", Hits: hits(0, 0, 3)}}},
			"TN:\nSF:/a.c\nFNF:0\nFNH:0\nDA:1,0\nDA:2,0\nDA:3,1\nLF:3\nLH:1\nend_of_record\n" +
				"TN:a\nSF:/a.c\nDA:1,1\nDA:3,2\nLF:2\nLH:2\nend_of_record\nTN:b_c\nSF:/a.c\nDA:3,3\nLF:1\nLH:1\nend_of_record\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.file.Name = "/a.c"
			r := &Report{Set: coverage.NewSet(&test.file), Shown: func(p string) string { return p }}
			text := written(t, r, "lcov")
			if diff := cmp.Diff(test.want, text); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			again := &Report{Set: readBack(t, r, "lcov"), Shown: r.Shown}
			if diff := cmp.Diff(text, written(t, again, "lcov")); diff != "" {
				t.Errorf("read and written again (-once +twice)\n%s", diff)
			}
		})
	}
}

func TestByTest(t *testing.T) {
	set := &coverage.Set{}
	for i, runs := range []string{"abc", "ab", "a", "", "c", "d-"} {
		f := &coverage.File{Name: fmt.Sprintf("/f%d.c", i), Lines: []coverage.Line{{Number: 7}}}
		for _, name := range strings.Split(runs, "") {
			f.Lines[0].Count++
			if name != "-" {
				f.Tests = append(f.Tests, coverage.Test{Name: name, Hits: coverage.AppendHits(nil, []coverage.Line{{Number: 7, Count: 1}})})
			}
		}
		set.Add(f)
	}
	r := &Report{Set: set, Shown: func(p string) string { return p[1:] }}
	want := `test  lines         only it  adds  together
a         3  50.0%        1     3     50.0%
c         2  33.3%        1     1     66.6%
d         1  16.6%        1     1     83.3%
b         2  33.3%                    83.3%

5 of 6 lines ran in tests; without those that add nothing it takes 3 of 4 tests
`
	if diff := cmp.Diff(want, written(t, r, "tests")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, test := range []struct{ where, want, err string }{
		{"f0.c:7", "f0.c:7 ran in:\nruns  test\n   1  a\n   1  b\n   1  c\n", ""},
		{"/f5.c", "f5.c: 1 of 1 lines ran\nlines  runs  test\n    1     1  d\n    1     1  (no test)\n", ""},
		{"f3.c:1-9", "f3.c:1-9: 0 of 1 lines ran\n", ""},
		{"f3.c:7", "f3.c:7 never ran\n", ""},
		{"f3.c:8", "", "f3.c:8: no code there"},
		{"f9.c", "", "f9.c: no such source in the data"},
	} {
		var b bytes.Buffer
		err := r.PrintTestsFor(&b, test.where)
		if text := fmt.Sprint(err); test.err != "" && text != test.err || test.err == "" && err != nil || b.String() != test.want {
			t.Errorf("%s: %q, error %v", test.where, b.String(), err)
		}
	}
	for _, where := range []string{"", ":3", "a.c:0", "a.c:9-2"} {
		if CheckTestsFor(where) == nil {
			t.Errorf("%q: no error", where)
		}
	}
}

// TestByTestIsGreedy compares with looking at all tests again at each step.
func TestByTestIsGreedy(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := &coverage.File{Name: "/a.c"}
	for i := range int32(200) {
		f.Lines = append(f.Lines, coverage.Line{Number: i + 1, Count: 1})
	}
	for i := range 30 {
		var ran []coverage.Line
		for k := range f.Lines {
			if random.IntN(9) == 0 {
				ran = append(ran, f.Lines[k])
			}
		}
		f.Tests = append(f.Tests, coverage.Test{Name: fmt.Sprintf("t%02d", i), Hits: coverage.AppendHits(nil, ran)})
	}
	tests, _ := testsOf(coverage.NewSet(f))
	inOrder(tests)
	covered := make(bitset, len(tests[0].ran))
	for i, test := range tests {
		best := 0
		for _, other := range tests[i:] {
			best = max(best, other.ran.without(covered))
		}
		if test.adds != best || test.ran.without(covered) != best {
			t.Errorf("place %d: %s adds %d, the best %d", i, test.name, test.adds, best)
		}
		covered.add(test.ran)
	}
	if !slices.IsSortedFunc(tests, func(a, b *testSum) int { return b.adds - a.adds }) {
		t.Error("what tests add grows")
	}
}
