package report

import (
	"fmt"

	"footfall/coverage"
)

// A hole is a place that tests do not reach: lines of one function with nothing
// that ran between them, or a line some branch of which was never taken.
type hole struct {
	file        string // as shown
	function    *coverage.Function
	first, last int32
	lines       int            // that never ran
	branches    coverage.Ratio // of the line, if it did run
}

// whole tells whether the hole is all of a function.
func (h *hole) whole() bool {
	return h.function != nil && h.function.Count <= 0 && h.first <= h.function.StartLine
}

// message says what was not reached.
func (h *hole) message() string {
	in, name := "", ""
	if h.function != nil {
		name = title(h.function)
		in = " of " + name
	}
	switch {
	case h.lines == 0:
		return fmt.Sprintf("%d of %d branches%s never taken", h.branches.Missed(), h.branches.Total, in)
	case h.whole() && h.lines == 1:
		return name + " was never called (1 line)"
	case h.whole():
		return fmt.Sprintf("%s was never called (%d lines)", name, h.lines)
	case h.lines == 1:
		return "1 line" + in + " never ran"
	}
	return fmt.Sprintf("%d lines%s never ran", h.lines, in)
}

// holes returns those of all files, in order; of changed lines only where a
// patch was given.
func (r *Report) holes() []*hole {
	var all []*hole
	for _, f := range r.Set.All() {
		if r.Patch != nil && !r.Patch.HasFile(f.Name) {
			continue
		}
		all = append(all, r.fileHoles(f)...)
	}
	return all
}

func (r *Report) fileHoles(f *coverage.File) []*hole {
	var holes []*hole
	var open *hole // may still grow
	var inside enclosing
	shown := r.Shown(f.Name)
	for i := range f.Lines {
		l := &f.Lines[i]
		function := inside.at(f.Functions, l.Number)
		h := hole{file: shown, function: function, first: l.Number, last: l.Number}
		switch {
		case r.Patch != nil && !r.Patch.Changed(f.Name, l.Number):
			open = nil
		case l.Count > 0:
			open = nil
			if h.branches = coverage.Taken(r.branches(l)); h.branches.Missed() > 0 {
				holes = append(holes, &h)
			}
		case open != nil && open.function == function:
			open.last = l.Number
			open.lines++
		default:
			h.lines = 1
			open = &h
			holes = append(holes, open)
		}
	}
	return holes
}

// enclosing finds the innermost functions around ascending lines.
type enclosing struct {
	next  int   // the first function that begins later
	stack []int // functions that are not over
}

// at returns the function around a line, nil for none.
func (e *enclosing) at(functions []*coverage.Function, line int32) *coverage.Function {
	for e.next < len(functions) && functions[e.next].StartLine <= line {
		e.stack = append(e.stack, e.next)
		e.next++
	}
	for len(e.stack) > 0 {
		top := functions[e.stack[len(e.stack)-1]]
		if top.EndLine == 0 || top.EndLine >= line {
			return top
		}
		e.stack = e.stack[:len(e.stack)-1]
	}
	return nil
}
