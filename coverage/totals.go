package coverage

import (
	"fmt"
	"strconv"
)

// A Ratio is how many of a number of things were covered. It is in all JSON as it is here.
type Ratio struct {
	Covered int `json:"covered"`
	Total   int `json:"total"`
}

// Percent returns the covered part in percent; it is 0 where there is nothing
// to cover, since nothing was shown to work.
func (r Ratio) Percent() float64 {
	if r.Total == 0 {
		return 0
	}
	return 100 * float64(r.Covered) / float64(r.Total)
}

// Rounded is the covered part as "61.2%", "-" where there is nothing to cover. It rounds
// down, so that neither 100% nor a threshold seems to be reached when it is not; but what
// is more than nothing is never 0.0%.
func (r Ratio) Rounded() string {
	if r.Total == 0 {
		return "-"
	}
	tenths := int(int64(r.Covered) * 1000 / int64(r.Total))
	if tenths == 0 && r.Covered > 0 {
		tenths = 1
	}
	return fmt.Sprintf("%d.%d%%", tenths/10, tenths%10)
}

// Counts is the ratio as "312/510", "" where there is nothing to cover.
func (r Ratio) Counts() string {
	if r.Total == 0 {
		return ""
	}
	return strconv.Itoa(r.Covered) + "/" + strconv.Itoa(r.Total)
}

// Missed returns how many were not covered.
func (r Ratio) Missed() int { return r.Total - r.Covered }

// Plus returns the two together.
func (r Ratio) Plus(o Ratio) Ratio { return Ratio{r.Covered + o.Covered, r.Total + o.Total} }

// Minus returns what r has more than o.
func (r Ratio) Minus(o Ratio) Ratio { return Ratio{r.Covered - o.Covered, r.Total - o.Total} }

func (r *Ratio) count(covered bool) {
	r.Total++
	if covered {
		r.Covered++
	}
}

// A Level is how good a ratio is, by what is required of it or by custom.
type Level byte

// Levels; NoLevel is that of nothing.
const (
	NoLevel Level = iota
	Good
	Fair
	Poor
)

// Totals sums up a file or a set.
type Totals struct {
	// Lines that have code, and of these the ones that ran.
	Lines Ratio
	// Functions of the source, and of these the ones that were called; the
	// instances of a template are one function.
	Functions Ratio
	// Branches but for those that only an exception decides, and of these the
	// ones that were taken.
	Branches Ratio
	// ExceptionBranches are the others, see Branch.Exception.
	ExceptionBranches Ratio
	// Conditions counts outcomes: two for each term of a condition.
	Conditions Ratio
	// Calls, and of these the ones that were made.
	Calls Ratio
	// Regions of functions, and of these the ones that ran, see Function.Regions. Those of changed lines are not known.
	Regions Ratio
}

// AllBranches returns the branches, those that only an exception decides among them if
// exceptions is set.
func (t Totals) AllBranches(exceptions bool) Ratio {
	if exceptions {
		return t.Branches.Plus(t.ExceptionBranches)
	}
	return t.Branches
}

// Taken counts branches, and those of them that were taken.
func Taken(branches []Branch) Ratio {
	var r Ratio
	for i := range branches {
		r.count(branches[i].Count > 0)
	}
	return r
}

// Add adds o.
func (t *Totals) Add(o Totals) {
	t.Lines = t.Lines.Plus(o.Lines)
	t.Functions = t.Functions.Plus(o.Functions)
	t.Branches = t.Branches.Plus(o.Branches)
	t.ExceptionBranches = t.ExceptionBranches.Plus(o.ExceptionBranches)
	t.Conditions = t.Conditions.Plus(o.Conditions)
	t.Calls = t.Calls.Plus(o.Calls)
	t.Regions = t.Regions.Plus(o.Regions)
}

// Minus returns what t has more than o.
func (t Totals) Minus(o Totals) Totals {
	return Totals{
		t.Lines.Minus(o.Lines), t.Functions.Minus(o.Functions), t.Branches.Minus(o.Branches),
		t.ExceptionBranches.Minus(o.ExceptionBranches), t.Conditions.Minus(o.Conditions), t.Calls.Minus(o.Calls), t.Regions.Minus(o.Regions),
	}
}

// Totals sums up all files.
func (s *Set) Totals() Totals {
	var t Totals
	for i := range s.files {
		if f := &s.files[i]; f.file != nil {
			t.Add(f.file.Totals())
		} else {
			t.Add(f.totals)
		}
	}
	return t
}

// HasLines tells whether there is a line that counts.
func (s *Set) HasLines() bool {
	for _, f := range s.All() {
		for i := range f.Lines {
			if !f.Lines[i].Uncounted {
				return true
			}
		}
	}
	return false
}

// Totals sums up the file.
func (f *File) Totals() Totals {
	var t Totals
	for _, fn := range f.Functions {
		t.Functions.count(fn.Count > 0)
		t.Regions = t.Regions.Plus(Ratio{int(fn.RegionsRun), int(fn.Regions)})
	}
	for i := range f.Lines {
		l := &f.Lines[i]
		if l.Uncounted {
			continue
		}
		t.Lines.count(l.Count > 0)
		for _, b := range l.Branches {
			if b.Exception {
				t.ExceptionBranches.count(b.Count > 0)
			} else {
				t.Branches.count(b.Count > 0)
			}
		}
		for _, c := range l.Calls {
			t.Calls.count(c.Count > 0)
		}
		for _, c := range l.Conditions {
			for _, term := range c.Terms {
				t.Conditions.count(term.True)
				t.Conditions.count(term.False)
			}
		}
	}
	return t
}
