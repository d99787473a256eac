package tracefiles

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
)

// TestReadAll reads many files at the same time, of which some are compressed
// and some cannot be used.
func TestReadAll(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i := range 40 {
		name := filepath.Join(dir, fmt.Sprint(i))
		text := fmt.Sprintf("TN:t%d\nSF:shared.c\nDA:1,1\nDA:%d,2\nend_of_record\nSF:own%d.c\nDA:1,1\nend_of_record\n", i%4, i+2, i)
		if i%10 == 9 {
			text = "nothing\n"
		}
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			z := gzip.NewWriter(f)
			z.Write([]byte(text))
			err = z.Close()
		} else {
			_, err = f.WriteString(text)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	names = append(names, filepath.Join(dir, "missing"))
	asked := make(map[string]int)
	last := 0
	set, problems := ReadAll(names, Options{
		Source: func(cwd, name string) (string, bool) {
			asked[name]++
			return "/src/" + name, name != "own3.c"
		},
		Progress: func(done, total int) { last = done*1000 + total },
	})
	if len(problems) != 5 || last != 41041 {
		t.Errorf("%d problems: %v; progress %d", len(problems), problems, last)
	}
	if set.Len() != 1+36-1 || asked["shared.c"] == 0 {
		t.Errorf("%d files, asked %v", set.Len(), asked)
	}
	shared := set.At(set.Len() - 1)
	var tests []string
	for _, test := range shared.Tests {
		tests = append(tests, test.Name)
	}
	if diff := cmp.Diff([]string{"t0", "t1", "t2", "t3"}, tests); diff != "" {
		t.Errorf("tests (-want +got)\n%s", diff)
	}
	if got := (coverage.Line{Number: 1, Count: 36}); !cmp.Equal(shared.Lines[0], got) || len(shared.Lines) != 37 {
		t.Errorf("%d lines of %s, the first %+v", len(shared.Lines), shared.Name, shared.Lines[0])
	}
}

func TestWhatIsNoReport(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "empty, expected a coverage report",
		" \n":                          "empty, expected a coverage report",
		"        -:    0:Source:a.c\n": "a listing of gcov, which cannot be read back: name the .gcda file, or write it with gcov --json-format",
		`{"data":[{"files":[]}]}`:      "JSON, but no list of files: expected a report of gcov --json-format, gcovr --json or footfall report --output json",
		`{"files":[{"filename":"a.c","line_percent":3}]}`: "JSON without lines, perhaps a summary: expected a report of gcov --json-format, gcovr --json or footfall report --output json",
		`{"files":3`:                   "at offset 0xa: the file ends, expected a comma or }",
		`{"files":[`:                   "",
		"<report name=\"x\"></report>": "XML with <report>, expected <coverage> as Cobertura writes it",
		"<coverage></coverage>":        "no <class> in it: expected a report as Cobertura writes it, with lines",
		"<coverage a=b>":               "at offset 0xe: <coverage a=b>: expected attributes as name=\"value\"",
		"int main(void)\n":             "neither coverage data nor a report that is known: expected a tracefile of lcov, JSON of gcov, gcovr or footfall, Cobertura's XML or a profile of Go",
	} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, _, err := Read(name, Options{}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestGoProfile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "// a module\nmodule example.com/m // of ours\n",
		"p/a.go": "package p\n\ntype T[K any] struct{}\n\nfunc (t *T[K]) M(n int) int {\n\tif n > 3 { // deep\n\t\treturn 1\n\t} else {\n\n\t\tn++\n\t}\n\treturn len(`a\nb`)\n}\n\nfunc never() {}\n",
		"x.out": "mode: count\nexample.com/m/p/a.go:5.30,6.11 1 7\nexample.com/m/p/a.go:6.11,8.3 1 0\nexample.com/m/p/a.go:8.8,11.3 1 7\nexample.com/m/p/a.go:12.2,13.4 1 7\nexample.com/m/p/a.go:16.14,16.15 0 0\n" +
			"example.com/m/gone.go:3.4,5.6 1 2\nnonsense\nexample.com/m/gone.go:9.9,3.4 1 1\n",
	} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o777)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	set, problems, err := Read(filepath.Join(dir, "x.out"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantProblems := []string{
		"file: line 8: expected file:line.column,line.column statements count",
		"file: line 9: expected file:line.column,line.column statements count",
		"file: sources not found: 1; their lines between statements count as code, and functions are not known; run footfall in the module's directory",
	}
	if diff := cmp.Diff(wantProblems, texts(problems)); diff != "" {
		t.Errorf("problems (-want +got)\n%s", diff)
	}
	line := func(n int32, count int64) coverage.Line { return coverage.Line{Number: n, Count: count} }
	function := func(name string, start, column, end, endColumn int32, count int64, blocks, ran int32) *coverage.Function {
		return &coverage.Function{Name: name, StartLine: start, StartColumn: column, EndLine: end, EndColumn: endColumn, Count: count,
			Blocks: blocks, BlocksExecuted: ran, Instances: []coverage.Instance{{Name: name, Count: count, Blocks: blocks, BlocksExecuted: ran}}}
	}
	want := coverage.NewSet(
		&coverage.File{Name: filepath.Join(dir, "gone.go"), Lines: []coverage.Line{line(3, 2), line(4, 2), line(5, 2)}},
		&coverage.File{Name: filepath.Join(dir, "p/a.go"),
			Functions: []*coverage.Function{function("p.(*T).M", 5, 1, 14, 1, 7, 4, 3), function("p.never", 16, 1, 16, 15, 0, 1, 0)},
			Lines:     []coverage.Line{line(5, 7), line(6, 7), line(7, 0), line(10, 7), line(12, 7), line(13, 7), line(16, 0)}},
	)
	if diff := cmp.Diff(want.Files(), set.Files()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCobertura(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"one", "two"} {
		os.Mkdir(filepath.Join(dir, d), 0o777)
	}
	if err := os.WriteFile(filepath.Join(dir, "two/b<&>.c"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	set, problems := readText(t, `<?xml version='1.0'?><!DOCTYPE coverage SYSTEM "x" [<!ELEMENT coverage (sources)>]>
<!-- <class filename="no.c"> --><coverage><sources><source>`+dir+`/one</source><source><![CDATA[`+dir+`]]>/two</source></sources>
<packages><package><classes>
<class filename='b&lt;&amp;&#62;.c'><methods><method name="f" signature="(int, &quot;&#x41;&unknown;)"><lines><line number="2" hits="5"/><line number="3" hits="0"/></lines></method></methods>
<lines><line number="2" hits="5" branch="false"/><line number="3" hits="0" branch="true" condition-coverage="66% (2/3)"/>
<line number="4" hits="1" condition-coverage="50% (1/9999999999)"/><line hits="3"/></lines></class>
<class filename="c.c"><lines><line number="1" hits="1"></line></lines></class></classes></package></packages></coverage>`)
	taken := coverage.Branch{Count: 1, Evaluated: true, List: true, Guessed: true}
	want := coverage.NewSet(
		&coverage.File{Name: filepath.Join(dir, "one/c.c"), Lines: []coverage.Line{{Number: 1, Count: 1}}},
		&coverage.File{Name: filepath.Join(dir, "two/b<&>.c"),
			Functions: []*coverage.Function{{Name: `f(int, "A&unknown;)`, StartLine: 2, EndLine: 3, Count: 5, Instances: []coverage.Instance{{Name: `f(int, "A&unknown;)`, Count: 5}}}},
			Lines:     []coverage.Line{{Number: 2, Count: 5}, {Number: 3, Branches: []coverage.Branch{taken, taken, {Evaluated: true, List: true, Guessed: true}}}, {Number: 4, Count: 1}}},
	)
	if diff := cmp.Diff(want.Files(), set.Files()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(problems) != 2 {
		t.Errorf("problems: %s", problems)
	}
}
