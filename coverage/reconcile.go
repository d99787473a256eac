package coverage

import (
	"slices"
	"strings"
)

// Reconcile matches what formats told that know less with what others told.
// [Merge] must not do that while anything may still come, or the order would
// make a difference; it is for who has merged all. A reconciled set may be merged
// again: what was matched is kept as it was told.
//
//   - Functions without a column (tracefiles have none) that start on a line and
//     share the name of an instance are one, and one with the function there
//     that has a column and that instance. Names of C++ may be the linker's in
//     one place and a reader's in another: plain makes the latter of the former.
//   - Calls of functions of which it is not known where they start are those of
//     the first function of that name.
//   - Branches in a list belong, one by one, to those that are divided into
//     decisions, if there are as many, with those that only an exception decides
//     or without. If there are not, they stay as a decision of their own. Of
//     branches that are only guessed no more count than were taken.
//
// What is of no line, and calls of no function, are left out and returned.
func (s *Set) Reconcile(plain func(name string) string) (orphans []Orphan) {
	list := make([][]Orphan, s.Len())
	s.Update(func(i int, f *File) Update {
		var changed bool
		if list[i], changed = f.reconcile(plain); changed {
			return Changed
		}
		return Same
	})
	return slices.Concat(list...)
}

func (f *File) reconcile(plain func(string) string) (orphans []Orphan, changed bool) {
	n := len(f.Functions)
	orphans = f.adoptCalls()
	changed = f.reconcileFunctions(plain) || len(f.Functions) < n
	uncounted := false
	for i := range f.Lines {
		changed = f.Lines[i].reconcileBranches() || changed
		uncounted = uncounted || f.Lines[i].Uncounted
	}
	if uncounted {
		f.Lines = slices.DeleteFunc(f.Lines, func(l Line) bool {
			if l.Uncounted {
				orphans = append(orphans, Orphan{File: f.Name, Line: l.Number})
			}
			return l.Uncounted
		})
	}
	return orphans, changed || uncounted
}

// An Orphan is what [Set.Reconcile] left out: branches or conditions of a line
// that has no count, or calls of a function that starts nowhere.
type Orphan struct {
	File     string
	Line     int32  // 0: Function is set
	Function string // name
}

// adoptCalls gives calls that are of no line yet to functions.
func (f *File) adoptCalls() (orphans []Orphan) {
	n := 0
	for n < len(f.Functions) && f.Functions[n].StartLine == 0 {
		n++
	}
	if n == 0 {
		return nil
	}
	calls := f.Functions[:n]
	f.Functions = f.Functions[n:]
	owner := make(map[string]*Function)
	for _, fn := range slices.Backward(f.Functions) {
		for _, in := range fn.Instances {
			owner[in.Name] = fn
		}
	}
	for _, c := range calls {
		for i, in := range c.Instances {
			if fn := owner[in.Name]; fn != nil {
				fn.Merge(&Function{Name: in.Name, Count: in.Count, Instances: c.Instances[i : i+1]})
			} else {
				orphans = append(orphans, Orphan{File: f.Name, Function: in.Name})
			}
		}
	}
	return orphans
}

// reconcileFunctions makes one of functions that are the same, and tells whether there were any.
func (f *File) reconcileFunctions(plain func(string) string) bool {
	functions := f.told()
	var united, told []*Function
	done := 0
	for from := 0; from < len(functions); {
		to := from + 1
		for to < len(functions) && functions[to].StartLine == functions[from].StartLine {
			to++
		}
		if to > from+1 && functions[from].StartColumn == 0 { // those without a column come first
			u := union{plain: plain, owner: make(map[string]int)}
			for _, fn := range functions[from:to] {
				u.functions = append(u.functions, fn.clone())
			}
			if u.unite() {
				united = append(append(united, functions[done:from]...), u.functions...)
				told = append(told, functions[from:to]...)
				done = to
			}
		}
		from = to
	}
	if told == nil {
		return false
	}
	f.Functions = slices.DeleteFunc(append(united, functions[done:]...), func(fn *Function) bool { return fn == nil })
	slices.SortStableFunc(f.Functions, CompareFunctions)
	f.Told = told
	return true
}

// A union makes one of functions that start on a line and have an instance in
// common, if at least one has no column.
type union struct {
	functions []*Function // those that became part of others are nil
	plain     func(string) string
	owner     map[string]int // of instances, by name
}

func (u *union) unite() (changed bool) {
	if !slices.ContainsFunc(u.functions, func(f *Function) bool { return strings.Contains(f.Name, "(") }) {
		u.plain = func(name string) string { return name }
	}
	for i := len(u.functions) - 1; i >= 0; i-- { // those with a column come last
		fn, into := u.functions[i], -1
		for _, in := range fn.Instances {
			name := u.plain(in.Name)
			k, known := u.owner[name]
			switch {
			case !known || fn.StartColumn > 0:
				u.owner[name] = i
			case k == i: // copies of a destructor have one name
			case into < 0:
				into = k
			case k != into && u.functions[k].StartColumn == 0:
				u.adopt(into, k)
			}
		}
		if into >= 0 {
			u.adopt(into, i)
			changed = true
		}
	}
	return changed
}

// adopt makes function from a part of function into.
func (u *union) adopt(into, from int) {
	for _, in := range u.functions[from].Instances {
		name := u.plain(in.Name)
		if k, known := u.owner[name]; !known || k == from {
			u.owner[name] = into
		}
	}
	u.functions[into].Merge(u.functions[from])
	u.functions[from] = nil
}

func (l *Line) reconcileBranches() (changed bool) {
	decided, lists := cutLists(l.told())
	if len(lists) == 0 || len(decided) == 0 && !slices.ContainsFunc(lists, func(b Branch) bool { return b.Guessed }) {
		return false
	}
	branches := slices.Clone(decided)
	for _, list := range branchDecisions(lists) {
		same := counterparts(branches, list)
		switch {
		case same == nil:
			branches = append(branches, list.parts...)
		case list.guessed:
			guess(same, list.parts)
		default:
			for i, b := range list.parts {
				same[i].take(b)
			}
		}
	}
	if len(branches) < len(decided)+len(lists) {
		told := l.told()
		l.Told, l.Branches = &told, branches
	}
	return true
}

// counterparts returns the branches that those of a list are, nil if there are
// none: of all that are divided into decisions, or of a guessed list those of
// another list.
func counterparts(branches []Branch, list decision[Branch]) []*Branch {
	var all, others, listed []*Branch // others are not made by exceptions
	for i := range branches {
		b := &branches[i]
		switch {
		case !b.List:
			if all = append(all, b); !b.Exception {
				others = append(others, b)
			}
		case list.guessed && !b.Guessed:
			listed = append(listed, b)
		}
	}
	switch list.ways {
	case len(all):
		return all
	case len(others):
		return others
	}
	for from := 0; from < len(listed); {
		to := from + 1
		for to < len(listed) && listed[to].Block == listed[from].Block {
			to++
		}
		if to-from == list.ways {
			return listed[from:to]
		}
		from = to
	}
	return nil
}

// guess takes as many of branches as taken as are of guessed.
func guess(branches []*Branch, guessed []Branch) {
	missing := 0
	for i, b := range branches {
		if b.Count > 0 {
			missing--
		}
		if guessed[i].Count > 0 {
			missing++
		}
	}
	for i, b := range branches {
		if b.Count == 0 && missing > 0 {
			missing--
			b.take(guessed[i])
			b.Count = max(b.Count, 1)
		}
	}
}

// take adds the counts of a branch of which no more is known.
func (b *Branch) take(other Branch) {
	b.Count = addCounts(b.Count, other.Count)
	b.Evaluated = b.Evaluated || other.Evaluated
}
