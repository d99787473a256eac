package gcov

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"footfall/coverage"
	"footfall/formats/gcov/fixtures"
)

// TestCollectFixtures compares which lines have code, and which of them ran,
// with the listings of each compiler's own gcov.
func TestCollectFixtures(t *testing.T) {
	// Lines that end no block of their own, on which gcov forgets the blocks
	// that pass them: see docs/rationale.md, What a line's count means.
	gcovForgets := map[string]bool{}
	lines, different := 0, 0
	for _, archive := range []string{"gcc", "clang"} {
		for _, fx := range fixtures.All(t, archive) {
			for _, set := range fx.Sets {
				if set.Name != "none" && !strings.HasPrefix(set.Name, "none-") || len(set.Files) == 0 {
					continue
				}
				stem := strings.TrimSuffix(set.Cmd[len(set.Cmd)-1], filepath.Ext(set.Cmd[len(set.Cmd)-1]))
				obj := Object{Notes: filepath.Join(fx.Dir, stem+".gcno"), Data: []string{filepath.Join(fx.Dir, stem+".gcda")}}
				got, problems, _ := Collect([]Object{obj}, CollectOptions{Source: bySourceName})
				for _, p := range problems {
					if p.Kind != Empty {
						t.Errorf("%s/%s: %v", fx.Compiler, fx.Program, p)
					}
				}
				for name, text := range set.Files {
					src := strings.TrimSuffix(name, ".gcov")
					want := parseListing(text)
					lines += len(want)
					for _, d := range compareLines(find(got, src), want) {
						if key := fx.Compiler + "/" + fx.Program + "/" + src + ":" + d; !gcovForgets[key] {
							different++
							t.Errorf("%s", key)
						}
					}
				}
			}
		}
	}
	t.Logf("%d lines compared, %d differ", lines, different)
	if lines < 5000 {
		t.Errorf("only %d lines compared", lines)
	}
}

func bySourceName(_, name string) (string, bool) { return filepath.Base(name), true }

func find(set *coverage.Set, name string) *coverage.File {
	for _, f := range set.All() {
		if f.Name == name {
			return f
		}
	}
	return new(coverage.File)
}

// parseListing returns the lines of a listing that have code, and whether they
// ran. Lines that are listed for several instances ran if one did.
func parseListing(text string) map[int32]bool {
	ran := make(map[int32]bool)
	for _, line := range strings.Split(text, "\n") {
		part := strings.SplitN(line, ":", 3)
		if len(part) < 3 {
			continue
		}
		count, number := strings.TrimSpace(part[0]), strings.TrimSpace(part[1])
		n, err := strconv.Atoi(number)
		if err != nil || n == 0 || count == "-" {
			continue
		}
		ran[int32(n)] = ran[int32(n)] || !strings.ContainsAny(count, "#=")
	}
	return ran
}

func compareLines(f *coverage.File, want map[int32]bool) (differences []string) {
	seen := 0
	for _, l := range f.Lines {
		ran, ok := want[l.Number]
		switch {
		case !ok:
			differences = append(differences, strconv.Itoa(int(l.Number))+" has code only here")
		case ran != (l.Count > 0):
			differences = append(differences, strconv.Itoa(int(l.Number))+" ran "+strconv.FormatBool(l.Count > 0))
		}
		if ok {
			seen++
		}
	}
	if seen < len(want) {
		differences = append(differences, strconv.Itoa(len(want)-seen)+" lines missing")
	}
	return differences
}

func TestCollectAddsRuns(t *testing.T) {
	fx := fixtures.GCC12(t, "loops")
	notes, data := filepath.Join(fx.Dir, "loops.gcno"), filepath.Join(fx.Dir, "loops.gcda")
	counts, err := ReadCounts(fx.Inputs["loops.gcda"])
	if err != nil {
		t.Fatal(err)
	}
	once, _, _ := Collect([]Object{{Notes: notes, Data: []string{data}}}, CollectOptions{Source: bySourceName})
	thrice, problems, stats := Collect([]Object{
		{Notes: notes, Data: []string{data, data}},                            // of two prefix trees
		{Notes: notes, Readings: []Reading{{Name: "memory", Counts: counts}}}, // the same unit in a running program
		{Notes: notes}, // and in one that never ran
	}, CollectOptions{Source: bySourceName})
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	if stats.Objects != 3 || stats.NeverRun != 1 || stats.Functions != 3*stats.Distinct {
		t.Errorf("stats %+v", stats)
	}
	a, b := find(once, "loops.c"), find(thrice, "loops.c")
	if len(a.Lines) == 0 || len(a.Lines) != len(b.Lines) || len(a.Functions) != len(b.Functions) {
		t.Fatalf("%d and %d lines, %d and %d functions", len(a.Lines), len(b.Lines), len(a.Functions), len(b.Functions))
	}
	for i := range a.Lines {
		if a.Lines[i].Count*3 != b.Lines[i].Count {
			t.Errorf("line %d: %d once, %d thrice", a.Lines[i].Number, a.Lines[i].Count, b.Lines[i].Count)
		}
	}
	for i := range a.Functions {
		if a.Functions[i].Count*3 != b.Functions[i].Count {
			t.Errorf("%s: %d once, %d thrice", a.Functions[i].Name, a.Functions[i].Count, b.Functions[i].Count)
		}
	}
}

func TestCollectTellsInstances(t *testing.T) {
	fx := fixtures.GCC12(t, "templ")
	set, _, _ := Collect([]Object{{Notes: filepath.Join(fx.Dir, "templ.gcno"), Data: []string{filepath.Join(fx.Dir, "templ.gcda")}}}, CollectOptions{Source: bySourceName})
	several := false
	for _, fn := range find(set, "templ.cc").Functions {
		sum := int64(0)
		for _, in := range fn.Instances {
			sum += in.Count
		}
		if sum != fn.Count {
			t.Errorf("%s: count %d, instances %+v", fn.Name, fn.Count, fn.Instances)
		}
		several = several || len(fn.Instances) > 1
	}
	if !several {
		t.Error("no function has several instances")
	}
}

func TestCollectProblems(t *testing.T) {
	fx := fixtures.GCC12(t, "branches")
	other := fixtures.GCC12(t, "loops")
	notes, data := fx.Inputs["branches.gcno"], fx.Inputs["branches.gcda"]
	for _, c := range []struct {
		what        string
		notes, data []byte
		kind        ProblemKind
		offset      int64
		says        string
	}{
		{"no notes", []byte("hello, world"), data, Unreadable, 0, "not a gcov notes file"},
		{"no data", notes, []byte("hello, world"), Unreadable, 0, "not a gcov data file"},
		{"another unit's data", notes, other.Inputs["loops.gcda"], Rebuilt, 8, "rebuilt since the run"},
		{"data cut off", notes, data[:len(data)-12], Damaged, -2, "cut off"},
		{"notes cut off", notes[:len(notes)-7], data, Damaged, -2, "cut off"},
		{"an unknown version", slices.Concat(notes[:4], []byte("*99Z"), notes[8:]), nil, UnknownVersion, 4, "not known"},
		{"no functions", notes[:len(notes)-functionBytes(t, notes)], nil, Empty, -1, "no functions"},
	} {
		dir := t.TempDir()
		obj := Object{Notes: filepath.Join(dir, "x.gcno")}
		fixtures.Write(t, obj.Notes, c.notes)
		if c.data != nil {
			obj.Data = []string{filepath.Join(dir, "x.gcda")}
			fixtures.Write(t, obj.Data[0], c.data)
		}
		_, problems, _ := Collect([]Object{obj, {Notes: filepath.Join(fx.Dir, "branches.gcno")}}, CollectOptions{Source: bySourceName})
		if len(problems) != 1 {
			t.Errorf("%s: problems %v, want one", c.what, problems)
			continue
		}
		p := problems[0]
		if p.Kind != c.kind || !strings.Contains(p.Error(), c.says) || c.offset != -2 && p.Offset != c.offset {
			t.Errorf("%s: %v %v at %d", c.what, p.Kind, p, p.Offset)
		}
	}
	_, problems, _ := Collect([]Object{{Notes: filepath.Join(t.TempDir(), "none.gcno")}}, CollectOptions{})
	if len(problems) != 1 || !errors.Is(problems[0].Err, os.ErrNotExist) {
		t.Errorf("missing notes: %v", problems)
	}
}

// functionBytes is the size of all records of the notes.
func functionBytes(t *testing.T, notes []byte) int {
	_, r := readNotesHead(notes)
	if r.err != nil {
		t.Fatal(r.err)
	}
	return len(notes) - r.pos
}

func FuzzCollect(f *testing.F) {
	n := 0
	for _, fx := range fixtures.All(f, "gcc") {
		for name, b := range fx.Inputs {
			stem, ok := strings.CutSuffix(name, ".gcno")
			if n++; ok && n%17 == 0 && len(b) < 4000 {
				f.Add(b, fx.Inputs[stem+".gcda"])
			}
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, notes, data []byte) {
		here, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(here)
		obj := Object{Notes: filepath.Join(here, "x.gcno"), Data: []string{filepath.Join(here, "x.gcda")}}
		fixtures.Write(t, obj.Notes, notes)
		fixtures.Write(t, obj.Data[0], data)
		set, _, _ := Collect([]Object{obj}, CollectOptions{Source: bySourceName})
		for _, file := range set.All() {
			for i := range file.Lines {
				if file.Lines[i].Count < 0 {
					t.Errorf("%s:%d: negative count", file.Name, file.Lines[i].Number)
				}
			}
		}
	})
}
