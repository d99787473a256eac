package report

import (
	"os"
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
