package report

import (
	"io"

	"footfall/coverage"
	"footfall/report/html"
)

// printComparisonHTML writes one page, with the lines of both versions side by side.
func printComparisonHTML(w io.Writer, c *ComparisonReport) error {
	read := c.ReadSource
	page := html.ComparisonPage{Root: c.Root, Meaning: func(category coverage.Category) string { return meanings[category] }}
	for _, r := range c.rows(&c.Tallies) {
		page.Metrics = append(page.Metrics, html.ComparedMetric{Name: r.name, Before: r.before, After: r.after, Change: r.change, Tally: r.tally})
	}
	changed := c.changed()
	page.Unchanged = len(c.Files) - len(changed)
	for _, f := range changed {
		page.Files = append(page.Files, html.ComparedFile{
			Shown: c.Shown(c.Name(f)), FileComparison: f, Edits: c.Edits(f),
			Deleted: func(edit, line int) string { return c.Deleted(f, edit, line) },
			Read: func() []byte {
				if f.New == nil || read == nil {
					return nil
				}
				text, err := read(f.New.Name)
				if err != nil {
					return nil // numbers and counts tell, too
				}
				return text
			},
		})
	}
	return html.WriteComparison(w, page)
}
