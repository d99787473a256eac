package report

import (
	"io"
	"strings"
	"unicode"

	"footfall/coverage"
)

// printClover writes OpenClover's XML by its clover.xsd:
//
//	coverage
//	  project
//	    package                 a directory
//	      file                  with its path; its class has the same numbers
//	        line type="method"  a function and its calls
//	        line type="stmt"    a line and its count
//	        line type="cond"    a decision of two ways and how often each was taken
//	  testproject               the schema wants one; it has nothing in it
//
// Each has metrics: lines as statements, functions as methods, branches, also
// those of decisions with more than two ways, as conditionals.
func printClover(w io.Writer, r *Report) error {
	x := clover{report: r}
	folders := r.folders()
	var total coverage.Totals
	for _, d := range folders {
		total.Add(d.totals)
	}
	x.raw(xmlHeader)
	x.number(`<coverage clover="footfall" generated="`, r.seconds())
	x.number("\">\n<project timestamp=\"", r.seconds())
	x.raw("\">\n")
	x.metrics(total, metric{"files", r.Set.Len()}, metric{"packages", len(folders)})
	for _, d := range folders {
		x.raw("<package")
		x.attribute("name", ncName(d.name, "root"))
		x.raw(">\n")
		x.metrics(d.totals, metric{"files", len(d.files)})
		for i, f := range d.files {
			x.file(r.Set.At(f), d.base[i], d.each[i])
			if err := x.flush(w); err != nil {
				return err
			}
		}
		x.raw("</package>\n")
	}
	x.number("</project>\n<testproject timestamp=\"", r.seconds())
	x.raw("\">\n")
	x.metrics(coverage.Totals{})
	x.raw("<package name=\"none\">\n")
	x.metrics(coverage.Totals{})
	x.raw("<file name=\"none\" path=\"none\">\n")
	x.metrics(coverage.Totals{})
	x.raw("<class name=\"none\">\n")
	x.metrics(coverage.Totals{})
	x.raw("</class>\n</file>\n</package>\n</testproject>\n</coverage>\n")
	return x.flush(w)
}

type clover struct {
	xmlWriter
	report *Report
}

func (x *clover) file(f *coverage.File, base string, t coverage.Totals) {
	x.raw("<file")
	x.attribute("name", ncName(base, "_"))
	x.attribute("path", x.report.Shown(f.Name))
	x.raw(">\n")
	x.metrics(t, metric{"classes", 1})
	x.raw("<class")
	x.attribute("name", className(base))
	x.raw(">\n")
	x.metrics(t)
	x.raw("</class>\n")
	functions, names := f.Functions, signatures(f.Functions)
	for i := range f.Lines {
		l := &f.Lines[i]
		for len(functions) > 0 && functions[0].StartLine <= l.Number {
			x.function(functions[0], names[0])
			functions, names = functions[1:], names[1:]
		}
		x.number(`<line num="`, int64(l.Number))
		x.number(`" type="stmt" count="`, max(l.Count, 0))
		x.raw("\"/>\n")
		for d := range coverage.Decisions(x.report.branches(l)) {
			if len(d) != 2 {
				continue
			}
			x.number(`<line num="`, int64(l.Number))
			x.number(`" type="cond" truecount="`, max(d[0].Count, 0))
			x.number(`" falsecount="`, max(d[1].Count, 0))
			x.raw("\"/>\n")
		}
	}
	for i, fn := range functions {
		x.function(fn, names[i])
	}
	x.raw("</file>\n")
}

func (x *clover) function(fn *coverage.Function, s signature) {
	x.number(`<line num="`, int64(fn.StartLine))
	x.number(`" type="method" count="`, max(fn.Count, 0))
	x.raw(`"`)
	x.attribute("signature", s.name+s.params)
	x.raw("/>\n")
}

// A metric is one attribute of metrics.
type metric struct {
	name string
	n    int
}

func (x *clover) metrics(t coverage.Totals, more ...metric) {
	branches := x.report.branchTotal(t)
	all := t.Lines.Plus(branches).Plus(t.Functions)
	x.raw(`<metrics complexity="0"`)
	for _, c := range append([]metric{
		{"elements", all.Total}, {"coveredelements", all.Covered},
		{"statements", t.Lines.Total}, {"coveredstatements", t.Lines.Covered},
		{"conditionals", branches.Total}, {"coveredconditionals", branches.Covered},
		{"methods", t.Functions.Total}, {"coveredmethods", t.Functions.Covered},
	}, more...) {
		x.count(c.name, int64(c.n))
	}
	x.raw("/>\n")
}

// ncName makes a name that XML allows without a colon (NCName) from a path, as
// the schema wants it for packages and files: dots for slashes. The attribute
// "path" has the true name.
func ncName(path, empty string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c == '/':
			return '.'
		case c < unicode.MaxASCII && (unicode.IsLetter(c) || unicode.IsDigit(c)) || c == '.' || c == '-' || c == '_':
			return c
		}
		return '_'
	}, strings.Trim(path, "/"))
	if name == "" {
		return empty
	}
	if c := name[0]; c == '.' || c == '-' || '0' <= c && c <= '9' {
		name = "_" + name
	}
	return name
}

// className is a name that the schema allows for a class: two characters or
// more, a minus is none of them.
func className(base string) string {
	return strings.ReplaceAll(ncName(base, "_"), "-", "_") + "_"
}
