package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"time"

	"footfall/coverage"
	"footfall/input"
	"footfall/output"
	"footfall/report/change"
	"footfall/report/html"
	"footfall/report/source"
)

// A history is a file with a line for each report, see docs/report.md: JSON, since people
// add to it what they know, such as the number of a build, and read it with other programs.

// pastJSON is a line of it.
type pastJSON struct {
	Time       string          `json:"time"`
	Revision   string          `json:"revision,omitempty"`
	Lines      *coverage.Ratio `json:"lines"`
	Functions  *coverage.Ratio `json:"functions,omitempty"`
	Branches   *coverage.Ratio `json:"branches,omitempty"`
	Conditions *coverage.Ratio `json:"conditions,omitempty"`
	Calls      *coverage.Ratio `json:"calls,omitempty"`
	Regions    *coverage.Ratio `json:"regions,omitempty"`
}

// metrics are the numbers of a line, by the names of [coverage.Metrics].
func (p *pastJSON) metrics() map[string]**coverage.Ratio {
	return map[string]**coverage.Ratio{"lines": &p.Lines, "functions": &p.Functions, "branches": &p.Branches, "conditions": &p.Conditions, "calls": &p.Calls, "regions": &p.Regions}
}

// present is the line of this report. Without a time of the data it is of now.
func (r *Report) present() pastJSON {
	if r.past != nil {
		return *r.past
	}
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	p := pastJSON{Time: at.UTC().Format(time.RFC3339), Revision: change.Revision(r.Root)}
	t := r.Set.Totals()
	places := p.metrics()
	for _, m := range coverage.Metrics() {
		if got := m.Of(t, r.ExceptionBranches); got.Total > 0 || m.Name == "lines" {
			*places[m.Name] = &got
		}
	}
	r.past = &p
	return p
}

// printHistory writes the line of this report.
func printHistory(w io.Writer, r *Report) error {
	line, err := json.Marshal(r.present())
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// appendHistory adds the line of this report to a file, unless that ends with the same one.
func (r *Report) appendHistory(name string) ([]source.Problem, error) {
	if r.RanOf != nil {
		return []source.Problem{source.NewProblem("histories", name, errors.New("not added to: what did not run is left out of this report"))}, nil
	}
	known, problems, whole, err := readHistory(name)
	if err != nil {
		return nil, err
	}
	now := r.present()
	if n := len(known); n > 0 && reflect.DeepEqual(known[n-1], now) {
		return problems, nil
	}
	line, err := json.Marshal(now)
	if err != nil {
		return problems, err
	}
	line = append(line, '\n')
	if !whole { // the line before was cut off
		line = append([]byte("\n"), line...)
	}
	return problems, output.Append(name, line)
}

// mostHistory is the size of a history that is read: 100,000 reports.
const mostHistory = 32 << 20

// readHistory reads the lines of a history; a file that is not there has none. whole tells
// that the last line is complete. The problems are lines that are none.
func readHistory(name string) (lines []pastJSON, problems []source.Problem, whole bool, err error) {
	text, err := input.ReadFile(name, mostHistory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, true, nil
	} else if err != nil {
		return nil, nil, false, fmt.Errorf("history: %w", err)
	}
	number := int32(0)
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var p pastJSON
		err := json.Unmarshal(line, &p)
		if err == nil {
			err = p.check()
		}
		if err != nil {
			problem := source.NewProblem("lines of a history that are none", name, fmt.Errorf("%w: left out", err))
			problem.Line = number
			problems = append(problems, problem)
			continue
		}
		lines = append(lines, p)
	}
	return lines, problems, len(text) == 0 || text[len(text)-1] == '\n', nil
}

// check tells what is wrong with a line.
func (p *pastJSON) check() error {
	if _, err := time.Parse(time.RFC3339, p.Time); err != nil {
		return fmt.Errorf(`"time" %q is not like 2026-01-31T12:00:00Z`, p.Time)
	}
	if p.Lines == nil {
		return errors.New(`no "lines"`)
	}
	for name, r := range p.metrics() {
		if r := *r; r != nil && (r.Covered < 0 || r.Total < r.Covered) {
			return fmt.Errorf("%q: %d of %d", name, r.Covered, r.Total)
		}
	}
	return nil
}

// pastOf is a history for pages, with this report at its end.
func (r *Report) pastOf(name string) []html.Past {
	lines, _, _, err := readHistory(name)
	if err != nil {
		return nil // it is told where the line is added
	}
	now := r.present()
	if n := len(lines); n == 0 || !reflect.DeepEqual(lines[n-1], now) {
		lines = append(lines, now)
	}
	past := make([]html.Past, len(lines))
	for i := range lines {
		p := &lines[i]
		at, _ := time.Parse(time.RFC3339, p.Time) // checked
		past[i] = html.Past{Time: at.UTC(), Revision: p.Revision, Totals: make(map[string]coverage.Ratio)}
		for metric, ratio := range p.metrics() {
			if *ratio != nil {
				past[i].Totals[metric] = coverage.Ratio(**ratio)
			}
		}
	}
	return past
}
