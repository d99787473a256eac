package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"footfall/coverage"
	"footfall/output"
	"footfall/report/change"
	"footfall/report/source"
)

// ErrUnknownTests is that a diff changes what the data know nothing of, so that tests
// may be missing from those that it needs; what that is has been said.
var ErrUnknownTests = errors.New("which tests a change needs is not known of all of it")

// printTestsForDiff writes the names of the tests that ran a function that the diff
// changes, those that ran most of its lines first. The set is of the version before
// the change.
func (p *Printing) printTestsForDiff(r *Report, d *change.Diff) error {
	if !hasTests(r.Set) {
		return errNoTests
	}
	a := change.FindAffected(d, r.Set, r.Excluded, p.Sources)
	n := testsNeeded{Report: r, lines: make(map[string]int)}
	for _, f := range r.Set.All() {
		if edits, changed := a.Files[f.Name]; changed {
			n.file(f, edits)
		}
	}
	source.PrintProblems(p.Stderr, append(a.Problems, n.problems...), true)
	n.say(p.Stderr, a)
	if err := n.print(p.Stdout); err != nil {
		return err
	}
	if len(a.Problems)+len(n.problems) > 0 {
		return ErrUnknownTests
	}
	return nil
}

// testsNeeded are the tests that ran what a diff changes.
type testsNeeded struct {
	*Report
	lines    map[string]int // of changed functions that it ran, by test
	unrun    []string       // changed functions that no test ran
	outside  []string       // places outside of functions
	unnamed  int            // lines of changed functions that ran in no test
	problems []source.Problem
}

// file adds the tests that need to run for the changes of one source. Of what is outside
// of functions, such as a type or a macro, it is not known who uses it: in a source that
// is compiled by itself it is taken to be that source.
func (n *testsNeeded) file(f *coverage.File, edits coverage.Edits) {
	functions, outside := change.InFunctions(f, edits)
	if outside > 0 {
		place := fmt.Sprintf("%s:%d", n.Shown(f.Name), outside)
		if !change.IsUnit(f.Name) {
			n.problems = append(n.problems, source.NewProblem("changes outside of functions, in sources that others include", place, errors.New("any test may need it")))
		}
		n.outside = append(n.outside, place)
		n.take(f, 1, 1<<31-1)
		return
	}
	for _, fn := range functions {
		if !n.take(f, fn.StartLine, change.FunctionEnd(f, fn)) {
			n.unrun = append(n.unrun, fmt.Sprintf("%s:%d %s", n.Shown(f.Name), fn.StartLine, title(fn)))
		}
	}
}

// take adds the tests that ran any of some lines, and tells whether one did.
func (n *testsNeeded) take(f *coverage.File, first, last int32) (ran bool) {
	for _, t := range f.Tests {
		for line := range t.Hits.All() {
			if line >= first && line <= last {
				n.lines[t.Name]++
				ran = true
			}
		}
	}
	for _, l := range withoutTests(f) {
		if l.Number >= first && l.Number <= last && l.Count > 0 {
			n.unnamed++
		}
	}
	return ran
}

// say tells what the names of the tests do not.
func (n *testsNeeded) say(w io.Writer, a *change.Affected) {
	few := func(all []string) string {
		const most = 5
		shown := make([]string, 0, most)
		for _, s := range all[:min(len(all), most)] {
			shown = append(shown, output.Printable(s))
		}
		if more := len(all) - most; more > 0 {
			return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), more)
		}
		return strings.Join(shown, ", ")
	}
	note := func(format string, args ...any) { fmt.Fprintf(w, "footfall: "+format+"\n", args...) }
	if len(a.Files)+len(a.Problems)+len(a.Others) == 0 {
		note("the diff changes no code that the data know")
	}
	if len(n.outside) > 0 {
		note("changed outside of functions, so that all tests that ran anything of the source are named: %s", few(n.outside))
	}
	if len(n.unrun) > 0 {
		note("no test runs these changed functions: %s", few(n.unrun))
	}
	if n.unnamed > 0 {
		note("%s of changed code ran where no test was named", output.Plural(n.unnamed, "line"))
	}
	if len(a.Others) > 0 {
		note("not looked at, no sources: %s", few(a.Others))
	}
}

// print writes the names, one a line.
func (n *testsNeeded) print(w io.Writer) error {
	names := make([]string, 0, len(n.lines))
	for name := range n.lines {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(n.lines[b], n.lines[a]), cmp.Compare(a, b)) })
	var text strings.Builder
	for _, name := range names {
		text.WriteString(output.Printable(name) + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}
