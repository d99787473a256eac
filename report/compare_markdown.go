package report

import (
	"fmt"
	"io"
	"strings"

	"footfall/coverage"
)

// printComparisonMarkdown writes a summary for a comment on a pull request.
func printComparisonMarkdown(w io.Writer, c *ComparisonReport) error {
	b := []byte("| coverage | before | after | change | lost | new, not run | gained | new, run |\n|:--|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range c.rows(&c.Tallies) {
		b = fmt.Appendf(b, "| %s | %s | %s | %s |", r.name, ratioMarkdown(r.before), ratioMarkdown(r.after), r.change)
		for _, category := range []coverage.Category{coverage.LBC, coverage.UNC, coverage.GBC, coverage.GNC} {
			b = fmt.Appendf(b, " %d |", r.tally[category])
		}
		b = append(b, '\n')
	}
	for _, list := range c.lists() {
		b = fmt.Appendf(b, "\n**%s**\n\n", list.title())
		entries, more := list.shown()
		for _, e := range entries {
			if list.functions {
				b = fmt.Appendf(b, "- %s in %s\n", codeMarkdown(e.what), codeMarkdown(e.where))
			} else {
				b = fmt.Appendf(b, "- %d in %s\n", e.count, codeMarkdown(e.where))
			}
		}
		if more > 0 {
			b = fmt.Appendf(b, "- and %d more\n", more)
		}
	}
	_, err := w.Write(b)
	return err
}

func ratioMarkdown(r coverage.Ratio) string {
	if r.Total == 0 {
		return "-"
	}
	return r.Rounded() + " " + r.Counts()
}

// codeMarkdown returns s as code, whatever is in it: between more backquotes
// than it has in a row.
func codeMarkdown(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '\ufffd'
		}
		return r
	}, s)
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) == 1 {
		return fence + s + fence
	}
	return fence + " " + s + " " + fence
}
