package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
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
		set.Files = append(set.Files, &coverage.File{Name: path, Lines: []coverage.Line{{Number: 1}}})
	}
	set.Files = append(set.Files, &coverage.File{Name: "/elsewhere/build/gone.c", Lines: []coverage.Line{{Number: 1}}})
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
		sources, err := NewSources(SourceOptions{Root: test.root})
		if err != nil {
			t.Fatal(err)
		}
		f := FileDiff{Old: test.name, New: test.name, Edits: coverage.Edits{{Old: 1, Deleted: 1, New: 1, Inserted: 1}}, inserted: [][]string{{test.inserted}}}
		p := NewPatch(&SourceDiff{Top: test.top, Files: []FileDiff{f}}, set, Excluded{}, sources)
		found := ""
		for _, f := range set.Files {
			if p.Changed(f.Name, 1) {
				found = strings.TrimPrefix(f.Name, dir+"/")
			}
		}
		if doubt := p.doubts > 0; found != test.want || doubt != test.doubt {
			t.Errorf("%s with %q: %q, doubt %v, want %q, %v: %v", test.name, test.inserted, found, doubt, test.want, test.doubt, p.Problems())
		}
	}
}

func TestPatchTotals(t *testing.T) {
	f := &coverage.File{
		Name:      "/p/a.c",
		Lines:     []coverage.Line{{Number: 1, Count: 1}, {Number: 3}, {Number: 4}, {Number: 6, Count: 2, Branches: []coverage.Branch{{Count: 1}, {}}}, {Number: 7}, {Number: 9}},
		Functions: []*coverage.Function{{StartLine: 1}, {StartLine: 3, Count: 1}},
	}
	set := &coverage.Set{Files: []*coverage.File{f}}
	sources, err := NewSources(SourceOptions{Root: "/p"})
	if err != nil {
		t.Fatal(err)
	}
	// Lines 3 to 7 are new, 8 was before, 9 is new.
	edits := coverage.Edits{{Old: 3, Deleted: 2, New: 3, Inserted: 5}, {Old: 6, New: 9, Inserted: 1}}
	p := NewPatch(&SourceDiff{Files: []FileDiff{{Old: "a.c", New: "a.c", Edits: edits, inserted: [][]string{nil, nil}}}}, set, Excluded{}, sources)
	want := coverage.Totals{Lines: coverage.Ratio{Covered: 1, Total: 5}, Functions: coverage.Ratio{Covered: 1, Total: 1}, Branches: coverage.Ratio{Covered: 1, Total: 2}}
	if diff := cmp.Diff(want, p.Totals(set)); diff != "" {
		t.Errorf("totals (-want +got)\n%s", diff)
	}
	if m := p.missed(f); m.count != 4 || m.ranges != "3-4,7-9" {
		t.Errorf("missed %+v", m)
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
	sources, err := NewSources(SourceOptions{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPatch(d, set, Excluded{}, sources)
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
		sources, err := NewSources(SourceOptions{Root: dir})
		if err != nil {
			t.Fatal(err)
		}
		if p := NewPatch(d, set, Excluded{}, sources); p.Clear() != clear {
			t.Errorf("%s: clear %v, want %v: %v", base, p.Clear(), clear, p.Problems())
		}
	}
}

// checkout makes one, and a set of sources in it of which git knows known.c only.
func checkout(t *testing.T) (string, *coverage.Set) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
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
		set.Files = append(set.Files, &coverage.File{Name: path, Lines: []coverage.Line{{Number: 1}}})
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
