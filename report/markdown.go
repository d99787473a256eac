package report

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"unicode"

	"footfall/coverage"
)

// printMarkdown writes a short summary in GitHub's Markdown, which GitLab and
// others read as well, for a comment on a change or the summary of a job: the
// totals, what was changed and never ran if that was asked for, the files that
// miss most, and the largest functions that were never called.
func printMarkdown(w io.Writer, r *Report) error {
	var m markdown
	total := r.Set.Totals()
	m.raw("### Coverage: " + total.Lines.Rounded() + " of lines\n\n")
	columns := []mdColumn{{"lines", func(t coverage.Totals) coverage.Ratio { return t.Lines }}}
	for _, c := range []mdColumn{
		{"functions", func(t coverage.Totals) coverage.Ratio { return t.Functions }},
		{"branches", r.branchTotal},
		{"conditions", func(t coverage.Totals) coverage.Ratio { return t.Conditions }},
	} {
		if c.total(total).Total > 0 {
			columns = append(columns, c)
		}
	}
	m.header("", columns)
	m.row("all of it", total, columns)
	if r.Patch != nil {
		m.row("changed lines", r.Patch.Totals(r.Set), columns)
	}
	if r.Patch != nil {
		m.changed(r)
		m.unknown(r)
	}
	m.stale(r)
	m.files(r, columns)
	m.uncalled(r)
	return m.flush(w)
}

// Markdown shows the worst; the whole is in other outputs.
const mostMarkdown = 10

type mdColumn struct {
	title string
	total func(coverage.Totals) coverage.Ratio
}

type markdown struct{ buffer }

func (m *markdown) header(title string, columns []mdColumn) {
	m.raw("| " + title + " |")
	for _, c := range columns {
		m.raw(" " + c.title + " | |")
	}
	m.raw("\n|:--|")
	for range columns {
		m.raw("--:|--:|")
	}
	m.raw("\n")
}

// row writes a row; the name is Markdown.
func (m *markdown) row(name string, t coverage.Totals, columns []mdColumn) {
	m.raw("| " + name + " |")
	for _, c := range columns {
		ratio := c.total(t)
		m.raw(" " + ratio.Rounded() + " | " + ratio.Counts() + " |")
	}
	m.raw("\n")
}

// changed lists the changed lines that never ran.
func (m *markdown) changed(r *Report) {
	var holes []*hole
	for _, h := range r.holes() {
		if h.lines > 0 {
			holes = append(holes, h)
		}
	}
	if len(holes) == 0 {
		return
	}
	slices.SortStableFunc(holes, func(a, b *hole) int { return cmp.Compare(b.lines, a.lines) })
	m.raw("\n**Changed lines that never ran**\n\n")
	for _, h := range holes[:min(len(holes), mostMarkdown)] {
		m.raw("- ")
		m.code(h.file)
		m.number(":", int64(h.first))
		if h.last > h.first {
			m.number("–", int64(h.last))
		}
		m.raw("\n")
	}
	m.more(len(holes), "places")
}

// unknown lists the changed files of which it is not known what ran.
func (m *markdown) unknown(r *Report) {
	problems := r.Patch.Problems()
	if len(problems) == 0 {
		return
	}
	m.raw("\n**Changed files of which it is not known what ran**\n\n")
	for _, p := range problems[:min(len(problems), mostMarkdown)] {
		m.raw("- ")
		m.code(r.Shown(p.File))
		m.raw("\n")
	}
	m.more(len(problems), "files")
}

// stale lists sources that have changed since they were compiled.
func (m *markdown) stale(r *Report) {
	if len(r.Stale) == 0 {
		return
	}
	m.raw("\n**Changed since they were compiled: counts may stand beside other lines**\n\n")
	for _, name := range r.Stale[:min(len(r.Stale), mostMarkdown)] {
		m.raw("- ")
		m.code(r.Shown(name))
		m.raw("\n")
	}
	m.more(len(r.Stale), "files")
}

// files lists those that miss most lines.
func (m *markdown) files(r *Report, columns []mdColumn) {
	var rows []row
	for _, f := range r.Set.All() {
		if t := f.Totals(); t.Lines.Missed() > 0 {
			rows = append(rows, row{r.Shown(f.Name), t, f.Name})
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.totals.Lines.Missed(), a.totals.Lines.Missed()) })
	m.raw("\n<details><summary>Files that miss most lines</summary>\n\n")
	m.header("file", columns)
	for _, row := range rows[:min(len(rows), mostMarkdown)] {
		var name markdown
		name.code(row.name)
		m.row(string(name.buf), row.totals, columns)
	}
	m.more(len(rows), "files")
	m.raw("\n</details>\n")
}

// uncalled lists the largest functions that were never called.
func (m *markdown) uncalled(r *Report) {
	all := r.uncalled()
	if len(all) == 0 {
		return
	}
	m.raw("\n<details><summary>Functions that were never called, the largest first</summary>\n\n| lines | function | |\n|--:|:--|:--|\n")
	for _, fn := range all[:min(len(all), mostMarkdown)] {
		m.raw("| " + strconv.Itoa(fn.lines) + " | ")
		m.code(title(fn.Function))
		m.raw(" | ")
		m.code(r.Shown(fn.file))
		m.number(":", int64(fn.StartLine))
		m.raw(" |\n")
	}
	m.more(len(all), "functions")
	m.raw("\n</details>\n")
}

func (m *markdown) more(all int, what string) {
	if n := all - mostMarkdown; n > 0 {
		m.number("\nand ", int64(n))
		m.raw(" more " + what + "\n")
	}
}

// code appends a name in the type of code. Marks of Markdown and HTML in it are
// written as references; within the element a service also makes no link of
// what looks like a person or an issue.
func (m *markdown) code(s string) {
	m.raw("<code>")
	for _, c := range s {
		switch {
		case unicode.IsControl(c):
			m.raw("\ufffd")
		case c < unicode.MaxASCII && unicode.In(c, unicode.Punct, unicode.Symbol) && c != '.' && c != '/' && c != '-' && c != ',':
			m.number("&#", int64(c))
			m.raw(";")
		default:
			m.raw(string(c))
		}
	}
	m.raw("</code>")
}
