package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"footfall/coverage"
	"footfall/output"
)

// RanOf is what a set was whose parts that did not run are left out.
type RanOf struct {
	Files, Lines coverage.Ratio
	Totals       map[string]coverage.Totals // of whole files, by name
}

// onlyRan returns what of a set ran, and what it was.
func onlyRan(all *coverage.Set) (*coverage.Set, *RanOf) {
	ran := all.OnlyRan()
	of := &RanOf{Files: coverage.Ratio{Covered: ran.Len(), Total: all.Len()}, Totals: make(map[string]coverage.Totals)}
	for _, f := range all.All() {
		t := f.Totals()
		of.Lines = of.Lines.Plus(t.Lines)
		of.Totals[f.Name] = t
	}
	return ran, of
}

// totals are those of a file, with what of it is left out.
func (r *Report) totals(f *coverage.File) coverage.Totals {
	if r.RanOf != nil {
		return r.RanOf.Totals[f.Name]
	}
	return f.Totals()
}

// String says what is left out.
func (o *RanOf) String() string {
	return fmt.Sprintf("only what ran: %d of %s, in %d of %s", o.Lines.Covered, output.Plural(o.Lines.Total, "line"), o.Files.Covered, output.Plural(o.Files.Total, "file"))
}

// A ranFunction is a function with the lines of it that ran.
type ranFunction struct {
	*coverage.Function // nil: lines outside of functions
	file               *coverage.File
	lines              []ranLine // of it and of no function within it
	all                int       // lines with code
}

type ranLine struct {
	*coverage.Line
	after bool // code that did not run
}

// ranFunctions returns the functions of which something ran, most lines first.
func (r *Report) ranFunctions() []*ranFunction {
	var all []*ranFunction
	for _, f := range r.Set.All() {
		var inside enclosing
		of := make(map[*coverage.Function]*ranFunction)
		after := false
		for i := range f.Lines {
			l := &f.Lines[i]
			in := inside.at(f.Functions, l.Number)
			fn := of[in]
			if fn == nil {
				fn = &ranFunction{Function: in, file: f}
				of[in] = fn
			}
			fn.all++
			if l.Count > 0 {
				if fn.lines = append(fn.lines, ranLine{l, after}); len(fn.lines) == 1 {
					all = append(all, fn)
				}
			}
			after = l.Count <= 0
		}
	}
	slices.SortStableFunc(all, func(a, b *ranFunction) int { return cmp.Compare(len(b.lines), len(a.lines)) })
	return all
}

// On a terminal no more than these are shown.
const (
	mostRan     = 30 // functions
	mostRanShow = 10 // functions with their lines
)

// printRan writes what ran: totals, the functions, and their lines.
func printRan(w io.Writer, r *Report) error {
	all := r.ranFunctions()
	t := &table{width: r.Width, color: r.Color}
	t.ranTotals(r, all)
	short := r.Width > 0
	sources := make(map[string][]string)
	t.ranTable(r, all, short)
	for i, fn := range all {
		if short && i == mostRanShow {
			t.text(fmt.Sprintf("\n%s more: --output ran=FILE has all\n", output.Plural(len(all)-i, "function")))
			break
		}
		text, read := sources[fn.file.Name]
		if !read {
			b, _ := r.readSource(fn.file.Name) // numbers and counts tell, too
			text = strings.Split(string(b), "\n")
			sources[fn.file.Name] = text
		}
		t.ranLines(r, fn, text)
		if _, err := w.Write(t.buf); err != nil {
			return err
		}
		t.buf = t.buf[:0]
	}
	_, err := w.Write(t.buf)
	return err
}

func (t *table) ranTotals(r *Report, all []*ranFunction) {
	functions := 0
	files := make(map[*coverage.File]bool)
	for _, fn := range all {
		files[fn.file] = true
		if fn.Function != nil {
			functions++
		}
	}
	totals := r.Set.Totals()
	t.text(fmt.Sprintf("%s and %d of %s ran, in %d of %s\n", output.Plural(functions, "function"),
		totals.Lines.Covered, output.Plural(totals.Lines.Total, "line"), len(files), output.Plural(r.Set.Len(), "file")))
}

// ranTable writes the functions, with their lines that ran and all that they have.
func (t *table) ranTable(r *Report, all []*ranFunction, short bool) {
	if len(all) == 0 {
		return
	}
	shown := all
	if short {
		shown = all[:min(len(all), mostRan)]
	}
	names, ratios, calls := make([]string, len(shown)), make([]string, len(shown)), make([]string, len(shown))
	ratioWidth, callsWidth := len("lines"), len("calls")
	t.nameWidth = len("function")
	for i, fn := range shown {
		names[i], ratios[i] = fn.title(), fmt.Sprintf("%d/%d", len(fn.lines), fn.all)
		if fn.Function != nil {
			calls[i] = strconv.FormatInt(max(fn.Count, 0), 10)
		}
		ratioWidth, callsWidth = max(ratioWidth, len(ratios[i])), max(callsWidth, len(calls[i]))
		t.nameWidth = max(t.nameWidth, utf8.RuneCountInString(names[i]))
	}
	if t.width > 0 {
		t.nameWidth = min(t.nameWidth, max(20, t.width/2))
	}
	row := func(ratio, calls, name, place string) {
		t.padded(ratio, ratioWidth)
		t.text(gap)
		t.padded(calls, callsWidth)
		t.text(gap)
		t.name(name)
		t.text(gap + place)
		t.buf = append(bytes.TrimRight(t.buf, " "), '\n')
	}
	t.text("\n")
	row("lines", "calls", "function", "")
	for i, fn := range shown {
		row(ratios[i], calls[i], names[i], fn.place(r))
	}
	if n := len(all) - len(shown); n > 0 {
		t.text(fmt.Sprintf("and %s more\n", output.Plural(n, "function")))
	}
}

// title is the function's name, for people.
func (fn *ranFunction) title() string {
	if fn.Function == nil {
		return "(no function)"
	}
	return output.Printable(title(fn.Function))
}

// place is where the function begins, or else its first line that ran.
func (fn *ranFunction) place(r *Report) string {
	line := fn.lines[0].Number
	if fn.Function != nil {
		line = fn.StartLine
	}
	return fmt.Sprintf("%s:%d", r.line(fn.file.Name), line)
}

// ranLines writes the lines of a function that ran, with those of the source as far as they are known.
func (t *table) ranLines(r *Report, fn *ranFunction, text []string) {
	t.text(fmt.Sprintf("\n%s%s%s\n", fn.place(r), gap, fn.title()))
	for i, l := range fn.lines {
		if i > 0 && l.after {
			t.padded("...", 7)
			t.text("\n")
		}
		t.padded(strconv.Itoa(int(l.Number)), 7)
		t.padded(strconv.FormatInt(l.Count, 10), 12)
		if i := int(l.Number) - 1; i < len(text) {
			t.text(gap + output.Printable(strings.TrimRight(strings.ReplaceAll(text[i], "\t", "    "), " \r")))
		}
		t.text("\n")
	}
}
