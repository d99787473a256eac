package change

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/process/needs"
	"footfall/report/exclude"
	"footfall/report/source"
)

func TestPatchFindsFiles(t *testing.T) {
	dir := t.TempDir()
	set := &coverage.Set{}
	for _, name := range []string{"src/calc.c", "lib/calc.c", "lib/deep/calc.c", "only.h"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("int of_"+strings.ReplaceAll(name, "/", "_")+";\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		set.Add(&coverage.File{Name: path, Lines: []coverage.Line{{Number: 1}}})
	}
	set.Add(&coverage.File{Name: "/elsewhere/build/gone.c", Lines: []coverage.Line{{Number: 1}}})
	for _, test := range []struct {
		name, root, top string
		inserted        string
		want            string // "": not found
		doubt           bool
	}{
		{"src/calc.c", dir, "", "int of_src_calc.c;", "src/calc.c", false},
		{"src/calc.c", dir, dir, "int of_src_calc.c;", "src/calc.c", false},
		{"src/calc.c", dir, "", "other text", "src/calc.c", true},
		{"calc.c", filepath.Join(dir, "lib"), "", "int of_lib_calc.c;", "lib/calc.c", false},
		{"a/b/src/calc.c", dir, "", "int of_src_calc.c;", "src/calc.c", false},         // a part of a repository
		{"a/b/src/calc.c", dir, "", "other text", "", true},                            // its name is whole in the report, but it is another
		{"tests/calc.c", dir, "", "int of_tests;", "", false},                          // another file of the name
		{"moved/calc.c", dir, "", "int of_lib_deep_calc.c;", "lib/deep/calc.c", false}, // the lines tell
		{"src/calc.c", "/", "", "int of_src_calc.c;", "src/calc.c", false},             // the root is above
		{"build/gone.c", dir, "", "anything at all", "", true},                         // nothing but the name tells
		{"nothing.c", dir, "", "x", "", false},
		{"h/only.h", dir, dir, "int of_only.h;", "", false}, // git knows where its names begin
	} {
		sources, err := source.NewSources(source.Options{Root: test.root})
		if err != nil {
			t.Fatal(err)
		}
		f := FileDiff{Old: test.name, New: test.name, Edits: coverage.Edits{{Old: 1, Deleted: 1, New: 1, Inserted: 1}}, inserted: [][]string{{test.inserted}}}
		p := NewPatch(&Diff{Top: test.top, Files: []FileDiff{f}}, set, exclude.Excluded{}, sources, nil)
		found := ""
		for _, f := range set.All() {
			if p.Changed(f.Name, 1) {
				found = strings.TrimPrefix(f.Name, dir+"/")
			}
		}
		if doubt := p.doubts > 0; found != test.want || doubt != test.doubt {
			t.Errorf("%s with %q: %q, doubt %v, want %q, %v: %v", test.name, test.inserted, found, doubt, test.want, test.doubt, p.Problems())
		}
	}
}

// TestPatchOfLittle asks which sources diffs are of whose names begin elsewhere than at the
// root, and which have next to nothing by which that could be known.
func TestPatchOfLittle(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "work")
	if err := os.MkdirAll(filepath.Join(root, "odd"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "odd/h.h"), []byte("\nstatic int g(int x)\n{\n\tx++;\n++x;\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	set := coverage.NewSet(&coverage.File{Name: filepath.Join(root, "odd/h.h"), Lines: []coverage.Line{{Number: 2}}})
	const (
		blank   = "@@ -1,2 +1,3 @@\n+\n static int g(int x)\n {\n"
		short   = "@@ -4,1 +4,2 @@\n \tx++;\n+++x;\n"
		there   = "\t2026-11-23 16:41:56.357153306 +0100\n"
		nothing = "@@ -1,2 +0,0 @@\n-int f(int x)\n-{\n"
		older   = "@@ -1,4 +0,0 @@\n-static int g(int x)\n-{\n-\tx++;\n-\tx--;\n"
		gone    = "--- old/c.c" + there + "+++ work/c.c\t1970-01-01 01:00:00.000000000 +0100\n" + nothing
		emptied = "--- old/c.c" + there + "+++ work/c.c" + there + nothing
		header  = "--- old/odd/h.h" + there + "+++ work/odd/h.h" + there
		release = "--- p-1.0/odd/h.h" + there + "+++ p-1.1/odd/h.h" + there
	)
	for _, test := range []struct {
		name, diff string
		doubt      bool
	}{
		{"one file", header + short, false},
		{"beside a deleted one", gone + header + short, false},
		{"beside one that should be there", emptied + header + short, true},
		{"beside one of the old version", "Only in old/odd: c.c\n" + header + short, false},
		{"beside the old version's, below a name that is not there", "Only in p-1.0/odd: c.c\n" + release + short, true},
		{"a blank line beside one that should be there", emptied + header + blank, true},
		{"a name that is not there", release + short, true},
		{"a name that is not there, a blank line", release + blank, false},
		{"a blank line elsewhere", release + "@@ -1,2 +1,3 @@\n+\n static int h(int x)\n {\n", true},
		{"a blank line around which is nothing", release + "@@ -0,0 +1 @@\n+\n", true},
		{"a short line, in a name that is not there", release + "@@ -3,1 +3,2 @@\n {\n+\tx++;\n", true},
		{"a blank line and another file", release + blank + strings.ReplaceAll(release, "h.h", "i.h") + "@@ -0,0 +1 @@\n+int i(void);\n", true},
		{"one file that is deleted, of a name that is elsewhere", "--- a/b/odd/h.h\t(revision 1)\n+++ a/b/odd/h.h\t(working copy)\n" + nothing, false},
		{"one that is deleted, and there", "--- odd/h.h\n+++ /dev/null\n" + older, true},
		{"one that is deleted by its time, and there", "--- old/odd/h.h" + there + "+++ odd/h.h\t1970-01-01 01:00:00.000000000 +0100\n" + older, true},
		{"one that is deleted by its time, of another directory, and there", "--- odd/h.h" + there + "+++ ../old/odd/h.h\t1970-01-01 01:00:00.000000000 +0100\n" + older, true},
		{"one that is deleted, and another one there", "--- odd/h.h\n+++ /dev/null\n" + nothing, false},
		{"one that is deleted, and made again", "--- odd/h.h\n+++ /dev/null\n" + nothing + "--- /dev/null\n+++ odd/h.h\n@@ -0,0 +1,5 @@\n+\n+static int g(int x)\n+{\n+\tx++;\n+++x;\n", false},
		{"all lines are deleted, and there", "--- odd/h.h\n+++ odd/h.h\n@@ -1,5 +0,0 @@\n-\n-static int g(int x)\n-{\n-\tx++;\n-++x;\n", true},
		{"the first lines are deleted", "--- odd/h.h\n+++ odd/h.h\n@@ -1,2 +0,0 @@\n-\n-static int f(int x)\n", false},
		{"lines that are deleted only", release + "@@ -2,2 +2,1 @@\n-int x;\n {\n", true},
	} {
		d, err := ReadDiff(test.name, strings.NewReader(test.diff))
		if err != nil {
			t.Fatal(err)
		}
		sources, err := source.NewSources(source.Options{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		p := NewPatch(d, set, exclude.Excluded{}, sources, nil)
		if doubt := p.doubts > 0; doubt != test.doubt {
			t.Errorf("%s: doubt %v, want %v: %v", test.name, doubt, test.doubt, p.Problems())
		}
	}
}

// TestPatchInDirectory asks which source a diff is of whose names begin in one of many
// directories, where the file has no coverage data but one of the same name has.
func TestPatchInDirectory(t *testing.T) {
	root := t.TempDir()
	set := coverage.NewSet()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * mostBases {
		name := fmt.Sprintf("dir%d/a.c", i)
		write(name, "int a;\n")
		set.Add(&coverage.File{Name: filepath.Join(root, name), Lines: []coverage.Line{{Number: 1}}})
	}
	for _, name := range []string{"lib/util.c", "util.c"} {
		write(name, "int another_util;\n")
		set.Add(&coverage.File{Name: filepath.Join(root, name), Lines: []coverage.Line{{Number: 1}}})
	}
	write("lib/lib/util.c", "int the_util;\n")
	d, err := ReadDiff("x", strings.NewReader("--- a/lib/util.c\n+++ b/lib/util.c\n@@ -1 +1 @@\n-int one;\n+int the_util;\n"))
	if err != nil {
		t.Fatal(err)
	}
	sources, err := source.NewSources(source.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPatch(d, set, exclude.Excluded{}, sources, nil)
	if p.doubts > 0 || p.Changed(filepath.Join(root, "lib/util.c"), 1) {
		t.Errorf("%d doubts: %v", p.doubts, p.Problems())
	}
}

func TestPatchTotals(t *testing.T) {
	f := &coverage.File{
		Name:      "/p/a.c",
		Lines:     []coverage.Line{{Number: 1, Count: 1}, {Number: 3}, {Number: 4}, {Number: 6, Count: 2, Branches: []coverage.Branch{{Count: 1}, {}}}, {Number: 7}, {Number: 9}},
		Functions: []*coverage.Function{{StartLine: 1}, {StartLine: 3, Count: 1}},
	}
	set := coverage.NewSet(f)
	sources, err := source.NewSources(source.Options{Root: "/p"})
	if err != nil {
		t.Fatal(err)
	}
	// Lines 3 to 7 are new, 8 was before, 9 is new.
	edits := coverage.Edits{{Old: 3, Deleted: 2, New: 3, Inserted: 5}, {Old: 6, New: 9, Inserted: 1}}
	p := NewPatch(&Diff{Files: []FileDiff{{Old: "a.c", New: "a.c", Edits: edits, inserted: [][]string{nil, nil}}}}, set, exclude.Excluded{}, sources, nil)
	want := coverage.Totals{Lines: coverage.Ratio{Covered: 1, Total: 5}, Functions: coverage.Ratio{Covered: 1, Total: 1}, Branches: coverage.Ratio{Covered: 1, Total: 2}}
	if diff := cmp.Diff(want, p.Totals(set)); diff != "" {
		t.Errorf("totals (-want +got)\n%s", diff)
	}
	var none *Patch
	if none.HasFile("/p/a.c") || none.Changed("/p/a.c", 3) || none.Totals(set) != (coverage.Totals{}) {
		t.Error("a patch that is not there changed something")
	}
}

// TestPatchOfNewSources asks for the patch coverage of sources that git does not know yet: they
// are new, but not those that it is told to ignore.
func TestPatchOfNewSources(t *testing.T) {
	dir, set := checkout(t)
	d, err := GitDiff("HEAD", dir)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := source.NewSources(source.Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPatch(d, set, exclude.Excluded{}, sources, nil)
	for name, want := range map[string]bool{"known.c": false, "new.c": true, "ignored.c": false, "in/new.c": true} {
		if got := p.Changed(filepath.Join(dir, name), 1); got != want {
			t.Errorf("%s is changed: %v, want %v", name, got, want)
		}
	}
	if p.Empty() || !p.Clear() {
		t.Errorf("empty %v, clear %v: %v", p.Empty(), p.Clear(), p.Problems())
	}
}

// TestPatchTheWrongWayRound gives a diff to sources that are the old version: all that it says is
// deleted is still there.
func TestPatchTheWrongWayRound(t *testing.T) {
	dir, set := checkout(t)
	if err := os.WriteFile(filepath.Join(dir, "known.c"), []byte("int known;\nint more;\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := git(dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-a", "-m", "more"); err != nil {
		t.Fatal(err)
	}
	for base, clear := range map[string]bool{"HEAD~1..HEAD": true, "HEAD..HEAD~1": false} {
		d, err := GitDiff(base, dir)
		if err != nil {
			t.Fatal(err)
		}
		sources, err := source.NewSources(source.Options{Root: dir})
		if err != nil {
			t.Fatal(err)
		}
		if p := NewPatch(d, set, exclude.Excluded{}, sources, nil); p.Clear() != clear {
			t.Errorf("%s: clear %v, want %v: %v", base, p.Clear(), clear, p.Problems())
		}
	}
}

// checkout makes one, and a set of sources in it of which git knows known.c only.
func checkout(t *testing.T) (string, *coverage.Set) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		needs.Skip(t, needs.Tools, "git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	set := &coverage.Set{}
	for _, name := range []string{"ignored.c", "in/new.c", "known.c", "new.c"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("int known;\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		set.Add(&coverage.File{Name: path, Lines: []coverage.Line{{Number: 1}}})
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("ignored.c\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "known.c", ".gitignore"},
		{"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first"},
	} {
		if _, err := git(dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	return dir, set
}

// TestRepositoryAmongSources: a directory of a checkout that has what a repository has,
// with programs in its settings, is none to footfall: who wrote these files is not known.
func TestRepositoryAmongSources(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		needs.Skip(t, needs.Tools, err)
	}
	dir, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		cmd.Dir, cmd.Env = dir, gitEnviron(dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "-q", "--bare", ".")
	run("config", "core.bare", "false")
	run("config", "core.worktree", dir)
	write(".gitattributes", "*.c filter=x\n")
	write("a.c", "int a;\n")
	run("add", "a.c", ".gitattributes")
	run("commit", "-q", "-m", "x")
	run("config", "filter.x.clean", "touch "+ran+"; cat")
	write("a.c", "int b;\n")
	if _, err := GitDiff("HEAD", dir); err == nil {
		t.Error("it was taken for a checkout")
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of its settings has run")
	}
}
