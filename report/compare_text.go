package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"footfall/coverage"
	"footfall/output"
)

// printComparison writes what became of coverage: totals, what there is of each
// category, the files that are not as they were, and which lines and functions
// were lost or gained.
func printComparison(w io.Writer, c *ComparisonReport) error {
	rows := c.rows(&c.Tallies)
	totals := grid{{"", "before", "", "after", "", "change"}}
	categories := grid{{"category"}}
	for _, r := range rows {
		totals = append(totals, []string{r.name, r.before.Rounded(), r.before.Counts(), r.after.Rounded(), r.after.Counts(), r.change})
		categories[0] = append(categories[0], r.name)
	}
	for _, category := range coverage.Categories() {
		cells, sum := []string{category.String()}, 0
		for _, r := range rows {
			cells = append(cells, strconv.Itoa(r.tally[category]))
			sum += r.tally[category]
		}
		if sum > 0 {
			categories = append(categories, append(cells, meanings[category]))
		}
	}
	b := totals.append(nil)
	b = categories.append(append(b, '\n'))
	b = c.appendFiles(b)
	for _, list := range c.lists() {
		b = list.append(b)
	}
	_, err := w.Write(b)
	return err
}

const mostChanged = 50

// appendFiles appends a table of the lines of files that are not as they were.
func (c *ComparisonReport) appendFiles(b []byte) []byte {
	files := c.changed()
	if len(files) == 0 {
		return b
	}
	var columns []coverage.Category
	for _, category := range coverage.Categories() {
		if category != coverage.CBC && category != coverage.UBC && c.Tallies.Lines[category] > 0 {
			columns = append(columns, category)
		}
	}
	table := grid{{"lines of", "before", "", "after", ""}}
	for _, category := range columns {
		table[0] = append(table[0], category.String())
	}
	for _, f := range files[:min(len(files), mostChanged)] {
		lines := f.Tallies.Lines
		before, after := f.Tallies.Before.Lines, f.Tallies.After.Lines
		cells := []string{output.Printable(c.Shown(c.Name(f))), before.Rounded(), before.Counts(), after.Rounded(), after.Counts()}
		for _, category := range columns {
			cells = append(cells, strings.TrimPrefix(strconv.Itoa(lines[category]), "0"))
		}
		table = append(table, cells)
	}
	b = table.append(append(b, '\n'))
	if n := len(files) - mostChanged; n > 0 {
		b = fmt.Appendf(b, "and %d more\n", n)
	}
	return b
}

func (l *changeList) append(b []byte) []byte {
	b = fmt.Appendf(b, "\n%s:\n", l.title())
	entries, more := l.shown()
	for _, e := range entries {
		e.what, e.where = output.Printable(e.what), output.Printable(e.where)
		switch {
		case !l.functions:
			b = fmt.Appendf(b, "%6d  %s\n", e.count, e.where)
		case l.category == coverage.UNC:
			b = fmt.Appendf(b, "        %s  %s\n", e.what, e.where)
		case e.count == 1:
			b = fmt.Appendf(b, "     1 call   %s  %s\n", e.what, e.where)
		default:
			b = fmt.Appendf(b, "%6d calls  %s  %s\n", e.count, e.what, e.where)
		}
	}
	if more > 0 {
		b = fmt.Appendf(b, "        and %d more\n", more)
	}
	return b
}

// A grid is lines of cells. The first column and what is longer than the
// heading of its table are words, at the left; the others are numbers.
type grid [][]string

func (g grid) append(b []byte) []byte {
	widths := make([]int, len(g[0]))
	for _, line := range g {
		for i, cell := range line[:min(len(line), len(widths))] {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range g {
		var text strings.Builder
		for i, cell := range line {
			space := 0
			if i < len(widths) {
				space = widths[i] - utf8.RuneCountInString(cell)
			}
			switch {
			case i == 0:
				text.WriteString(cell + strings.Repeat(" ", space))
			default:
				text.WriteString(gap + strings.Repeat(" ", space) + cell)
			}
		}
		b = append(append(b, strings.TrimRight(text.String(), " ")...), '\n')
	}
	return b
}
