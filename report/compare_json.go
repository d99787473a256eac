package report

import (
	"encoding/json"
	"io"

	"footfall/coverage"
)

// The JSON of a comparison, see footfall json.
type (
	comparisonJSON struct {
		Format  string               `json:"format"`
		Version int                  `json:"version"`
		Totals  map[string]tallyJSON `json:"totals"`
		Files   []comparedFileJSON   `json:"files"`
	}
	tallyJSON struct {
		Before     coverage.Ratio `json:"before"`
		After      coverage.Ratio `json:"after"`
		Categories map[string]int `json:"categories"`
	}
	comparedFileJSON struct {
		File      string               `json:"file"`
		OldFile   string               `json:"old_file,omitempty"`
		Totals    map[string]tallyJSON `json:"totals"`
		Functions []changeJSON         `json:"functions,omitempty"`
		Lines     []changeJSON         `json:"lines,omitempty"`
	}
	changeJSON struct {
		Name     string `json:"name,omitempty"`
		Line     int32  `json:"line,omitempty"`
		OldLine  int32  `json:"old_line,omitempty"`
		Category string `json:"category"`
		Count    *int64 `json:"count,omitempty"`
		OldCount *int64 `json:"old_count,omitempty"`
	}
)

// printComparisonJSON writes all files, and of these the lines and functions
// that are not as they were.
func printComparisonJSON(w io.Writer, c *ComparisonReport) error {
	doc := comparisonJSON{Format: "footfall comparison", Version: 1, Totals: c.talliesJSON(&c.Tallies), Files: []comparedFileJSON{}}
	for _, f := range c.Files {
		doc.Files = append(doc.Files, c.fileJSON(f))
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(doc)
}

func (c *ComparisonReport) talliesJSON(t *coverage.Tallies) map[string]tallyJSON {
	out := make(map[string]tallyJSON)
	for _, r := range c.rows(t) {
		j := tallyJSON{Before: r.before, After: r.after, Categories: make(map[string]int)}
		for _, category := range coverage.Categories() {
			if n := r.tally[category]; n > 0 {
				j.Categories[category.String()] = n
			}
		}
		out[r.name] = j
	}
	return out
}

func (c *ComparisonReport) fileJSON(f *coverage.FileComparison) comparedFileJSON {
	j := comparedFileJSON{File: c.Shown(c.Name(f)), Totals: c.talliesJSON(&f.Tallies)}
	if f.Old != nil {
		if before := c.Shown(c.Now(f.Old.Name)); before != j.File {
			j.OldFile = before
		}
	}
	for _, fn := range f.Functions {
		if same(fn.Category) {
			continue
		}
		e := changeJSON{Category: fn.Category.String()}
		if fn.Old != nil {
			e.Name, e.OldLine, e.OldCount = fn.Old.Name, fn.Old.StartLine, &fn.Old.Count
		}
		if fn.New != nil {
			e.Name, e.Line, e.Count = fn.New.Name, fn.New.StartLine, &fn.New.Count
		}
		j.Functions = append(j.Functions, e)
	}
	for _, l := range f.Lines {
		if same(l.Category) {
			continue
		}
		e := changeJSON{Category: l.Category.String()}
		if l.Old != nil {
			e.OldLine, e.OldCount = l.Old.Number, &l.Old.Count
		}
		if l.New != nil {
			e.Line, e.Count = l.New.Number, &l.New.Count
		}
		j.Lines = append(j.Lines, e)
	}
	return j
}

// same tells whether a category is that of what is as it was.
func same(c coverage.Category) bool { return c == coverage.CBC || c == coverage.UBC }
