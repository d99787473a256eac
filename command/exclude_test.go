package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExcludeConfirm gives a program with all markers to lcov and gcovr, and
// compares which lines, functions and branches are left.
func TestExcludeConfirm(t *testing.T) {
	source, err := os.ReadFile("../testdata/exclude/marks.cc")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	build(t, dir, "g++-12", map[string]string{"marks.cc": string(source)})
	left := func(options ...string) map[string]int {
		name := filepath.Join(t.TempDir(), "info")
		args := append([]string{"footfall", "report", "--root", dir, "--exception-branches", "--output", "lcov1=" + name, dir}, options...)
		if status := run(args); status != 0 {
			t.Fatalf("footfall report: exit status %d", status)
		}
		return leftInTracefile(t, name)
	}
	t.Run("lcov", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "info")
		command(t, dir, "lcov", "--quiet", "--capture", "--rc", "lcov_branch_coverage=1", "--directory", ".", "--gcov-tool", "gcov-12", "--no-external", "--output-file", name)
		compareLeft(t, leftInTracefile(t, name), left("--marker-prefix", "LCOV"), map[string]string{
			"line 81": "LCOV_UNREACHABLE_LINE is lcov 2's",
		})
	})
	t.Run("gcovr", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "json")
		command(t, dir, "gcovr", "--json", "--gcov-executable", "gcov-12", "--output", name)
		got := left()
		for what := range got {
			if strings.HasPrefix(what, "function ") { // gcovr 5 keeps all of them
				delete(got, what)
			}
		}
		compareLeft(t, leftInGcovr(t, name), got, map[string]string{
			"line 81":        "LCOV_UNREACHABLE_LINE is lcov's",
			"line 74":        "gcovr leaves out lines that only an exception leads to",
			"branches of 66": "LCOV_EXCL_EXCEPTION_BR is lcov's", "branches of 68": "as 66", "branches of 69": "as 66",
		})
	})
}

// compareLeft compares what is left in two reports, but for the differences.
func compareLeft(t *testing.T, theirs, ours map[string]int, differs map[string]string) {
	t.Helper()
	for what := range differs {
		if theirs[what] == ours[what] {
			t.Errorf("%s: no difference", what)
		}
		delete(theirs, what)
		delete(ours, what)
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("(-theirs +footfall)\n%s", diff)
	}
}

// leftInTracefile returns the lines and functions that are in a tracefile, and
// the numbers of branches.
func leftInTracefile(t *testing.T, name string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	left := make(map[string]int)
	for _, record := range strings.Split(string(text), "\n") {
		tag, rest, _ := strings.Cut(record, ":")
		line, rest, _ := strings.Cut(rest, ",")
		switch tag {
		case "DA":
			left["line "+line]++
		case "BRDA":
			left["branches of "+line]++
		case "FN":
			left["function "+rest+" in "+line]++
		}
	}
	if len(left) == 0 {
		t.Fatalf("%s: nothing in it", name)
	}
	return left
}

func leftInGcovr(t *testing.T, name string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Files []struct {
			Lines []struct {
				Number   int   `json:"line_number"`
				NonCode  bool  `json:"gcovr/noncode"`
				Branches []any `json:"branches"`
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	left := make(map[string]int)
	for _, l := range doc.Files[0].Lines {
		if !l.NonCode {
			left[fmt.Sprintf("line %d", l.Number)]++
		}
		if len(l.Branches) > 0 {
			left[fmt.Sprintf("branches of %d", l.Number)] = len(l.Branches)
		}
	}
	return left
}

// TestExcludeSource reads data of a program: gcovr has this marker since 8, which
// excludes the same branches.
func TestExcludeSource(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, "gcc-12", map[string]string{"kind.c": `int kind(int n)
{
	switch (n) {
	case 0:
		return 1;
	case 7:
		return 2;
	default:
		n++;
		return n; // GCOVR_EXCL_BR_SOURCE
	}
}

int main(void)
{
	return kind(0) - 1;
}
`})
	name := filepath.Join(t.TempDir(), "info")
	if status := run([]string{"footfall", "report", "--root", dir, "--output", "lcov=" + name, dir}); status != 0 {
		t.Fatalf("footfall report: exit status %d", status)
	}
	if n := leftInTracefile(t, name)["branches of 3"]; n != 2 {
		t.Errorf("%d branches of the switch are left, want 2", n)
	}
}
