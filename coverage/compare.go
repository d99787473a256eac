package coverage

import (
	"cmp"
	"slices"
)

// An Edit replaces Deleted lines of the old version of a source, from line Old
// on, with Inserted lines, from line New on of the new version.
type Edit struct {
	Old, Deleted  int32
	New, Inserted int32
}

// Edits make the new version of a source of the old one. They are in ascending
// order and no line is in two of them. Nil: the versions are equal.
type Edits []Edit

// NewLine returns where a line of the old version is in the new one. If it was
// deleted or changed ok is false, and now where the edit begins.
func (edits Edits) NewLine(line int32) (now int32, ok bool) {
	i, exact := slices.BinarySearchFunc(edits, line, func(e Edit, line int32) int { return cmp.Compare(e.Old, line) })
	if !exact {
		i--
	}
	if i < 0 {
		return line, true
	}
	e := edits[i]
	if line < e.Old+e.Deleted {
		return e.New, false
	}
	return line - (e.Old + e.Deleted) + e.New + e.Inserted, true
}

// OldLine returns where a line of the new version was in the old one. If it was
// inserted or changed ok is false, and before is where the edit began.
func (edits Edits) OldLine(line int32) (before int32, ok bool) {
	i, exact := slices.BinarySearchFunc(edits, line, func(e Edit, line int32) int { return cmp.Compare(e.New, line) })
	if !exact {
		i--
	}
	if i < 0 {
		return line, true
	}
	e := edits[i]
	if line < e.New+e.Inserted {
		return e.Old, false
	}
	return line - (e.New + e.Inserted) + e.Old + e.Deleted, true
}

// A Category says what became of a line, function, branch or outcome of a
// condition between two versions. They are those of genhtml 2, see its manual.
type Category uint8

// In the order in which one wants to know of them. New is code that was not
// there before or was changed, baseline what is as it was; included is what now
// has code without having been changed, excluded the reverse.
const (
	LBC           Category = iota // lost baseline coverage: ran, runs no more
	UNC                           // uncovered new code
	UIC                           // uncovered included code
	UBC                           // uncovered baseline code: did not run, does not run
	GBC                           // gained baseline coverage: runs now
	GNC                           // gained new coverage: new code, runs
	GIC                           // gained included coverage
	CBC                           // covered baseline code: ran, runs
	ECB                           // excluded covered baseline
	EUB                           // excluded uncovered baseline
	DCB                           // deleted covered baseline
	DUB                           // deleted uncovered baseline
	numCategories = iota
)

var categoryNames = [numCategories]string{"LBC", "UNC", "UIC", "UBC", "GBC", "GNC", "GIC", "CBC", "ECB", "EUB", "DCB", "DUB"}

// Categories are all of them, in order.
func Categories() []Category {
	all := make([]Category, numCategories)
	for i := range all {
		all[i] = Category(i)
	}
	return all
}

func (c Category) String() string { return categoryNames[c] }

// both is the category of what is in both versions, unchanged.
func both(before, now bool) Category {
	switch {
	case before && now:
		return CBC
	case before:
		return LBC
	case now:
		return GBC
	}
	return UBC
}

// either returns one of two categories of what is in one version only.
func either(covered bool, yes, no Category) Category {
	if covered {
		return yes
	}
	return no
}

// A Tally counts things by category.
type Tally [numCategories]int

// Plus returns the sum.
func (t Tally) Plus(o Tally) Tally {
	for i := range t {
		t[i] += o[i]
	}
	return t
}

// Tallies are those of everything that is compared.
type Tallies struct {
	// Before and After are the totals of the two versions. A function that was
	// there before may be in a category of new code.
	Before, After                                             Totals
	Lines, Functions, Branches, ExceptionBranches, Conditions Tally
}

// Add adds those of something else.
func (t *Tallies) Add(o Tallies) {
	t.Before.Add(o.Before)
	t.After.Add(o.After)
	t.Lines = t.Lines.Plus(o.Lines)
	t.Functions = t.Functions.Plus(o.Functions)
	t.Branches = t.Branches.Plus(o.Branches)
	t.ExceptionBranches = t.ExceptionBranches.Plus(o.ExceptionBranches)
	t.Conditions = t.Conditions.Plus(o.Conditions)
}

// A FileComparison is a source in two versions.
type FileComparison struct {
	Old, New  *File // nil where there is no coverage of that version
	Functions []FunctionComparison
	Lines     []LineComparison
	Tallies   Tallies

	inserted, removed []int32 // lines with code that only the new, only the old version has
}

// A FunctionComparison is a function in two versions, one of which may be nil.
type FunctionComparison struct {
	Old, New *Function
	Category Category
}

// A LineComparison is a line in two versions, one of which may be nil. What is
// deleted comes before the line that is in its place.
type LineComparison struct {
	Old, New *Line
	Category Category
}

// CompareFiles compares a source that edits made of old; either may be nil.
//
// A line that was not edited is the same line wherever it is now. So is a
// function whose first line was not edited. If code in it was, or what is code
// in it changed, it counts as new, unless it is lost. Decisions of a line are
// the same if they are of one kind and in the same place among those (see
// [Merge]); one that a line has no more counts as deleted.
func CompareFiles(old, new *File, edits Edits) *FileComparison {
	c := &FileComparison{Old: old, New: new}
	var none File
	if old == nil {
		old = &none
	}
	if new == nil {
		new = &none
	}
	c.Tallies.Before, c.Tallies.After = old.Totals(), new.Totals()
	c.lines(old.Lines, new.Lines, edits)
	c.functions(old, new, edits)
	for i := range c.Lines {
		c.parts(&c.Lines[i])
	}
	return c
}

func (c *FileComparison) lines(old, new []Line, edits Edits) {
	add := func(l LineComparison, category Category) {
		l.Category = category
		c.Lines = append(c.Lines, l)
		c.Tallies.Lines[category]++
		switch {
		case l.Old == nil:
			c.inserted = append(c.inserted, l.New.Number)
		case l.New == nil:
			c.removed = append(c.removed, l.Old.Number)
		}
	}
	gone := func(l *Line) {
		if _, still := edits.NewLine(l.Number); still {
			add(LineComparison{Old: l}, either(l.Count > 0, ECB, EUB))
		} else {
			add(LineComparison{Old: l}, either(l.Count > 0, DCB, DUB))
		}
	}
	for len(new) > 0 {
		l := &new[0]
		new = new[1:]
		before, same := edits.OldLine(l.Number)
		// Old lines come first that are above it now, or were in its place.
		for len(old) > 0 {
			now, still := edits.NewLine(old[0].Number)
			if still && now >= l.Number || !still && now > l.Number {
				break
			}
			gone(&old[0])
			old = old[1:]
		}
		switch {
		case !same:
			add(LineComparison{New: l}, either(l.Count > 0, GNC, UNC))
		case len(old) > 0 && old[0].Number == before:
			add(LineComparison{Old: &old[0], New: l}, both(old[0].Count > 0, l.Count > 0))
			old = old[1:]
		default:
			add(LineComparison{New: l}, either(l.Count > 0, GIC, UIC))
		}
	}
	for i := range old {
		gone(&old[i])
	}
}

func (c *FileComparison) functions(old, new *File, edits Edits) {
	add := func(f FunctionComparison, category Category) {
		f.Category = category
		c.Functions = append(c.Functions, f)
		c.Tallies.Functions[category]++
	}
	byLine := make(map[int32][]*Function) // of the old version, by the line where they are now
	for _, f := range old.Functions {
		if now, still := edits.NewLine(f.StartLine); still {
			byLine[now] = append(byLine[now], f)
		}
	}
	kept := make(map[*Function]bool)
	for _, f := range new.Functions {
		if _, same := edits.OldLine(f.StartLine); !same {
			add(FunctionComparison{New: f}, either(f.Count > 0, GNC, UNC))
			continue
		}
		before := f.counterpart(byLine[f.StartLine])
		if before == nil || kept[before] {
			add(FunctionComparison{New: f}, either(f.Count > 0, GIC, UIC))
			continue
		}
		kept[before] = true
		category := both(before.Count > 0, f.Count > 0)
		if category != LBC && c.edited(before, f) {
			category = either(f.Count > 0, GNC, UNC)
		}
		add(FunctionComparison{Old: before, New: f}, category)
	}
	for _, f := range old.Functions {
		if kept[f] {
			continue
		}
		if _, still := edits.NewLine(f.StartLine); still {
			add(FunctionComparison{Old: f}, either(f.Count > 0, ECB, EUB))
		} else {
			add(FunctionComparison{Old: f}, either(f.Count > 0, DCB, DUB))
		}
	}
}

// counterpart returns which of the functions that begin on the line of f is f.
// Not all formats know columns.
func (f *Function) counterpart(functions []*Function) *Function {
	for _, other := range functions {
		if other.StartColumn == f.StartColumn && other.SourceName() == f.SourceName() {
			return other
		}
	}
	for _, other := range functions {
		for _, in := range f.Instances {
			if slices.ContainsFunc(other.Instances, func(o Instance) bool { return o.Name == in.Name }) {
				return other
			}
		}
	}
	return nil
}

// edited tells whether code between the first and the last line of a function
// was inserted, deleted, or is code in one version only.
func (c *FileComparison) edited(old, new *Function) bool {
	return anyWithin(c.removed, old.StartLine, old.EndLine) || anyWithin(c.inserted, new.StartLine, new.EndLine)
}

// anyWithin tells whether one of ascending lines is in a range.
func anyWithin(lines []int32, from, to int32) bool {
	i, _ := slices.BinarySearch(lines, from)
	return i < len(lines) && lines[i] <= to
}

// parts counts the branches and conditions of a line.
func (c *FileComparison) parts(l *LineComparison) {
	var before, now Line
	if l.Old != nil {
		before = *l.Old
	}
	if l.New != nil {
		now = *l.New
	}
	// What becomes of a decision that only one version has.
	yes, no, yesOld, noOld := GIC, UIC, DCB, DUB
	switch l.Category {
	case GNC, UNC:
		yes, no = GNC, UNC
	case ECB, EUB:
		yesOld, noOld = ECB, EUB
	}
	alone := func(isNew, covered bool) Category {
		if isNew {
			return either(covered, yes, no)
		}
		return either(covered, yesOld, noOld)
	}
	old, new := comparable(before.Branches, now.Branches)
	comparePairs(old, new, func(old, new *Branch) {
		tally := &c.Tallies.Branches
		if old != nil && old.Exception || new != nil && new.Exception {
			tally = &c.Tallies.ExceptionBranches
		}
		switch {
		case old == nil:
			tally[alone(true, new.Count > 0)]++
		case new == nil:
			tally[alone(false, old.Count > 0)]++
		default:
			tally[both(old.Count > 0, new.Count > 0)]++
		}
	})
	comparePairs(conditionDecisions(before.Conditions), conditionDecisions(now.Conditions), func(old, new *Term) {
		tally := &c.Tallies.Conditions
		switch {
		case old == nil:
			tally[alone(true, new.True)]++
			tally[alone(true, new.False)]++
		case new == nil:
			tally[alone(false, old.True)]++
			tally[alone(false, old.False)]++
		default:
			tally[both(old.True, new.True)]++
			tally[both(old.False, new.False)]++
		}
	})
}

// comparable returns the decisions of two versions of a line. Some formats do
// not divide branches into decisions, or make one of all on a line: where only
// one version is so, the other is not divided either, and left without what
// exceptions decide if that makes them as many.
func comparable(before, now []Branch) (old, new []decision[Branch]) {
	old, new = branchDecisions(before), branchDecisions(now)
	// whole makes one decision of branches, but for those that exceptions decide
	// if they are to stay apart.
	whole := func(branches []Branch, apart bool) []decision[Branch] {
		var exceptions, others []Branch
		for _, b := range branches {
			if apart && b.Exception {
				exceptions = append(exceptions, b)
			} else {
				others = append(others, b)
			}
		}
		return append(branchDecisions(exceptions), decision[Branch]{kind{list: true, ways: len(others)}, others})
	}
	ways := func(d []decision[Branch]) int { return d[len(d)-1].ways }
	switch {
	case len(old) == 0 || len(new) == 0:
		return old, new
	case old[0].list != new[0].list:
		apart := len(before) != len(now)
		return whole(before, apart), whole(now, apart)
	case len(old) != len(new) && (len(old) == 1 || len(new) == 1):
		if a, b := whole(before, true), whole(now, true); ways(a) == ways(b) {
			return a, b
		}
	}
	return settledDecisions(before), settledDecisions(now)
}

// comparePairs matches decisions by kind and order, and calls compare for each
// of their parts; of what only one has the other is nil.
func comparePairs[T any](old, new []decision[T], compare func(old, new *T)) {
	byKind := func(a, b decision[T]) int { return a.compare(b.kind) }
	slices.SortStableFunc(old, byKind)
	slices.SortStableFunc(new, byKind)
	for len(old) > 0 || len(new) > 0 {
		order := 0
		switch {
		case len(old) == 0:
			order = 1
		case len(new) == 0:
			order = -1
		default:
			order = byKind(old[0], new[0])
		}
		switch {
		case order < 0:
			for i := range old[0].parts {
				compare(&old[0].parts[i], nil)
			}
			old = old[1:]
		case order > 0:
			for i := range new[0].parts {
				compare(nil, &new[0].parts[i])
			}
			new = new[1:]
		default:
			for i := range old[0].parts {
				compare(&old[0].parts[i], &new[0].parts[i])
			}
			old, new = old[1:], new[1:]
		}
	}
}
