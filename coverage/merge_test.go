package coverage

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomSet returns a small set that obeys the rules of the types; few names,
// lines and shapes, so that sets have much in common.
func randomSet(r *rand.Rand) *Set {
	s := &Set{}
	for _, name := range []string{"/a.c", "/a.h", "/b.c"} {
		if r.IntN(3) > 0 {
			f := randomFile(r, name)
			for i := range f.Lines {
				addLists(r, &f.Lines[i])
			}
			s.Add(f)
		}
	}
	return s
}

// seeds are how many random sets are tried of n; a tenth with -short, as where the race detector makes each
// slow: it looks at what they do, not at what they are.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 10
	}
	return n
}

func files(sets ...*Set) (list [][]*File) {
	for _, s := range sets {
		list = append(list, s.Files())
	}
	return list
}

// addLists adds branches of which it is not known how they make decisions.
func addLists(r *rand.Rand, l *Line) {
	for list := range r.Int32N(3) {
		block := blocks(l.Branches)
		for range 2 + r.IntN(3) {
			b := Branch{Block: block, List: true, Count: randomCount(r), Guessed: list == 1}
			b.Evaluated = b.Count > 0
			l.Branches = append(l.Branches, b)
		}
	}
}

func randomFile(r *rand.Rand, name string) *File {
	f := &File{Name: name}
	for line := int32(1); line < 30; line += 10 {
		for _, names := range [][]string{{"_Z1fIiEvv"}, {"_Z1fIlEvv"}, {"f", "f.cold", "f.part.0"}, {"f(int)"}, {"g", "g.isra.0.part.1"}, {"g.h"}} {
			if r.IntN(2) == 0 {
				f.Functions = append(f.Functions, randomFunction(r, line, 0, names))
			}
		}
		if r.IntN(2) == 0 {
			f.Functions = append(f.Functions, randomFunction(r, line, 1, []string{"_Z1fIiEvv", "_Z1fIlEvv", "_Z1fIsEvv"}))
		}
		if r.IntN(3) == 0 {
			f.Functions = append(f.Functions, randomFunction(r, line, 2, []string{"_Z1fIiEvv", "_Z1gv"}))
		}
	}
	for n := int32(1); n < 6; n++ {
		if r.IntN(3) > 0 {
			f.Lines = append(f.Lines, randomLine(r, n))
		}
	}
	for _, name := range []string{"one", "two"} {
		if hits := AppendHits(nil, f.Lines); len(hits) > 0 && r.IntN(2) == 0 {
			f.Tests = append(f.Tests, Test{name, hits})
		}
	}
	f.Expansions = randomExpansions(r, f.Lines, 0)
	return f
}

func randomExpansions(r *rand.Rand, lines []Line, depth int) (list []Expansion) {
	if depth == 2 {
		return nil
	}
	for _, l := range lines {
		for column := int32(1); column < 3; column++ {
			if r.IntN(4) == 0 {
				last := int32(0)
				hits := Hits(nil).Add(&last, 1+r.Int32N(3), randomCount(r)).Add(&last, 5, 0)
				list = append(list, Expansion{l.Number, column, []string{"a.h", "b.h"}[r.IntN(2)], hits, randomExpansions(r, lines[:min(1, len(lines))], depth+1)})
			}
		}
	}
	return list
}

func randomFunction(r *rand.Rand, line, column int32, names []string) *Function {
	fn := &Function{StartLine: line, StartColumn: column, EndLine: line + r.Int32N(3), EndColumn: r.Int32N(3)}
	if column == 0 {
		fn.EndColumn = 0
	}
	for len(fn.Instances) == 0 {
		for _, name := range names {
			if r.IntN(2) == 0 {
				continue
			}
			i := Instance{Name: name, Count: randomCount(r), Blocks: 5 + r.Int32N(3), BlocksExecuted: r.Int32N(5)}
			if column > 0 {
				last := int32(0)
				i.Lines = i.Lines.Add(&last, line+r.Int32N(2), randomCount(r)).Add(&last, line+2, randomCount(r))
			}
			fn.Instances = append(fn.Instances, i)
			fn.Count = addCounts(fn.Count, i.Count)
			fn.BlocksExecuted, fn.Blocks = later(fn.BlocksExecuted, fn.Blocks, i.BlocksExecuted, i.Blocks)
		}
	}
	fn.Name = fn.Instances[0].Name
	return fn
}

func randomCount(r *rand.Rand) int64 {
	return []int64{0, 0, 1, 2, 1000, math.MaxInt64 / 2}[r.IntN(6)]
}

func randomLine(r *rand.Rand, number int32) Line {
	l := Line{Number: number, Count: randomCount(r), Exceptional: r.IntN(2) == 0}
	l.Unexecuted = l.Count > 0 && r.IntN(2) == 0
	for block := range r.Int32N(4) {
		exception := r.IntN(3) == 0
		for i := range 2 + r.IntN(2) {
			b := Branch{Block: block, Count: randomCount(r), Exception: exception, Fallthrough: i == 0}
			b.Evaluated = b.Count > 0 || r.IntN(2) == 0
			l.Branches = append(l.Branches, b)
		}
	}
	for range r.IntN(3) {
		l.Calls = append(l.Calls, Call{randomCount(r), randomCount(r)})
		c := Condition{Column: r.Int32N(2)}
		for range 2 + r.IntN(2) {
			c.Terms = append(c.Terms, Term{r.IntN(2) == 0, r.IntN(2) == 0})
		}
		l.Conditions = append(l.Conditions, c)
	}
	return l
}

// addOrphans adds calls of functions that start nowhere, and takes the counts of
// some lines.
func addOrphans(r *rand.Rand, s *Set) {
	for _, f := range s.All() {
		if r.IntN(2) == 0 {
			f.Functions = slices.Insert(f.Functions, 0, randomFunction(r, 0, 0, []string{"f"}))
		}
		for i, l := range f.Lines {
			if r.IntN(4) == 0 {
				f.Lines[i] = Line{Number: l.Number, Uncounted: true, Branches: l.Branches, Conditions: l.Conditions}
			}
		}
	}
}

func TestMergeIsCommutativeAndAssociative(t *testing.T) {
	for seed := range seeds(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		a, b, c := randomSet(r), randomSet(r), randomSet(r)
		for _, s := range []*Set{a, b, c} {
			addOrphans(r, s)
		}
		copies := []*Set{Merge(a), Merge(b), Merge(c)}
		want := Merge(a, b, c)
		for _, other := range []struct {
			name string
			set  *Set
		}{
			{"c, b, a", Merge(c, b, a)},
			{"(a, b), c", Merge(Merge(a, b), c)},
			{"a, (b, c)", Merge(a, Merge(b, c))},
			{"(b, a), (), c", Merge(Merge(b, a), &Set{}, c)},
		} {
			if !reflect.DeepEqual(want.Files(), other.set.Files()) {
				t.Fatalf("seed %d: a, b, c and %s differ:\n%s", seed, other.name, cmp.Diff(want.Files(), other.set.Files()))
			}
		}
		if !reflect.DeepEqual(files(copies...), files(a, b, c)) {
			t.Fatalf("seed %d: merging changed its input, or a copy is not one:\n%s", seed, cmp.Diff(files(copies...), files(a, b, c)))
		}
		checkSet(t, want)
	}
}

// checkSet fails where s breaks the promises of the types.
func checkSet(t *testing.T, s *Set) {
	t.Helper()
	for i, f := range s.All() {
		if i > 0 && s.At(i-1).Name >= f.Name {
			t.Errorf("files out of order: %q, %q", s.At(i-1).Name, f.Name)
		}
		for j, fn := range f.Functions {
			if j > 0 && CompareFunctions(f.Functions[j-1], fn) >= 0 {
				t.Errorf("%s: functions out of order at %d:%d", f.Name, fn.StartLine, fn.StartColumn)
			}
			var count int64
			for k, in := range fn.Instances {
				if k > 0 && fn.Instances[k-1].Name >= in.Name {
					t.Errorf("%s:%d: instances out of order", f.Name, fn.StartLine)
				}
				count = addCounts(count, in.Count)
			}
			if count != fn.Count {
				t.Errorf("%s:%d: %d calls, those of the instances are %d", f.Name, fn.StartLine, fn.Count, count)
			}
			if fn.Name != fn.Instances[0].Name {
				t.Errorf("%s:%d: named %q, first instance %q", f.Name, fn.StartLine, fn.Name, fn.Instances[0].Name)
			}
		}
		for j, l := range f.Lines {
			if j > 0 && f.Lines[j-1].Number >= l.Number {
				t.Errorf("%s: lines out of order at %d", f.Name, l.Number)
			}
			if l.Unexecuted && l.Count == 0 {
				t.Errorf("%s:%d: partly executed, but count 0", f.Name, l.Number)
			}
		}
	}
}

func TestMergeTwiceDoublesCountsAndKeepsTotals(t *testing.T) {
	for seed := range seeds(500) {
		s := randomSet(rand.New(rand.NewPCG(seed, 2)))
		twice := Merge(s, s)
		if got, want := twice.Totals(), s.Totals(); got != want {
			t.Fatalf("seed %d: totals changed from %+v to %+v", seed, want, got)
		}
		for i, f := range s.All() {
			for j, l := range f.Lines {
				if got, want := twice.At(i).Lines[j].Count, addCounts(l.Count, l.Count); got != want {
					t.Fatalf("seed %d: %s:%d: count %d, want %d", seed, f.Name, l.Number, got, want)
				}
			}
		}
	}
}

func TestMergeNeverCoversLess(t *testing.T) {
	for seed := range seeds(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		a, b := randomSet(r), randomSet(r)
		both := Merge(a, b).Totals()
		for _, s := range []*Set{a, b} {
			one := s.Totals()
			for _, pair := range [][2]Ratio{
				{one.Lines, both.Lines}, {one.Functions, both.Functions}, {one.Branches, both.Branches},
				{one.ExceptionBranches, both.ExceptionBranches}, {one.Conditions, both.Conditions}, {one.Calls, both.Calls},
			} {
				if pair[1].Covered < pair[0].Covered || pair[1].Total < pair[0].Total {
					t.Fatalf("seed %d: %v of one set became %v of both", seed, pair[0], pair[1])
				}
			}
		}
	}
}

func TestWithoutClone(t *testing.T) {
	for name, want := range map[string]string{
		"f": "f", "f.part.0": "f", "f.isra.12": "f", "f.isra.0.part.1": "f", "f.part.0.cold": "f", "f.cold": "f", "f.cold.1": "f", "f.localalias": "f",
		"f.localalias.2": "f", "f.constprop.0": "f", "f.lto_priv.0": "f", "main._omp_fn.0": "main", "f.llvm.123": "f", "f.__uniq.9.llvm.1": "f",
		"Foo.bar": "Foo.bar", "Foo.bar.part.0": "Foo.bar", "f.part": "f.part", "f.0": "f.0", "Foo.part.x": "Foo.part.x", ".part.0": ".part.0", ".cold": ".cold", "a.": "a.", "": "",
	} {
		if got := withoutClone(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// branches makes branches of a line: "2 2!" are two decisions of two ways, the
// second made by an exception; counts follow one another from first on.
func branches(first int64, shape ...string) []Branch {
	var out []Branch
	for block, s := range shape {
		n, _ := strconv.Atoi(s[:1])
		for range n {
			out = append(out, Branch{Block: int32(block), Count: first, Evaluated: true, Exception: len(s) > 1})
			first++
		}
	}
	return out
}

func TestMergeLineBranches(t *testing.T) {
	counts := func(branches []Branch) []int64 {
		var out []int64
		for _, b := range branches {
			out = append(out, b.Count)
		}
		return out
	}
	for _, test := range []struct {
		name string
		a, b []Branch
		want []int64
	}{
		{"same shape", branches(1, "2", "2!"), branches(10, "2", "2!"), []int64{11, 13, 15, 17}},
		{"same shape keeps the compiler's order", branches(1, "2!", "2"), branches(10, "2!", "2"), []int64{11, 13, 15, 17}},
		{"one has none", branches(1, "2!", "2"), nil, []int64{1, 2, 3, 4}},
		{"a call that can throw before the if", branches(1, "2!", "2"), branches(10, "2"), []int64{13, 15, 1, 2}},
		{"a second if", branches(1, "2"), branches(10, "2", "2"), []int64{11, 13, 12, 13}},
		{"if and switch", branches(1, "2"), branches(10, "3"), []int64{1, 2, 10, 11, 12}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 2 {
				l := Line{Branches: slices.Clone(test.a)}
				l.Merge(&Line{Branches: test.b})
				if diff := cmp.Diff(test.want, counts(l.Branches)); diff != "" {
					t.Errorf("counts (-want +got):\n%s", diff)
				}
				test.a, test.b = test.b, test.a
			}
		})
	}
}

func TestMergeLineUnexecuted(t *testing.T) {
	ranPartly, ranWhole, never := Line{Count: 3, Unexecuted: true}, Line{Count: 2}, Line{}
	for _, test := range []struct {
		name string
		a, b Line
		want bool
	}{
		{"partly in both", ranPartly, ranPartly, true},
		{"whole in one", ranPartly, ranWhole, false},
		{"never run in one", ranPartly, never, true},
		{"never run", never, never, false},
	} {
		l := test.a
		l.Merge(&test.b)
		other := test.b
		other.Merge(&test.a)
		if l.Unexecuted != test.want || other.Unexecuted != test.want {
			t.Errorf("%s: unexecuted block %v and %v, want %v", test.name, l.Unexecuted, other.Unexecuted, test.want)
		}
	}
}

func TestMergeClampsCounts(t *testing.T) {
	l := Line{Count: math.MaxInt64 - 1}
	l.Merge(&Line{Count: 7})
	if l.Count != math.MaxInt64 {
		t.Errorf("count overflowed to %d", l.Count)
	}
	l = Line{Count: -5}
	l.Merge(&Line{Count: 7})
	if l.Count != 7 {
		t.Errorf("-5 and 7 calls are %d, want 7", l.Count)
	}
}

func TestTotals(t *testing.T) {
	s := NewSet(
		&File{
			Name:      "/a.cc",
			Functions: []*Function{{StartLine: 1, Count: 2, Instances: []Instance{{Count: 2}, {Count: 0}}}, {StartLine: 9}},
			Lines: []Line{
				{Number: 1, Count: 2, Branches: []Branch{{Count: 1}, {}, {Exception: true, Count: 2}, {Exception: true}}},
				{Number: 2, Calls: []Call{{Count: 1}, {}}, Conditions: []Condition{{Terms: []Term{{True: true}, {}}}}},
			},
		},
		&File{Name: "/b.cc", Lines: []Line{{Number: 1, Count: 1}}},
	)
	want := Totals{
		Lines: Ratio{2, 3}, Functions: Ratio{1, 2}, Branches: Ratio{1, 2}, ExceptionBranches: Ratio{1, 2},
		Conditions: Ratio{1, 4}, Calls: Ratio{1, 2},
	}
	if diff := cmp.Diff(want, s.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if got := (Ratio{}).Percent(); got != 0 {
		t.Errorf("nothing is %v %% covered, want 0", got)
	}
}
