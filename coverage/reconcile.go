package coverage

import (
	"slices"
	"strings"
)

// Reconcile matches what formats told that know less with what others told.
// [Merge] must not do that while anything may still come, or the order would
// make a difference; it is for who has merged all.
//
//   - Functions without a column (tracefiles have none) that start on a line and
//     share the name of an instance are one, and one with the function there
//     that has a column and that instance. Names of C++ may be the linker's in
//     one place and a reader's in another: plain makes the latter of the former.
//   - Branches of a line that are not divided into decisions belong, one by one,
//     to those that are, if there are as many, with those that only an exception
//     decides or without. If there are not, they stay as a decision of their own.
//     Of branches that are only guessed no more count than were taken.
func (s *Set) Reconcile(plain func(name string) string) {
	for _, f := range s.Files {
		f.reconcileFunctions(plain)
		for i := range f.Lines {
			f.Lines[i].reconcileBranches()
		}
	}
}

func (f *File) reconcileFunctions(plain func(string) string) {
	changed := false
	for from := 0; from < len(f.Functions); {
		to := from + 1
		for to < len(f.Functions) && f.Functions[to].StartLine == f.Functions[from].StartLine {
			to++
		}
		if to > from+1 && f.Functions[from].StartColumn == 0 { // those without a column come first
			u := union{functions: f.Functions[from:to], plain: plain, owner: make(map[string]int)}
			changed = u.unite() || changed
		}
		from = to
	}
	if changed {
		f.Functions = slices.DeleteFunc(f.Functions, func(fn *Function) bool { return fn == nil })
		slices.SortStableFunc(f.Functions, compareFunctions)
	}
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

func (l *Line) reconcileBranches() {
	if !slices.ContainsFunc(l.Branches, func(b Branch) bool { return b.Block < 0 }) {
		return
	}
	var divided, others []Branch
	decided := 0 // not by exceptions alone
	next := int32(0)
	for _, b := range l.Branches {
		if b.Block < 0 {
			others = append(others, b)
			continue
		}
		divided = append(divided, b)
		next = max(next, b.Block+1)
		if !b.Exception {
			decided++
		}
	}
	whole := len(divided)
	for _, d := range branchDecisions(others) {
		var same []*Branch
		for i := range divided[:whole] {
			if len(d.parts) == whole || !divided[i].Exception {
				same = append(same, &divided[i])
			}
		}
		switch {
		case len(d.parts) != whole && len(d.parts) != decided:
			for _, b := range d.parts {
				b.Block = next
				divided = append(divided, b)
			}
			if next++; whole == 0 {
				whole, decided = len(divided), len(divided)
			}
		case d.guessed:
			guess(same, d.parts)
		default:
			for i, b := range d.parts {
				same[i].take(b)
			}
		}
	}
	l.Branches = divided
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
			b.Count, b.Guessed = max(b.Count, 1), true
		}
	}
}

// take adds the counts of a branch of which no more is known.
func (b *Branch) take(other Branch) {
	b.Count = addCounts(b.Count, other.Count)
	b.Evaluated = b.Evaluated || other.Evaluated
}
