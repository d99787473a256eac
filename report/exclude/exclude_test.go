package exclude

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
)

// excludeFrom applies options to a source of one function for each "f" line: every
// line has code, runs as often as its number, odd ones only, and has a branch.
func excludeFrom(t *testing.T, o Options, source string) (left, listed, problems []string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.cc")
	if err := os.WriteFile(name, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	f := &coverage.File{Name: name}
	for i, text := range strings.Split(source, "\n") {
		n := int32(i + 1)
		l := coverage.Line{Number: n, Branches: []coverage.Branch{{Count: 1}, {}, {Exception: true, Count: 1}, {Exception: true, Throw: true}}}
		if n%2 == 1 {
			l.Count = int64(n)
		}
		f.Lines = append(f.Lines, l)
		if name, _, ok := strings.Cut(text, "() {"); ok {
			f.Functions = append(f.Functions, &coverage.Function{Name: name, StartLine: n, StartColumn: 1, EndLine: n + 2, EndColumn: 1, Count: l.Count, Instances: []coverage.Instance{{Name: name, Count: l.Count}}})
		}
	}
	if o.MarkerPrefixes == nil {
		o.MarkerPrefixes = MarkerPrefixes
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	set := coverage.NewSet(f)
	before := set.Totals()
	excluded, found := e.Apply(set, func(string) string { return "a.cc" })
	if diff := cmp.Diff(before.Minus(set.Totals()), excluded.Totals); diff != "" {
		t.Errorf("totals of what is excluded (-want +got):\n%s", diff)
	}
	for _, f := range set.All() {
		for _, fn := range f.Functions {
			left = append(left, fn.Name)
		}
		for _, l := range f.Lines {
			text := fmt.Sprint(l.Number)
			switch len(l.Branches) {
			case 0:
				text += "-"
			case 2:
				text += "e"
			}
			left = append(left, text)
		}
	}
	for _, x := range excluded.List {
		listed = append(listed, fmt.Sprintf("%d-%d %s %s", x.First, x.Last, x.What, x.Rule))
	}
	for _, p := range found {
		problems = append(problems, p.String())
	}
	return left, listed, problems
}

func TestExclude(t *testing.T) {
	for _, test := range []struct {
		name, source string
		options      Options
		left, listed string // joined by blanks and by newlines
		problems     string
	}{
		{name: "nothing", source: "a\nb", left: "1 2"},
		{name: "a line", source: "a\nb // LCOV_EXCL_LINE\nc", left: "1 3", listed: "2-2 lines LCOV_EXCL_LINE"},
		{name: "a region without the line of its STOP", source: "a // GCOVR_EXCL_START\nb\nc // GCOVR_EXCL_STOP\nd", left: "3 4", listed: "1-2 lines GCOVR_EXCL_START"},
		{name: "regions on one line", source: "a LCOV_EXCL_START LCOV_EXCL_STOP\nb LCOV_EXCL_START\nc LCOV_EXCL_STOP LCOV_EXCL_START\nd\ne LCOV_EXCL_STOP",
			left: "1 5", listed: "2-2 lines LCOV_EXCL_START\n3-4 lines LCOV_EXCL_START"},
		{name: "branches", source: "a GCOV_EXCL_BR_LINE\nb\nc GCOV_EXCL_BR_START\nd\ne GCOV_EXCL_BR_STOP", left: "1- 2 3- 4- 5",
			listed: "1-1 branches GCOV_EXCL_BR_LINE\n3-4 branches GCOV_EXCL_BR_START"},
		{name: "branches of exceptions", source: "a LCOV_EXCL_EXCEPTION_BR_LINE\nb LCOV_EXCL_EXCEPTION_BR_START\nc LCOV_EXCL_EXCEPTION_BR_STOP", left: "1e 2e 3",
			listed: "1-1 exception branches LCOV_EXCL_EXCEPTION_BR_LINE\n2-2 exception branches LCOV_EXCL_EXCEPTION_BR_START"},
		{name: "a region of lines in one of branches", source: "a LCOV_EXCL_BR_START\nb LCOV_EXCL_START\nc\nd LCOV_EXCL_BR_STOP\ne LCOV_EXCL_STOP", left: "1- 5",
			listed: "1-3 branches LCOV_EXCL_BR_START\n2-4 lines LCOV_EXCL_START"},
		{name: "a function whose first line is excluded", source: "f() { // LCOV_EXCL_LINE\n\n}\ng() {", left: "g 2 3 4", listed: "1-1 lines LCOV_EXCL_LINE"},
		{name: "a function", source: "f() { // GCOVR_EXCL_FUNCTION\n\n}\ng() {", left: "g 4", listed: "1-3 function GCOVR_EXCL_FUNCTION"},
		{name: "branches of a function", source: "f() { // GCOVR_EXCL_BR_FUNCTION\n\n}\ng() {", left: "f g 1- 2- 3- 4", listed: "1-3 branches GCOVR_EXCL_BR_FUNCTION"},
		{name: "a function that is not there", source: "a\nb GCOVR_EXCL_FUNCTION", left: "1 2", problems: "a.cc:2: GCOVR_EXCL_FUNCTION, but no function begins on the line before it: it excludes nothing"},
		{name: "unreachable", source: "a\nb LCOV_UNREACHABLE_START\nc\nd LCOV_UNREACHABLE_STOP\ne\nf LCOV_UNREACHABLE_LINE", left: "1 3 4 5",
			listed:   "2-3 lines LCOV_UNREACHABLE_START\n6-6 lines LCOV_UNREACHABLE_LINE",
			problems: "a.cc:3: ran 3 times, though a marker calls it unreachable: it counts"},
		{name: "missed branches", source: "a GCOVR_EXCL_BR_WITHOUT_HIT: 1/2\nb GCOVR_EXCL_BR_WITHOUT_HIT: 2/4\nc GCOVR_EXCL_BR_WITHOUT_HIT: 2/2\nd GCOVR_EXCL_BR_WITHOUT_HIT", left: "1- 2- 3 4",
			listed: "1-1 branches GCOVR_EXCL_BR_WITHOUT_HIT: 1/2\n2-2 branches GCOVR_EXCL_BR_WITHOUT_HIT: 2/4",
			problems: "a.cc:4: GCOVR_EXCL_BR_WITHOUT_HIT must go on as in GCOVR_EXCL_BR_WITHOUT_HIT: 1/2, when 1 of 2 branches is not taken: it excludes nothing\n" +
				"a.cc:3: GCOVR_EXCL_BR_WITHOUT_HIT: 2/2, but 1 of 2 branches are not taken: it excludes nothing"},
		{name: "words that are no markers", source: "a LCOV_EXCL_LINES\nb MY_LCOV_EXCL_LINE\nc LCOV_EXCLUDE_LINE\nd GRCOV_EXCL_LINE", left: "1 2 3 4",
			problems: "a.cc:1: LCOV_EXCL_LINES is no marker that is known: it excludes nothing"},
		{name: "STOP alone", source: "a\nb LCOV_EXCL_STOP", left: "1 2", problems: "a.cc:2: LCOV_EXCL_STOP without a START before it"},
		{name: "START alone", source: "a\nb LCOV_EXCL_BR_START\nc", left: "1 2 3", problems: "a.cc:2: LCOV_EXCL_BR_START without a STOP after it: it excludes nothing"},
		{name: "regions of one kind in each other", source: "a LCOV_EXCL_START\nb LCOV_EXCL_START\nc LCOV_EXCL_STOP\nd\ne LCOV_EXCL_STOP", left: "5",
			listed: "1-4 lines LCOV_EXCL_START\n2-2 lines LCOV_EXCL_START", problems: "a.cc:2: LCOV_EXCL_START in the region that LCOV_EXCL_START of line 1 began: lcov ends both at the next STOP"},
		{name: "START and STOP of two prefixes", source: "a LCOV_EXCL_START\nb GCOVR_EXCL_STOP", left: "2", listed: "1-1 lines LCOV_EXCL_START",
			problems: "a.cc:2: GCOVR_EXCL_STOP ends the region of LCOV_EXCL_START in line 1, which another prefix begins: lcov takes only LCOV_"},
		{name: "no markers", source: "a LCOV_EXCL_LINE\nb LCOV_EXCL_STOP", options: Options{NoMarkers: true}, left: "1 2"},
		{name: "a prefix", source: "a LCOV_EXCL_LINE\nb MINE_EXCL_LINE", options: Options{MarkerPrefixes: []string{"MINE"}}, left: "1", listed: "2-2 lines MINE_EXCL_LINE"},
		{name: "lines by text", source: "assert(x);\r\nb\r\n  assert (y)", options: Options{Lines: []string{`^\s*assert\b.*\)`}}, left: "2", listed: "1-1 lines --exclude-lines ^\\s*assert\\b.*\\)\n3-3 lines --exclude-lines ^\\s*assert\\b.*\\)"},
		{name: "branches by text", source: "if (log)\nb", options: Options{Branches: []string{`log\)$`}}, left: "1- 2", listed: "1-1 branches --exclude-branches log\\)$"},
		{name: "functions by name", source: "_Z5debugi() {\n\n}\ng() {\n\n}\nh.part.0() {", options: Options{Functions: []string{"debug", "h"}}, left: "g 4 5 6",
			listed: "1-3 function --exclude-functions debug\n7-9 function --exclude-functions h"},
		{name: "functions by mangled name and with parameters", source: "_Z5debugi() {\n\n}\n_Z5debugl() {\n\n}\n_Z1fv() {", options: Options{Functions: []string{"debug(long)", "_Z1f?"}}, left: "_Z5debugi 1 2 3",
			listed: "4-6 function --exclude-functions debug(long)\n7-9 function --exclude-functions _Z1f?"},
		{name: "no code", source: "{\n}\n} // end\nreturn {};\n\telse\n});\n/* x */ }", options: Options{NonCode: true}, left: "1- 3- 4 5- 7-",
			listed: "1-1 branches --exclude-noncode\n2-2 lines --exclude-noncode\n3-3 branches --exclude-noncode\n5-5 branches --exclude-noncode\n6-6 lines --exclude-noncode\n7-7 branches --exclude-noncode"},
	} {
		t.Run(test.name, func(t *testing.T) {
			left, listed, problems := excludeFrom(t, test.options, test.source)
			for _, pair := range [][3]string{
				{"left", test.left, strings.Join(left, " ")},
				{"listed", test.listed, strings.Join(listed, "\n")},
				{"problems", test.problems, strings.Join(problems, "\n")},
			} {
				if diff := cmp.Diff(pair[1], pair[2]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", pair[0], diff)
				}
			}
		})
	}
}

func TestExcludeSaysThatASourceIsMissing(t *testing.T) {
	set := func() *coverage.Set {
		return coverage.NewSet(&coverage.File{Name: "/nowhere/a.c", Lines: []coverage.Line{{Number: 1}}}, &coverage.File{Name: "/dev/zero", Lines: []coverage.Line{{Number: 1}}})
	}
	shown := func(path string) string { return path }
	e, err := New(Options{MarkerPrefixes: MarkerPrefixes})
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := e.Apply(set(), shown); len(problems) != 2 || !strings.Contains(problems[0].Err.Error(), "is a device") {
		t.Errorf("problems: %v", problems)
	}
	e, err = New(Options{NoMarkers: true, Functions: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := e.Apply(set(), shown); len(problems) != 0 {
		t.Errorf("no source is needed, but there are problems: %v", problems)
	}
}

func TestExcludeBranchesThatLeadToALine(t *testing.T) {
	source := "f() {\nswitch\ndefault:\nerror GCOVR_EXCL_BR_SOURCE\n}\ng() {\nswitch LCOV_EXCL_BR_SOURCE\n}"
	f := &coverage.File{Name: "a.c",
		Functions: []*coverage.Function{{Name: "f", StartLine: 1, EndLine: 5}, {Name: "g", StartLine: 6, EndLine: 8}},
		Lines: []coverage.Line{
			{Number: 2, Branches: []coverage.Branch{{To: 3}, {To: 4}, {To: 5}, {}}},
			{Number: 7, Branches: []coverage.Branch{{To: 4}}}, // to a line of another function: a macro
		}}
	e, err := New(Options{MarkerPrefixes: MarkerPrefixes, ReadInto: func([]byte, string) ([]byte, error) { return []byte(source), nil }})
	if err != nil {
		t.Fatal(err)
	}
	excluded, problems := e.Apply(coverage.NewSet(f), func(s string) string { return s })
	want := []coverage.Line{{Number: 2, Branches: []coverage.Branch{{To: 3}, {To: 5}, {}}}, {Number: 7, Branches: []coverage.Branch{{To: 4}}}}
	if diff := cmp.Diff(want, f.Lines); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	list := []Exclusion{{File: "a.c", First: 4, Last: 4, What: "branches", Rule: "GCOVR_EXCL_BR_SOURCE", Branches: coverage.Ratio{Total: 1}}}
	if diff := cmp.Diff(list, excluded.List); diff != "" {
		t.Errorf("list (-want +got)\n%s", diff)
	}
	if len(problems) != 1 || problems[0].Line != 7 {
		t.Errorf("problems: %v", problems)
	}
}

func TestExcludeLeavesOutWhatTestsHit(t *testing.T) {
	lines := []coverage.Line{{Number: 1, Count: 1}, {Number: 2, Count: 5}, {Number: 4, Count: 2}}
	f := &coverage.File{Name: "a.c", Lines: lines, Tests: []coverage.Test{
		{Name: "all", Hits: coverage.AppendHits(nil, lines)}, {Name: "excluded", Hits: coverage.AppendHits(nil, lines[1:2])},
	}}
	e, err := New(Options{MarkerPrefixes: MarkerPrefixes, ReadInto: func([]byte, string) ([]byte, error) { return []byte("a\nb LCOV_EXCL_LINE"), nil }})
	if err != nil {
		t.Fatal(err)
	}
	e.Apply(coverage.NewSet(f), func(s string) string { return s })
	want := []coverage.Test{{Name: "all", Hits: coverage.AppendHits(nil, []coverage.Line{{Number: 1, Count: 1}, {Number: 4, Count: 2}})}}
	if diff := cmp.Diff(want, f.Tests); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestExcludeOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Lines: []string{"("}}, {Branches: []string{"["}}, {Functions: []string{""}}, {MarkerPrefixes: []string{"a-b"}}, {MarkerPrefixes: []string{""}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// FuzzExclude checks that any source and any numbers of lines are taken, and
// that what is left out is what is said to be.
func FuzzExclude(f *testing.F) {
	f.Add([]byte("f() { // GCOVR_EXCL_FUNCTION\n}\nx LCOV_EXCL_START\ny LCOV_EXCL_STOP LCOV_UNREACHABLE_LINE\nif // LCOV_EXCL_BR_WITHOUT_HIT: 1/2 \xff"), int32(1), int32(4))
	f.Add([]byte("_EXCL__EXCL_LINELCOV_EXCL_\nLCOV_EXCL_BR_START"), int32(-5), int32(1<<31-1))
	f.Fuzz(func(t *testing.T, source []byte, start, end int32) {
		file := &coverage.File{Name: "a.c", Functions: []*coverage.Function{{Name: "f", StartLine: start, EndLine: end, Instances: []coverage.Instance{{Name: "f"}}}}}
		for n := int32(1); n < 8; n++ {
			file.Lines = append(file.Lines, coverage.Line{Number: n, Count: int64(n % 2), Branches: []coverage.Branch{{}, {Count: 1}, {Exception: true}}})
		}
		if end > 8 {
			file.Lines = append(file.Lines, coverage.Line{Number: end})
		}
		set := coverage.NewSet(file)
		before := set.Totals()
		e, err := New(Options{MarkerPrefixes: MarkerPrefixes, NonCode: true, Lines: []string{"x$"}, Functions: []string{"g*"},
			ReadInto: func([]byte, string) ([]byte, error) { return source, nil }})
		if err != nil {
			t.Fatal(err)
		}
		excluded, _ := e.Apply(set, func(s string) string { return s })
		if got := before.Minus(set.Totals()); got != excluded.Totals {
			t.Errorf("left out %+v, said %+v", got, excluded.Totals)
		}
		if (excluded.Totals != coverage.Totals{}) && len(excluded.List) == 0 {
			t.Errorf("left out %+v, by no rule", excluded.Totals)
		}
	})
}

// TestExcludeFromLargeSet takes conditions out that no list of exclusions counts, of a
// set that holds its files packed.
func TestExcludeFromLargeSet(t *testing.T) {
	big := &coverage.File{Name: "/big.c"}
	for n := range int32(1 << 18) {
		big.Lines = append(big.Lines, coverage.Line{Number: n + 1, Count: 1})
	}
	set := coverage.NewSet(big, &coverage.File{Name: "/a.c", Lines: []coverage.Line{
		{Number: 1, Count: 1, Conditions: []coverage.Condition{{Terms: []coverage.Term{{True: true}, {}}}}},
		{Number: 2, Count: 1},
	}})
	e, err := New(Options{MarkerPrefixes: MarkerPrefixes, ReadInto: func(_ []byte, name string) ([]byte, error) {
		if name == "/a.c" {
			return []byte("if (a && b) // LCOV_EXCL_BR_LINE\nf();\n"), nil
		}
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	excluded, problems := e.Apply(set, func(path string) string { return path })
	if l := set.File("/a.c").Lines[0]; len(l.Conditions) > 0 || excluded.Totals.Conditions.Total != 4 || len(problems) > 0 {
		t.Errorf("line %+v, excluded %+v, problems %v", l, excluded.Totals, problems)
	}
}

// TestExcludedAdd: what is excluded of data and of reports is one list by file.
func TestExcludedAdd(t *testing.T) {
	one := func(file string, first int32) Excluded {
		return Excluded{[]Exclusion{{File: file, First: first}}, coverage.Totals{Lines: coverage.Ratio{Covered: 1, Total: 2}}}
	}
	e := one("b.c", 3)
	e.Add(one("a.c", 9))
	e.Add(one("b.c", 1))
	if got := e.InFile("b.c"); len(got) != 2 || got[0].First != 1 || got[1].First != 3 || len(e.InFile("a.c")) != 1 {
		t.Errorf("of b.c %+v, in all %+v", got, e.List)
	}
	if e.String() != "6 lines excluded" {
		t.Error(e)
	}
}
