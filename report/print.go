package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"footfall/coverage"
	"footfall/output"
)

// Printing is what is made of a set: outputs, answers, and a verdict.
type Printing struct {
	Outputs           []Output
	Thresholds        []Threshold
	Diff              *SourceDiff // nil: not asked for
	TestsFor          string      // FILE[:LINE[-LINE]], "": not asked for
	ExceptionBranches bool
	Verbose           bool
	Sources           *Sources
	SourceDate        time.Time // to be told in place of when data were written; zero: none
	Stdout, Stderr    io.Writer
}

// Findings are a set with what is told of it.
type Findings struct {
	Set      *coverage.Set
	Excluded Excluded
	Made     time.Time // when the newest data were written; zero: not known
	// Built tells when the newest object was written, zero or nil: not known. Only outputs
	// that show sources ask.
	Built  func() time.Time
	Unseen int // problems that hide code, see [Unseen]
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
func (p *Printing) ParseRequest(outputs, thresholds []string, testsFor, base string) (err error) {
	onStdout := 0
	if p.SourceDate, err = SourceDate(); err != nil {
		return err
	}
	for _, s := range outputs {
		out, err := ParseOutput(s)
		if err != nil {
			return err
		}
		if p.Outputs = append(p.Outputs, out); out.Target == "-" {
			onStdout++
		}
	}
	if p.TestsFor = testsFor; testsFor != "" {
		onStdout++
		if err := CheckTestsFor(testsFor); err != nil {
			return err
		}
	}
	if onStdout > 1 {
		return errors.New("more than one output goes to standard output: give the others a file")
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
// keeps empty ones, which pflag's own lists forget.
func CommaSeparated(values []string) (parts []string) {
	for _, v := range values {
		parts = append(parts, strings.Split(v, ",")...)
	}
	return parts
}

// Print writes all outputs and judges by the thresholds: [ErrMissed].
func (p *Printing) Print(of Findings) error {
	if !p.SourceDate.IsZero() {
		of.Made = p.SourceDate
	}
	r := &Report{Set: of.Set, Shown: p.Sources.Shown, Root: p.Sources.Root(), Time: of.Made, Excluded: of.Excluded, ExceptionBranches: p.ExceptionBranches, ReadSource: p.Sources.Read}
	if slices.ContainsFunc(p.Outputs, Output.ShowsSources) {
		r.Private = p.Sources.Private(of.Set)
		if of.Built != nil {
			r.Built = of.Built()
		}
	}
	if p.Diff != nil {
		r.Patch = NewPatch(p.Diff, of.Set, of.Excluded, p.Sources)
		p.tellPatch(r)
	}
	r.Width, r.Color = output.Style(p.Stdout)
	var failed []error
	for _, out := range p.Outputs {
		problems, err := r.Write(out, p.Stdout)
		PrintProblems(p.Stderr, problems, p.Verbose)
		failed = append(failed, err)
	}
	if p.TestsFor != "" {
		failed = append(failed, r.PrintTestsFor(p.Stdout, p.TestsFor))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return Judge(p.Stderr, p.Thresholds, of.Unseen, r.Missed)
}

// tellPatch says what is not known of a patch.
func (p *Printing) tellPatch(r *Report) {
	PrintProblems(p.Stderr, r.Patch.Problems(), p.Verbose)
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
