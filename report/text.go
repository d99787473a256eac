package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"footfall/coverage"
	"footfall/output"
)

// printText writes a table of the files, the worst first, the totals, the
// largest functions that were never called, and the same of a patch.
func printText(w io.Writer, r *Report) error {
	t := newTable(r, "file", func(f *coverage.File) (coverage.Totals, bool) { return f.Totals(), true })
	t.table()
	t.uncalled(r)
	t.patch(r)
	_, err := w.Write(t.buf)
	return err
}

type row struct {
	name   string
	totals coverage.Totals
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
}

// newTable makes a table of the files that totals wants.
func newTable(r *Report, title string, totals func(*coverage.File) (coverage.Totals, bool)) *table {
	t := &table{title: title, nameWidth: len(title), width: r.Width, color: r.Color, bar: true}
	for _, f := range r.Set.Files {
		of, wanted := totals(f)
		if !wanted {
			continue
		}
		row := row{r.line(f.Name), of}
		t.rows = append(t.rows, row)
		t.total.totals.Add(row.totals)
		t.nameWidth = max(t.nameWidth, utf8.RuneCountInString(row.name))
	}
	t.total.name = fmt.Sprintf("total of %d files", len(t.rows))
	if len(t.rows) == 1 {
		t.total.name = "total of 1 file"
	}
	t.nameWidth = max(t.nameWidth, len(t.total.name))
	slices.SortStableFunc(t.rows, worseFirst)
	for _, m := range metrics {
		total := func(t coverage.Totals) coverage.Ratio { return m.total(r, t) }
		all := total(t.total.totals)
		if m.name == "calls" || all.Total == 0 && m.name != "lines" {
			continue // calls follow lines closely
		}
		t.columns = append(t.columns, column{m.name, total, len(counts(all))})
	}
	t.fit()
	return t
}

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
		on, off := t.colors(ratio)
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
		t.padded(percent(ratio), shown)
		t.text(off)
		if c.countsWidth > 0 {
			t.text(" ")
			t.padded(counts(ratio), c.countsWidth)
		}
	}
	t.buf = append(bytes.TrimRight(t.buf, " "), '\n')
}

func counts(r coverage.Ratio) string {
	if r.Total == 0 {
		return ""
	}
	return strconv.Itoa(r.Covered) + "/" + strconv.Itoa(r.Total)
}

// colors returns the escape sequences around a ratio: the same steps as those
// of genhtml.
func (t *table) colors(r coverage.Ratio) (on, off string) {
	if !t.color || r.Total == 0 {
		return "", ""
	}
	switch p := r.Percent(); {
	case p >= 90:
		return "\x1b[32m", "\x1b[m"
	case p >= 75:
		return "\x1b[33m", "\x1b[m"
	}
	return "\x1b[31m", "\x1b[m"
}

// A notCalled is a function that was never called.
type notCalled struct {
	*coverage.Function
	file  string
	lines int // with code
}

// uncalled returns the functions that were never called, the largest first.
func (r *Report) uncalled() []notCalled {
	var all []notCalled
	for _, f := range r.Set.Files {
		for i, fn := range f.Functions {
			if fn.Count <= 0 {
				all = append(all, notCalled{fn, f.Name, codeLines(f, i)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b notCalled) int {
		return cmp.Or(cmp.Compare(b.lines, a.lines), cmp.Compare(b.Blocks, a.Blocks))
	})
	return all
}

const mostUncalled = 10

// uncalled writes the largest functions that were never called.
func (t *table) uncalled(r *Report) {
	all := r.uncalled()
	if len(all) == 0 {
		return
	}
	if len(all) == 1 {
		t.text("\n1 function was never called:\n")
	} else {
		t.text(fmt.Sprintf("\n%d functions were never called, the largest first:\n", len(all)))
	}
	all = all[:min(len(all), mostUncalled)]

	names := make([]string, len(all))
	t.nameWidth = 0
	for i, fn := range all {
		names[i] = output.Printable(title(fn.Function))
		t.nameWidth = max(t.nameWidth, utf8.RuneCountInString(names[i]))
	}
	if t.width > 0 {
		t.nameWidth = min(t.nameWidth, max(20, t.width/2))
	}
	for i, fn := range all {
		t.padded(strconv.Itoa(fn.lines), 6)
		t.text(" lines  ")
		t.name(names[i])
		t.text(fmt.Sprintf("%s%s:%d\n", gap, r.line(fn.file), fn.StartLine))
	}
}

// codeLines counts the lines with code of the i-th function of f. Where its end
// is not known it goes on to the next function.
func codeLines(f *coverage.File, i int) int {
	fn := f.Functions[i]
	end := fn.EndLine
	if end == 0 && i+1 < len(f.Functions) {
		end = f.Functions[i+1].StartLine - 1
	}
	byNumber := func(l coverage.Line, n int32) int { return cmp.Compare(l.Number, n) }
	from, _ := slices.BinarySearchFunc(f.Lines, fn.StartLine, byNumber)
	to := len(f.Lines)
	if end > 0 {
		to, _ = slices.BinarySearchFunc(f.Lines, end+1, byNumber)
	}
	return max(to-from, 0)
}
