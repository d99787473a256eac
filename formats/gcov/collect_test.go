package gcov

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"footfall/coverage"
)

// TestCollectFixtures compares which lines have code, and which of them ran,
// with the listings of each compiler's own gcov.
func TestCollectFixtures(t *testing.T) {
	// Lines that end no block of their own, on which gcov forgets the blocks
	// that pass them: see docs/rationale.md, What a line's count means.
	gcovForgets := map[string]bool{}
	lines, different := 0, 0
	for _, archive := range []string{"gcc", "clang"} {
		for _, fx := range fixtures(t, archive) {
			for _, set := range fx.sets {
				if set.name != "none" && !strings.HasPrefix(set.name, "none-") || len(set.files) == 0 {
					continue
				}
				stem := strings.TrimSuffix(set.cmd[len(set.cmd)-1], filepath.Ext(set.cmd[len(set.cmd)-1]))
				obj := Object{Notes: filepath.Join(fx.dir, stem+".gcno"), Data: []string{filepath.Join(fx.dir, stem+".gcda")}}
				got, problems, _ := Collect([]Object{obj}, CollectOptions{Source: bySourceName})
				for _, p := range problems {
					if p.Kind != Empty {
						t.Errorf("%s/%s: %v", fx.compiler, fx.program, p)
					}
				}
				for name, text := range set.files {
					src := strings.TrimSuffix(name, ".gcov")
					want := parseListing(text)
					lines += len(want)
					for _, d := range compareLines(find(got, src), want) {
						if key := fx.compiler + "/" + fx.program + "/" + src + ":" + d; !gcovForgets[key] {
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
	for _, f := range set.Files {
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

// gcc12 is the fixture of a program built by GCC 12.
func gcc12(tb testing.TB, program string) *fixture {
	tb.Helper()
	for _, fx := range fixtures(tb, "gcc") {
		if fx.compiler == "gcc-12" && fx.program == program {
			return fx
		}
	}
	tb.Fatalf("no fixture gcc-12/%s", program)
	return nil
}

func TestCollectAddsRuns(t *testing.T) {
	fx := gcc12(t, "loops")
	notes, data := filepath.Join(fx.dir, "loops.gcno"), filepath.Join(fx.dir, "loops.gcda")
	counts, err := ReadCounts(fx.inputs["loops.gcda"])
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
	fx := gcc12(t, "templ")
	set, _, _ := Collect([]Object{{Notes: filepath.Join(fx.dir, "templ.gcno"), Data: []string{filepath.Join(fx.dir, "templ.gcda")}}}, CollectOptions{Source: bySourceName})
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
	fx := gcc12(t, "branches")
	other := gcc12(t, "loops")
	notes, data := fx.inputs["branches.gcno"], fx.inputs["branches.gcda"]
	for _, c := range []struct {
		what        string
		notes, data []byte
		kind        ProblemKind
		offset      int64
		says        string
	}{
		{"no notes", []byte("hello, world"), data, Unreadable, 0, "not a gcov notes file"},
		{"no data", notes, []byte("hello, world"), Unreadable, 0, "not a gcov data file"},
		{"another unit's data", notes, other.inputs["loops.gcda"], Rebuilt, 8, "rebuilt since the run"},
		{"data cut off", notes, data[:len(data)-12], Damaged, -2, "cut off"},
		{"notes cut off", notes[:len(notes)-7], data, Damaged, -2, "cut off"},
		{"an unknown version", slices.Concat(notes[:4], []byte("*99Z"), notes[8:]), nil, UnknownVersion, 4, "not known"},
		{"no functions", notes[:len(notes)-functionBytes(t, notes)], nil, Empty, -1, "no functions"},
	} {
		dir := t.TempDir()
		obj := Object{Notes: filepath.Join(dir, "x.gcno")}
		write(t, obj.Notes, c.notes)
		if c.data != nil {
			obj.Data = []string{filepath.Join(dir, "x.gcda")}
			write(t, obj.Data[0], c.data)
		}
		_, problems, _ := Collect([]Object{obj, {Notes: filepath.Join(fx.dir, "branches.gcno")}}, CollectOptions{Source: bySourceName})
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

func write(tb testing.TB, name string, b []byte) {
	tb.Helper()
	if err := os.WriteFile(name, b, 0o666); err != nil {
		tb.Fatal(err)
	}
}

// TestMutated damages real files in 10,000 ways. Each must give a report or an
// error, from Collect and from the listings of GCC and Clang, soon.
func TestMutated(t *testing.T) {
	n := 10000
	if testing.Short() {
		n = 500
	}
	type pair struct{ notes, data []byte }
	var pairs []pair
	for _, archive := range []string{"gcc", "clang"} {
		for _, fx := range fixtures(t, archive) {
			for name, b := range fx.inputs {
				if stem, ok := strings.CutSuffix(name, ".gcno"); ok && len(b) < 1<<16 {
					pairs = append(pairs, pair{b, fx.inputs[stem+".gcda"]})
				}
			}
		}
	}
	dir := t.TempDir()
	t.Chdir(dir)
	rng := rand.New(rand.NewPCG(1, 2))
	obj := Object{Notes: "x.gcno", Data: []string{"x.gcda"}}
	for i := range n {
		p := pairs[rng.IntN(len(pairs))]
		write(t, "x.gcno", mutate(rng, p.notes))
		write(t, "x.gcda", mutate(rng, p.data))
		slow := time.AfterFunc(20*time.Second, func() { panic("hangs on input " + strconv.Itoa(i)) })
		Collect([]Object{obj}, CollectOptions{Source: bySourceName})
		Run(&Invocation{Prog: "gcov", Args: []string{"-a", "-b", "-t", "x.gcda"}, Stdout: io.Discard, Stderr: io.Discard})
		slow.Stop()
	}
}

// mutate returns a damaged copy.
func mutate(rng *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	if len(b) == 0 {
		return b
	}
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(b))
		switch rng.IntN(5) {
		case 0:
			b = b[:at+1]
		case 1:
			b[at] ^= 1 << rng.IntN(8)
		case 2:
			b[at] = byte(rng.IntN(256))
		case 3: // a word of the extreme kind
			word := [][]byte{{0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0x7f}, {0, 0, 0, 0x80}, {0, 0, 1, 0}}[rng.IntN(5)]
			copy(b[at&^3:], word)
		case 4: // a piece twice
			end := min(len(b), at+1+rng.IntN(64))
			b = append(b[:end:end], b[at:]...)
		}
	}
	return b
}

func FuzzCollect(f *testing.F) {
	n := 0
	for _, fx := range fixtures(f, "gcc") {
		for name, b := range fx.inputs {
			stem, ok := strings.CutSuffix(name, ".gcno")
			if n++; ok && n%17 == 0 && len(b) < 4000 {
				f.Add(b, fx.inputs[stem+".gcda"])
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
		write(t, obj.Notes, notes)
		write(t, obj.Data[0], data)
		set, _, _ := Collect([]Object{obj}, CollectOptions{Source: bySourceName})
		for _, file := range set.Files {
			for i := range file.Lines {
				if file.Lines[i].Count < 0 {
					t.Errorf("%s:%d: negative count", file.Name, file.Lines[i].Number)
				}
			}
		}
	})
}
