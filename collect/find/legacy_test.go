package find

import (
	"os"
	"path/filepath"
	"testing"

	"footfall/formats/gcov"
	"footfall/report/source"
)

// TestFindLegacy finds units of old compilers, and says what is missing of them.
func TestFindLegacy(t *testing.T) {
	notes := gcov.LegacyNotes{
		Lines: []gcov.LegacyToken{{Number: -2, Name: "main"}, {Number: 0}, {Number: -1, Name: "a.c"}, {Number: 3}, {Number: 0}},
		Graphs: []*gcov.LegacyGraph{{Blocks: 3, Arcs: []gcov.Arc{
			{Src: 0, Dst: 1, Flags: gcov.ArcFallthrough}, {Src: 1, Dst: 2, Flags: gcov.ArcTree}, {Src: 2, Dst: 0, Flags: gcov.ArcTree},
		}}},
	}
	bb, bbg := notes.Encode()
	da := (&gcov.LegacyCounts{Values: []int64{7}}).Encode()
	dir := t.TempDir()
	for name, b := range map[string][]byte{
		"a.bb": bb, "a.bbg": bbg, "a.da": da, "never.bb": bb, "never.bbg": bbg,
		"lost.da": da, "graphless.bb": bb, "graphless.da": da, "recipe.bb": []byte("SUMMARY = \"no notes\"\n"), "other.da": []byte("dansk"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := source.NewSources(source.Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	found, err := In([]string{dir}, nil, sources)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Units) != 2 || found.Data != 1 || len(found.Problems) != 2 {
		t.Fatalf("found %+v", found)
	}
	set, problems, stats := gcov.Collect(found.Units, gcov.CollectOptions{})
	if len(problems) > 0 || stats.NeverRun != 1 || set.Len() != 1 || set.At(0).Lines[0].Count != 7 {
		t.Errorf("collected %+v, %+v, problems %v", set.Files(), stats, problems)
	}
	for _, name := range []string{"a.bb", "a.da", "a.bbg"} {
		if found, err := In([]string{filepath.Join(dir, name)}, nil, sources); err != nil || len(found.Units) != 1 {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}
