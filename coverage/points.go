package coverage

import (
	"slices"
)

// Intersect returns what both sets have, with the counts of both: files, lines,
// functions (those that start on the same line and have an instance in common),
// decisions and conditions of a line (of one kind, the first so many), whether
// they ran or not. The sets become reconciled.
func Intersect(a, b *Set, plain func(string) string) *Set {
	both := Merge(a, b)
	for _, s := range []*Set{both, a, b} {
		s.Reconcile(plain)
	}
	both.keep(a, true)
	both.keep(b, true)
	return both
}

// Subtract keeps what other does not have, as [Intersect] tells what is the
// same. The sets become reconciled.
func (s *Set) Subtract(other *Set, plain func(string) string) {
	s.Reconcile(plain)
	other.Reconcile(plain)
	s.keep(other, false)
}

// keep leaves in s what is in other, or what is not.
func (s *Set) keep(other *Set, same bool) {
	s.Update(func(_ int, f *File) Update {
		of := other.File(f.Name)
		switch {
		case of != nil:
			f.keep(of, same)
			if len(f.Lines)+len(f.Functions) == 0 {
				return Gone
			}
			return Changed
		case same:
			return Gone
		}
		return Same
	})
}

func (f *File) keep(other *File, same bool) {
	type start struct {
		line int32
		name string
	}
	known := make(map[start]bool)
	for _, fn := range other.Functions {
		for _, in := range fn.Instances {
			known[start{fn.StartLine, in.Name}] = true
		}
	}
	f.DeleteFunctions(func(fn *Function) bool {
		return same != slices.ContainsFunc(fn.Instances, func(in Instance) bool { return known[start{fn.StartLine, in.Name}] })
	})
	lines := f.Lines[:0]
	rest := other.Lines
	for _, l := range f.Lines {
		for len(rest) > 0 && rest[0].Number < l.Number {
			rest = rest[1:]
		}
		found := len(rest) > 0 && rest[0].Number == l.Number
		switch {
		case same && found:
			if kept := keepBranches(l.Branches, rest[0].Branches); len(kept) < len(l.Branches) {
				l.Branches, l.Told = kept, nil
			}
			l.Conditions = keepConditions(l.Conditions, rest[0].Conditions)
			lines = append(lines, l)
		case !same && !found:
			lines = append(lines, l)
		}
	}
	f.Lines = lines
}

// keepBranches returns the decisions that other has, too. As many branches in
// all are the same ones: other may not know what the decisions are.
func keepBranches(branches, other []Branch) (kept []Branch) {
	if len(branches) == len(other) {
		return branches
	}
	room := make(map[kind]int)
	for _, d := range settledDecisions(other) {
		room[d.kind]++
	}
	block := int32(0)
	for _, d := range settledDecisions(branches) {
		if room[d.kind]--; room[d.kind] < 0 {
			continue
		}
		for _, b := range d.parts {
			b.Block = block
			kept = append(kept, b)
		}
		block++
	}
	return kept
}

// settledDecisions are those of a line that is reconciled, in which a list is a
// decision as others are.
func settledDecisions(branches []Branch) []decision[Branch] {
	list := branchDecisions(branches)
	for i, d := range list {
		if d.list {
			list[i].kind = kind{exception: d.parts[0].Exception, ways: d.ways}
		}
	}
	return list
}

func keepConditions(conditions, other []Condition) (kept []Condition) {
	room := make(map[kind]int)
	for _, d := range conditionDecisions(other) {
		room[d.kind]++
	}
	for i, d := range conditionDecisions(conditions) {
		if room[d.kind]--; room[d.kind] >= 0 {
			kept = append(kept, conditions[i])
		}
	}
	return kept
}
