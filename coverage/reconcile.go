package coverage

import (
	"slices"
)

// Reconcile matches what formats told that know less with what others told.
// [Merge] must not do that while anything may still come, or the order would
// make a difference; it is for who has merged all.
//
//   - Functions without a column (tracefiles have none) that start on a line and
//     share the name of an instance are one, and one with the function there
//     that has a column and that instance.
//   - Branches of a line that are not divided into decisions belong, one by one,
//     to those that are, if there are as many, with those that only an exception
//     decides or without. If there are not, they stay as a decision of their own.
func (s *Set) Reconcile() {
	for _, f := range s.Files {
		f.reconcileFunctions()
		for i := range f.Lines {
			f.Lines[i].reconcileBranches()
		}
	}
}

func (f *File) reconcileFunctions() {
	changed := false
	for from := 0; from < len(f.Functions); {
		to := from + 1
		for to < len(f.Functions) && f.Functions[to].StartLine == f.Functions[from].StartLine {
			to++
		}
		if to > from+1 && f.Functions[from].StartColumn == 0 { // those without a column come first
			changed = unite(f.Functions[from:to]) || changed
		}
		from = to
	}
	if changed {
		f.Functions = slices.DeleteFunc(f.Functions, func(fn *Function) bool { return fn == nil })
		slices.SortStableFunc(f.Functions, compareFunctions)
	}
}

// unite makes one of functions that start on a line and have an instance in
// common, if at least one has no column. The others become nil.
func unite(functions []*Function) bool {
	owner := make(map[string]int) // of instances, by name; the functions with columns come last
	changed := false
	for i := len(functions) - 1; i >= 0; i-- {
		fn := functions[i]
		into := -1
		for _, in := range fn.Instances {
			k, known := owner[in.Name]
			switch {
			case !known || fn.StartColumn > 0:
				owner[in.Name] = i
			case into < 0:
				into = k
			case k != into && functions[k] != nil && functions[k].StartColumn == 0:
				adopt(functions, owner, into, k)
			}
		}
		if into >= 0 {
			adopt(functions, owner, into, i)
			changed = true
		}
	}
	return changed
}

// adopt makes function from a part of function into.
func adopt(functions []*Function, owner map[string]int, into, from int) {
	functions[into].Merge(functions[from])
	for _, in := range functions[from].Instances {
		if k, known := owner[in.Name]; !known || functions[k] == nil || k == from || functions[k].StartColumn == 0 {
			owner[in.Name] = into
		}
	}
	functions[from] = nil
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
		switch len(d.parts) {
		case whole:
			for i := range d.parts {
				divided[i].take(d.parts[i])
			}
		case decided:
			i := 0
			for k := range divided[:whole] {
				if !divided[k].Exception {
					divided[k].take(d.parts[i])
					i++
				}
			}
		default:
			for _, b := range d.parts {
				b.Block = next
				divided = append(divided, b)
			}
			next++
		}
	}
	l.Branches = divided
}

// take adds the counts of a branch of which no more is known.
func (b *Branch) take(other Branch) {
	b.Count = addCounts(b.Count, other.Count)
	b.Evaluated = b.Evaluated || other.Evaluated
}
