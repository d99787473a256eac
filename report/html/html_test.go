package html

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/flate"

	"footfall/coverage"
	"footfall/input"
	"footfall/output"
	"footfall/report/change"
	"footfall/report/exclude"
	"footfall/report/fixtures"
	"footfall/report/source"
)

// pagesOf writes the pages of a report and returns them by name.
func pagesOf(t *testing.T, c Contents) (map[string]string, []source.Problem) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pages")
	problems := writtenTo(t, c, dir)
	return readTree(t, dir), problems
}

func writtenTo(t *testing.T, c Contents, target string) []source.Problem {
	t.Helper()
	problems, err := Write(c, target)
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	content := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var data []byte
			data, err = os.ReadFile(name)
			rel, _ := filepath.Rel(dir, name)
			content[rel] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// sourced is the example with a source on disk, below a directory that is
// returned.
func sourced(t *testing.T, source string) (Contents, string) {
	t.Helper()
	dir := t.TempDir()
	c := Contents{Set: fixtures.Set(), ReadSource: input.ReadSource}
	c.Root = dir
	c.Shown = func(p string) string { return strings.TrimPrefix(p, dir+"/") }
	for i, name := range []string{"src/a.cc", `src/<i>"&amp;#%é` + "\xff.h"} {
		c.Set.At(i).Name = filepath.Join(dir, name)
		os.MkdirAll(filepath.Join(dir, "src"), 0o777)
		if err := os.WriteFile(c.Set.At(i).Name, []byte(source), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return c, dir
}

const exampleSource = "// </li><script>\ntemplate <class T> T max(T a, T b)\n{ return a && b; }\n\nint x;\r\nint main() {\n  throw 1;\n}\n\n"

var anyTag = regexp.MustCompile(`(?s)<[a-z/!][^>]*>`)

// readable is what is read of a page without JavaScript.
func readable(page string) string { return html.UnescapeString(anyTag.ReplaceAllString(page, "")) }

func TestPages(t *testing.T) {
	c, _ := sourced(t, exampleSource)
	c.Time = time.Unix(1700000000, 0)
	pages, problems := pagesOf(t, c)
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	odd := "files/src~=3Ci=3E=22=26amp=3B=23=25=C3=A9=FF.h.html"
	var names []string
	for name := range pages {
		names = append(names, name)
	}
	for _, name := range []string{"index.html", "functions.html", "footfall.css", "footfall.js", "files/src~a.cc.html", odd} {
		if pages[name] == "" {
			t.Errorf("no %s among %q", name, names)
		}
	}

	// A source with counts, outcomes and instances.
	page := pages["files/src~a.cc.html"]
	for _, want := range []string{
		"<li><i>// &lt;/li>&lt;script></i>\n",
		`<li id=L2><b>3</b><a>template</a> &lt;<a>class</a> T> T max(T a, T b)` + "\n",
		"<details class=f><summary>2 instances, <u>1 never called</u></summary>",
		`<tr><td><u>never</u><td>0/2<td>0/4<td>max&lt;long><tr><td>3<td>1/2<td>3/4<td><details><summary>max&lt;int><br><small>never ran: 3</small></summary><p class=m>2: 3, 3: <u>never</u></details></table>`,
		"<li><b class=p>3</b>{ <a>return</a> a && b; }\n<details><summary>1/4</summary><p>↓ 2, <u>↷ never</u><p><u>never reached</u><p class=d>term 1 both, term 2 true, <u>never false</u><p class=k>1</details>",
		"<li><a>int</a> x;\n",
		`<li id=L6><u>0</u><a>int</a> main() {`,
		"<li><u class=x>0</u>  <a>throw</a> <q>1</q>;\n",
		"2 functions, 1 never called",
		`<tr><td><a href="#L6">main</a><td><u>never</u><td>2<td>0/2`,
		"data of 2023-11-14 22:13 UTC",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	for _, line := range strings.Split(strings.ReplaceAll(exampleSource, "\r", ""), "\n") {
		if !strings.Contains(readable(page), line) {
			t.Errorf("%q cannot be read", line)
		}
	}

	// Names get nowhere they do not belong.
	index := pages["index.html"]
	for _, want := range []string{
		`<a href="` + odd + `">&lt;i&gt;&#34;&amp;amp;#%é\xff.h</a>`,
		`<tr class=f1><th scope=row><a href="files/src~a.cc.html">a.cc</a><td><progress value=2 max=4 aria-hidden=true></progress><td>2<td>50.0%<td>2/4<td>50.0%<td>1/2<td>25.0%<td>1/4<td>75.0%<td>3/4`,
		`<a href="files/src~a.cc.html#L6">main</a>`,
	} {
		if !strings.Contains(index, want) {
			t.Errorf("no %q in\n%s", want, index)
		}
	}
	for name, text := range pages {
		if strings.HasSuffix(name, ".html") && (strings.Contains(text, "<i>\"") || strings.Contains(text, "\xff") || !strings.HasPrefix(text, ours)) {
			t.Errorf("%s: a name is out of its place:\n%s", name, text)
		}
	}

	again, _ := pagesOf(t, c)
	if diff := cmp.Diff(pages, again); diff != "" {
		t.Errorf("not the same twice: %s", diff)
	}
}

func TestPagesOfSourcesThatChanged(t *testing.T) {
	c, _ := sourced(t, exampleSource)
	a, b := c.Set.At(0).Name, c.Set.At(1).Name
	c.Stale = []string{a}
	pages, problems := pagesOf(t, c)
	if !strings.Contains(pages["files/src~a.cc.html"], "changed since it was compiled") || strings.Contains(pages["files/src~b.cc.html"], "changed since") || len(problems) > 0 {
		t.Errorf("a source that was changed is not marked, or another is, or a problem: %v", problems)
	}

	if err := os.WriteFile(a, []byte("int x;\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	pages, problems = pagesOf(t, c)
	page := pages["files/src~a.cc.html"]
	for _, want := range []string{"The source has changed since the build: line 7 was counted, and it has only 2.", "<li><a>int</a> x;\n", "</ol><ol start=6>\n<li id=L6><u>0</u>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	missing := pages["files/src~=3Ci=3E=22=26amp=3B=23=25=C3=A9=FF.h.html"]
	if !strings.Contains(missing, "The source could not be read (no such file or directory)") || !strings.Contains(missing, `<ol start=1>`) || !strings.Contains(missing, `<b>1</b><i>inl</i>`) {
		t.Errorf("a missing source:\n%s", missing)
	}
	if len(problems) != 2 {
		t.Errorf("problems: %v", problems)
	}
}

// TestPagesReplaceOnlyOurs has pages of sources that are gone removed, and all
// that is not of a report left alone.
func TestPagesReplaceOnlyOurs(t *testing.T) {
	c, _ := sourced(t, exampleSource)
	dir := t.TempDir()
	foreign := filepath.Join(dir, "index.html")
	os.WriteFile(foreign, []byte("<!doctype html>\nmine"), 0o666)
	if _, err := Write(c, dir); err == nil || !strings.Contains(err.Error(), "not a page of a report") {
		t.Fatalf("a page of something else is replaced: %v", err)
	}
	os.Remove(foreign)
	writtenTo(t, c, dir)
	mine := filepath.Join(dir, "files", "mine.html")
	os.WriteFile(mine, []byte("mine"), 0o666)
	c.Set = coverage.NewSet(c.Set.At(0))
	writtenTo(t, c, dir)
	got := readTree(t, filepath.Join(dir, "files"))
	if len(got) != 2 || got["mine.html"] != "mine" || got["src~a.cc.html"] == "" {
		t.Errorf("after a report with one source: %d files", len(got))
	}
}

// TestHugeSource has a source of 100,000 lines in pages of 3 MB at most, each
// line in one.
func TestHugeSource(t *testing.T) {
	const lines = 100_000
	dir := t.TempDir()
	var source bytes.Buffer
	f := &coverage.File{Name: filepath.Join(dir, "huge.c")}
	for n := int32(1); n <= lines; n++ {
		fmt.Fprintf(&source, "int line_%d(int x) { return x > %d ? \"a string\"[x & 7] : 0; } /* a comment */\n", n, n)
		f.Lines = append(f.Lines, coverage.Line{Number: n, Count: int64(n % 3), Branches: []coverage.Branch{{Count: 1, Evaluated: true}, {Evaluated: true}}})
		if n%7 == 0 {
			fn := &coverage.Function{StartLine: n, EndLine: n, Name: fmt.Sprint("_Z", n, "line"), Count: int64(n % 3)}
			for i := range 30 {
				fn.Instances = append(fn.Instances, coverage.Instance{Name: fmt.Sprintf("_Z4lineILi%dEEvv", i), Count: int64(i)})
			}
			f.Functions = append(f.Functions, fn)
		}
	}
	if err := os.WriteFile(f.Name, source.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	c := Contents{ReadSource: input.ReadSource, Set: coverage.NewSet(f), Shown: filepath.Base, Root: dir}
	pages, _ := pagesOf(t, c)
	if len(pages) < 8 || pages["files/huge.c=part2.html"] == "" {
		t.Fatalf("%d pages", len(pages))
	}
	found := 0
	number := regexp.MustCompile(`line_(\d+)`)
	start := regexp.MustCompile(`<ol start=(\d+)>\n<li[^\n]*line_(\d+)\(`)
	for name, text := range pages {
		if len(text) > 3e6 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
		if strings.HasPrefix(name, "files/") {
			found += len(number.FindAllString(text, -1))
		}
		for _, m := range start.FindAllStringSubmatch(text, -1) {
			if m[1] != m[2] {
				t.Errorf("%s: line %s has number %s", name, m[2], m[1])
			}
		}
	}
	if found != lines {
		t.Errorf("%d lines", found)
	}
	links := regexp.MustCompile(`href="(files/huge.c[^"#]*)#(L\d+)"`).FindAllStringSubmatch(pages["functions.html"], -1)
	if len(links) == 0 {
		t.Error("no links to functions")
	}
	for i, m := range links {
		if i%100 == 0 && !strings.Contains(pages[m[1]], "id="+m[2]+">") {
			t.Fatalf("%s does not lead to a line", m[0])
		}
	}
}

func TestSinglePage(t *testing.T) {
	c, dir := sourced(t, exampleSource)
	name := filepath.Join(dir, "all.html")
	writtenTo(t, c, name)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, want := range []string{
		`<a href="#src~a.cc">a.cc</a>`, `<a href="#src~a.cc:L6">main</a>`, `<li id="src~a.cc:L6"><u>0</u>`,
		`id="src~a.cc"`, "color-scheme: light dark", "'use strict'",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	for _, outside := range []string{"<link", "src=\"", "href=\"files", "href=\"index"} {
		if strings.Contains(page, outside) {
			t.Errorf("%q leads out of the page", outside)
		}
	}

	// Much is compressed.
	os.WriteFile(c.Set.At(0).Name, []byte(exampleSource+strings.Repeat("int one_of_many_lines;\n", 100_000)), 0o666)
	writtenTo(t, c, name)
	if data, err = os.ReadFile(name); err != nil {
		t.Fatal(err)
	}
	if len(data) > 1e6 {
		t.Errorf("%d bytes", len(data))
	}
	packed := regexp.MustCompile(`<script type="text/plain">([^<]*)</script>`).FindSubmatch(data)
	if packed == nil {
		t.Fatal("nothing is compressed")
	}
	content, err := io.ReadAll(flate.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(packed[1]))))
	if err != nil || !bytes.Contains(content, []byte(`<li id="src~a.cc:L6"><u>0</u>`)) || bytes.Count(content, []byte("one_of_many_lines")) != 100_000 {
		t.Errorf("what is compressed: %v, %d bytes", err, len(content))
	}
}

// TestLinksToLines: where a function begins there is a line to which its name leads, also
// where nothing counts there and the source is shorter, or is not there.
func TestLinksToLines(t *testing.T) {
	dir := t.TempDir()
	functions := func() []*coverage.Function {
		return []*coverage.Function{
			{Name: "f", StartLine: 1, Count: 1}, {Name: "g", StartLine: 3}, {Name: "h", StartLine: 7}, {Name: "i", StartLine: 7},
			{Name: "j", StartLine: 100000}, {Name: "k", StartLine: math.MaxInt32},
		}
	}
	lines := []coverage.Line{{Number: 2, Count: 1}, {Number: 8}, {Number: 100001}}
	short, missing := filepath.Join(dir, "short.c"), filepath.Join(dir, "missing.c")
	if err := os.WriteFile(short, []byte("f\n1\ng\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	c := Contents{ReadSource: input.ReadSource, Shown: filepath.Base, Root: dir, Set: coverage.NewSet(
		&coverage.File{Name: short, Lines: lines, Functions: functions()}, &coverage.File{Name: missing, Lines: lines, Functions: functions()})}
	pages, _ := pagesOf(t, c)
	for _, name := range []string{"files/short.c.html", "files/missing.c.html"} {
		links := regexp.MustCompile(`href="#(L\d+)"`).FindAllStringSubmatch(pages[name], -1)
		if len(links) != 6 {
			t.Errorf("%s: %d links to functions", name, len(links))
		}
		for _, m := range links {
			if n := strings.Count(pages[name], "<li id="+m[1]+">"); n != 1 {
				t.Errorf("%s: %d lines have the name %s", name, n, m[1])
			}
		}
	}
}

// TestDeepNames: a path of thousands of directories, as a report may have, does not
// write each of them thousands of times.
func TestDeepNames(t *testing.T) {
	name := "/src/" + strings.Repeat("am/m/", 3000) + "a.c"
	c := Contents{ReadSource: input.ReadSource, Set: coverage.NewSet(
		&coverage.File{Name: name, Lines: []coverage.Line{{Number: 1, Count: 1}}},
		&coverage.File{Name: "/src/am/b.c", Lines: []coverage.Line{{Number: 1}}},
	), Shown: func(name string) string { return name }}
	pages, _ := pagesOf(t, c)
	size := 0
	for _, page := range pages {
		size += len(page)
	}
	if size > 5<<20 || !strings.Contains(pages["index.html"], ">b.c</a>") || !strings.Contains(pages["index.html"], ">a.c</a>") {
		t.Errorf("%d bytes", size)
	}
	if list, base := crumbs(name); len(list) != mostCrumbs || base != "a.c" || list[len(list)-1].Target+base != name {
		t.Errorf("%d directories, then %q", len(list), base)
	}
}

func TestPageNames(t *testing.T) {
	n := newPageNames()
	long := strings.Repeat("directory/", 100)
	seen := make(map[string]bool)
	for _, path := range []string{"a.c", "A.c", "a~c", "a/c", "/a/c", "a c", "=20", "a=20c", long + "x.c", long + "y.c", "", "\x00"} {
		name := strings.ToLower(n.name(path))
		if seen[name] || len(name) > 230 || strings.ContainsAny(name, "/\x00 %#?&\"'") {
			t.Errorf("%q is %q", path, name)
		}
		seen[name] = true
	}
}

func TestShortCounts(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999_999_999: "999999999", 1_000_000_000: "1.00G", 12_345_678_901: "12.34G", 999_999_999_999: "999.99G", 1_000_000_000_000: "1.00T", 1<<63 - 1: "9.22E",
	} {
		if got := string(appendShortCount(nil, n)); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// TestPagesMarkWhatIsChangedAndExcluded is about lines of a patch, and lines
// that rules leave out.
func TestPagesMarkWhatIsChangedAndExcluded(t *testing.T) {
	c, _ := sourced(t, exampleSource)
	f := c.Set.At(0).Name
	c.Excluded.List = []exclude.Exclusion{{File: f, First: 4, Last: 5, What: "lines", Rule: "LCOV_EXCL_<START>"}, {File: f, First: 8, Last: 8, What: "branches"}}
	c.Patch = change.PatchOf(map[string]coverage.Edits{f: {{Old: 7, New: 7, Inserted: 1}}})
	pages, _ := pagesOf(t, c)
	page := pages["files/src~a.cc.html"]
	for _, want := range []string{"<li class=e> <small>excluded: LCOV_EXCL_&lt;START></small>\n<li class=e><a>int</a> x;\n", "<li class=c><u class=x>0</u>  <a>throw</a>", "<li>}\n", "<dt>changed lines<dd><b>0.0%</b>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if index := pages["index.html"]; !strings.Contains(index, "<td>75.0%<td>3/4<td>0.0%<td>0/1\n") {
		t.Errorf("no changed lines in\n%s", index)
	}
}

// A large tree is data beside a small index.
func TestIndexOfManySources(t *testing.T) {
	var files []*coverage.File
	for i := range mostFileRows + 1 {
		files = append(files, &coverage.File{
			Name:  fmt.Sprintf("/src/d%d/source </script>\"%05d.c", i/100, i),
			Lines: []coverage.Line{{Number: 1, Count: 1}, {Number: 2}},
		})
	}
	files = append(files, &coverage.File{Name: `/src/d0/source </script>"00000.C`, Lines: []coverage.Line{{Number: 1, Count: 1}}})
	set := coverage.NewSet(files...)
	s := newSite(Contents{Set: set, Shown: func(name string) string { return name }})
	root := s.tree()
	d := s.indexData(root)
	if rows := strings.Count(string(d.Rows), "<tr"); !d.Tree || rows != 1+mostFileRows/100+1 {
		t.Errorf("%d rows: not those of the directories", rows)
	}
	dir := t.TempDir()
	top, err := output.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	if err := s.writeTree(top, root); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, treeFile))
	if err != nil {
		t.Fatal(err)
	}
	data, _ := strings.CutPrefix(string(b), treeHead)
	var tree []any
	if err := json.Unmarshal([]byte(strings.TrimSuffix(data, ";\n")), &tree); err != nil {
		t.Fatal(err)
	}
	entries := tree[1].([]any)[0].([]any)[1].([]any)[0].([]any)[2].([]any)[:3]
	// What is missed and found, what is shared with the name before, the rest; of names
	// that differ only in case the second has a page of another name.
	want := []any{` 1   script>"00000.C`, []any{"1 2  e c", "~src~d0~source=20=3C~script=3E=2200000.c=12fae8c9787017a6"}, "1 2  c 1.c"}
	if strings.Contains(data, "</script") || !reflect.DeepEqual(entries, want) {
		t.Errorf("the first files are %q, want %q", entries, want)
	}

	// A smaller report takes the data away, and only those.
	small := newSite(Contents{Set: coverage.NewSet(set.At(0)), Shown: s.Shown})
	for _, text := range []string{string(b), "mine"} {
		if err := os.WriteFile(filepath.Join(dir, treeFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := small.writeTree(top, small.tree()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, treeFile)); (err == nil) != (text == "mine") {
			t.Errorf("with %.10q: %v", text, err)
		}
	}
}
