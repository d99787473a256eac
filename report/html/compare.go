package html

import (
	"bytes"
	"html/template"
	"io"
	"path/filepath"
	"strconv"

	"footfall/coverage"
	"footfall/output"
)

// A ComparisonPage is what a page shows of two versions.
type ComparisonPage struct {
	Root      string // the absolute path of the directory from which names are shown: the title
	Metrics   []ComparedMetric
	Files     []ComparedFile // those that are not as they were, the worst first
	Unchanged int            // how many others there are
	Meaning   func(coverage.Category) string
}

// A ComparedMetric is what became of lines, functions, branches or conditions.
type ComparedMetric struct {
	Name          string
	Before, After coverage.Ratio
	Change        string // of the percentage, in points
	Tally         coverage.Tally
}

// A ComparedFile is a source in two versions.
type ComparedFile struct {
	*coverage.FileComparison
	Shown   string
	Edits   coverage.Edits
	Deleted func(edit, line int) string // the text of a line that an edit deletes
	Read    func() []byte               // the new version, nil if it is not there
}

// Limits of the page: what is more is in the tables, but not side by side.
const (
	mostSides  = 3 << 20 // bytes
	contextAll = 3       // lines around what is not as it was
)

// categoryClasses are those of rows.
var categoryClasses = map[coverage.Category]string{
	coverage.LBC: "lost", coverage.UNC: "miss", coverage.UIC: "miss", coverage.GBC: "gain", coverage.GNC: "new", coverage.GIC: "new",
	coverage.ECB: "gone", coverage.EUB: "gone", coverage.DCB: "gone", coverage.DUB: "gone",
}

type comparisonData struct {
	Title      string
	Policy     string
	Style      template.CSS
	Script     template.JS
	Metrics    []comparedMetricData
	Categories []categoryData
	Columns    []categoryData // those of lines that files have
	Files      []comparedFileData
	Unchanged  int
	Left       int // files that are not side by side
}

type comparedMetricData struct {
	Name, Change                    string
	Before, After                   string
	BeforeCounts, AfterCounts       string
	Lost, Gained, NewMissed, NewRan int
	Same                            int
}

type categoryData struct {
	Name, Class, Meaning string
	Numbers              []int // by metric
}

type comparedFileData struct {
	ID, Name, Change           string
	Before, After, AfterCounts string
	Numbers                    []int // by column
	Rows                       template.HTML
	Shown                      bool
}

// WriteComparison writes one page that needs no other file.
func WriteComparison(w io.Writer, c ComparisonPage) error {
	d := comparisonData{Title: "coverage", Unchanged: c.Unchanged}
	if base := filepath.Base(c.Root); c.Root != "" && base != "/" {
		d.Title = output.Printable(base)
	}
	for _, m := range c.Metrics {
		t := m.Tally
		d.Metrics = append(d.Metrics, comparedMetricData{
			m.Name, m.Change, m.Before.Rounded(), m.After.Rounded(), grouped(m.Before), grouped(m.After),
			t[coverage.LBC], t[coverage.GBC], t[coverage.UNC] + t[coverage.UIC], t[coverage.GNC] + t[coverage.GIC], t[coverage.CBC] + t[coverage.UBC],
		})
	}
	var columns []coverage.Category
	for _, category := range coverage.Categories() {
		data, some := categoryData{Name: category.String(), Class: categoryClasses[category], Meaning: c.Meaning(category)}, false
		for i, m := range c.Metrics {
			n := m.Tally[category]
			data.Numbers = append(data.Numbers, n)
			if some = some || n > 0; i == 0 && n > 0 {
				columns = append(columns, category)
				d.Columns = append(d.Columns, data)
			}
		}
		if some {
			d.Categories = append(d.Categories, data)
		}
	}
	size := 0
	for i := range c.Files {
		f := &c.Files[i]
		before, after := f.Tallies.Before.Lines, f.Tallies.After.Lines
		data := comparedFileData{ID: "f" + strconv.Itoa(i+1), Name: output.Printable(f.Shown), Before: before.Rounded(), After: after.Rounded(), AfterCounts: after.Counts()}
		for _, category := range columns {
			data.Numbers = append(data.Numbers, f.Tallies.Lines[category])
		}
		if size < mostSides {
			data.Rows, data.Shown = template.HTML(f.sides(mostSides-size)), true
			size += len(data.Rows)
		} else {
			d.Left++
		}
		d.Files = append(d.Files, data)
	}
	style, _ := assets.ReadFile(styleFile)
	script, _ := assets.ReadFile(scriptFile)
	d.Style, d.Script, d.Policy = template.CSS(style), template.JS(script), output.PagePolicy(withinLines(script), withinLines(style))
	b, err := pageOf("compare.html", d)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// A side is a line of one version, 0 if that has none in this place.
type sideRow struct {
	old, new int32
	edit     int // of which the old line is deleted; -1: none
}

// rows are the lines of both versions side by side, up to the last one with code.
func (f *ComparedFile) rows() []sideRow {
	last := int32(0) // of the old version
	for _, l := range f.Lines {
		if l.Old != nil {
			last = max(last, l.Old.Number)
		}
		if l.New != nil {
			before, _ := f.Edits.OldLine(l.New.Number)
			last = max(last, before)
		}
	}
	const most = 1 << 20 // lines: numbers come from outside
	last = min(last+contextAll, most)
	var rows []sideRow
	old, new := int32(1), int32(1)
	for i, e := range f.Edits {
		if e.Old > last+1 {
			break
		}
		for ; old < e.Old; old, new = old+1, new+1 {
			rows = append(rows, sideRow{old, new, -1})
		}
		for k := range min(max(e.Deleted, e.Inserted), most) {
			r := sideRow{edit: i}
			if k < e.Deleted {
				r.old = e.Old + k
			}
			if k < e.Inserted {
				r.new = e.New + k
			}
			rows = append(rows, r)
		}
		old, new = e.Old+e.Deleted, e.New+e.Inserted
	}
	for ; old <= last; old, new = old+1, new+1 {
		rows = append(rows, sideRow{old, new, -1})
	}
	return rows
}

// sides are the lines that are not as they were, with those around them, in so many bytes.
func (f *ComparedFile) sides(most int) []byte {
	byOld, byNew := make(map[int32]*coverage.LineComparison), make(map[int32]*coverage.LineComparison)
	for i := range f.Lines {
		l := &f.Lines[i]
		if l.Old != nil {
			byOld[l.Old.Number] = l
		}
		if l.New != nil {
			byNew[l.New.Number] = l
		}
	}
	differs := func(l *coverage.LineComparison) bool {
		return l != nil && l.Category != coverage.CBC && l.Category != coverage.UBC
	}
	rows := f.rows()
	shown := make([]bool, len(rows))
	for i, r := range rows {
		if differs(byOld[r.old]) || differs(byNew[r.new]) {
			for k := max(i-contextAll, 0); k <= min(i+contextAll, len(rows)-1); k++ {
				shown[k] = true
			}
		}
	}
	text := f.Read()
	known := text != nil
	high := highlighter{language: languageOf(f.Shown, false)}
	var buf, line []byte
	skipped := false
	for i, r := range rows {
		if line = line[:0]; r.new > 0 {
			var of []byte
			of, text, _ = bytes.Cut(text, []byte("\n"))
			if known {
				line = high.line(line, bytes.TrimSuffix(of, []byte("\r")))
			}
		}
		if !shown[i] {
			skipped = true
			continue
		}
		if len(buf) > most {
			return append(buf, "<tr class=cut><td colspan=7>more lines differ: --output json has all\n"...)
		}
		if skipped && len(buf) > 0 {
			buf = append(buf, "<tr class=cut><td colspan=7>⋯\n"...)
		}
		skipped = false
		buf = f.appendSides(buf, r, byOld[r.old], byNew[r.new], line)
	}
	return buf
}

// appendSides appends a row: number, count and text of the old version, the same of the new
// one, and the category.
func (f *ComparedFile) appendSides(buf []byte, r sideRow, old, new *coverage.LineComparison, text []byte) []byte {
	of := new
	if of == nil {
		of = old
	}
	buf = append(buf, "<tr"...)
	if of != nil && categoryClasses[of.Category] != "" {
		buf = append(append(buf, " class="...), categoryClasses[of.Category]...)
	} else if r.new == 0 {
		buf = append(buf, " class=gone"...)
	}
	buf = append(buf, '>')
	side := func(number int32, l *coverage.Line, text []byte) {
		buf = append(buf, "<td>"...)
		if number > 0 {
			buf = strconv.AppendInt(buf, int64(number), 10)
		}
		buf = append(buf, "<td>"...)
		if l != nil && l.Count > 0 {
			buf = append(appendShortCount(append(buf, "<b>"...), l.Count), "</b>"...)
		} else if l != nil {
			buf = append(buf, "<u>0</u>"...)
		}
		buf = append(append(buf, "<td>"...), text...)
	}
	var before, now *coverage.Line
	if old != nil {
		before = old.Old
	}
	if new != nil {
		now = new.New
	}
	oldText := text
	if r.edit >= 0 {
		if oldText = nil; r.old > 0 {
			oldText = appendSource(nil, []byte(f.Deleted(r.edit, int(r.old-f.Edits[r.edit].Old))))
		}
	}
	side(r.old, before, oldText)
	side(r.new, now, text)
	buf = append(buf, "<td>"...)
	if of != nil {
		buf = append(buf, of.Category.String()...)
	}
	return append(buf, '\n')
}
