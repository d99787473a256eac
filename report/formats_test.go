package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/output"
	"footfall/report/change"
)

// nastyPaths are allowed by the file system; nothing else can be said for
// them.
var nastyPaths = []string{
	`/p/with space/a "b" 'c'.c`,
	"/p/<b>&amp;|`x`*_[](c)~#@me,x=y;::error file=z,line=1::%0A$(id)\\.c",
	"/p/new\nline\r\nDA:1,1\tend_of_record\n::error::x.c",
	"/p/=cmd|' /C calc'!A1.c", "=1+1.c", "@SUM(A1).c", "-x.c", "+x.c", "1.c",
	"/p/\xff\xfe\xed\xa0\x80.c",
	"/p/\x01\x1b[31m\u0085\u2028\ufffe.c",
	"/p/</source>]]><!--.c", "/p/..", "/", ".c",
	"/p/" + strings.Repeat("x", 4096) + ".c",
}

var nastyFunctions = []string{
	"_ZNSt3mapISsSt6vectorIiSaIiEESt4lessISsESaISt4pairIKSsS2_EEE6insertEOS7_",
	"_ZN5StackIXadL_Z1fvEEE3popEv", "operator<", "f,g|h", "a`b", "x\ny::z", "%", "\xff", "_Z", "",
}

// nasty is a report with all those names.
func nasty() *Report {
	r := example()
	r.Shown = func(path string) string { return strings.TrimPrefix(path, "/p/") }
	functions := make([]*coverage.Function, 0, len(nastyFunctions))
	for i, name := range nastyFunctions {
		line := int32(10 * (i + 1))
		functions = append(functions, &coverage.Function{
			StartLine: line, EndLine: line + 5, Name: name, Count: int64(i % 2), Blocks: 3, BlocksExecuted: int32(i % 2),
			Instances: []coverage.Instance{{Name: name, Count: int64(i % 2), Blocks: 3, BlocksExecuted: int32(i % 2)}},
		})
	}
	first := r.Set.At(0)
	for _, path := range nastyPaths {
		f := *first
		f.Name = path
		f.Functions = slices.Concat(f.Functions, functions)
		f.Lines = slices.Clone(f.Lines)
		for i, fn := range functions {
			f.Lines = append(f.Lines, coverage.Line{Number: fn.StartLine, Count: int64(i % 2)})
		}
		r.Set.Add(&f)
	}
	return r
}

// printed are the formats that are one file.
func printed() (names []string) {
	for _, f := range formats {
		if f.print != nil && f.Name != "tests" { // which needs names of tests
			names = append(names, f.Name)
		}
	}
	return names
}

func TestFormatsGolden(t *testing.T) {
	r := example()
	r.Root, r.Time = "/p", time.Unix(1700000000, 0)
	for _, format := range []string{"cobertura", "sonarqube", "jacoco", "clover", "gcovr", "gcovr5", "csv", "markdown", "github", "gitlab", "badge"} {
		t.Run(format, func(t *testing.T) {
			golden(t, format+".golden", written(t, r, format))
		})
	}
}

// numbers are what most formats hold.
type numbers struct{ Lines, Functions, Branches, Conditions coverage.Ratio }

// parsed tells for each format how its totals are read back, and what of them
// it holds.
var parsed = map[string]struct {
	read  func(*testing.T, string) numbers
	holds string // of l, f, b, c
}{
	"lcov":      {lcovNumbers, "lfbc"},
	"lcov2":     {lcovNumbers, "lb"}, // and instances of functions
	"lcov1":     {lcovNumbers, "lbc"},
	"json":      {jsonNumbers, "lfbc"},
	"cobertura": {coberturaNumbers, "lfb"},
	"sonarqube": {sonarNumbers, "lb"},
	"jacoco":    {jacocoNumbers, "lfb"},
	"clover":    {cloverNumbers, "lfb"},
	"coveralls": {coverallsNumbers, "lb"},
	"gcovr":     {gcovrNumbers, "lfbc"},
	"gcovr5":    {gcovrNumbers, "lfb"},
	"csv":       {csvNumbers, "lfbc"},
	"markdown":  {markdownNumbers, "lfbc"},
}

// TestFormatsAgree reads the totals of each format back: they must be those of
// the report.
func TestFormatsAgree(t *testing.T) {
	for name, makeReport := range map[string]func() *Report{"example": example, "nasty": nasty} {
		for _, exceptions := range []bool{false, true} {
			for format, p := range parsed {
				t.Run(fmt.Sprint(name, exceptions, format), func(t *testing.T) {
					r := makeReport()
					r.ExceptionBranches = exceptions
					totals := r.Set.Totals()
					want := numbers{totals.Lines, totals.Functions, r.branchTotal(totals), totals.Conditions}
					got := p.read(t, written(t, r, format))
					if format == "json" && exceptions {
						got.Branches = got.Branches.Plus(totals.ExceptionBranches) // has them apart
					}
					for letter, ratio := range map[string]*coverage.Ratio{"l": &want.Lines, "f": &want.Functions, "b": &want.Branches, "c": &want.Conditions} {
						if !strings.Contains(p.holds, letter) {
							*ratio = coverage.Ratio{}
						}
					}
					if !strings.Contains(p.holds, "f") {
						got.Functions = coverage.Ratio{}
					}
					if got != want {
						t.Errorf("%+v, want %+v", got, want)
					}
				})
			}
		}
	}
}

func lcovNumbers(t *testing.T, text string) (n numbers) {
	counters := map[string]*int{
		"LF": &n.Lines.Total, "LH": &n.Lines.Covered, "FNF": &n.Functions.Total, "FNH": &n.Functions.Covered,
		"BRF": &n.Branches.Total, "BRH": &n.Branches.Covered, "MCF": &n.Conditions.Total, "MCH": &n.Conditions.Covered,
	}
	var records numbers
	for line := range strings.Lines(text) {
		tag, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if c := counters[tag]; c != nil {
			*c += atoi(t, value)
		}
		last := value[strings.LastIndexByte(value, ',')+1:]
		switch tag {
		case "DA":
			records.Lines = records.Lines.Plus(ratio(last != "0"))
		case "BRDA":
			records.Branches = records.Branches.Plus(ratio(last != "0" && last != "-"))
		case "MCDC":
			records.Conditions = records.Conditions.Plus(ratio(strings.Split(value, ",")[3] == "1"))
		}
	}
	records.Functions = n.Functions
	if records != n {
		t.Errorf("the records are %+v, their sums say %+v", records, n)
	}
	return n
}

func jsonNumbers(t *testing.T, text string) numbers {
	var doc struct{ Totals numbers }
	decodeJSON(t, text, &doc)
	return doc.Totals
}

func coberturaNumbers(t *testing.T, text string) (n numbers) {
	type line struct {
		Hits      int64  `xml:"hits,attr"`
		Condition string `xml:"condition-coverage,attr"`
	}
	var doc struct {
		LinesCovered    int `xml:"lines-covered,attr"`
		LinesValid      int `xml:"lines-valid,attr"`
		BranchesCovered int `xml:"branches-covered,attr"`
		BranchesValid   int `xml:"branches-valid,attr"`
		Classes         []struct {
			Methods []line `xml:"methods>method>lines>line"`
			Lines   []line `xml:"lines>line"`
		} `xml:"packages>package>classes>class"`
	}
	decodeXML(t, text, &doc)
	for _, c := range doc.Classes {
		for _, m := range c.Methods {
			n.Functions = n.Functions.Plus(ratio(m.Hits > 0))
		}
		for _, l := range c.Lines {
			n.Lines = n.Lines.Plus(ratio(l.Hits > 0))
			if l.Condition == "" {
				continue
			}
			var percent, covered, total int
			if _, err := fmt.Sscanf(l.Condition, "%d%% (%d/%d)", &percent, &covered, &total); err != nil || percent != 100*covered/total {
				t.Errorf("condition-coverage %q: %v", l.Condition, err)
			}
			n.Branches = n.Branches.Plus(coverage.Ratio{Covered: covered, Total: total})
		}
	}
	if all := (numbers{Lines: coverage.Ratio{Covered: doc.LinesCovered, Total: doc.LinesValid}, Functions: n.Functions,
		Branches: coverage.Ratio{Covered: doc.BranchesCovered, Total: doc.BranchesValid}}); all != n {
		t.Errorf("lines say %+v, their sum %+v", n, all)
	}
	return n
}

func sonarNumbers(t *testing.T, text string) (n numbers) {
	var doc struct {
		Lines []struct {
			Covered         bool `xml:"covered,attr"`
			BranchesToCover int  `xml:"branchesToCover,attr"`
			CoveredBranches int  `xml:"coveredBranches,attr"`
		} `xml:"file>lineToCover"`
	}
	decodeXML(t, text, &doc)
	for _, l := range doc.Lines {
		n.Lines = n.Lines.Plus(ratio(l.Covered))
		n.Branches = n.Branches.Plus(coverage.Ratio{Covered: l.CoveredBranches, Total: l.BranchesToCover})
	}
	return n
}

type jacocoCounters []struct {
	Type    string `xml:"type,attr"`
	Missed  int    `xml:"missed,attr"`
	Covered int    `xml:"covered,attr"`
}

func (c jacocoCounters) numbers() (n numbers) {
	for _, counter := range c {
		r := coverage.Ratio{Covered: counter.Covered, Total: counter.Covered + counter.Missed}
		switch counter.Type {
		case "LINE":
			n.Lines = n.Lines.Plus(r)
		case "METHOD":
			n.Functions = n.Functions.Plus(r)
		case "BRANCH":
			n.Branches = n.Branches.Plus(r)
		}
	}
	return n
}

func jacocoNumbers(t *testing.T, text string) numbers {
	var doc struct {
		Counters jacocoCounters `xml:"counter"`
		Packages []struct {
			Counters jacocoCounters `xml:"counter"`
			Methods  jacocoCounters `xml:"class>method>counter"`
			Lines    []struct {
				Mi int `xml:"mi,attr"`
				Ci int `xml:"ci,attr"`
				Mb int `xml:"mb,attr"`
				Cb int `xml:"cb,attr"`
			} `xml:"sourcefile>line"`
		} `xml:"package"`
	}
	decodeXML(t, text, &doc)
	var inside numbers
	for _, p := range doc.Packages {
		var lines numbers
		lines.Functions = p.Methods.numbers().Functions
		for _, l := range p.Lines {
			lines.Lines = lines.Lines.Plus(coverage.Ratio{Covered: l.Ci, Total: l.Ci + l.Mi})
			lines.Branches = lines.Branches.Plus(coverage.Ratio{Covered: l.Cb, Total: l.Cb + l.Mb})
		}
		if c := p.Counters.numbers(); c != lines {
			t.Errorf("counters of a package %+v, its lines and methods %+v", c, lines)
		}
		inside.Lines, inside.Functions, inside.Branches = inside.Lines.Plus(lines.Lines), inside.Functions.Plus(lines.Functions), inside.Branches.Plus(lines.Branches)
	}
	if all := doc.Counters.numbers(); all != inside {
		t.Errorf("counters of all %+v, of the packages %+v", all, inside)
	}
	return inside
}

func cloverNumbers(t *testing.T, text string) (n numbers) {
	type metrics struct {
		Statements          int `xml:"statements,attr"`
		CoveredStatements   int `xml:"coveredstatements,attr"`
		Methods             int `xml:"methods,attr"`
		CoveredMethods      int `xml:"coveredmethods,attr"`
		Conditionals        int `xml:"conditionals,attr"`
		CoveredConditionals int `xml:"coveredconditionals,attr"`
	}
	var doc struct {
		Metrics metrics `xml:"project>metrics"`
		Files   []struct {
			Lines []struct {
				Type  string `xml:"type,attr"`
				Count int64  `xml:"count,attr"`
			} `xml:"line"`
		} `xml:"project>package>file"`
	}
	decodeXML(t, text, &doc)
	m := doc.Metrics
	n.Lines = coverage.Ratio{Covered: m.CoveredStatements, Total: m.Statements}
	n.Functions = coverage.Ratio{Covered: m.CoveredMethods, Total: m.Methods}
	n.Branches = coverage.Ratio{Covered: m.CoveredConditionals, Total: m.Conditionals}
	lines := numbers{Branches: n.Branches}
	for _, f := range doc.Files {
		for _, l := range f.Lines {
			switch l.Type {
			case "stmt":
				lines.Lines = lines.Lines.Plus(ratio(l.Count > 0))
			case "method":
				lines.Functions = lines.Functions.Plus(ratio(l.Count > 0))
			}
		}
	}
	if lines != n {
		t.Errorf("lines say %+v, metrics %+v", lines, n)
	}
	return n
}

func coverallsNumbers(t *testing.T, text string) (n numbers) {
	var doc struct {
		SourceFiles []struct {
			Name     string
			Coverage []*int64
			Branches []int64
		} `json:"source_files"`
	}
	decodeJSON(t, text, &doc)
	for _, f := range doc.SourceFiles {
		for _, c := range f.Coverage {
			if c != nil {
				n.Lines = n.Lines.Plus(ratio(*c > 0))
			}
		}
		for i := 0; i < len(f.Branches); i += 4 {
			n.Branches = n.Branches.Plus(ratio(f.Branches[i+3] > 0))
		}
	}
	return n
}

func gcovrNumbers(t *testing.T, text string) (n numbers) {
	var doc struct {
		Files []struct {
			Lines []struct {
				Count      int64
				Branches   []struct{ Count int64 }
				Conditions []struct{ Count, Covered int }
			}
			Functions []struct {
				Count int64 `json:"execution_count"`
			}
		}
	}
	decodeJSON(t, text, &doc)
	for _, f := range doc.Files {
		for _, l := range f.Lines {
			n.Lines = n.Lines.Plus(ratio(l.Count > 0))
			for _, b := range l.Branches {
				n.Branches = n.Branches.Plus(ratio(b.Count > 0))
			}
			for _, c := range l.Conditions {
				n.Conditions = n.Conditions.Plus(coverage.Ratio{Covered: c.Covered, Total: c.Count})
			}
		}
		for _, fn := range f.Functions {
			n.Functions = n.Functions.Plus(ratio(fn.Count > 0))
		}
	}
	return n
}

func csvNumbers(t *testing.T, text string) (n numbers) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		for i, r := range []*coverage.Ratio{&n.Lines, &n.Branches, &n.Functions, &n.Conditions} {
			*r = r.Plus(coverage.Ratio{Covered: atoi(t, row[3*i+2]), Total: atoi(t, row[3*i+1])})
		}
	}
	return n
}

// markdownNumbers reads the first row of the first table.
func markdownNumbers(t *testing.T, text string) (n numbers) {
	rows := strings.Split(text, "\n")
	titles, cells := strings.Split(rows[2], "|"), strings.Split(rows[4], "|")
	for i, title := range titles {
		var r coverage.Ratio
		if _, err := fmt.Sscanf(cells[min(i+1, len(cells)-1)], " %d/%d", &r.Covered, &r.Total); err != nil {
			continue
		}
		switch strings.TrimSpace(title) {
		case "lines":
			n.Lines = r
		case "functions":
			n.Functions = r
		case "branches":
			n.Branches = r
		case "conditions":
			n.Conditions = r
		}
	}
	return n
}

func ratio(covered bool) coverage.Ratio {
	if covered {
		return coverage.Ratio{Covered: 1, Total: 1}
	}
	return coverage.Ratio{Total: 1}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func decodeXML(t *testing.T, text string, into any) {
	t.Helper()
	if err := xml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

func decodeJSON(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// TestSchemas asks xmllint whether the XML is what its schema says.
func TestSchemas(t *testing.T) {
	for format, how := range map[string][]string{
		"cobertura": {"--dtdvalid", "testdata/schema/coverage-04.dtd"},
		"jacoco":    {"--dtdvalid", "testdata/schema/report.dtd"},
		"clover":    {"--schema", "testdata/schema/clover.xsd"},
		"sonarqube": {"--schema", "testdata/schema/sonarqube.xsd"},
		"badge":     nil,
	} {
		for name, r := range map[string]*Report{"example": example(), "nasty": nasty()} {
			cmd := exec.Command("xmllint", append(slices.Concat([]string{"--noout", "--nonet"}, how), "-")...)
			cmd.Stdin = strings.NewReader(written(t, r, format))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s of %s: %v\n%s", format, name, err, out)
			}
		}
	}
}

// TestBytesAreTheSame writes everything twice: no output may know the time of
// the day or depend on the order of a map.
func TestBytesAreTheSame(t *testing.T) {
	for _, format := range printed() {
		one, other := nasty(), nasty()
		one.Time = time.Unix(1e9, 0) // else a history has the time when it is written
		other.Time = one.Time
		first, second := written(t, one, format), written(t, other, format)
		if first != second {
			t.Errorf("%s: not the same twice", format)
		}
	}
}

// named is the example with other names for its first file and function.
func named(path, function string) *Report {
	r := example()
	r.Set.At(0).Name = path
	fn := r.Set.At(0).Functions[1]
	fn.Name, fn.Instances[0].Name = function, function
	return r
}

// FuzzNames puts any names into every format. None may get out of its place:
// what is parsed has them as values, and what is read line by line has as many
// lines as with other names.
func FuzzNames(f *testing.F) {
	for i, path := range nastyPaths {
		f.Add(path, nastyFunctions[i%len(nastyFunctions)])
	}
	f.Fuzz(func(t *testing.T, path, function string) {
		if strings.ContainsRune(path+function, 0) || path == "" || function == "" {
			return // no such names
		}
		r := named(path, function)
		dir, _ := filepath.Split(path)
		plain := named(dir+"x.c", "f") // in the same directory, since some formats group by it
		for _, format := range printed() {
			text := written(t, r, format)
			switch format {
			case "cobertura", "jacoco", "clover", "sonarqube", "badge":
				if got, want := elements(t, text), elements(t, written(t, plain, format)); got != want {
					t.Errorf("%s: %d elements and attributes, want %d:\n%s", format, got, want, text)
				}
			case "json", "gcovr", "gcovr5", "coveralls", "gitlab":
				if !json.Valid([]byte(text)) {
					t.Errorf("%s: not JSON:\n%s", format, text)
				}
			case "csv":
				if csvNumbers(t, text) != csvNumbers(t, written(t, plain, format)) {
					t.Errorf("csv: other numbers:\n%s", text)
				}
			default: // a name may move to another place where things are sorted, but stay one
				if got, want := controls(text), controls(written(t, plain, format)); got != want {
					t.Errorf("%s: %q, want %q as control characters:\n%s", format, got, want, text)
				}
			}
		}
	})
}

// elements counts the elements and attributes of a document.
func elements(t *testing.T, text string) (n int) {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return n
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok {
			n += 1 + len(e.Attr)
		}
	}
}

// controls returns the control characters of a text.
func controls(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return c
		}
		return -1
	}, text)
}

func TestXMLKeepsNames(t *testing.T) {
	for _, path := range nastyPaths {
		var doc struct {
			Files []struct {
				Path string `xml:"path,attr"`
			} `xml:"file"`
		}
		r := named(path, "f")
		r.Shown = func(path string) string { return path }
		decodeXML(t, written(t, r, "sonarqube"), &doc)
		if got := output.Unescape(doc.Files[0].Path); got != path {
			t.Errorf("%q came back as %q", path, got)
		}
	}
}

func TestCSVIsNoFormula(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(written(t, nasty(), "csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	guarded := 0
	for _, row := range rows {
		if strings.ContainsAny(row[0][:1], "=+-@\t\r\n") {
			t.Errorf("a spreadsheet would compute %q", row[0])
		}
		if strings.ContainsFunc(row[0], unicode.IsControl) {
			t.Errorf("a terminal would obey %q", row[0])
		}
		if row[0][0] == '\'' {
			guarded++
		}
	}
	if guarded != 5 {
		t.Errorf("%d names are guarded, want 5", guarded)
	}
}

func TestMarkdownHasNoMarksOfNames(t *testing.T) {
	for _, path := range nastyPaths {
		var m markdown
		m.code(path)
		inner := strings.TrimSuffix(strings.TrimPrefix(string(m.buf), "<code>"), "</code>")
		if bad := regexp.MustCompile("[|`*_<>\\[\\]\\\\~@$\n\r]|&[^#]|[^&]#").FindString(inner); bad != "" {
			t.Errorf("%q is written as %s, with %q", path, m.buf, bad)
		}
	}
}

func TestGitHub(t *testing.T) {
	r := named("/p/a:b,c%\n.c", "f")
	text := written(t, r, "github")
	want := "::warning file=a%3Ab%2Cc%25%0A.c,line=6,endLine=7,title=Not covered::f was never called (2 lines)\n" +
		"::notice file=a%3Ab%2Cc%25%0A.c,line=3,endLine=3,title=Partly covered::3 of 4 branches of max<...> (2 instances) never taken\n"
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	lines := strings.Split(strings.TrimSpace(written(t, nasty(), "github")), "\n")
	warnings, notices := 0, 0
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l, "::warning "):
			warnings++
		case strings.HasPrefix(l, "::notice "):
			notices++
		default:
			t.Errorf("no command: %q", l)
		}
	}
	if warnings != 10 || notices != 10 || !strings.Contains(lines[19], "not shown: ") {
		t.Errorf("%d warnings, %d notices, last %q", warnings, notices, lines[len(lines)-1])
	}
}

// TestMissedOfPatch asks for the changed lines that never ran: 3 to 7 and 9 are new.
func TestMissedOfPatch(t *testing.T) {
	f := &coverage.File{Name: "/p/a.c", Lines: []coverage.Line{{Number: 1, Count: 1}, {Number: 3}, {Number: 4}, {Number: 6, Count: 2}, {Number: 7}, {Number: 9}}}
	p := change.PatchOf(map[string]coverage.Edits{f.Name: {{Old: 3, Deleted: 2, New: 3, Inserted: 5}, {Old: 6, New: 9, Inserted: 1}}})
	if m := missedOf(p, f); m.count != 4 || m.ranges != "3-4,7-9" {
		t.Errorf("missed %+v", m)
	}
}

// TestHolesOfChangedLines gives a patch that changed one line of two that
// never ran.
func TestHolesOfChangedLines(t *testing.T) {
	r := example()
	r.Patch = change.PatchOf(map[string]coverage.Edits{"/p/src/a.cc": {{Old: 7, Deleted: 1, New: 7, Inserted: 1}}})
	want := "::warning file=src/a.cc,line=7,endLine=7,title=Not covered::1 line of main never ran\n"
	if diff := cmp.Diff(want, written(t, r, "github")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	summary := written(t, r, "markdown")
	for _, want := range []string{"\n| changed lines | 0.0% | 0/1 |", "\n- <code>src/a.cc</code>:7\n"} {
		if !strings.Contains(summary, want) {
			t.Errorf("no %q in\n%s", want, summary)
		}
	}
}

func TestGitLab(t *testing.T) {
	type finding struct {
		Description, Fingerprint, Severity string
		CheckName                          string `json:"check_name"`
		Location                           struct {
			Path  string
			Lines struct{ Begin, End int }
		}
	}
	read := func(r *Report) (list []finding) {
		decodeJSON(t, written(t, r, "gitlab"), &list)
		return list
	}
	list := read(nasty())
	seen := make(map[string]bool)
	for _, f := range list {
		if f.Description == "" || f.CheckName == "" || f.Location.Path == "" || f.Location.Lines.Begin < 1 || f.Location.Lines.End < f.Location.Lines.Begin ||
			!slices.Contains([]string{"info", "minor", "major", "critical", "blocker"}, f.Severity) {
			t.Errorf("GitLab would not show %+v", f)
		}
		if seen[f.Fingerprint] {
			t.Errorf("a second finding with the fingerprint of %+v", f)
		}
		seen[f.Fingerprint] = true
	}
	// Code moves, findings stay.
	moved := example()
	for _, f := range moved.Set.All() {
		for _, fn := range f.Functions {
			fn.StartLine += 7
			fn.EndLine += 7
		}
		for i := range f.Lines {
			f.Lines[i].Number += 7
		}
	}
	a, b := read(example()), read(moved)
	if len(a) != 2 || len(b) != 2 {
		t.Fatalf("%d and %d findings, want 2", len(a), len(b))
	}
	for i := range a {
		if a[i].Fingerprint != b[i].Fingerprint || a[i].Location.Lines.Begin+7 != b[i].Location.Lines.Begin {
			t.Errorf("%+v became %+v", a[i], b[i])
		}
	}
}

func TestCoveralls(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "a.c")
	if err := os.WriteFile(source, []byte("int f;\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := example()
	r.Time = time.Unix(1700000000, 0)
	r.Set.At(0).Name, r.Set.At(0).Lines[0].Number = source, 1
	r.Set.At(1).Lines = []coverage.Line{{Number: -3, Count: 1}, {Number: 2}, {Number: 1 << 30, Count: 1}}
	r.Shown = filepath.Base
	o := requested(t, "coveralls")
	var b bytes.Buffer
	problems, err := r.Write(o, &b)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"run_at":"2023-11-14 22:13:20 UTC","source_files":[
{"name":"a.c","source_digest":"8162267f73e48491bf0c152a88f22650","coverage":[3,null,3,null,null,0,0],"branches":[3,0,0,2,3,0,1,0,3,1,0,0,3,1,1,0]},
{"name":"\"odd\".h","source_digest":"d41d8cd98f00b204e9800998ecf8427e","coverage":[null,0]}
]}
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(problems) != 1 || !strings.HasSuffix(problems[0].File, `"odd".h`) {
		t.Errorf("problems: %v", problems)
	}
}

func TestFractionRoundsDown(t *testing.T) {
	for _, test := range []struct {
		covered, total int
		want           string
	}{
		{0, 0, "0"}, {0, 9, "0"}, {1, 1000000, "0.0001"}, {1, 3, "0.3333"}, {1, 2, "0.5"}, {999999, 1000000, "0.9999"}, {1, 20, "0.05"}, {7, 7, "1"},
	} {
		var b buffer
		b.fraction(coverage.Ratio{Covered: test.covered, Total: test.total})
		if string(b.buf) != test.want {
			t.Errorf("%d of %d: %s, want %s", test.covered, test.total, b.buf, test.want)
		}
	}
}

func TestBadge(t *testing.T) {
	for text, r := range map[string]*Report{
		"coverage: 60.0%":   example(),
		"coverage: unknown": {Set: &coverage.Set{}},
	} {
		if badge := written(t, r, "badge"); strings.Count(badge, text) != 2 {
			t.Errorf("no %q in\n%s", text, badge)
		}
	}
}
