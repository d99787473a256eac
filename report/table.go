package report

import (
	"bytes"
	"cmp"
	"fmt"
	"footfall/coverage"
	"footfall/output"
	"slices"
	"strings"
	"unicode/utf8"
)

type row struct {
	name   string
	totals coverage.Totals
	path   string // in the set; "" of the total
}

// A column shows a metric as "61.2% 312/510", with or without the counts.
type column struct {
	title       string
	total       func(coverage.Totals) coverage.Ratio
	countsWidth int // 0: not shown
}

const percentWidth = len("100.0%")

func (c column) width() int {
	w := percentWidth
	if c.countsWidth > 0 {
		w += 1 + c.countsWidth
	}
	return max(w, len(c.title))
}

type table struct {
	buf       []byte
	title     string // of the names
	rows      []row
	total     row
	nameWidth int
	bar       bool // for the first column
	columns   []column
	width     int // of the whole; 0: unlimited
	color     bool
	report    *Report
}

// newTable makes a table of the files that totals wants.
func newTable(r *Report, title string, totals func(*coverage.File) (coverage.Totals, bool)) *table {
	t := &table{title: title, nameWidth: len(title), width: r.Width, color: r.Color, bar: true, report: r}
	for _, f := range r.Set.All() {
		of, wanted := totals(f)
		if !wanted {
			continue
		}
		row := row{r.line(f.Name), of, f.Name}
		t.rows = append(t.rows, row)
		t.total.totals.Add(row.totals)
		t.nameWidth = max(t.nameWidth, utf8.RuneCountInString(row.name))
	}
	t.total.name = fmt.Sprintf("total of %d files", len(t.rows))
	if len(t.rows) == 1 {
		t.total.name = "total of 1 file"
	}
	t.nameWidth = max(t.nameWidth, len(t.total.name))
	slices.SortStableFunc(t.rows, orders[r.Order])
	for _, m := range coverage.ColumnsOf(t.total.totals, r.ExceptionBranches) {
		total := func(t coverage.Totals) coverage.Ratio { return m.Of(t, r.ExceptionBranches) }
		t.columns = append(t.columns, column{m.Name, total, len(total(t.total.totals).Counts())})
	}
	t.fit()
	return t
}

// orders are those in which files may be shown.
var orders = map[string]func(a, b row) int{
	"": worseFirst,
	"missed": func(a, b row) int {
		return cmp.Or(cmp.Compare(b.totals.Lines.Missed(), a.totals.Lines.Missed()), worseFirst(a, b))
	},
	"ran": func(a, b row) int {
		return cmp.Or(cmp.Compare(b.totals.Lines.Covered, a.totals.Lines.Covered), worseFirst(b, a))
	},
	"lines": func(a, b row) int { return cmp.Compare(b.totals.Lines.Total, a.totals.Lines.Total) },
	"name":  func(a, b row) int { return 0 }, // as in the set
}

// Orders are the names of the orders in which files may be shown; "" is the worst first.
func Orders() []string { return []string{"missed", "ran", "lines", "name"} }

// worseFirst puts files with a smaller part covered before others, and of
// equal ones those that miss more lines.
func worseFirst(a, b row) int {
	x, y := a.totals.Lines, b.totals.Lines
	return cmp.Or(
		cmp.Compare(int64(x.Covered)*int64(y.Total), int64(y.Covered)*int64(x.Total)),
		cmp.Compare(y.Missed(), x.Missed()))
}

// fit takes away from the table what is needed least until it is as narrow as
// the terminal.
func (t *table) fit() {
	if t.width == 0 {
		return
	}
	const comfortable, least = 40, 12
	if t.rowWidth() > t.width {
		t.nameWidth = max(min(t.nameWidth, comfortable), t.nameWidth-(t.rowWidth()-t.width))
	}
	for i := len(t.columns) - 1; i >= 0 && t.rowWidth() > t.width; i-- {
		t.columns[i].countsWidth = 0
	}
	if t.rowWidth() > t.width {
		t.bar = false
	}
	if t.rowWidth() > t.width {
		t.nameWidth = max(least, t.nameWidth-(t.rowWidth()-t.width))
	}
}

const (
	gap      = "  "
	barWidth = 10
)

func (t *table) rowWidth() int {
	w := t.nameWidth
	for _, c := range t.columns {
		w += len(gap) + c.width()
	}
	if t.bar {
		w += len(gap) + barWidth
	}
	return w
}

func (t *table) text(s string) { t.buf = append(t.buf, s...) }

// padded writes s in so many columns, at the right of them.
func (t *table) padded(s string, width int) {
	for n := utf8.RuneCountInString(s); n < width; n++ {
		t.buf = append(t.buf, ' ')
	}
	t.text(s)
}

// name writes a name at the left of the columns for it. Of one too long the
// end is kept, which tells more.
func (t *table) name(s string) {
	n := utf8.RuneCountInString(s)
	if n > t.nameWidth {
		runes := []rune(s)
		s, n = "…"+string(runes[n-t.nameWidth+1:]), t.nameWidth
	}
	t.text(s)
	for ; n < t.nameWidth; n++ {
		t.buf = append(t.buf, ' ')
	}
}

func (t *table) table() {
	t.header()
	for _, row := range t.rows {
		t.row(row)
	}
	t.row(t.total)
}

// On a screen no more than these are shown of a table that is longer.
const (
	screen     = 40 // rows
	mostOnTerm = 25 // files
)

// long tells whether the table does not fit on a screen.
func (t *table) long() bool { return len(t.rows) > screen }

// summary writes the total alone: what is to be read first of a long table.
func (t *table) summary() {
	t.header()
	t.row(t.total)
}

// files writes the rows of a long table, on a terminal the first ones.
func (t *table) files() {
	shown := t.rows
	if t.width > 0 {
		shown = shown[:min(len(shown), mostOnTerm)]
	}
	t.text("\n")
	t.header()
	for _, row := range shown {
		t.row(row)
	}
	if n := len(t.rows) - len(shown); n > 0 {
		t.text(fmt.Sprintf("and %s more: --output text=FILE has all\n", output.Plural(n, "file")))
	}
}

func (t *table) header() {
	t.name(t.title)
	if t.bar {
		t.text(gap)
		t.padded("", barWidth)
	}
	for _, c := range t.columns {
		t.text(gap)
		t.padded(c.title, c.width())
	}
	t.text("\n")
}

func (t *table) row(r row) {
	t.name(r.name)
	for i, c := range t.columns {
		ratio := c.total(r.totals)
		on, off := t.colors(r, c.title, ratio)
		if i == 0 && t.bar {
			t.text(gap)
			t.text(on)
			full := ratio.Covered * barWidth / max(ratio.Total, 1)
			t.text(strings.Repeat("█", full))
			t.text(off)
			t.text(strings.Repeat("░", barWidth-full))
		}
		t.text(gap)
		shown := c.width()
		if c.countsWidth > 0 {
			shown -= 1 + c.countsWidth
		}
		t.text(on)
		t.padded(ratio.Rounded(), shown)
		t.text(off)
		if c.countsWidth > 0 {
			t.text(" ")
			t.padded(ratio.Counts(), c.countsWidth)
		}
	}
	t.buf = append(bytes.TrimRight(t.buf, " "), '\n')
}

// colors returns the escape sequences around a ratio, by how good it is.
func (t *table) colors(of row, metric string, r coverage.Ratio) (on, off string) {
	if !t.color {
		return "", ""
	}
	switch t.report.level(metric, of.path, of.name, r) {
	case coverage.Good:
		return "\x1b[32m", "\x1b[m"
	case coverage.Fair:
		return "\x1b[33m", "\x1b[m"
	case coverage.Poor:
		return "\x1b[31m", "\x1b[m"
	}
	return "", ""
}
