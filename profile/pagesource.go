package profile

import (
	"slices"

	pprof "github.com/google/pprof/profile"
)

// A page has at most so many lines of sources, and so many bytes of a line.
const (
	mostPageLines = 40000
	mostPageLine  = 400
)

// A jsonLine is a line of a function and what it costs, as in lineCost.
type jsonLine struct {
	Line    int64 `json:"line"`
	Self    int64 `json:"self,omitempty"`
	Total   int64 `json:"total,omitempty"`
	Entered int64 `json:"entered,omitempty"`
	Calls   int64 `json:"calls,omitempty"`
}

// addSources gives the functions of a page their lines, and the page the texts of
// these and of those around them, by file and number; those of the most costly files
// first, as far as there is room.
func (d *document) addSources(r *View) {
	if r.Open == nil {
		return
	}
	room := mostPageLines
	texts := make(map[string]map[int64]string)
	for _, f := range r.files() {
		text, err := r.text(f)
		if err != nil || f.name == "" {
			continue
		}
		shown := slices.DeleteFunc(f.shownLines(false), func(n int64) bool { return n > int64(len(text)) })
		if room -= len(shown); room < 0 {
			break
		}
		lines := make(map[int64]string, len(shown))
		for _, n := range shown {
			lines[n] = text[n-1][:min(len(text[n-1]), mostPageLine)]
		}
		texts[f.name] = lines
	}
	costs := lineCosts(r, func(f *pprof.Function) *pprof.Function { return f })
	d.Sources = make(map[string]map[int64]string)
	for i, n := range r.Graph.Ranked() {
		file := n.Func.Filename
		if texts[file] == nil {
			continue
		}
		d.Sources[r.shown(file)] = texts[file]
		for line, c := range costs[n.Func] {
			d.Functions[i].Lines = append(d.Functions[i].Lines, jsonLine{line, c.self, c.total, c.entered, c.calls})
		}
		slices.SortFunc(d.Functions[i].Lines, func(a, b jsonLine) int { return int(a.Line - b.Line) })
	}
}
