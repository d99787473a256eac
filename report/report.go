// Package report shows what was covered, to people and to other programs.
//
// A [Report] is a coverage.Set and how to show it. Each output prints one, in a file of
// its own: text.go, lcov.go, json.go, gcov.go; formats.go has the table of them. Pages for
// browsers are many files, in package html.
// [Printing] writes the outputs that a user asks for and judges by thresholds.
//
// What finds things is in the rooms below: package source finds sources, exclude what is left out,
// change what a diff changed and how two versions compare. Notes and data are found by collect/find.
// The package decodes no coverage data; that is package gcov's.
package report

import (
	"time"

	"footfall/coverage"
	"footfall/input"
	"footfall/report/change"
	"footfall/report/exclude"
	"footfall/report/html"
	"footfall/report/source"
)

// A Report is a set of coverage, and how to show it.
type Report struct {
	Set   *coverage.Set
	Shown func(path string) string // the name to show for a source
	// Excluded is what [exclude.Exclusions] have taken out of the Set.
	Excluded exclude.Excluded
	// Root is the absolute path of the directory from which names are shown.
	Root string
	// Time is when the data were made, zero if that is not known. Outputs that
	// must tell a time tell this one: the same data give the same bytes.
	Time time.Time
	// ExceptionBranches counts and shows branches that only an exception
	// decides, as others.
	ExceptionBranches bool
	// Patch tells which lines were changed; nil: that is not asked.
	Patch *change.Patch
	// Stale are the names of sources that have changed since they were compiled, ascending.
	Stale []string
	// ReadSource reads a source by its name in the Set; nil is input.ReadSource.
	ReadSource func(name string) ([]byte, error)
	// Thresholds are what is required; they colour tables and pages.
	Thresholds []Threshold
	// History are the totals of earlier reports and of this one, oldest first, for the trend on pages.
	History []html.Past
	// Private has what shows sources be for us only: not everybody may read them.
	Private bool
	// Order is one of [Orders], in which people see files, "" for the worst first.
	Order string
	// RanOf tells of what the Set is the part that ran; nil: it is all.
	RanOf *RanOf
	// Width is the number of columns of text on standard output, 0 for as many
	// as it takes.
	Width int
	// Color tells to colour text on standard output.
	Color bool
	// Again has what was printed of the set before, whose files this one may keep; nil: nothing.
	Again *Again

	past     *pastJSON         // of a history, once it is known
	problems *[]source.Problem // met while an output is printed
}

func (r *Report) readSource(name string) ([]byte, error) {
	if r.ReadSource == nil {
		return input.ReadSource(name)
	}
	return r.ReadSource(name)
}

// problem tells of something that an output could not use.
func (r *Report) problem(p source.Problem) { *r.problems = append(*r.problems, p) }

// branches returns those of the line that the report counts.
func (r *Report) branches(l *coverage.Line) []coverage.Branch {
	first := 0
	for first < len(l.Branches) && (r.ExceptionBranches || !l.Branches[first].Exception) {
		first++
	}
	if first == len(l.Branches) {
		return l.Branches
	}
	kept := append([]coverage.Branch(nil), l.Branches[:first]...)
	for i := range l.Branches[first:] {
		if b := &l.Branches[first+i]; !b.Exception {
			kept = append(kept, *b)
		}
	}
	return kept
}

// seconds returns the time of the data in seconds since 1970, 0 if it is not
// known.
func (r *Report) seconds() int64 {
	if r.Time.IsZero() {
		return 0
	}
	return r.Time.Unix()
}

// branchTotal returns the branches that the report counts.
func (r *Report) branchTotal(t coverage.Totals) coverage.Ratio {
	return t.AllBranches(r.ExceptionBranches)
}
