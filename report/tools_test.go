package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/collect/find"
	"footfall/coverage"
	"footfall/formats/gcov"
	"footfall/report/source"
)

// own is what footfall says of the data in a directory; sources in it were
// compiled in directory old.
func own(t *testing.T, dir, old string) (*coverage.Set, *source.Sources) {
	t.Helper()
	sources, err := source.NewSources(source.Options{Root: dir, PathMaps: []string{old + "=" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := find.In([]string{dir}, nil, sources)
	if err != nil {
		t.Fatal(err)
	}
	set, problems, _ := gcov.Collect(objects.Units, gcov.CollectOptions{Source: sources.Resolve})
	if len(problems) > 0 || set.Len() == 0 {
		t.Fatal("no coverage", problems)
	}
	return set, sources
}

// A difference is what a tool says otherwise than footfall, of a source.
type difference map[string]coverage.Totals

// confirm compares the totals of each source in a report of a tool with ours;
// where they differ, they must be the ones named. What a format does not tell is
// zero in both.
func confirm(t *testing.T, ours *coverage.Set, sources *source.Sources, name string, known func(*coverage.Totals), named difference) {
	t.Helper()
	theirs, problems, err := ReadFile(name, sources)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	want, got := make(difference), make(difference)
	for _, pair := range []struct {
		set *coverage.Set
		to  difference
	}{{ours, want}, {theirs, got}} {
		for _, f := range pair.set.All() {
			totals := f.Totals()
			known(&totals)
			pair.to[sources.Shown(f.Name)] = totals
		}
	}
	for file, totals := range named {
		if cmp.Equal(want[file], totals) {
			t.Errorf("%s: no difference", file)
		}
		want[file] = totals
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-footfall +read)\n%s", filepath.Base(name), diff)
	}

	// Together with our own, nothing is added that was not there.
	if len(named) == 0 {
		raw, _ := ReadFiles([]string{name}, ReadOptions{Sources: sources})
		both := coverage.Merge(ours, raw)
		Reconcile(both)
		if diff := cmp.Diff(ours.Totals(), both.Totals()); diff != "" {
			t.Errorf("%s: merged (-footfall +both)\n%s", filepath.Base(name), diff)
		}
	}
}

// withoutCalls is for formats that know no calls, or not all.
func withoutCalls(t *coverage.Totals) { t.Calls = coverage.Ratio{} }

// noExceptions is for formats that do not know which branches exceptions decide.
func noExceptions(t *coverage.Totals) {
	withoutCalls(t)
	t.Branches, t.ExceptionBranches = t.Branches.Plus(t.ExceptionBranches), coverage.Ratio{}
}

func TestReadNewerTools(t *testing.T) {
	dir, err := filepath.Abs("testdata/tools")
	if err != nil {
		t.Fatal(err)
	}
	ours, sources := own(t, dir, "/tmp/inputs")
	ratio := func(covered, total int) coverage.Ratio { return coverage.Ratio{Covered: covered, Total: total} }
	for _, test := range []struct {
		file  string
		known func(*coverage.Totals)
		named difference
	}{
		{"gcov-16.json", withoutCalls, nil},
		{"gcovr-8.7.json", withoutCalls, nil},
		// lcov keeps the branches of instances apart where their blocks have
		// other numbers, and one condition of those with as many terms.
		{"lcov-2.5.info", withoutCalls, difference{
			"stack.h": {Lines: ratio(7, 7), Functions: ratio(2, 2), Branches: ratio(5, 6), ExceptionBranches: ratio(1, 4), Conditions: ratio(5, 6)},
			"main.cc": {Lines: ratio(13, 15), Functions: ratio(2, 2), Branches: ratio(7, 14), ExceptionBranches: ratio(6, 10), Conditions: ratio(2, 6)},
		}},
		// gcovr's tracefile has each instance as a function, and no conditions.
		{"gcovr-8.7.info", func(t *coverage.Totals) { withoutCalls(t); t.Conditions = coverage.Ratio{} }, difference{
			"stack.h": {Lines: ratio(7, 7), Functions: ratio(4, 4), Branches: ratio(5, 6), ExceptionBranches: ratio(1, 3)},
			"cond.c":  {Lines: ratio(4, 5), Functions: ratio(2, 3), Branches: ratio(5, 11)},
		}},
		// Its XML has a line for each instance and for each function; the
		// reader takes the largest number of branches.
		{"gcovr-8.7.xml", func(t *coverage.Totals) { noExceptions(t); t.Conditions = coverage.Ratio{} }, difference{
			"stack.h": {Lines: ratio(7, 7), Functions: ratio(4, 4), Branches: ratio(6, 8)},
			"cond.c":  {Lines: ratio(4, 5), Functions: ratio(2, 3), Branches: ratio(5, 10)},
		}},
	} {
		t.Run(test.file, func(t *testing.T) {
			confirm(t, ours, sources, filepath.Join(dir, test.file), test.known, test.named)
		})
	}
}

func TestReadInstalledTools(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"main.cc", "stack.h"} {
		text, err := os.ReadFile(filepath.Join("testdata/tools", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"g++-12", "--coverage", "-o", "prog", "main.cc"},
		{"./prog"},
		{"gcov-12", "--branch-probabilities", "--json-format", "prog-main.gcda"},
		{"lcov", "--quiet", "--capture", "--directory", ".", "--gcov-tool", "gcov-12", "--no-external", "--rc", "lcov_branch_coverage=1", "--output-file", "lcov.info"},
		{"gcovr", "--gcov-executable", "gcov-12", "--json", "gcovr.json"},
		{"gcovr", "--gcov-executable", "gcov-12", "--xml", "cobertura.xml"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	ours, sources := own(t, dir, dir)
	noFunctions := func(t *coverage.Totals) { noExceptions(t); t.Functions = coverage.Ratio{} }
	for _, test := range []struct {
		file  string
		known func(*coverage.Totals)
	}{
		{"prog-main.gcov.json.gz", withoutCalls},
		{"lcov.info", noFunctions}, // names without a column are functions of their own
		{"gcovr.json", func(t *coverage.Totals) { withoutCalls(t); t.Functions = coverage.Ratio{} }},
		{"cobertura.xml", noFunctions},
	} {
		t.Run(test.file, func(t *testing.T) {
			confirm(t, ours, sources, filepath.Join(dir, test.file), test.known, nil)
		})
	}
}
