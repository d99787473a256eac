package gcov

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/formats/gcov/fixtures"
)

// TestProgramAgain looks at counters that change at random, and compares what a
// Program makes of them, look after look, with what one makes that sees them first.
func TestProgramAgain(t *testing.T) {
	for _, archive := range []string{"gcc", "clang"} {
		byCompiler := make(map[string][]Object)
		for _, fx := range fixtures.All(t, archive) {
			if o, ok := readObject(fx); ok {
				byCompiler[fx.Compiler] = append(byCompiler[fx.Compiler], o)
			}
		}
		for compiler, objs := range byCompiler {
			t.Run(compiler, func(t *testing.T) { lookAgain(t, objs) })
			if testing.Short() {
				break // one is enough for the race detector
			}
		}
	}
}

// readObject is a fixture with the counts of its data file for a reading.
func readObject(fx *fixtures.Fixture) (Object, bool) {
	notes, _ := filepath.Glob(filepath.Join(fx.Dir, "*.gcno"))
	if len(notes) == 0 {
		return Object{}, false
	}
	data := strings.TrimSuffix(notes[0], ".gcno") + ".gcda"
	b, err := os.ReadFile(data)
	if err != nil {
		return Object{}, false
	}
	c, err := ReadCounts(b)
	if err != nil {
		return Object{}, false
	}
	return Object{Notes: notes[0], Readings: []Reading{{Name: data, Counts: c}}}, true
}

func lookAgain(t *testing.T, objs []Object) {
	// Programs of other fixtures have sources of the same names: their lines are shared.
	options := CollectOptions{Source: bySourceName}
	p := NewProgram(options)
	rng := rand.New(rand.NewPCG(7, uint64(len(objs))))
	steps, patched := 40, 0
	if testing.Short() {
		steps = 15
	}
	var before *coverage.Set
	var kept []*coverage.File
	for step := range steps {
		objs = changed(rng, objs, step)
		got, problems, stats := p.Collect(objs)
		want, wantProblems, wantStats := NewProgram(options).Collect(objs)
		wantStats.Bytes = 0
		if diff := cmp.Diff(want.Files(), got.Files()); diff != "" {
			t.Fatalf("step %d: (-anew +again)\n%.4000s", step, diff)
		}
		if diff := cmp.Diff(wantStats, stats); diff != "" {
			t.Fatalf("step %d: (-anew +again)\n%s", step, diff)
		}
		if diff := cmp.Diff(texts(wantProblems), texts(problems)); diff != "" {
			t.Fatalf("step %d: (-anew +again)\n%s", step, diff)
		}
		for i := range got.Len() {
			if got.Keeps(before, i) {
				patched++
			}
		}
		if before != nil {
			if diff := cmp.Diff(kept, copied(before)); diff != "" {
				t.Fatalf("step %d: the set of the look before has changed: %.4000s", step, diff)
			}
		}
		before, kept = got, copied(got)
	}
	if patched == 0 {
		t.Errorf("no file was ever kept")
	}
}

func copied(s *coverage.Set) []*coverage.File {
	var list []*coverage.File
	for _, f := range s.All() {
		list = append(list, f.Clone())
	}
	return list
}

func texts(problems []InputProblem) []string {
	var list []string
	for _, p := range problems {
		list = append(list, p.Error())
	}
	slices.Sort(list)
	return slices.Compact(list) // those of notes are told again when the program is another build of theirs
}

// changed returns the objects with other counts in some of them, as those of a program
// that goes on, of one that has set its counters to zero, or of several processes.
func changed(rng *rand.Rand, objs []Object, step int) []Object {
	objs = slices.Clone(objs)
	if step%20 == 19 { // a library that was not there before, as far as the Program knows
		return objs[:len(objs)-1]
	}
	for range rng.IntN(4) {
		o := &objs[rng.IntN(len(objs))]
		o.Readings = slices.Clone(o.Readings)
		r := &o.Readings[rng.IntN(len(o.Readings))]
		c := r.Counts.Clone()
		switch rng.IntN(12) {
		case 0: // reset
			for i := range c.Functions {
				for k := range c.Functions[i].Counters {
					clear(c.Functions[i].Counters[k].Values)
				}
			}
		case 1: // fork, exec
			if len(o.Readings) < 3 {
				o.Readings = append(o.Readings, Reading{Name: fmt.Sprint(r.Name, step), Counts: c})
				continue
			}
			o.Readings = o.Readings[:1]
			continue
		case 2: // of another build, and back
			if c.Stamp++; rng.IntN(2) == 0 && len(c.Functions) > 0 {
				c.Functions[rng.IntN(len(c.Functions))].CfgChecksum++
				c.Stamp--
			}
		case 3:
			c.Functions = slices.Delete(c.Functions, 0, min(1, len(c.Functions)))
		default:
			countOn(rng, c)
		}
		r.Counts = c
	}
	return objs
}

// countOn changes counters of a few functions.
func countOn(rng *rand.Rand, c *Counts) {
	for range min(len(c.Functions), 1+rng.IntN(3)) {
		f := &c.Functions[rng.IntN(len(c.Functions))]
		for k := range f.Counters {
			values := &f.Counters[k]
			if n := values.Len(); values.Zeros > 0 {
				*values = Counters{Kind: values.Kind, Values: make([]int64, n)}
			}
			for i := range values.Values {
				if rng.IntN(3) == 0 {
					values.Values[i] = int64(rng.IntN(5)) // mostly impossible, which must be solved alike, too
				}
			}
		}
	}
}
