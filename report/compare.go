package report

import (
	"cmp"
	"fmt"
	"footfall/coverage"
	"footfall/report/change"
	"slices"
)

// A ComparisonReport is a comparison, and how to show it.
type ComparisonReport struct {
	*change.Comparison
	Shown func(path string) string // the name to show for a source
	// Root is the absolute path of the directory from which names are shown.
	Root string
	// ReadSource reads a source of the new version by its name in the set; nil: none can be read.
	ReadSource func(name string) ([]byte, error)
	// Private has what shows sources be for us only: not everybody may read them.
	Private bool
	// ExceptionBranches counts branches that only an exception decides, as
	// others.
	ExceptionBranches bool
}

// comparedMetrics are what is compared.
var comparedMetrics = []struct {
	name  string
	total func(*ComparisonReport, coverage.Totals) coverage.Ratio
	tally func(*ComparisonReport, *coverage.Tallies) coverage.Tally
}{
	{
		"lines",
		func(_ *ComparisonReport, t coverage.Totals) coverage.Ratio { return t.Lines },
		func(_ *ComparisonReport, t *coverage.Tallies) coverage.Tally { return t.Lines },
	},
	{
		"functions",
		func(_ *ComparisonReport, t coverage.Totals) coverage.Ratio { return t.Functions },
		func(_ *ComparisonReport, t *coverage.Tallies) coverage.Tally { return t.Functions },
	},
	{
		"branches",
		func(c *ComparisonReport, t coverage.Totals) coverage.Ratio {
			if c.ExceptionBranches {
				return t.Branches.Plus(t.ExceptionBranches)
			}
			return t.Branches
		},
		func(c *ComparisonReport, t *coverage.Tallies) coverage.Tally {
			if c.ExceptionBranches {
				return t.Branches.Plus(t.ExceptionBranches)
			}
			return t.Branches
		},
	},
	{
		"conditions",
		func(_ *ComparisonReport, t coverage.Totals) coverage.Ratio { return t.Conditions },
		func(_ *ComparisonReport, t *coverage.Tallies) coverage.Tally { return t.Conditions },
	},
}

// meanings say what a category is, for a person.
var meanings = map[coverage.Category]string{
	coverage.LBC: "lost: unchanged code that ran, and does not now",
	coverage.UNC: "new code that does not run",
	coverage.UIC: "unchanged, was no code before; does not run",
	coverage.UBC: "unchanged, did not run, and does not now",
	coverage.GBC: "gained: unchanged code that did not run, and does now",
	coverage.GNC: "new code that runs",
	coverage.GIC: "unchanged, was no code before; runs",
	coverage.CBC: "unchanged, ran, and runs",
	coverage.ECB: "unchanged, ran, is no code now",
	coverage.EUB: "unchanged, did not run, is no code now",
	coverage.DCB: "deleted, ran",
	coverage.DUB: "deleted, did not run",
}

// A comparedRow is what became of one metric.
type comparedRow struct {
	name          string
	before, after coverage.Ratio
	change        string // of the percentage
	tally         coverage.Tally
}

// rows returns the metrics that there is something of.
func (c *ComparisonReport) rows(t *coverage.Tallies) []comparedRow {
	var rows []comparedRow
	for _, m := range comparedMetrics {
		tally := m.tally(c, t)
		r := comparedRow{name: m.name, before: m.total(c, t.Before), after: m.total(c, t.After), change: "-", tally: tally}
		if tally == (coverage.Tally{}) && m.name != "lines" {
			continue
		}
		if r.before.Total > 0 && r.after.Total > 0 {
			if r.change = fmt.Sprintf("%+.1f", r.after.Percent()-r.before.Percent()); r.change == "+0.0" || r.change == "-0.0" {
				r.change = "0.0"
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// changed returns the files in which something is not as it was, the worst
// first: those that lost most, then those with most new code that does not run.
func (c *ComparisonReport) changed() []*coverage.FileComparison {
	var files []*coverage.FileComparison
	for _, f := range c.Files {
		for _, r := range c.rows(&f.Tallies) {
			r.tally[coverage.CBC], r.tally[coverage.UBC] = 0, 0
			if r.tally != (coverage.Tally{}) {
				files = append(files, f)
				break
			}
		}
	}
	slices.SortStableFunc(files, func(a, b *coverage.FileComparison) int {
		for _, category := range coverage.Categories() {
			x, y := a.Tallies.Lines[category], b.Tallies.Lines[category]
			if category == coverage.GBC || x != y {
				return cmp.Compare(y, x)
			}
		}
		return 0
	})
	return files
}

// A changeList says where something happened to lines or functions.
type changeList struct {
	category  coverage.Category
	functions bool
	count     int
	entries   []changeEntry // the largest first
}

type changeEntry struct {
	count int    // lines, or calls
	what  string // name of a function
	where string // file:ranges
}

// lists returns what to tell of lines and functions, the worst first.
func (c *ComparisonReport) lists() []changeList {
	var lists []changeList
	for _, category := range []coverage.Category{coverage.LBC, coverage.UNC, coverage.GBC} {
		lines, functions := changeList{category: category}, changeList{category: category, functions: true}
		for _, f := range c.Files {
			var r lineRanges
			for _, l := range f.Lines {
				if l.New != nil {
					r.add(l.New.Number, l.Category == category)
				}
			}
			if r.count > 0 {
				lines.add(changeEntry{count: r.count, where: c.Shown(c.Name(f)) + ":" + r.String()}, r.count)
			}
			for _, fn := range f.Functions {
				if fn.Category == category && fn.New != nil {
					calls := fn.New.Count
					if category == coverage.LBC {
						calls = fn.Old.Count
					}
					where := fmt.Sprintf("%s:%d", c.Shown(c.Name(f)), fn.New.StartLine)
					functions.add(changeEntry{count: int(calls), what: title(fn.New), where: where}, 1)
				}
			}
		}
		lists = append(lists, lines, functions)
	}
	lists = slices.DeleteFunc(lists, func(l changeList) bool { return l.count == 0 })
	for _, l := range lists {
		slices.SortStableFunc(l.entries, func(a, b changeEntry) int { return cmp.Compare(b.count, a.count) })
	}
	return lists
}

func (l *changeList) add(e changeEntry, n int) {
	l.count += n
	l.entries = append(l.entries, e)
}

// title is what the list is of: "2 functions are called no more".
func (l *changeList) title() string {
	one, many := "1 line", fmt.Sprintf("%d lines", l.count)
	if l.functions {
		one, many = "1 function", fmt.Sprintf("%d functions", l.count)
	}
	verbs := map[coverage.Category][4]string{ // of one line, lines, one function, functions
		coverage.LBC: {"ran and does not now", "ran and do not now", "was called and is not now", "were called and are not now"},
		coverage.UNC: {"is new and does not run", "are new and do not run", "is new and not called", "are new and not called"},
		coverage.GBC: {"did not run and does now", "did not run and do now", "was not called and is now", "were not called and are now"},
	}[l.category]
	verb := verbs[:2]
	if l.functions {
		verb = verbs[2:]
	}
	if l.count == 1 {
		return one + " " + verb[0]
	}
	return many + " " + verb[1]
}

const mostListed = 20

// shown returns the entries to list, and how many more there are.
func (l *changeList) shown() ([]changeEntry, int) {
	n := min(len(l.entries), mostListed)
	return l.entries[:n], len(l.entries) - n
}
