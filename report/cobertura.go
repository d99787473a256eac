package report

import (
	"io"

	"footfall/coverage"
)

// printCobertura writes the XML of Cobertura 2, which Jenkins, GitLab, Azure
// DevOps and Codecov read, by its coverage-04.dtd:
//
//	coverage
//	  sources/source            the root; file names are seen from there
//	  packages/package          a directory
//	    classes/class           a file
//	      methods/method        a function; its one line is where it begins, with the calls
//	      lines/line            hits; branches as condition-coverage="50% (1/2)",
//	        conditions/condition     and how much of each decision
func printCobertura(w io.Writer, r *Report) error {
	x := cobertura{report: r}
	folders := r.folders()
	var total coverage.Totals
	for _, d := range folders {
		total.Add(d.totals)
	}
	branches := r.branchTotal(total)

	x.raw(xmlHeader + `<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">` + "\n<coverage")
	x.rates(total)
	x.count("lines-covered", int64(total.Lines.Covered))
	x.count("lines-valid", int64(total.Lines.Total))
	x.count("branches-covered", int64(branches.Covered))
	x.count("branches-valid", int64(branches.Total))
	x.attribute("version", "footfall")
	x.count("timestamp", 1000*r.seconds())
	x.raw(">\n<sources><source>")
	x.text(r.Root)
	x.raw("</source></sources>\n<packages>\n")
	for _, d := range folders {
		x.raw("<package")
		x.attribute("name", d.name)
		x.rates(d.totals)
		x.raw("><classes>\n")
		for i, f := range d.files {
			x.class(r.Set.At(f), d.base[i], d.each[i])
			if err := x.flush(w); err != nil {
				return err
			}
		}
		x.raw("</classes></package>\n")
	}
	x.raw("</packages>\n</coverage>\n")
	return x.flush(w)
}

type cobertura struct {
	xmlWriter
	report *Report
}

func (x *cobertura) rates(t coverage.Totals) {
	x.raw(` line-rate="`)
	x.fraction(t.Lines)
	x.raw(`" branch-rate="`)
	x.fraction(x.report.branchTotal(t))
	x.raw(`" complexity="0"`)
}

func (x *cobertura) class(f *coverage.File, base string, t coverage.Totals) {
	x.raw("<class")
	x.attribute("name", base)
	x.attribute("filename", x.report.Shown(f.Name))
	x.rates(t)
	x.raw(">\n<methods>\n")
	for i, s := range signatures(f.Functions) {
		fn := f.Functions[i]
		x.raw("<method")
		x.attribute("name", s.name)
		x.attribute("signature", s.params)
		rate := coverage.Ratio{Total: 1}
		if fn.Count > 0 {
			rate.Covered = 1
		}
		x.rates(coverage.Totals{Lines: rate})
		x.number(`><lines><line number="`, int64(fn.StartLine))
		x.number(`" hits="`, max(fn.Count, 0))
		x.raw("\"/></lines></method>\n")
	}
	x.raw("</methods>\n<lines>\n")
	for i := range f.Lines {
		x.line(&f.Lines[i])
	}
	x.raw("</lines>\n</class>\n")
}

func (x *cobertura) line(l *coverage.Line) {
	x.number(`<line number="`, int64(l.Number))
	x.number(`" hits="`, max(l.Count, 0))
	branches := x.report.branches(l)
	if len(branches) == 0 {
		x.raw("\"/>\n")
		return
	}
	all := coverage.Taken(branches)
	x.number(`" branch="true" condition-coverage="`, wholePercent(all))
	x.number("% (", int64(all.Covered))
	x.number("/", int64(all.Total))
	x.raw(`)"><conditions>`)
	number := int64(0)
	for d := range coverage.Decisions(branches) {
		x.number(`<condition number="`, number)
		if len(d) > 2 {
			x.raw(`" type="switch`)
		} else {
			x.raw(`" type="jump`)
		}
		x.number(`" coverage="`, wholePercent(coverage.Taken(d)))
		x.raw(`%"/>`)
		number++
	}
	x.raw("</conditions></line>\n")
}
