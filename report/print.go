package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"footfall/coverage"
	"footfall/output"
	"footfall/report/change"
	"footfall/report/exclude"
	"footfall/report/html"
	"footfall/report/source"
)

// Printing is what is made of a set: outputs, answers, and a verdict.
type Printing struct {
	Outputs           []output.Request
	Thresholds        []Threshold
	Diff              *change.Diff // nil: not asked for
	TestsFor          string       // FILE[:LINE[-LINE]], "": not asked for
	TestsForDiff      *change.Diff // of which the tests are asked for that it needs; nil: not
	ExceptionBranches bool
	AllowStale        bool   // changed sources that were not built since are no reason to fail
	OnlyRan           bool   // leave out what did not run
	Order             string // see [Orders]
	Verbose           bool
	Sources           *source.Sources
	SourceDate        time.Time // to be told in place of when data were written; zero: none
	Again             *Again    // for sets that keep files of the one before; nil: they do not
	Stdout, Stderr    io.Writer

	toldStale bool
}

// Findings are a set with what is told of it.
type Findings struct {
	Set      *coverage.Set
	Excluded exclude.Excluded
	Made     time.Time // when the newest data were written; zero: not known
	Unseen   int       // problems that hide code, see [Unseen]
}

// ErrMissed is that a threshold was missed; which one has been said.
var ErrMissed = errors.New("a threshold was missed")

// SourceDate returns the time of SOURCE_DATE_EPOCH, which builds that can be
// reproduced set, zero if it is not set.
// (reproducible-builds.org/specs/source-date-epoch)
func SourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds since 1970", text)
	}
	return time.Unix(seconds, 0), nil
}

// ParseRequest checks and takes outputs, FORMAT[=FILE], thresholds, METRIC=PERCENT,...,
// and the question of which tests ran something. base is that of a patch, "" for none.
// stdoutTaken is that an answer goes to standard output.
func (p *Printing) ParseRequest(outputs, thresholds []string, testsFor, base string, stdoutTaken bool) (err error) {
	if p.SourceDate, err = SourceDate(); err != nil {
		return err
	}
	if p.Outputs, err = output.Parse(outputs, Formats(), output.Stdout{W: p.Stdout, Taken: stdoutTaken || testsFor != ""}); err != nil {
		return err
	}
	if p.TestsFor = testsFor; testsFor != "" {
		if err := CheckTestsFor(testsFor); err != nil {
			return err
		}
	}
	for _, s := range CommaSeparated(thresholds) {
		t, err := ParseThreshold(s)
		if err != nil {
			return err
		}
		if t.OfPatch() && base == "" {
			return fmt.Errorf("threshold %q: --diff-base tells what the patch is", s)
		}
		p.Thresholds = append(p.Thresholds, t)
	}
	return nil
}

// CommaSeparated returns the parts of values of a flag that may be repeated. It
// keeps empty ones, which pflag's own lists forget. A comma within the braces of a
// pattern separates nothing.
func CommaSeparated(values []string) (parts []string) {
	for _, v := range values {
		from, depth := 0, 0
		for i, c := range v {
			switch {
			case c == '{':
				depth++
			case c == '}':
				depth--
			case c == ',' && depth <= 0:
				parts = append(parts, v[from:i])
				from = i + 1
			}
		}
		parts = append(parts, v[from:])
	}
	return parts
}

// Print writes all outputs and judges by the thresholds: [ErrMissed].
func (p *Printing) Print(of Findings) error {
	if !p.SourceDate.IsZero() {
		of.Made = p.SourceDate
	}
	r := p.report(of)
	of.Set = r.Set
	if slices.ContainsFunc(p.Outputs, showsSources) {
		r.Private = p.Sources.Private(of.Set)
	}
	if i := slices.IndexFunc(p.Outputs, func(o output.Request) bool { return o.Format == "history" && o.File != "-" }); i >= 0 && r.RanOf == nil {
		r.History = r.pastOf(p.Outputs[i].File)
	}
	r.Stale = change.Stale(of.Set, p.Sources)
	if p.Diff != nil {
		doubted := r.Stale
		if p.AllowStale {
			doubted = nil
		}
		r.Patch = change.NewPatch(p.Diff, of.Set, of.Excluded, p.Sources, doubted)
		p.tellPatch(r)
	}
	if p.TestsForDiff == nil { // else the sources are to be newer
		p.tellStale(r)
	}
	r.Width, r.Color = output.Style(p.Stdout)
	source.PrintProblems(p.Stderr, r.escapedNames(p.Outputs), p.Verbose)
	var failed []error
	for _, out := range p.Outputs {
		problems, err := r.Write(out, p.Stdout)
		source.PrintProblems(p.Stderr, problems, p.Verbose)
		failed = append(failed, err)
	}
	if p.TestsFor != "" {
		failed = append(failed, r.PrintTestsFor(p.Stdout, p.TestsFor))
	}
	if p.TestsForDiff != nil {
		failed = append(failed, p.printTestsForDiff(r, p.TestsForDiff))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if err := Judge(p.Stderr, p.Thresholds, of.Unseen, r.Missed); err != nil {
		return err
	}
	if p.Diff != nil && slices.ContainsFunc(r.Patch.Problems(), isStale) {
		fmt.Fprintln(p.Stderr, "footfall: changed sources were not built since: what of the change is covered is not known; --allow-stale reports it all the same")
		return ErrMissed
	}
	return nil
}

// report is a report of what was found.
func (p *Printing) report(of Findings) *Report {
	var ranOf *RanOf
	if p.OnlyRan {
		of.Set, ranOf = onlyRan(of.Set)
	}
	return &Report{Set: of.Set, Order: p.Order, RanOf: ranOf, Shown: p.Sources.Shown, Root: p.Sources.Root(), Time: of.Made, Excluded: of.Excluded, ExceptionBranches: p.ExceptionBranches, ReadSource: p.Sources.Read, Again: p.Again, Thresholds: p.Thresholds}
}

// Contents are those of pages of what was found, for who serves them: of a patch and of
// earlier reports there is nothing.
func (p *Printing) Contents(of Findings) html.Contents {
	r := p.report(of)
	r.Stale = change.Stale(of.Set, p.Sources)
	return r.contents()
}

func isStale(p source.Problem) bool { return p.Kind == change.StaleData }

// tellStale names the sources that have changed since they were compiled, once.
func (p *Printing) tellStale(r *Report) {
	if p.toldStale {
		return
	}
	p.toldStale = true
	var problems []source.Problem
	for _, name := range r.Stale {
		problem := source.NewProblem(change.StaleData, r.Shown(name), errors.New("changed since it was compiled: counts may stand beside other lines; build again"))
		if r.Patch == nil || !slices.ContainsFunc(r.Patch.Problems(), func(p source.Problem) bool { return p.Kind == problem.Kind && p.File == problem.File }) {
			problems = append(problems, problem)
		}
	}
	source.PrintProblems(p.Stderr, problems, p.Verbose)
}

// tellPatch says what is not known of a patch.
func (p *Printing) tellPatch(r *Report) {
	source.PrintProblems(p.Stderr, r.Patch.Problems(), p.Verbose)
	switch {
	case !r.Patch.Clear() || r.Patch.Totals(r.Set).Lines.Total > 0:
	case r.Patch.Empty():
		fmt.Fprintf(p.Stderr, "footfall: the diff has no changed lines: thresholds of the patch are not judged\n")
	default:
		fmt.Fprintf(p.Stderr, "footfall: no changed line has code: thresholds of the patch are not judged\n")
	}
}

// Judge tells which thresholds were missed, and returns [ErrMissed] if any was. miss
// says why one was, "" if it was not.
func Judge[T any](w io.Writer, thresholds []T, unseen int, miss func(T) string) error {
	missed := unseen > 0 && len(thresholds) > 0
	if missed {
		fmt.Fprintf(w, "footfall: %s cannot be read to the end, empty or without notes: what they cover is not known, no threshold can be said to be met\n", output.Plural(unseen, "input"))
	}
	for _, t := range thresholds {
		if m := miss(t); m != "" {
			fmt.Fprintf(w, "footfall: %s\n", m)
			missed = true
		}
	}
	if missed {
		return ErrMissed
	}
	return nil
}
