package report

import (
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"footfall/coverage"
)

// TestGcovrReads gives our JSON to Debian's gcovr, and compares its totals with
// the report's, and its table with ours.
func TestGcovrReads(t *testing.T) {
	for name, r := range map[string]*Report{"example": example(), "nasty": nasty()} {
		file := filepath.Join(t.TempDir(), "report.json")
		written(t, r, "gcovr5="+file)
		gcovr := func(output string) string {
			cmd := exec.Command("gcovr", "--root", filepath.Dir(file), "--filter", ".*", "--add-tracefile", file, output, "-")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v: %v", name, cmd, err)
			}
			return string(out)
		}
		var got struct {
			LineTotal       int `json:"line_total"`
			LineCovered     int `json:"line_covered"`
			FunctionTotal   int `json:"function_total"`
			FunctionCovered int `json:"function_covered"`
			BranchTotal     int `json:"branch_total"`
			BranchCovered   int `json:"branch_covered"`
		}
		decodeJSON(t, gcovr("--json-summary"), &got)
		totals := r.Set.Totals()
		if lines := (coverage.Ratio{Covered: got.LineCovered, Total: got.LineTotal}); lines != totals.Lines {
			t.Errorf("%s: gcovr counts lines %v, want %v", name, lines, totals.Lines)
		}
		if functions := (coverage.Ratio{Covered: got.FunctionCovered, Total: got.FunctionTotal}); functions != totals.Functions {
			t.Errorf("%s: gcovr counts functions %v, want %v", name, functions, totals.Functions)
		}
		if branches := (coverage.Ratio{Covered: got.BranchCovered, Total: got.BranchTotal}); branches != totals.Branches {
			t.Errorf("%s: gcovr counts branches %v, want %v", name, branches, totals.Branches)
		}
		if name == "example" { // gcovr's table has paths from its root, and formulas
			compareTables(t, gcovr("--csv"), written(t, r, "csv"))
		}
	}
}

// compareTables compares titles and counts of our CSV with gcovr's.
func compareTables(t *testing.T, theirs, ours string) {
	t.Helper()
	read := func(text string) map[string]string {
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		out := make(map[string]string)
		for _, row := range rows {
			out[filepath.Base(row[0])] = fmt.Sprint(row[1:3], row[4:6], row[7:9])
		}
		return out
	}
	a, b := read(theirs), read(ours)
	if len(a) != 3 || len(b) != 3 {
		t.Fatalf("%d and %d rows, want 3", len(a), len(b))
	}
	for name, row := range a {
		if b[name] != row {
			t.Errorf("%s: %s, gcovr has %s", name, b[name], row)
		}
	}
}

// TestLcovReads asks Debian's lcov, which is lcov 1, for the totals of our
// tracefiles. In that of lcov 2 it finds no functions.
func TestLcovReads(t *testing.T) {
	r := example()
	r.ExceptionBranches = true
	for format, want := range map[string]string{
		"lcov1": "lines......: 60.0% (3 of 5 lines), functions..: 50.0% (2 of 4 functions), branches...: 33.3% (2 of 6 branches)",
		"lcov":  "lines......: 60.0% (3 of 5 lines), functions..: no data found, branches...: 40.0% (2 of 5 branches)",
	} {
		file := filepath.Join(t.TempDir(), "report.info")
		written(t, r, format+"="+file)
		out, err := exec.Command("lcov", "--rc", "lcov_branch_coverage=1", "--summary", file).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got := strings.Join(regexp.MustCompile(`[a-z]+\.\.+: .*`).FindAllString(string(out), -1), ", ")
		if got != want {
			t.Errorf("%s: lcov says\n%s, want\n%s", format, got, want)
		}
	}
}

// TestGenhtmlReads makes pages of both.
func TestGenhtmlReads(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "a b.cc")
	if err := os.WriteFile(source, []byte(strings.Repeat("int f;\n", 12)), 0o666); err != nil {
		t.Fatal(err)
	}
	r := example()
	r.Set = coverage.NewSet(r.Set.At(0))
	r.Set.At(0).Name = source
	for _, format := range []string{"lcov", "lcov1"} {
		file := filepath.Join(dir, format)
		written(t, r, format+"="+file)
		cmd := exec.Command("genhtml", "--quiet", "--branch-coverage", "--output-directory", file+".html", file)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v: %v\n%s", cmd, err, out)
		}
	}
}
