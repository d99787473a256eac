package coverage

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Merge returns the coverage of all sets together; the sets stay as they are.
// Neither the order of the sets nor the grouping of several calls makes a
// difference:
//
//   - files are matched by name, functions by where they start (and by name,
//     see below), instances by name, lines by number; what only one set has is
//     taken as it is;
//   - counts add up, and stay at the largest number when they would overflow;
//   - decisions of one line are matched by kind (exceptional or not, column,
//     number of ways) and among those of one kind by order: one build may have
//     a call that can throw where another has none, and the "if" beside it is
//     still the same "if";
//   - a term of a condition is shown if any set shows it;
//   - a line has an unexecuted block if it has one in each set that ran it:
//     every version of the code is the same source, and a reader wants to know
//     what of the source is not tested.
//
// Where a function starts says which one it is only in C++, whose mangled names
// differ from instance to instance. One line may make several functions by
// a macro, and where no column is known there may be several on a line; these
// are told apart by name, without what compilers append for a part or a copy of
// a function (f.part.0), and in C++ without template arguments.
func Merge(sets ...*Set) *Set {
	var sum Sum
	for _, s := range sets {
		for _, f := range s.All() {
			sum.Add(f)
		}
	}
	return sum.Set()
}

// A Sum is a [Set] to which one file after another is added, by the rules of
// [Merge]. The zero Sum is empty. Files that are added up stay as they are: to pack them
// each time would take longer than to merge them.
type Sum struct {
	files  []stored       // in no order
	number map[string]int // of them, by name
}

// Add adds f, of which it keeps nothing.
func (s *Sum) Add(f *File) {
	i, ok := s.place(f.Name)
	if !ok {
		s.files = append(s.files, stored{name: f.Name, file: &File{Name: f.Name}})
	}
	s.files[i].opened().Merge(f)
}

// place is the number of the file of that name. If there is none, it is that of the next one.
func (s *Sum) place(name string) (i int, ok bool) {
	if s.number == nil {
		s.number = make(map[string]int)
	}
	if i, ok = s.number[name]; !ok {
		i = len(s.files)
		s.number[name] = i
	}
	return i, ok
}

// Take adds a set that nobody else uses any more.
func (s *Sum) Take(set *Set) {
	for _, f := range set.files {
		if i, ok := s.place(f.name); ok {
			s.files[i].opened().Merge(f.open())
		} else {
			s.files = append(s.files, f)
		}
	}
}

// Set returns what has been added up. The sum is empty then.
func (s *Sum) Set() *Set {
	set := &Set{files: s.files}
	*s = Sum{}
	set.sort()
	return set
}

// Merge adds what other has seen of the same file, by the rules of the
// function [Merge]. It keeps nothing of other, which stays as it is. What a set was
// before it was reconciled is merged, so it does not matter in which groups
// sets are.
func (f *File) Merge(other *File) {
	f.Functions, f.Told = f.told(), nil
	f.Functions = mergeSorted(f.Functions, other.told(), CompareFunctions, (*Function).clone,
		func(a, b *Function) *Function { a.Merge(b); return a })
	f.mergeLines(other.Lines)
	for _, t := range other.Tests {
		f.mergeTest(t)
	}
	f.Expansions = mergeExpansions(f.Expansions, other.Expansions)
}

// told returns the functions as they were before Reconcile.
func (f *File) told() []*Function {
	if len(f.Told) == 0 {
		return f.Functions
	}
	list := slices.Clone(f.Told)
	for _, fn := range f.Functions {
		if _, found := slices.BinarySearchFunc(f.Told, fn.StartLine, compareStart); !found {
			list = append(list, fn)
		}
	}
	slices.SortStableFunc(list, CompareFunctions)
	return list
}

func compareStart(f *Function, line int32) int { return cmp.Compare(f.StartLine, line) }

// mergeLines is mergeSorted for lines: there are many, and mostly they are the
// same ones.
func (f *File) mergeLines(lines []Line) {
	i := 0
	for k := range lines {
		for i < len(f.Lines) && f.Lines[i].Number < lines[k].Number {
			i++
		}
		if i == len(f.Lines) || f.Lines[i].Number != lines[k].Number {
			f.Lines = mergeSorted(f.Lines, lines[k:], compareLines, Line.clone, func(a, b Line) Line { a.Merge(&b); return a })
			return
		}
		f.Lines[i].Merge(&lines[k])
	}
}

func compareLines(a, b Line) int { return cmp.Compare(a.Number, b.Number) }

// Normalize puts functions and lines of f in order, and makes one of those that
// are the same, by the rules of [Merge]. It is for who has made a File of
// something that was in no order, or had parts of it in several places.
func (f *File) Normalize() {
	if !strictly(f.Told, CompareFunctions) {
		slices.SortStableFunc(f.Told, CompareFunctions)
		f.Told = uniteSorted(f.Told, CompareFunctions, func(a, b *Function) *Function { a.Merge(b); return a })
	}
	if strictly(f.Functions, CompareFunctions) && strictly(f.Lines, compareLines) {
		return
	}
	slices.SortStableFunc(f.Functions, CompareFunctions)
	f.Functions = uniteSorted(f.Functions, CompareFunctions, func(a, b *Function) *Function { a.Merge(b); return a })
	slices.SortStableFunc(f.Lines, compareLines)
	f.Lines = uniteSorted(f.Lines, compareLines, func(a, b Line) Line { a.Merge(&b); return a })
}

// strictly tells whether each of list is more than the one before.
func strictly[T any](list []T, compare func(a, b T) int) bool {
	for i := 1; i < len(list); i++ {
		if compare(list[i-1], list[i]) >= 0 {
			return false
		}
	}
	return true
}

// uniteSorted makes one of neighbours that are equal.
func uniteSorted[T any](list []T, compare func(a, b T) int, merge func(a, b T) T) []T {
	out := list[:0]
	for _, e := range list {
		if n := len(out); n > 0 && compare(out[n-1], e) == 0 {
			out[n-1] = merge(out[n-1], e)
		} else {
			out = append(out, e)
		}
	}
	return out
}

// CompareFunctions orders functions as those of a [File] are. It returns 0 for two
// that are the same in the source.
func CompareFunctions(a, b *Function) int {
	if c := cmp.Or(cmp.Compare(a.StartLine, b.StartLine), cmp.Compare(a.StartColumn, b.StartColumn)); c != 0 {
		return c // most do not need their names
	}
	return cmp.Compare(a.SourceName(), b.SourceName())
}

// SourceName is what all names of f have in common, and others at its place have not.
// Names with a dot are made by the compiler where a column is known, which only
// compilers tell. Elsewhere they may be a.b of another language.
func (f *Function) SourceName() string {
	if f.StartColumn == 0 {
		return withoutClone(f.Name)
	}
	if strings.HasPrefix(f.Name, "_Z") {
		if f.atOnePlace() {
			return "_Z" + scopeNames(f.Name)
		}
		return "_Z" // sorts as the names do
	}
	if strings.HasPrefix(f.Name, "_R") { // Rust's: instances of a generic function share their place
		return "_R"
	}
	name, _, _ := strings.Cut(f.Name, ".")
	return name
}

// cloneSuffixes are what GCC and Clang append to the names of parts and copies
// of a function, with a dot before and mostly one more and a number behind:
// f.isra.0.part.1. Those of C++'s coroutines and of target_clones are left out:
// they may be names of members.
var cloneSuffixes = []string{
	"part", "cold", "constprop", "isra", "sra", "clone", "localalias", "lto_priv", "simdclone", "_omp_fn", "_omp_cpyfn", "_loopfn", // GCC
	"llvm", "__uniq", "specialized", // Clang, beside part and cold
}

// withoutClone returns the name of the function that a compiler made a part or
// a copy of.
func withoutClone(name string) string {
	for {
		dot := strings.LastIndexByte(name, '.')
		if dot <= 0 {
			return name
		}
		rest, suffix := name[:dot], name[dot+1:]
		if suffix != "" && strings.Trim(suffix, "0123456789") == "" {
			dot = strings.LastIndexByte(rest, '.')
			if dot <= 0 || !slices.Contains(cloneSuffixes, rest[dot+1:]) {
				return name
			}
			rest = rest[:dot]
		} else if suffix != "cold" && suffix != "localalias" { // these come without a number, too
			return name
		}
		name = rest
	}
}

// Merge adds what other has seen of the same function.
func (f *Function) Merge(other *Function) {
	if !f.atOnePlace() { // where others end that have no column does not matter
		f.EndLine, f.EndColumn = later(f.EndLine, f.EndColumn, other.EndLine, other.EndColumn)
	}
	f.Unused = f.Unused && other.Unused
	f.Count = addCounts(f.Count, other.Count)
	f.BlocksExecuted, f.Blocks = later(f.BlocksExecuted, f.Blocks, other.BlocksExecuted, other.Blocks)
	f.Regions, f.RegionsRun = max(f.Regions, other.Regions), max(f.RegionsRun, other.RegionsRun)
	f.Instances = mergeSorted(f.Instances, other.Instances,
		func(a, b Instance) int { return cmp.Compare(a.Name, b.Name) },
		func(a Instance) Instance { return a },
		func(a, b Instance) Instance {
			a.Count = addCounts(a.Count, b.Count)
			a.BlocksExecuted, a.Blocks = later(a.BlocksExecuted, a.Blocks, b.BlocksExecuted, b.Blocks)
			a.Lines = a.Lines.Merge(b.Lines)
			return a
		})
	f.Name = min(f.Name, other.Name)
}

func (f *Function) clone() *Function {
	c := *f
	c.Instances = slices.Clone(f.Instances)
	return &c
}

// Merge adds what other has seen of the same line.
func (l *Line) Merge(other *Line) {
	switch {
	case l.Count <= 0:
		l.Unexecuted = other.Unexecuted && other.Count > 0
	case other.Count > 0:
		l.Unexecuted = l.Unexecuted && other.Unexecuted
	}
	switch {
	case l.Uncounted:
		l.Exceptional = other.Exceptional
	case !other.Uncounted:
		l.Exceptional = l.Exceptional && other.Exceptional
	}
	l.Uncounted = l.Uncounted && other.Uncounted
	l.Count = addCounts(l.Count, other.Count)
	l.Branches, l.Told = mergeBranches(l.told(), other.told()), nil
	l.Calls = mergeCalls(l.Calls, other.Calls)
	l.Conditions = mergeConditions(l.Conditions, other.Conditions)
}

// told returns the branches as they were before Reconcile.
func (l *Line) told() []Branch {
	if l.Told != nil {
		return *l.Told
	}
	return l.Branches
}

func (l Line) clone() Line {
	l.Branches = slices.Clone(l.Branches)
	if l.Told != nil {
		told := slices.Clone(*l.Told)
		l.Told = &told
	}
	l.Calls = slices.Clone(l.Calls)
	l.Conditions = cloneConditions(l.Conditions)
	return l
}

func cloneConditions(conditions []Condition) []Condition {
	conditions = slices.Clone(conditions)
	for i := range conditions {
		conditions[i].Terms = slices.Clone(conditions[i].Terms)
	}
	return conditions
}

// mergeSorted returns the elements of a, which may be changed, and copies of
// those of b, in order; merge makes one of two that are equal.
func mergeSorted[T any](a, b []T, compare func(a, b T) int, clone func(T) T, merge func(a, b T) T) []T {
	out := a[:0:0]
	if len(a) != len(b) {
		out = make([]T, 0, len(a)+len(b))
	} else {
		out = slices.Grow(out, len(a)) // most often they are the same lines
	}
	for len(a) > 0 && len(b) > 0 {
		switch c := compare(a[0], b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, clone(b[0])), b[1:]
		default:
			out = append(out, merge(a[0], b[0]))
			a, b = a[1:], b[1:]
		}
	}
	out = append(out, a...)
	for _, e := range b {
		out = append(out, clone(e))
	}
	return out
}

// later returns the larger of two pairs.
func later(a1, a2, b1, b2 int32) (int32, int32) {
	if cmp.Or(cmp.Compare(a1, b1), cmp.Compare(a2, b2)) < 0 {
		return b1, b2
	}
	return a1, a2
}

func addCounts(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// A kind is what two decisions have in common that may be the same one.
type kind struct {
	column    int32
	exception bool
	list      bool // see Branch.List
	guessed   bool
	ways      int
}

func (k kind) compare(o kind) int {
	return cmp.Or(
		compareBool(k.list, o.list), compareBool(k.exception, o.exception), compareBool(k.guessed, o.guessed),
		cmp.Compare(k.column, o.column), cmp.Compare(k.ways, o.ways))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// A decision is one of a line: its branches, or the terms of a condition.
type decision[T any] struct {
	kind
	parts []T
}

// mergeDecisions matches decisions by kind and order and returns them sorted
// by kind, the n-th of a kind being the sum of the n-th ones of a and b. The
// parts of a are changed and those of b copied.
func mergeDecisions[T any](a, b []decision[T], add func(into *T, from T)) []decision[T] {
	byKind := func(a, b decision[T]) int { return a.compare(b.kind) }
	slices.SortStableFunc(a, byKind)
	slices.SortStableFunc(b, byKind)
	return mergeSorted(a, b, byKind,
		func(d decision[T]) decision[T] { return decision[T]{d.kind, slices.Clone(d.parts)} },
		func(a, b decision[T]) decision[T] {
			for i := range a.parts {
				add(&a.parts[i], b.parts[i])
			}
			return a
		})
}

func mergeBranches(a, b []Branch) []Branch {
	if len(a) == 0 {
		return slices.Clone(b)
	}
	if len(b) == 0 {
		return a
	}
	sameShape := func(a, b Branch) bool {
		return a.Block == b.Block && a.Column == b.Column && a.Exception == b.Exception && a.List == b.List && a.Guessed == b.Guessed
	}
	if slices.EqualFunc(a, b, sameShape) {
		for i := range a {
			a[i].add(b[i])
		}
		return a
	}
	a, lists := cutLists(a)
	b, others := cutLists(b)
	if len(lists)+len(others) == 0 {
		return mergeShapes(a, b, 0)
	}
	out := slices.Clip(mergeBranches(a, b))
	return append(out, mergeShapes(lists, others, blocks(out))...)
}

// cutLists cuts off the lists, which come last.
func cutLists(branches []Branch) (decided, lists []Branch) {
	i := slices.IndexFunc(branches, func(b Branch) bool { return b.List })
	if i < 0 {
		return branches, nil
	}
	return branches[:i], branches[i:]
}

// blocks returns the first number that is no Block of the branches.
func blocks(branches []Branch) (next int32) {
	for _, b := range branches {
		next = max(next, b.Block+1)
	}
	return next
}

// mergeShapes matches decisions by kind, and numbers them from first on. Sorting
// them by kind loses the compiler's order, but there are two of those.
func mergeShapes(a, b []Branch, first int32) []Branch {
	var out []Branch
	for i, d := range mergeDecisions(branchDecisions(a), branchDecisions(b), (*Branch).add) {
		for _, br := range d.parts {
			br.Block = first + int32(i)
			out = append(out, br)
		}
	}
	return out
}

// add keeps a flag only where both have it, so that the order of merging makes
// no difference.
func (b *Branch) add(other Branch) {
	b.Count = addCounts(b.Count, other.Count)
	b.Evaluated = b.Evaluated || other.Evaluated
	if b.To != other.To {
		b.To = 0
	}
	b.Exception = b.Exception && other.Exception // they differ in lists only
	b.Fallthrough = b.Fallthrough && other.Fallthrough
	b.Throw = b.Throw && other.Throw
}

func branchDecisions(branches []Branch) []decision[Branch] {
	var out []decision[Branch]
	for i := 0; i < len(branches); {
		n, first := 1, branches[i]
		for i+n < len(branches) && branches[i+n].Block == first.Block {
			n++
		}
		k := kind{column: first.Column, exception: first.Exception, ways: n}
		if first.List {
			k = kind{list: true, guessed: first.Guessed, ways: n}
		}
		out = append(out, decision[Branch]{k, branches[i : i+n]})
		i += n
	}
	return out
}

func mergeConditions(a, b []Condition) []Condition {
	if len(a) == 0 {
		return cloneConditions(b)
	}
	if len(b) == 0 {
		return a
	}
	sameShape := func(a, b Condition) bool { return a.Column == b.Column && len(a.Terms) == len(b.Terms) }
	if slices.EqualFunc(a, b, sameShape) {
		for i := range a {
			for j := range a[i].Terms {
				a[i].Terms[j].add(b[i].Terms[j])
			}
		}
		return a
	}
	var out []Condition
	for _, d := range mergeDecisions(conditionDecisions(a), conditionDecisions(b), (*Term).add) {
		out = append(out, Condition{Column: d.column, Terms: d.parts})
	}
	return out
}

func (t *Term) add(other Term) {
	t.True = t.True || other.True
	t.False = t.False || other.False
}

func conditionDecisions(conditions []Condition) []decision[Term] {
	var out []decision[Term]
	for _, c := range conditions {
		out = append(out, decision[Term]{kind{column: c.Column, ways: len(c.Terms)}, c.Terms})
	}
	return out
}

func mergeCalls(a, b []Call) []Call {
	for i, c := range b {
		if i == len(a) {
			return append(slices.Clip(a), b[i:]...)
		}
		a[i].Count = addCounts(a[i].Count, c.Count)
		a[i].Returned = addCounts(a[i].Returned, c.Returned)
	}
	return a
}
