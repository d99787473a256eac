package units

import (
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/formats/gcov"
	"footfall/formats/gcov/fixtures"
)

func TestMain(m *testing.M) { os.Exit(fixtures.Main(m)) }

func joined(cwd, name string) (string, bool) {
	if path.IsAbs(name) {
		return name, !strings.HasPrefix(name, "/usr/")
	}
	return path.Join("/"+path.Base(cwd), name), true
}

// TestNotesAreExact holds what comes of the counters of objects that were cut into windows against what gcov.Collect makes of the
// data files, for the programs of all compilers.
func TestNotesAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ran := 0
	for _, archive := range []string{"gcc", "clang"} {
		for i, fx := range fixtures.All(t, archive) {
			if i%3 != 0 {
				continue // they take long
			}
			var objects []gcov.Object
			var sum Sum
			for name := range fx.Inputs {
				data := strings.TrimSuffix(name, ".gcno") + ".gcda"
				if path.Ext(name) != ".gcno" || fx.Inputs[data] == nil {
					continue
				}
				o := gcov.Object{Notes: filepath.Join(fx.Dir, name), Data: []string{filepath.Join(fx.Dir, data)}, Dir: "/x"}
				total, ok := unitOf(t, r, fx.Inputs[name], fx.Inputs[data])
				if !ok {
					continue
				}
				if err := sum.Add(total); err != nil {
					t.Fatalf("%s/%s: %s: %v", fx.Compiler, fx.Program, name, err)
				}
				objects = append(objects, o)
				ran++
			}
			want, _, _ := gcov.Collect(objects, gcov.CollectOptions{Source: joined})
			same(t, fx.Compiler+"/"+fx.Program, want, sum.Take())
		}
	}
	if ran < 20 {
		t.Errorf("%d objects were compared", ran)
	}
}

// unitOf returns the sum of the windows of an object; false: its data are of another compilation.
func unitOf(t *testing.T, r *rand.Rand, notes, data []byte) (store.Total, bool) {
	t.Helper()
	counts, err := gcov.ReadCounts(data)
	if err != nil {
		return store.Total{}, false
	}
	layout, err := LayoutOf(notes)
	if err != nil {
		t.Fatal(err)
	}
	hits, err := layout.Vector(counts)
	if err != nil {
		return store.Total{}, false
	}
	unit, err := OfNotes(gcov.Object{Notes: "build/a.gcno", Bytes: notes, Dir: "/x"}, joined)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(&unit); err != nil {
		t.Fatal(err)
	}
	windows := make([][]uint64, 3)
	for i := range windows {
		windows[i] = make([]uint64, len(hits))
	}
	for i, h := range hits {
		for h > 0 {
			n := 1 + r.Uint64N(h)
			windows[r.IntN(3)][i] += n
			h -= n
		}
	}
	total := store.Total{Unit: unit, Hits: windows[0]}
	store.Add(total.Hits, windows[1])
	store.Add(total.Hits, windows[2])
	return total, true
}

// TestFunctionsOfNotes: a function has run exactly if some of the counters did that are said to be its own.
func TestFunctionsOfNotes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	functions := 0
	for _, archive := range []string{"gcc", "clang"} {
		for i, fx := range fixtures.All(t, archive) {
			if i%3 != 1 {
				continue
			}
			for name, notes := range fx.Inputs {
				data := fx.Inputs[strings.TrimSuffix(name, ".gcno")+".gcda"]
				if path.Ext(name) != ".gcno" || data == nil {
					continue
				}
				total, ok := unitOf(t, r, notes, data)
				if !ok {
					continue
				}
				list, err := Functions(&total.Unit)
				if err != nil {
					t.Fatal(err)
				}
				checkNamed(t, name, &total.Unit, list)
				files, err := Files(&total.Unit, total.Hits)
				if err != nil {
					t.Fatal(err)
				}
				functions += compareFunctions(t, fx.Compiler+"/"+fx.Program+"/"+name, list, files, total.Hits)
			}
		}
	}
	if functions < 100 {
		t.Errorf("%d functions were compared", functions)
	}
}

func compareFunctions(t *testing.T, title string, list []CountedFunction, files []*coverage.File, hits []uint64) (compared int) {
	t.Helper()
	for _, f := range files {
		for _, fn := range f.Functions {
			for i := range list {
				one := &list[i]
				if one.File != f.Name || one.StartLine != fn.StartLine || one.Name != fn.Name {
					continue
				}
				compared++
				counted := false
				for _, c := range one.Counters {
					counted = counted || hits[c] > 0
				}
				if called := fn.Count > 0 || fn.BlocksExecuted > 0; called && !counted {
					t.Errorf("%s: %s ran, and none of its %d counters did", title, fn.Name, len(one.Counters))
				} else if counted && !called {
					t.Errorf("%s: counters of %s ran, and it did not", title, fn.Name)
				}
			}
		}
	}
	return compared
}

// FuzzNotes decodes units of anybody: what can be checked can be read.
func FuzzNotes(f *testing.F) {
	n := 0
	fixtures.EachInput(f, ".gcno", func(_ string, b []byte) {
		if n++; n%50 == 0 {
			if u, err := OfNotes(gcov.Object{Notes: "a.gcno", Bytes: b, Dir: "/x"}, joined); err == nil {
				f.Add(u.Program, u.Counters)
			}
		}
	})
	f.Fuzz(func(t *testing.T, program []byte, counters int) {
		if counters < 0 || counters > 1<<16 {
			return
		}
		u := store.Unit{Kind: Notes, Name: "a.bbg", Counters: counters, Program: program}
		checkAgrees(t, &u)
	})
}

// checkAgrees looks whether what Check says of a unit is so when it is read.
func checkAgrees(t *testing.T, u *store.Unit) {
	t.Helper()
	err := Check(u)
	hits := make([]uint64, u.Counters)
	for i := range hits {
		hits[i] = uint64(i % 3)
	}
	_, err2 := Files(u, hits)
	if (err == nil) != (err2 == nil) {
		t.Fatalf("%v, but %v", err, err2)
	}
	if _, err3 := Functions(u); (err == nil) != (err3 == nil) {
		t.Fatalf("%v, but %v", err, err3)
	}
}
