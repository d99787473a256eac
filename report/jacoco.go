package report

import (
	"io"

	"footfall/coverage"
)

// printJaCoCo writes JaCoCo's XML by its report.dtd 1.1:
//
//	report
//	  package                   a directory, with slashes as JaCoCo has them
//	    class/method            a file; its functions
//	    sourcefile/line         ci and mi: its instructions that ran and that did not,
//	                            here one for each line; cb and mb: branches
//
// and at the end of each but a line the counters of what is in it.
func printJaCoCo(w io.Writer, r *Report) error {
	x := jacoco{report: r}
	x.raw(xmlHeader + `<!DOCTYPE report PUBLIC "-//JACOCO//DTD Report 1.1//EN" "report.dtd">` + "\n<report")
	x.attribute("name", "footfall")
	x.raw(">\n")
	var total coverage.Totals
	var classes coverage.Ratio
	for _, d := range r.folders() {
		x.raw("<package")
		x.attribute("name", d.name)
		x.raw(">\n")
		var inside coverage.Ratio
		for i, f := range d.files {
			inside = inside.Plus(oneClass(d.each[i]))
			x.class(r.Set.At(f), d.base[i], d.each[i])
			if err := x.flush(w); err != nil {
				return err
			}
		}
		for i, f := range d.files {
			x.sourcefile(r.Set.At(f), d.base[i], d.each[i])
			if err := x.flush(w); err != nil {
				return err
			}
		}
		x.counters(d.totals, inside)
		x.raw("</package>\n")
		total.Add(d.totals)
		classes = classes.Plus(inside)
	}
	x.counters(total, classes)
	x.raw("</report>\n")
	return x.flush(w)
}

// oneClass counts a file as JaCoCo counts a class: covered if anything in it is.
func oneClass(t coverage.Totals) coverage.Ratio {
	return coverage.Ratio{Covered: min(t.Lines.Covered, 1), Total: 1}
}

type jacoco struct {
	xmlWriter
	report *Report
}

func (x *jacoco) class(f *coverage.File, base string, t coverage.Totals) {
	x.raw("<class")
	x.attribute("name", x.report.Shown(f.Name))
	x.attribute("sourcefilename", base)
	x.raw(">\n")
	for i, s := range signatures(f.Functions) {
		fn := f.Functions[i]
		x.raw("<method")
		x.attribute("name", s.name)
		x.attribute("desc", s.params)
		x.count("line", int64(fn.StartLine))
		x.raw(">")
		called := coverage.Ratio{Total: 1}
		if fn.Count > 0 {
			called.Covered = 1
		}
		x.counter("METHOD", called)
		x.raw("</method>\n")
	}
	x.counters(t, oneClass(t))
	x.raw("</class>\n")
}

func (x *jacoco) sourcefile(f *coverage.File, base string, t coverage.Totals) {
	x.raw("<sourcefile")
	x.attribute("name", base)
	x.raw(">\n")
	for i := range f.Lines {
		l := &f.Lines[i]
		x.number(`<line nr="`, int64(l.Number))
		if l.Count > 0 {
			x.raw(`" mi="0" ci="1`)
		} else {
			x.raw(`" mi="1" ci="0`)
		}
		b := coverage.Taken(x.report.branches(l))
		x.number(`" mb="`, int64(b.Missed()))
		x.number(`" cb="`, int64(b.Covered))
		x.raw("\"/>\n")
	}
	x.counters(t, oneClass(t))
	x.raw("</sourcefile>\n")
}

func (x *jacoco) counters(t coverage.Totals, classes coverage.Ratio) {
	x.counter("INSTRUCTION", t.Lines)
	x.counter("BRANCH", x.report.branchTotal(t))
	x.counter("LINE", t.Lines)
	x.counter("METHOD", t.Functions)
	x.counter("CLASS", classes)
	x.raw("\n")
}

// counter writes a counter, as JaCoCo only of what there is.
func (x *jacoco) counter(kind string, r coverage.Ratio) {
	if r.Total == 0 {
		return
	}
	x.raw(`<counter type="`)
	x.raw(kind)
	x.number(`" missed="`, int64(r.Missed()))
	x.number(`" covered="`, int64(r.Covered))
	x.raw(`"/>`)
}
