package ask

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"footfall/coverage"
)

// CoverageBy is what of the sources of each directory, or owner, ran.
type CoverageBy struct {
	By     string          `json:"by"`     // one of CoverageGroupings
	Groups []CoverageGroup `json:"groups"` // those first with the most lines that did not run
}

// A CoverageGroup is what of the sources of one ran. One that has several owners is a source of each.
type CoverageGroup struct {
	Name      string         `json:"name"`
	Files     int            `json:"files"`
	Lines     coverage.Ratio `json:"lines"`
	Functions coverage.Ratio `json:"functions"`
	Branches  coverage.Ratio `json:"branches"`
}

// Missed is how many lines did not run.
func (g *CoverageGroup) Missed() int { return g.Lines.Total - g.Lines.Covered }

// CoverageGroupings are what coverage can be counted by.
func CoverageGroupings() []string { return []string{"directory", "owner", "file"} }

// GroupCoverage counts a set by what a style says.
func GroupCoverage(set *coverage.Set, s Style) *CoverageBy {
	c := &CoverageBy{By: cmp.Or(s.By, "directory"), Groups: []CoverageGroup{}}
	numbers := make(map[string]int)
	for _, f := range set.All() {
		t := f.Totals()
		for _, name := range GroupsOf(s, f.Name) {
			i, known := numbers[name]
			if !known {
				i = len(c.Groups)
				numbers[name] = i
				c.Groups = append(c.Groups, CoverageGroup{Name: name})
			}
			g := &c.Groups[i]
			g.Files++
			g.Lines, g.Functions, g.Branches = g.Lines.Plus(t.Lines), g.Functions.Plus(t.Functions), g.Branches.Plus(t.Branches)
		}
	}
	slices.SortStableFunc(c.Groups, func(a, b CoverageGroup) int {
		return cmp.Or(cmp.Compare(b.Missed(), a.Missed()), cmp.Compare(a.Name, b.Name))
	})
	return c
}

// CoverageBy returns the coverage of a selection, see Coverage, by its parameter "by". Owners are those of the Ask.
func (a *Ask) CoverageBy(ctx context.Context, values url.Values) (*CoverageBy, error) {
	by := values.Get("by")
	switch {
	case !slices.Contains(CoverageGroupings(), by):
		return nil, wrong("by: %q is none of %s", by, strings.Join(CoverageGroupings(), ", "))
	case by == "owner" && a.Owners == nil:
		return nil, fmt.Errorf("%w: owners are not known here: footfall serve --codeowners FILE", ErrWrong)
	}
	of := url.Values{}
	for name, all := range values {
		if name != "by" {
			of[name] = all
		}
	}
	set, err := a.Coverage(ctx, of)
	if err != nil {
		return nil, err
	}
	return GroupCoverage(set, Style{By: by, Owners: a.Owners}), nil
}

// Text writes a table.
func (c *CoverageBy) Text(w io.Writer, s Style) error {
	t := newTable("missed", "lines", "of", "functions", "of", "branches", "of", "files", c.By).right(0, 1, 2, 3, 4, 5, 6, 7)
	for _, g := range c.Groups {
		t.row(number(g.Missed()), g.Lines.Rounded(), number(g.Lines.Total), g.Functions.Rounded(), number(g.Functions.Total), g.Branches.Rounded(), number(g.Branches.Total), number(g.Files), g.Name)
	}
	most := mostRows
	if s.All {
		most = 0
	}
	return t.write(w, most)
}
