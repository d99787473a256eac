package report

import (
	"io"
	"strings"

	"footfall/coverage"
	"footfall/output"
)

// printCSV writes a table of the files by RFC 4180, with the columns that
// gcovr's has and those of conditions. What is called percent there is a
// number from 0 to 1, and nothing where there is nothing to cover.
func printCSV(w io.Writer, r *Report) error {
	var c csvWriter
	c.raw("filename")
	for _, metric := range []string{"line", "branch", "function", "condition"} {
		for _, column := range []string{"_total", "_covered", "_percent"} {
			c.raw("," + metric + column)
		}
	}
	c.raw("\r\n")
	for _, f := range r.Set.All() {
		t := f.Totals()
		c.text(r.Shown(f.Name))
		for _, ratio := range []coverage.Ratio{t.Lines, r.branchTotal(t), t.Functions, t.Conditions} {
			c.number(",", int64(ratio.Total))
			c.number(",", int64(ratio.Covered))
			c.raw(",")
			if ratio.Total > 0 {
				c.fraction(ratio)
			}
		}
		c.raw("\r\n")
	}
	return c.flush(w)
}

type csvWriter struct{ buffer }

// text appends a field. Spreadsheets compute what begins like a formula, and
// so the name of a file could run a program; an apostrophe makes it text. A table
// is read by people, so that nothing a terminal obeys is in it.
func (c *csvWriter) text(s string) {
	s = output.UTF8Line.Escape(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		s = "'" + s
	}
	if strings.ContainsAny(s, "\",") {
		s = `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	c.raw(s)
}
