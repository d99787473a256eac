// Package report finds coverage data in the file system and shows what was
// covered, to people and to other programs.
//
// [Find] pairs notes with data files, [Sources] says where the sources are and
// which of them count, and a [Report] prints a coverage.Set in one of several
// formats, one file each: text.go, lcov.go, json.go, gcov.go. What cannot be
// used on the way is a [Problem]; the rest is reported.
//
// The package decodes no coverage data; that is package gcov's.
package report

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/coverage"
	"footfall/input"
	"footfall/output"
)

// A Report is a set of coverage, and how to show it.
type Report struct {
	Set   *coverage.Set
	Shown func(path string) string // the name to show for a source
	// Excluded is what [Exclusions] have taken out of the Set.
	Excluded Excluded
	// Root is the absolute path of the directory from which names are shown.
	Root string
	// Time is when the data were made, zero if that is not known. Outputs that
	// must tell a time tell this one: the same data give the same bytes.
	Time time.Time
	// ExceptionBranches counts and shows branches that only an exception
	// decides, as others.
	ExceptionBranches bool
	// Patch tells which lines were changed; nil: that is not asked.
	Patch *Patch
	// Built is when the newest object was compiled: a source that is newer has
	// perhaps changed since. Zero: not known.
	Built time.Time
	// ReadSource reads a source by its name in the Set; nil is input.ReadSource.
	ReadSource func(name string) ([]byte, error)
	// Private has what shows sources be for us only: not everybody may read them.
	Private bool
	// Width is the number of columns of text on standard output, 0 for as many
	// as it takes.
	Width int
	// Color tells to colour text on standard output.
	Color bool

	problems *[]Problem // met while an output is printed
}

// An Output is a format and the place for it.
type Output struct {
	Target string // "-" is standard output
	format *format
}

// A format is printed as one file, or written as a directory of files.
type format struct {
	name  string
	print func(io.Writer, *Report) error
	write func(r *Report, dir string) ([]Problem, error)
	// sources tells that the text of sources is in it.
	sources bool
}

// formats are the known ones. A new one is a row here and a file.
var formats = []*format{
	{name: "text", print: printText},
	{name: "lcov", print: printLcov},
	{name: "lcov2", print: printLcov2},
	{name: "lcov1", print: printLcov1},
	{name: "json", print: printJSON},
	{name: "html", write: (*Report).writeHTML, sources: true},
	{name: "gcov", write: (*Report).writeListings, sources: true},
	{name: "excluded", print: printExcluded},
	{name: "tests", print: printTests},
	{name: "cobertura", print: printCobertura},
	{name: "sonarqube", print: printSonarQube},
	{name: "jacoco", print: printJaCoCo},
	{name: "clover", print: printClover},
	{name: "coveralls", print: printCoveralls},
	{name: "gcovr", print: printGcovr},
	{name: "gcovr5", print: printGcovr5},
	{name: "csv", print: printCSV},
	{name: "markdown", print: printMarkdown},
	{name: "github", print: printGitHub},
	{name: "gitlab", print: printGitLab},
	{name: "badge", print: printBadge},
}

// ParseOutput reads FORMAT or FORMAT=TARGET.
func ParseOutput(s string) (Output, error) {
	name, target, ok := strings.Cut(s, "=")
	if !ok {
		target = "-"
	}
	for _, f := range formats {
		if f.name != name {
			continue
		}
		if target == "" || f.print == nil && target == "-" {
			return Output{}, fmt.Errorf("output %q: say where to, as in %s=PATH", s, name)
		}
		return Output{target, f}, nil
	}
	return Output{}, fmt.Errorf("output %q: the formats are %s", s, strings.Join(Formats(), ", "))
}

// Formats returns the names of the formats.
func Formats() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// Write writes the report to o. A file appears when it is complete, in place
// of an older one. The problems are those of sources.
func (r *Report) Write(o Output, stdout io.Writer) ([]Problem, error) {
	if r.Private && o.format.sources {
		defer unix.Umask(unix.Umask(0o077))
	}
	if o.format.print == nil {
		return o.format.write(r, o.Target)
	}
	var problems []Problem
	this := *r
	this.problems = &problems
	if o.Target == "-" {
		w := bufio.NewWriterSize(stdout, 1<<16)
		if err := o.format.print(w, &this); err != nil {
			return problems, err
		}
		return problems, w.Flush()
	}
	this.Width, this.Color = 0, false
	err := output.Write(o.Target, func(w io.Writer) error { return o.format.print(w, &this) })
	return problems, err
}

// ShowsSources tells whether the text of sources is in what is written to o.
func (o Output) ShowsSources() bool { return o.format.sources }

func (r *Report) readSource(name string) ([]byte, error) {
	if r.ReadSource == nil {
		return input.ReadSource(name)
	}
	return r.ReadSource(name)
}

// problem tells of something that an output could not use.
func (r *Report) problem(p Problem) { *r.problems = append(*r.problems, p) }

// branches returns those of the line that the report counts.
func (r *Report) branches(l *coverage.Line) []coverage.Branch {
	if r.ExceptionBranches || !slices.ContainsFunc(l.Branches, func(b coverage.Branch) bool { return b.Exception }) {
		return l.Branches
	}
	var kept []coverage.Branch
	for _, b := range l.Branches {
		if !b.Exception {
			kept = append(kept, b)
		}
	}
	return kept
}

// decisions yields the branches of each decision of a line.
func decisions(branches []coverage.Branch) iter.Seq[[]coverage.Branch] {
	return func(yield func([]coverage.Branch) bool) {
		for len(branches) > 0 {
			n := 1
			for n < len(branches) && branches[n].Block == branches[0].Block {
				n++
			}
			if !yield(branches[:n]) {
				return
			}
			branches = branches[n:]
		}
	}
}

// taken counts branches, and those that were taken.
func taken(branches []coverage.Branch) coverage.Ratio {
	r := coverage.Ratio{Total: len(branches)}
	for i := range branches {
		if branches[i].Count > 0 {
			r.Covered++
		}
	}
	return r
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
	if r.ExceptionBranches {
		return t.Branches.Plus(t.ExceptionBranches)
	}
	return t.Branches
}
