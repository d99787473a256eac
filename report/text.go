package report

import (
	"cmp"
	"fmt"
	"footfall/coverage"
	"footfall/output"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// printText writes a table of the files, the worst first, the totals, the
// largest functions that were never called, and the same of a patch. A table longer
// than a screen comes last.
func printText(w io.Writer, r *Report) error {
	t := newTable(r, "file", func(f *coverage.File) (coverage.Totals, bool) { return r.totals(f), true })
	t.ranOf(r)
	if !t.long() {
		t.table()
		t.stale(r)
		t.uncalled(r)
		t.patch(r)
	} else {
		t.summary()
		width := t.nameWidth
		t.stale(r)
		t.uncalled(r)
		t.patch(r)
		t.nameWidth = width
		t.files()
	}
	_, err := w.Write(t.buf)
	return err
}

// ranOf says that what did not run is left out, and how much that is.
func (t *table) ranOf(r *Report) {
	if r.RanOf == nil {
		return
	}
	t.text(r.RanOf.String() + "\n\n")
}

// stale lists sources that have changed since they were compiled.
func (t *table) stale(r *Report) {
	if len(r.Stale) == 0 {
		return
	}
	t.text("\nchanged since compiled, so that counts may stand beside other lines:\n")
	for _, name := range r.Stale[:min(len(r.Stale), mostUncalled)] {
		t.text("        " + r.line(name) + "\n")
	}
	if more := len(r.Stale) - mostUncalled; more > 0 {
		t.text(fmt.Sprintf("        and %d more\n", more))
	}
}

// A notCalled is a function that was never called.
type notCalled struct {
	*coverage.Function
	file  string
	lines int // with code
}

// uncalled returns the functions that were never called, the largest first.
func (r *Report) uncalled() []notCalled {
	var all []notCalled
	for _, f := range r.Set.All() {
		for i, fn := range f.Functions {
			if fn.Count <= 0 {
				all = append(all, notCalled{fn, f.Name, len(f.LinesOf(i))})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b notCalled) int {
		return cmp.Or(cmp.Compare(b.lines, a.lines), cmp.Compare(b.Blocks, a.Blocks))
	})
	return all
}

const mostUncalled = 10

// uncalled writes the largest functions that were never called.
func (t *table) uncalled(r *Report) {
	all := r.uncalled()
	if len(all) == 0 {
		return
	}
	if len(all) == 1 {
		t.text("\n1 function was never called:\n")
	} else {
		t.text(fmt.Sprintf("\n%d functions were never called, the largest first:\n", len(all)))
	}
	all = all[:min(len(all), mostUncalled)]

	names := make([]string, len(all))
	t.nameWidth = 0
	for i, fn := range all {
		names[i] = output.Printable(title(fn.Function))
		t.nameWidth = max(t.nameWidth, utf8.RuneCountInString(names[i]))
	}
	if t.width > 0 {
		t.nameWidth = min(t.nameWidth, max(20, t.width/2))
	}
	for i, fn := range all {
		t.padded(strconv.Itoa(fn.lines), 6)
		t.text(" lines  ")
		t.name(names[i])
		t.text(fmt.Sprintf("%s%s:%d\n", gap, r.line(fn.file), fn.StartLine))
	}
}
