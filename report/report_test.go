package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/output"
	"footfall/report/fixtures"
	"footfall/report/source"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// example is a report with a bit of everything.
func example() *Report {
	return &Report{Set: fixtures.Set(), Shown: func(path string) string { return strings.TrimPrefix(path, "/p/") }}
}

// requested is what --output asks for.
func requested(t *testing.T, value string) output.Request {
	t.Helper()
	list, err := output.Parse([]string{value}, Formats(), output.Stdout{})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func written(t *testing.T, r *Report, value string) string {
	t.Helper()
	o := requested(t, value)
	var b bytes.Buffer
	if _, err := r.Write(o, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrite(t *testing.T) {
	all := example()
	all.ExceptionBranches = true
	narrow, color := example(), example()
	narrow.Width = 60
	color.Color = true
	empty := &Report{Set: &coverage.Set{}}
	for _, test := range []struct {
		name, output string
		report       *Report
		golden       string
	}{
		{"text", "text", example(), "text.golden"},
		{"text with exception branches", "text=-", all, "exceptions.golden"},
		{"text of a narrow terminal", "text", narrow, "narrow.golden"},
		{"text in colour", "text", color, "color.golden"},
		{"lcov", "lcov", example(), "lcov.golden"},
		{"lcov with exception branches", "lcov", all, "lcov-exceptions.golden"},
		{"lcov 2.0", "lcov2", example(), "lcov2.golden"},
		{"lcov 1", "lcov1", example(), "lcov1.golden"},
		{"lcov 1 with exception branches", "lcov1", all, "lcov1-exceptions.golden"},
		{"json", "json", example(), "json.golden"},
		{"json of nothing", "json", empty, "json-empty.golden"},
	} {
		t.Run(test.name, func(t *testing.T) {
			golden(t, test.golden, written(t, test.report, test.output))
		})
	}
}

// golden compares a report with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", name, diff)
	}
}

func TestJSONIsValidAndOneFileALine(t *testing.T) {
	r := example()
	r.Set.At(1).Name = "/q/\x01\xff\\ü"
	text := written(t, r, "json")
	var doc struct {
		Format  string
		Version int
		Files   []struct{ File string }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Version != 1 || len(doc.Files) != 2 || doc.Files[1].File != "/q/\x01\\xff\\ü" {
		t.Errorf("read back: %+v", doc)
	}
	lines := strings.Split(text, "\n")
	for _, l := range lines[1:3] {
		if !json.Valid([]byte(strings.TrimSuffix(l, ","))) {
			t.Errorf("not a JSON value: %s", l)
		}
	}
}

func TestLcovNamesAreUnique(t *testing.T) {
	r := &Report{Shown: func(p string) string { return p }, Set: coverage.NewSet(&coverage.File{
		Name: "/a.c",
		Functions: []*coverage.Function{
			{StartLine: 3, Instances: []coverage.Instance{{Name: "f", Count: 1}}},
			{StartLine: 9, Instances: []coverage.Instance{{Name: "f"}}},
			{StartLine: 9, StartColumn: 5, Instances: []coverage.Instance{{Name: "f", Count: 2}}},
		},
	})}
	for format, want := range map[string]string{
		"lcov":  "TN:\nSF:/a.c\nFNL:0,3\nFNA:0,1,f\nFNL:1,9\nFNA:1,2,f@9\nFNF:2\nFNH:2\nLF:0\nLH:0\nend_of_record\n",
		"lcov2": "TN:\nSF:/a.c\nFN:3,f\nFN:9,f@9\nFNDA:1,f\nFNDA:2,f@9\nFNF:2\nFNH:2\nLF:0\nLH:0\nend_of_record\n",
	} {
		if diff := cmp.Diff(want, written(t, r, format)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", format, diff)
		}
	}
}

func TestListings(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "src", "a.cc")
	if err := os.Mkdir(filepath.Dir(source), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source, []byte("template<class T>\nT max(T a, T b) {\n\treturn a;\n}\n\nint main() {\n}"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := example()
	r.Set.At(0).Name = source
	r.Shown = func(path string) string { return strings.TrimPrefix(path, dir+"/") }
	out := filepath.Join(dir, "out", "deep")
	o := requested(t, "gcov="+out)
	problems, err := r.Write(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != 1 || problems[0].File != "/q/\"odd\".h" || !errors.Is(problems[0].Err, fs.ErrNotExist) {
		t.Errorf("problems: %v", problems)
	}
	for name, want := range map[string]string{
		"src#a.cc.gcov": `        -:    0:Source:src/a.cc
        -:    1:template<class T>
        3:    2:T max(T a, T b) {
       3*:    3:	return a;
branch  0 taken 2 (fallthrough)
branch  1 taken 0
branch  2 never executed
branch  3 never executed
condition outcomes covered 3/4
condition  1 not covered (false)
        -:    4:}
        -:    5:
    #####:    6:int main() {
    =====:    7:}
`,
		`#q#"odd".h.gcov`: "        -:    0:Source:/q/\"odd\".h\n        1:    1:\n",
	} {
		got, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestListingNamesDiffer(t *testing.T) {
	long := strings.Repeat("d/", 200)
	seen := make(map[string]string)
	for _, path := range []string{
		"a.c", "b/a.c", "b#a.c", "/b/a.c", "#b/a.c", "b%23a.c", "%23b/a.c", long + "a.c", "x/" + long + "a.c", "/" + long + "a.c",
	} {
		name := listingName(path)
		if before, again := seen[name]; again {
			t.Errorf("%s and %s are both %s", before, path, name)
		}
		seen[name] = path
		if len(name) > 255 || strings.Contains(name, "/") {
			t.Errorf("%s: no name for a file", name)
		}
	}
}

func TestWriteFileReplacesAtOnce(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "out")
	if err := os.WriteFile(name, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("out", link); err != nil {
		t.Fatal(err)
	}
	r := example()
	o := requested(t, "lcov="+link)
	r.Shown = nil // lcov wants none
	if _, err := r.Write(o, nil); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); !bytes.HasPrefix(got, []byte("TN:")) {
		t.Errorf("%s was not written through the link: %q", name, got)
	}
	o = requested(t, "json="+name)
	defer func() {
		if recover() == nil {
			t.Fatal("no panic from a report without names")
		}
		if got, _ := os.ReadFile(name); !bytes.HasPrefix(got, []byte("TN:")) {
			t.Error("an output that failed destroyed the older one")
		}
	}()
	r.Write(o, nil)
}

func TestFilesHaveNoColours(t *testing.T) {
	r := example()
	want := written(t, r, "text")
	r.Color, r.Width = true, 60
	name := filepath.Join(t.TempDir(), "out")
	written(t, r, "text="+name)
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-standard output +file)\n%s", diff)
	}
}

func TestThresholds(t *testing.T) {
	r := example()
	for _, test := range []struct {
		threshold, missed string
	}{
		{"lines=60", ""},
		{"lines=60.1", "60.0% of lines are covered (3 of 5), 60.1% are required"},
		{"lines=100%", "60.0% of lines are covered (3 of 5), 100% are required"},
		{"functions=66.67", "66.6% of functions are covered (2 of 3), 66.67% are required"},
		{"branches=25", ""},
		{"branches=26", "25.0% of branches are covered (1 of 4), 26% are required"},
		{"conditions=80", "75.0% of conditions are covered (3 of 4), 80% are required"},
		{"calls=100", ""},
	} {
		th, err := ParseThreshold(test.threshold)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := r.Missed(th); got != test.missed {
			t.Errorf("%s: %q, want %q", test.threshold, got, test.missed)
		}
	}
	r.ExceptionBranches = true
	th, _ := ParseThreshold("branches=33")
	if got := r.Missed(th); got != "" {
		t.Errorf("with exception branches: %s", got)
	}
	r.Set = &coverage.Set{}
	if got, want := r.Missed(th), "there are no branches in the coverage data, 33% of them are required"; got != want {
		t.Errorf("of nothing: %q, want %q", got, want)
	}
	for _, bad := range []string{"", "lines", "lines=", "lines=x", "lines=-1", "lines=101", "lines=NaN", "words=1"} {
		if _, err := ParseThreshold(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestPrintProblems(t *testing.T) {
	var problems []source.Problem
	for _, f := range []string{"e", "d", "c", "b", "a"} {
		problems = append(problems, source.NewProblem(source.NoNotes, f, errors.New("no notes")))
	}
	problems = append(problems, source.Problem{File: "x", Offset: 64, Kind: "damaged files", Err: errors.New("cut off")}, source.Problem{File: "x", Offset: 8, Kind: "damaged files", Err: errors.New("bad")})
	var few, all bytes.Buffer
	source.PrintProblems(&few, problems, false)
	source.PrintProblems(&all, problems, true)
	want := "footfall: 5 data files without notes (--verbose lists them), the first: a: no notes\n" +
		"footfall: x: at offset 0x8: bad\nfootfall: x: at offset 0x40: cut off\n"
	if diff := cmp.Diff(want, few.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := strings.Count(all.String(), "\n"); n != 7 {
		t.Errorf("%d lines of all, want 7:\n%s", n, all.String())
	}
}
