package coverage

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func same(name string) string { return name }

func TestReconcileBranches(t *testing.T) {
	list := func(block int32, exception, guessed bool, counts ...int64) (out []Branch) {
		for _, n := range counts {
			out = append(out, Branch{Block: block, List: block > 2, Count: n, Evaluated: true, Exception: exception, Guessed: guessed})
		}
		return out
	}
	divided := slices.Concat(list(0, false, false, 1, 0), list(1, true, false, 2, 0), list(2, false, false, 3, 0))
	for _, test := range []struct {
		name string
		add  []Branch
		want []int64 // counts
	}{
		{"nothing", nil, []int64{1, 0, 2, 0, 3, 0}},
		{"a list of all", list(3, false, false, 10, 11, 12, 13, 14, 15), []int64{11, 11, 14, 13, 17, 15}},
		{"a list without exceptions", list(3, false, false, 10, 11, 12, 13), []int64{11, 11, 2, 0, 15, 13}},
		{"another number", list(3, false, false, 10, 11, 12), []int64{1, 0, 2, 0, 3, 0, 10, 11, 12}},
		{"as many taken", list(3, false, true, 1, 1, 1, 0, 0, 0), []int64{1, 0, 2, 0, 3, 0}},
		{"one more taken", list(3, false, true, 1, 1, 1, 1, 0, 0), []int64{1, 1, 2, 0, 3, 0}},
		{"one more taken without exceptions", list(3, false, true, 1, 1, 1, 0), []int64{1, 1, 2, 0, 3, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := Line{Branches: slices.Concat(divided, test.add)}
			l.reconcileBranches()
			var got []int64
			for _, b := range l.Branches {
				got = append(got, b.Count)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	lists := Line{Branches: slices.Concat(list(3, false, false, 1, 0, 5), list(4, false, true, 1, 1, 0))}
	lists.reconcileBranches()
	if diff := cmp.Diff(list(3, false, false, 1, 0, 5), lists.Branches); diff != "" {
		t.Errorf("of two lists of a number (-want +got)\n%s", diff)
	}
}

func TestReconcileOrphans(t *testing.T) {
	function := func(line int32, calls ...Instance) *Function {
		f := &Function{StartLine: line, Name: calls[0].Name, Instances: calls}
		for _, in := range calls {
			f.Count += in.Count
		}
		return f
	}
	taken := []Branch{{Count: 2, Evaluated: true}}
	s := Merge(NewSet(&File{
		Name:      "/a.c",
		Functions: []*Function{function(0, Instance{Name: "f", Count: 3}), function(0, Instance{Name: "gone", Count: 1})},
		Lines:     []Line{{Number: 1, Uncounted: true, Branches: taken}, {Number: 2, Uncounted: true, Branches: taken}},
	}), NewSet(&File{
		Name:      "/a.c",
		Functions: []*Function{function(1, Instance{Name: "f", Count: 1}), function(7, Instance{Name: "f"})},
		Lines:     []Line{{Number: 1, Count: 2, Exceptional: true}},
	}))
	orphans := s.Reconcile(same)
	if diff := cmp.Diff([]Orphan{{File: "/a.c", Function: "gone"}, {File: "/a.c", Line: 2}}, orphans); diff != "" {
		t.Errorf("orphans (-want +got)\n%s", diff)
	}
	want := NewSet(&File{
		Name:      "/a.c",
		Functions: []*Function{function(1, Instance{Name: "f", Count: 4}), function(7, Instance{Name: "f"})},
		Lines:     []Line{{Number: 1, Count: 2, Exceptional: true, Branches: taken}},
	})
	if diff := cmp.Diff(want.Files(), s.Files()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReconcileFunctions(t *testing.T) {
	function := func(line, column int32, names ...string) *Function {
		f := &Function{StartLine: line, StartColumn: column, Name: names[0], Count: int64(len(names))}
		for _, n := range names {
			f.Instances = append(f.Instances, Instance{Name: n, Count: 1})
		}
		return f
	}
	for _, test := range []struct {
		name string
		have []*Function
		want string // names of instances, functions one behind the other
	}{
		{"the column is known", []*Function{function(1, 0, "_Z1fIiEvv"), function(1, 0, "_Z1fIlEvv"), function(1, 5, "_Z1fIiEvv", "_Z1fIlEvv")}, "_Z1fIiEvv _Z1fIlEvv"},
		{"other instances", []*Function{function(1, 0, "_Z1fIsEvv"), function(1, 5, "_Z1fIiEvv")}, "_Z1fIsEvv, _Z1fIiEvv"},
		{"two with columns stay two", []*Function{function(1, 0, "_Z1av"), function(1, 3, "_Z1av"), function(1, 9, "_Z1bv")}, "_Z1av, _Z1bv"},
		{"linked by a third", []*Function{function(1, 0, "_Z1av", "_Z1bv"), function(1, 0, "_Z1bv", "_Z1cv"), function(1, 0, "_Z1cv")}, "_Z1av _Z1bv _Z1cv"},
		{"functions of C stay apart", []*Function{function(1, 0, "f"), function(1, 0, "g")}, "f, g"},
		{"another line", []*Function{function(1, 0, "f"), function(2, 3, "f")}, "f, f"},
		{"copies of a destructor have one name", []*Function{function(1, 0, "PLAIN(_Zc)"), function(1, 0, "PLAIN(_Zd)"), function(1, 0, "_Zd0", "_Zd2")}, "PLAIN(_Zc), PLAIN(_Zd) _Zd0 _Zd2"},
		{"names for readers", []*Function{function(1, 0, "PLAIN(_Z1a)"), function(1, 5, "_Z1a")}, "PLAIN(_Z1a) _Z1a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := NewSet(&File{Name: "/a.cc", Functions: test.have})
			total := int64(0)
			for _, f := range test.have {
				total += f.Count
			}
			s.Reconcile(func(name string) string {
				if strings.HasPrefix(name, "_") {
					name = "PLAIN(" + strings.TrimRight(name, "02") + ")"
				}
				return name
			})
			var got []string
			for _, f := range s.At(0).Functions {
				var names []string
				for _, in := range f.Instances {
					names = append(names, in.Name)
				}
				got = append(got, strings.Join(names, " "))
				total -= f.Count
			}
			if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" || total != 0 {
				t.Errorf("%d calls lost (-want +got)\n%s", total, diff)
			}
		})
	}
}

func TestReconcileIsIdempotentAndKeepsOrder(t *testing.T) {
	for seed := range seeds(500) {
		r := rand.New(rand.NewPCG(seed, 4))
		s := Merge(randomSet(r), randomSet(r))
		s.Reconcile(same)
		checkSet(t, s)
		once := Merge(s)
		s.Reconcile(same)
		if diff := cmp.Diff(once.Files(), Merge(s).Files()); diff != "" {
			t.Fatalf("seed %d: (-once +twice)\n%s", seed, diff)
		}
	}
}

// TestMergeGoesOnAfterReconcile merges sets that were reconciled in between, as
// if they had been written to a file and read again.
func TestMergeGoesOnAfterReconcile(t *testing.T) {
	plain := func(name string) string {
		if name == "_Z1fIiEvv" {
			return "f"
		}
		name, _, _ = strings.Cut(name, "(")
		return name
	}
	merge := func(sets ...*Set) *Set {
		s := Merge(sets...)
		s.Reconcile(plain)
		return s
	}
	for seed := range seeds(1500) {
		r := rand.New(rand.NewPCG(seed, 6))
		a, b, c := randomSet(r), randomSet(r), randomSet(r)
		want := merge(a, b, c)
		for _, other := range []struct {
			name string
			set  *Set
		}{
			{"c, b, a", merge(c, b, a)},
			{"(a, b), c", merge(merge(a, b), c)},
			{"a, (b, c)", merge(a, merge(b, c))},
			{"((a, c)), (b)", merge(merge(merge(a, c)), merge(b))},
		} {
			if !reflect.DeepEqual(want.Files(), other.set.Files()) {
				t.Fatalf("seed %d: a, b, c and %s differ:\n%s", seed, other.name, cmp.Diff(want.Files(), other.set.Files()))
			}
		}
		checkSet(t, want)
	}
}

func TestIntersectAndSubtract(t *testing.T) {
	for seed := range seeds(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		a, b := randomSet(r), randomSet(r)
		points := func(s *Set) map[string]int64 {
			m := make(map[string]int64)
			for _, f := range s.All() {
				for _, l := range f.Lines {
					m[f.Name+":"+string('0'+rune(l.Number))] = l.Count
				}
			}
			return m
		}
		inA, inB := points(a), points(b)
		both, rest := points(Intersect(Merge(a), Merge(b), same)), Merge(a)
		rest.Subtract(Merge(b), same)
		left := points(rest)
		for where, count := range inA {
			other, shared := inB[where]
			got, kept := both[where]
			if kept != shared || shared && got != addCounts(count, other) {
				t.Errorf("seed %d: %s: in both %t, kept %t with %d", seed, where, shared, kept, got)
			}
			if got, kept := left[where]; kept == shared || kept && got != count {
				t.Errorf("seed %d: %s: in both %t, left %t with %d", seed, where, shared, kept, got)
			}
		}
		if len(both)+len(left) != len(inA) {
			t.Errorf("seed %d: %d in both, %d left of %d", seed, len(both), len(left), len(inA))
		}
	}
}

func TestHits(t *testing.T) {
	var lines []Line
	for i := range int32(100) {
		lines = append(lines, Line{Number: 1 + i*i*i, Count: int64(i) << (i % 50)})
	}
	h := AppendHits(nil, lines)
	k := 1 // the first did not run
	for line, count := range h.All() {
		if line != lines[k].Number || count != lines[k].Count {
			t.Fatalf("line %d: %d, want %+v", line, count, lines[k])
		}
		k++
	}
	if k != len(lines) {
		t.Errorf("%d lines, want %d", k, len(lines))
	}
	if got := AppendHits(AppendHits(nil, lines[:50]), lines[50:]); string(got) != string(h) {
		t.Error("two halves are not the whole")
	}
}
