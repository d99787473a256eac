package profile

import (
	"encoding/json"
	"io"
)

// Document is the JSON of a profile; footfall json tells what it means.
// Times are nanoseconds of CPU time, unless there is a measure.
type document struct {
	Format    string         `json:"format"` // "footfall profile"
	Version   int            `json:"version"`
	Title     string         `json:"title"`
	Total     int64          `json:"total"`
	Period    int64          `json:"period,omitempty"` // time that one sample stands for
	HasTime   bool           `json:"hasTime"`
	HasCalls  bool           `json:"hasCalls"`
	Estimated bool           `json:"estimated"`         // total times of functions and times of arcs
	Measure   string         `json:"measure,omitempty"` // what "time" is, if not CPU time
	Unit      string         `json:"unit,omitempty"`    // its unit, if not nanoseconds
	Samples   int64          `json:"samples,omitempty"`
	Inverted  bool           `json:"inverted,omitempty"` // show stacks from the innermost function on
	Notes     []string       `json:"notes,omitempty"`
	Functions []jsonFunction `json:"functions"` // the most costly first
	Arcs      []jsonArc      `json:"arcs"`
	Stacks    []jsonStack    `json:"stacks,omitempty"`

	Sources map[string]map[int64]string `json:"sources,omitempty"` // texts of lines by file and number; only in pages
}

type jsonFunction struct {
	Name    string `json:"name"`
	Symbol  string `json:"symbol,omitempty"` // if it differs from the name
	File    string `json:"file,omitempty"`
	Line    int64  `json:"line,omitempty"`
	Image   string `json:"image,omitempty"`
	Inlined bool   `json:"inlined,omitempty"`
	Self    int64  `json:"self"`
	Total   int64  `json:"total"`
	Calls   int64  `json:"calls"`

	Lines []jsonLine `json:"lines,omitempty"` // only in pages
}

type jsonArc struct {
	Caller int   `json:"caller"` // number in functions, from 0
	Callee int   `json:"callee"`
	Time   int64 `json:"time"`
	Calls  int64 `json:"calls"`
}

type jsonStack struct {
	Functions []int  `json:"functions"` // the outermost first
	Thread    string `json:"thread,omitempty"`
	Self      int64  `json:"self"`
}

func newDocument(r *View) *document {
	g := r.Graph
	d := &document{
		Format: "footfall profile", Version: 1, Title: r.Title, Total: g.Total, Period: r.Profile.Period,
		HasTime: g.CPU, HasCalls: g.Calls, Estimated: g.CPU && !g.Sampled, Notes: r.Profile.Notes, Measure: r.measure, Samples: r.Profile.samples, Inverted: r.inverted,
		Functions: []jsonFunction{}, Arcs: []jsonArc{},
	}
	if d.Measure == "" && r.Profile.measured() != "cpu" {
		d.Measure = r.Profile.measured()
	}
	if r.Profile.counts() && r.measure == "" {
		d.Unit = "count"
	}
	numbers := make(map[uint64]int)
	nodes := g.Ranked()
	for i, n := range nodes {
		numbers[n.Func.ID] = i
		f := jsonFunction{Name: n.Func.Name, Symbol: n.Func.SystemName, File: n.Func.Filename, Line: n.Func.StartLine,
			Image: n.Image, Inlined: n.Inlined, Self: n.Self, Total: n.Total, Calls: n.Calls}
		if f.Symbol == f.Name {
			f.Symbol = ""
		}
		d.Functions = append(d.Functions, f)
	}
	for i, n := range nodes {
		for _, e := range n.Out {
			if j, ok := numbers[e.Callee.Func.ID]; ok {
				d.Arcs = append(d.Arcs, jsonArc{i, j, e.CPU, e.Calls})
			}
		}
	}
	stacks, err := r.stacks()
	if err != nil {
		return d // there are none
	}
	for _, s := range stacks {
		js := jsonStack{Thread: s.thread, Self: s.cpu}
		for _, f := range s.functions {
			js.Functions = append(js.Functions, numbers[f.ID])
		}
		d.Stacks = append(d.Stacks, js)
	}
	return d
}

func printJSON(w io.Writer, r *View) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(newDocument(r))
}
