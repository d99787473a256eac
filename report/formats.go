package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"footfall/coverage"
	"footfall/output"
	"footfall/report/html"
	"footfall/report/source"
)

// A format is printed as one file, or written as a directory of files.
type format struct {
	output.Format
	print func(io.Writer, *Report) error
	write func(r *Report, dir string) ([]source.Problem, error)
	// files and functions are the characters that their names can have, nil if all, or
	// if there are none of them.
	files, functions output.Charset
	sources          bool                                                   // their text is in it
	appends          func(r *Report, name string) ([]source.Problem, error) // to a file; nil: the file is replaced
}

// formats are the known ones. A new one is a row here and a file.
var formats = []format{
	inFile("text", printText, nil, nil),
	{Format: output.Format{Name: "ran"}, print: printRan, sources: true},
	inFile("lcov", printLcov, output.Line, output.Line),
	inFile("lcov2", printLcov2, output.Line, output.Line),
	inFile("lcov1", printLcov1, output.Line, output.Line),
	inFile("json", printJSON, output.UTF8, output.UTF8),
	inTree("html", writePages),
	inTree("gcov", (*Report).writeListings),
	inFile("excluded", printExcluded, nil, nil),
	inFile("tests", printTests, nil, nil),
	inFile("cobertura", printCobertura, output.XML, output.XML),
	inFile("sonarqube", printSonarQube, output.XML, nil),
	inFile("jacoco", printJaCoCo, output.XML, output.XML),
	inFile("clover", printClover, output.XML, output.XML),
	inFile("coveralls", printCoveralls, output.UTF8, nil),
	inFile("gcovr", printGcovr, output.UTF8, output.UTF8),
	inFile("gcovr5", printGcovr5, output.UTF8, output.UTF8),
	inFile("csv", printCSV, output.UTF8Line, nil),
	inFile("markdown", printMarkdown, nil, nil),
	inFile("github", printGitHub, output.UTF8Line, output.UTF8Line),
	inFile("gitlab", printGitLab, output.UTF8, output.UTF8),
	inFile("badge", printBadge, nil, nil),
	{Format: output.Format{Name: "history"}, print: printHistory, appends: (*Report).appendHistory},
}

func inFile(name string, print func(io.Writer, *Report) error, files, functions output.Charset) format {
	return format{Format: output.Format{Name: name}, print: print, files: files, functions: functions}
}

// inTree is a format of which every file shows a source.
func inTree(name string, write func(r *Report, dir string) ([]source.Problem, error)) format {
	return format{Format: output.Format{Name: name, Kind: output.Tree}, write: write, sources: true}
}

// writePages writes pages for browsers.
func writePages(r *Report, target string) ([]source.Problem, error) {
	return html.Write(r.contents(), target)
}

// Contents are those of pages, for who serves them.
func (r *Report) Contents() html.Contents { return r.contents() }

// WritePages writes pages with a title into a directory, or if that is "" all in one page to w.
func (r *Report) WritePages(title, dir string, w io.Writer) ([]source.Problem, error) {
	c := r.contents()
	c.Title = title
	if dir != "" {
		return html.Write(c, dir+"/") // a directory, whatever it is called
	}
	page, problems, err := html.SinglePage(c)
	if err == nil {
		_, err = w.Write(page)
	}
	return problems, err
}

// contents are those of pages.
func (r *Report) contents() html.Contents {
	var ran RanOf
	notice := ""
	if r.RanOf != nil {
		ran, notice = *r.RanOf, r.RanOf.String()
	}
	return html.Contents{
		Notice: notice, Totals: ran.Totals, Set: r.Set, Shown: r.Shown, Excluded: r.Excluded, Root: r.Root, Time: r.Time, ExceptionBranches: r.ExceptionBranches,
		Patch: r.Patch, Stale: r.Stale, ReadSource: r.readSource, Level: r.level, Required: r.required(), Past: r.History, Order: r.Order,
	}
}

// Formats are those of a report.
func Formats() []output.Format {
	var list []output.Format
	for _, f := range formats {
		list = append(list, f.Format)
	}
	return list
}

func formatOf(r output.Request) format {
	return formats[slices.IndexFunc(formats, func(f format) bool { return f.Name == r.Format })]
}

// showsSources tells whether the text of sources is in what is asked for.
func showsSources(r output.Request) bool { return formatOf(r).sources }

// Write writes the report to o. A file appears when it is complete, in place
// of an older one. The problems are those of sources.
func (r *Report) Write(o output.Request, stdout io.Writer) ([]source.Problem, error) {
	format := formatOf(o)
	if r.Private && showsSources(o) {
		defer output.Secretly()()
	}
	if format.write != nil {
		return format.write(r, o.File)
	}
	if format.appends != nil && o.File != "-" {
		return format.appends(r, o.File)
	}
	var problems []source.Problem
	this := *r
	this.problems = &problems
	if o.File == "-" {
		w := bufio.NewWriterSize(stdout, 1<<16)
		if err := format.print(w, &this); err != nil {
			return problems, err
		}
		return problems, w.Flush()
	}
	this.Width, this.Color = 0, false
	err := output.Write(o.File, func(w io.Writer) error { return format.print(w, &this) })
	return problems, err
}

// escapedNames tells of the names that an output has in another way, each once.
func (r *Report) escapedNames(outputs []output.Request) []source.Problem {
	outputs = slices.DeleteFunc(slices.Clone(outputs), func(o output.Request) bool { return formatOf(o).files == nil && formatOf(o).functions == nil })
	if len(outputs) == 0 {
		return nil
	}
	kept, n := r.Again.escapes(), r.Set.Len()
	found, known := make([][]source.Problem, n), make([]bool, n)
	coverage.Parallel(n, func(i int) {
		if found[i], known[i] = kept.of(r.Set, i); !known[i] {
			found[i] = escapedIn(r.Set.At(i), r.Shown, outputs)
		}
	})
	for i, problems := range found {
		if !known[i] {
			kept.keep(r.Set, i, func() []source.Problem { return problems }, 0)
		}
	}
	kept.end(r.Set)
	return slices.Concat(found...)
}

// escapedIn tells of those of a file.
func escapedIn(f *coverage.File, show func(string) string, outputs []output.Request) (problems []source.Problem) {
	shown := show(f.Name)
	tell := func(whose, name string, names func(format) output.Charset) {
		if output.Plain(name) {
			return
		}
		for _, o := range outputs {
			set := names(formatOf(o))
			if set == nil {
				continue
			}
			if as := set.Escape(name); as != name {
				problems = append(problems, source.NewProblem(source.OtherName, output.Printable(shown), fmt.Errorf("%s is %s in %s, which has no other way to write it", whose, output.Printable(as), o.Format)))
				return
			}
		}
	}
	tell("its name", shown, func(f format) output.Charset { return f.files })
	for _, function := range f.Functions {
		tell("the name of a function", function.Name, func(f format) output.Charset { return f.functions })
		for k := range function.Instances {
			if name := function.Instances[k].Name; name != function.Name {
				tell("the name of a function", name, func(f format) output.Charset { return f.functions })
			}
		}
	}
	return problems
}
