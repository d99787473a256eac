//go:build linux

package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"footfall/output"
	"footfall/trace"
)

// countFormats are the outputs of --count.
var countFormats = map[string]func(*countTable, io.Writer) error{
	"counts": (*countTable).print,
	"json":   (*countTable).printJSON,
}

// A countTable is what --count has counted, without functions that were not called.
type countTable struct {
	functions []trace.Function // the most frequent first
	names     []string         // for people
	calls     []uint64
	total     uint64
}

// newCountTable makes one of counts by the numbers of functions.
func newCountTable(h *trace.Header, counts []uint64) *countTable {
	t := new(countTable)
	var called []int
	for i, n := range counts {
		t.total += n
		if n > 0 {
			called = append(called, i)
		}
	}
	slices.SortFunc(called, func(a, b int) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(h.Functions[a].Name, h.Functions[b].Name))
	})
	names := h.Names()
	for _, i := range called {
		t.functions, t.names, t.calls = append(t.functions, h.Functions[i]), append(t.names, names[i]), append(t.calls, counts[i])
	}
	return t
}

func (t *countTable) print(w io.Writer) error {
	fmt.Fprintf(w, "%15s  %s\n", "calls", "function")
	for i, n := range t.calls {
		fmt.Fprintf(w, "%15d  %s\n", n, t.names[i])
	}
	_, err := fmt.Fprintf(w, "%15d  %s\n", t.total, "total")
	return err
}

func (t *countTable) printJSON(w io.Writer) error {
	type function struct {
		Name  string `json:"name"`
		Image string `json:"image"`
		File  string `json:"file,omitempty"`
		Line  int    `json:"line,omitempty"`
		Calls uint64 `json:"calls"`
	}
	list := []function{}
	for i, f := range t.functions {
		list = append(list, function{f.Name, f.Image, f.File, f.Line, t.calls[i]})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(list)
}

// A countOutput is FORMAT[=FILE] of --count.
type countOutput struct {
	format string
	w      io.Writer
	file   *output.PendingFile // nil: none
}

// CountFormats are those of --count.
func CountFormats() []output.Format { return []output.Format{{Name: "counts"}, {Name: "json"}} }

// openCounts opens what is to be written in the end. A program that was started for the trace
// has our standard output as its own: what it writes there must not be mixed with a table.
func openCounts(o *Options) (list []countOutput, err error) {
	requests, err := o.requests()
	if err != nil {
		return nil, err
	}
	shared := o.Stdout
	if o.launches() {
		shared = o.Stderr
	}
	for _, r := range requests {
		if r.File == "-" {
			list = append(list, countOutput{format: r.Format, w: shared})
			continue
		}
		f, err := output.Create(r.File)
		if err != nil {
			discardCounts(list)
			return nil, err
		}
		list = append(list, countOutput{r.Format, f, f})
	}
	return list, nil
}

// discardCounts forgets files that have not been written.
func discardCounts(list []countOutput) {
	for _, out := range list {
		if out.file != nil {
			out.file.Discard()
		}
	}
}

// writeCounts writes the outputs.
func writeCounts(list []countOutput, t *countTable) error {
	var failed []error
	for _, out := range list {
		err := countFormats[out.format](t, out.w)
		if out.file != nil && err == nil {
			err = out.file.Close()
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
