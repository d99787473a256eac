package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"footfall/coverage"
	"footfall/demangle"
)

// printExcluded lists what was left out and by which rule, in the order of
// files and lines, and sums it up.
func printExcluded(w io.Writer, r *Report) error {
	rows := [][]string{{"excluded", "what", "lines", "ran", "functions", "called", "branches", "taken", "rule"}}
	for _, e := range r.Excluded.List {
		where := fmt.Sprintf("%s:%d", r.Shown(e.File), e.First)
		if e.Last > e.First {
			where += fmt.Sprintf("-%d", e.Last)
		}
		what := e.What
		if e.Function != "" {
			what += " of"
			if e.What == "function" {
				what = e.What
			}
			what += " " + demangle.Standard(demangle.Short(e.Function))
		}
		rows = append(rows, slices.Concat([]string{where, what}, two(e.Lines), two(e.Functions), two(e.Branches), []string{e.Rule}))
	}
	var text strings.Builder
	if len(rows) > 1 {
		writeRows(&text, rows, []int{2, 3, 4, 5, 6, 7})
	}
	fmt.Fprintf(&text, "%s\n", r.Excluded.String())
	_, err := io.WriteString(w, text.String())
	return err
}

// two are the columns of a ratio, empty for nothing.
func two(r coverage.Ratio) []string {
	if r.Total == 0 {
		return []string{"", ""}
	}
	return []string{fmt.Sprint(r.Total), fmt.Sprint(r.Covered)}
}

// writeRows writes columns, those of right aligned at the right.
func writeRows(w *strings.Builder, rows [][]string, right []int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			switch {
			case slices.Contains(right, i):
				w.WriteString(pad + cell)
			case i < len(row)-1:
				w.WriteString(cell + pad)
			default:
				w.WriteString(cell)
			}
			if i < len(row)-1 {
				w.WriteString("  ")
			}
		}
		w.WriteString("\n")
	}
}
