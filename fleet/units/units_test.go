package units

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/report/fixtures"
)

// same compares files as Merge leaves them.
func same(t *testing.T, name string, want, got *coverage.Set) {
	t.Helper()
	if diff := cmp.Diff(want.Files(), got.Files(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestRoundTrip has files come back as they were.
func TestRoundTrip(t *testing.T) {
	set := fixtures.Set()
	before := coverage.Merge(set)
	var sum Sum
	for _, f := range set.All() {
		c := Of(f)
		if err := Check(&c.Unit); err != nil {
			t.Error(err)
		}
		if err := sum.Add(store.Total{Unit: c.Unit, Hits: c.Hits}); err != nil {
			t.Error(err)
		}
	}
	got, problems := sum.Set()
	if len(problems) > 0 {
		t.Error(problems)
	}
	same(t, "round trip", before, got)
	same(t, "the set that was read", before, set)
}

// vary makes another run of a set: other counts of the same things, and sometimes a file without some of
// its lines, instances or branches.
func vary(r *rand.Rand) *coverage.Set {
	set := fixtures.Set()
	count := func() int64 { return max(0, r.Int64N(6)-2) }
	set.Update(func(_ int, f *coverage.File) coverage.Update {
		for _, fn := range f.Functions {
			fn.Count, fn.BlocksExecuted = 0, 0
			for i := range fn.Instances {
				in := &fn.Instances[i]
				in.Count = count()
				in.BlocksExecuted = int32(min(in.Count, int64(in.Blocks)))
				fn.Count += in.Count
				fn.BlocksExecuted = max(fn.BlocksExecuted, in.BlocksExecuted)
				last := int32(0)
				var lines coverage.Hits
				for line := range in.Lines.All() {
					lines = lines.Add(&last, line, count())
				}
				in.Lines = lines
			}
			if n := len(fn.Instances); n > 1 && r.IntN(3) == 0 {
				fn.Instances = fn.Instances[1:]
				fn.Name = fn.Instances[0].Name
				fn.BlocksExecuted = fn.Instances[0].BlocksExecuted
			}
		}
		for i := range f.Lines {
			l := &f.Lines[i]
			l.Count = count()
			l.Unexecuted = l.Count > 0 && r.IntN(2) == 0
			for k := range l.Branches {
				b := &l.Branches[k]
				if k > 0 && l.Branches[k-1].Block == b.Block {
					b.Evaluated = l.Branches[k-1].Evaluated
				} else {
					b.Evaluated = r.IntN(2) == 0
				}
				b.Count = 0
				if b.Evaluated {
					b.Count = count()
				}
			}
			if len(l.Branches) > 2 && r.IntN(3) == 0 {
				l.Branches = l.Branches[2:]
			}
			for k := range l.Calls {
				l.Calls[k].Count = count()
				l.Calls[k].Returned = min(count(), l.Calls[k].Count)
			}
			for k := range l.Conditions {
				for j := range l.Conditions[k].Terms {
					l.Conditions[k].Terms[j] = coverage.Term{True: r.IntN(2) == 0, False: r.IntN(2) == 0}
				}
			}
		}
		if len(f.Lines) > 1 && r.IntN(3) == 0 {
			i := r.IntN(len(f.Lines))
			f.Lines = slices.Delete(f.Lines, i, i+1)
		}
		return coverage.Changed
	})
	return set
}

// TestSumsAreMerged holds what a store makes of many runs, counters added up, against [coverage.Merge] of them.
func TestSumsAreMerged(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(1, seed))
		var sets []*coverage.Set
		totals := make(map[store.Hash]*store.Total)
		var order []store.Hash
		for range 1 + r.IntN(8) {
			set := vary(r)
			sets = append(sets, set)
			for _, f := range set.All() {
				c := Of(f)
				hash := c.Unit.Hash()
				total := totals[hash]
				if total == nil {
					totals[hash] = &store.Total{Unit: c.Unit, Hits: slices.Clone(c.Hits)}
					order = append(order, hash)
					continue
				}
				for i, h := range c.Hits {
					total.Hits[i] += h
				}
			}
		}
		r.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
		var sum Sum
		for _, hash := range order {
			if err := sum.Add(*totals[hash]); err != nil {
				t.Fatal(err)
			}
		}
		got, _ := sum.Set()
		want := coverage.Merge(sets...)
		same(t, "sums", want, got)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestSplit tells tests apart.
func TestSplit(t *testing.T) {
	line := func(n int32, count int64) coverage.Line { return coverage.Line{Number: n, Count: count} }
	hits := func(lines ...coverage.Line) coverage.Hits { return coverage.AppendHits(nil, lines) }
	set := coverage.NewSet(
		&coverage.File{Name: "one.c", Lines: []coverage.Line{line(1, 2), line(2, 0)}, Tests: []coverage.Test{{Name: "a", Hits: hits(line(1, 2))}}},
		&coverage.File{Name: "two.c", Lines: []coverage.Line{line(1, 9), line(5, 3)},
			Tests: []coverage.Test{{Name: "a", Hits: hits(line(1, 4))}, {Name: "b", Hits: hits(line(1, 3), line(5, 3))}}},
		&coverage.File{Name: "none.c", Lines: []coverage.Line{line(1, 0)}},
	)
	list, parts := Split(set)
	if len(list) != 3 {
		t.Fatalf("%d units", len(list))
	}
	got := make(map[string]map[string][]int64)
	for _, p := range parts {
		got[p.Test] = make(map[string][]int64)
		for _, usage := range p.Usage() {
			i := slices.IndexFunc(list, func(u store.Unit) bool { return u.Hash() == usage.Unit })
			f, err := fileOf(&list[i], usage.Hits)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range f.Lines {
				got[p.Test][f.Name] = append(got[p.Test][f.Name], l.Count)
				if l.Unexecuted {
					t.Errorf("%s:%d is said not to have run as a whole", f.Name, l.Number)
				}
			}
		}
	}
	want := map[string]map[string][]int64{"a": {"one.c": {2, 0}, "two.c": {4, 0}}, "b": {"two.c": {3, 3}}, "": {"two.c": {2, 0}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, parts := Split(coverage.NewSet()); len(parts) != 1 {
		t.Errorf("nothing has %d parts", len(parts))
	}
}

// TestTimes reads other numbers than counts.
func TestTimes(t *testing.T) {
	for _, f := range fixtures.Set().All() {
		c := Of(f)
		for i := range c.Hits {
			c.Hits[i] = 1_700_000_000
		}
		f, err := fileOf(&c.Unit, c.Hits)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range f.Lines {
			if l.Count != 1_700_000_000 {
				t.Errorf("%s:%d: %d", f.Name, l.Number, l.Count)
			}
		}
	}
}

// FuzzFile decodes units of anybody: those that can be checked can be read, and are the same units again.
func FuzzFile(f *testing.F) {
	for _, file := range fixtures.Set().All() {
		c := Of(file)
		f.Add(c.Unit.Program, c.Unit.Counters)
	}
	f.Fuzz(func(t *testing.T, program []byte, counters int) {
		if counters < 0 || counters > 1<<16 {
			return
		}
		ran := store.Unit{Kind: Ran, Name: "a.c", Counters: counters, Program: program}
		if err := Check(&ran); err == nil {
			_, _ = Functions(&ran)
		}
		u := store.Unit{Kind: Lines, Name: "a.c", Counters: counters, Program: program}
		err := Check(&u)
		hits := make([]uint64, counters)
		for i := range hits {
			hits[i] = uint64(i % 3)
		}
		file, err2 := fileOf(&u, hits)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%v, but %v", err, err2)
		}
		if err != nil {
			return
		}
		c := Of(file)
		again, err := fileOf(&c.Unit, c.Hits)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(file, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func BenchmarkFile(b *testing.B) {
	file := &coverage.File{Name: "a.c"}
	for i := range int32(20000) {
		file.Lines = append(file.Lines, coverage.Line{Number: 1 + i, Count: int64(i % 7)})
	}
	b.Run("of", func(b *testing.B) {
		for b.Loop() {
			Of(file)
		}
		b.ReportMetric(float64(b.N)*20000/b.Elapsed().Seconds()/1e6, "Mlines/s")
	})
	b.Run("file", func(b *testing.B) {
		c := Of(file)
		for b.Loop() {
			if _, err := fileOf(&c.Unit, c.Hits); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*20000/b.Elapsed().Seconds()/1e6, "Mlines/s")
	})
}

// What is not known is neither covered nor not.
func TestRan(t *testing.T) {
	function := func(name string, line int32, count int64) *coverage.Function {
		return &coverage.Function{Name: name, StartLine: line, Count: count, Instances: []coverage.Instance{{Name: name, Count: count}}}
	}
	file := &coverage.File{Name: "a.c", Functions: []*coverage.Function{function("ran", 3, 1), function("not", 5, 0), function("unknown", 9, 0)}}
	one := OfRan(file, []bool{false, false, true})
	if err := Check(&one.Unit); err != nil {
		t.Fatal(err)
	}
	list, err := Functions(&one.Unit)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for i, want := range []uint64{0, 0, 1} {
		if f := list[i]; f.Name != file.Functions[i].Name || one.Hits[f.Unknown] != want || one.Hits[f.Counters[0]] != uint64(file.Functions[i].Count) {
			t.Errorf("%s: %v %d of %v", f.Name, f.Counters, f.Unknown, one.Hits)
		}
	}
	twice := slices.Clone(one.Hits)
	store.Add(twice, one.Hits)
	files, err := Files(&one.Unit, twice)
	if err != nil || len(files[0].Functions) != 2 || files[0].Functions[0].Count != 1 || files[0].Functions[1].Count != 0 {
		t.Errorf("%v %v", files, err)
	}
}
