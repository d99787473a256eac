package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"footfall/coverage"
	"footfall/report/change"
)

// patch writes a table of the sources that have changed lines with code, and
// which of these lines never ran.
func (t *table) patch(r *Report) {
	if r.Patch == nil {
		return
	}
	p := newTable(r, "changed lines of", func(f *coverage.File) (coverage.Totals, bool) {
		totals := r.Patch.FileTotals(f)
		return totals, totals.Lines.Total > 0
	})
	p.buf = append(t.buf, '\n')
	switch {
	case len(p.rows) == 0 && !r.Patch.Clear():
		p.text("of no changed line with code it is known whether it ran\n")
	case len(p.rows) == 0:
		p.text("no changed line has code\n")
	default:
		p.table()
		p.missed(r)
	}
	t.buf = p.buf
}

const mostMissed = 20

// missed writes which changed lines never ran.
func (t *table) missed(r *Report) {
	var all []missedLines
	count := 0
	for _, f := range r.Set.All() {
		if m := missedOf(r.Patch, f); m.count > 0 {
			m.file = r.line(f.Name)
			count += m.count
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b missedLines) int { return cmp.Compare(b.count, a.count) })
	if count == 1 {
		t.text("\n1 changed line never ran:\n")
	} else {
		t.text(fmt.Sprintf("\n%d changed lines never ran:\n", count))
	}
	for _, m := range all[:min(len(all), mostMissed)] {
		t.padded(strconv.Itoa(m.count), 6)
		t.text(fmt.Sprintf("  %s:%s\n", m.file, m.ranges))
	}
	if n := len(all) - mostMissed; n > 0 {
		t.text(fmt.Sprintf("   and in %d more files\n", n))
	}
}

// missedLines are the lines of a file that never ran.
type missedLines struct {
	file   string
	count  int
	ranges string // "12-15,20"
}

// missedOf collects the changed lines of f that never ran.
func missedOf(p *change.Patch, f *coverage.File) missedLines {
	if !p.HasFile(f.Name) {
		return missedLines{}
	}
	var r lineRanges
	for i := range f.Lines {
		l := &f.Lines[i]
		r.add(l.Number, l.Count <= 0 && p.Changed(f.Name, l.Number))
	}
	return missedLines{count: r.count, ranges: r.String()}
}
