package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"footfall/coverage"
)

// A table shows rows, sorted and filtered, and has a cursor.
type table struct {
	name    string
	rows    []row // of the picture
	columns []column
	sorts   []order
	sort    int     // index in sorts
	filter  string  // what names must contain
	order   []int32 // of rows, those that are shown
	ordered arrangement
	shown   []*row
	cursor  int // index in shown
	top     int // the first on the screen
	height  int // rows on the screen, when last drawn
}

// A column shows something about a row. The name is none of them: it is always
// there, with the columns that the others leave.
type column struct {
	title string
	width int
	left  bool
	need  int // of columns that do not fit, the one with the highest goes first
	draw  func(c *canvas, p *picture, r *row, width int)
}

// An order is a way to sort.
type order struct {
	name    string
	compare func(a, b *row) int
}

func newFileTable() *table {
	return &table{
		name: "files",
		columns: []column{
			{"", 10, true, 5, func(c *canvas, _ *picture, r *row, width int) { c.bar(r.lines, width) }},
			ratioColumn("lines", 1, func(r *row) coverage.Ratio { return r.lines }),
			{"", 11, false, 8, func(c *canvas, _ *picture, r *row, width int) { c.right(plain, r.lines.Counts(), width) }},
			tickColumn,
			startColumn,
			ratioColumn("funcs", 7, func(r *row) coverage.Ratio { return r.functions }),
			ratioColumn("branch", 6, func(r *row) coverage.Ratio { return r.branches }),
			runsColumn,
		},
		sorts: []order{byHeat, byGrowth, byWorst, byMissed, byName},
	}
}

func newFunctionTable() *table {
	return &table{
		name: "functions",
		columns: []column{
			{"at", 22, true, 6, func(c *canvas, _ *picture, r *row, width int) { c.style(dim, fitEnd(r.place, width)) }},
			ratioColumn("lines", 4, func(r *row) coverage.Ratio { return r.lines }),
			tickColumn,
			startColumn,
			{"calls", 6, false, 1, func(c *canvas, _ *picture, r *row, width int) {
				if r.count <= 0 {
					c.right(bad, "never", width)
					return
				}
				c.right(plain, human(float64(r.count)), width)
			}},
			{"calls/s", 7, false, 2, func(c *canvas, p *picture, r *row, width int) {
				c.rate(p.rate(float64(r.called)), width)
			}},
			runsColumn,
		},
		sorts: []order{byHeat, byCallsNow, byCalls, byUncalled, byGrowth, byWorst, byName},
	}
}

func ratioColumn(title string, need int, of func(*row) coverage.Ratio) column {
	return column{title, len("100.0%"), false, need, func(c *canvas, _ *picture, r *row, width int) {
		c.right(level(of(r)), of(r).Rounded(), width)
	}}
}

var (
	tickColumn = column{"+tick", 5, false, 4, func(c *canvas, _ *picture, r *row, width int) {
		c.growth(r.newTick, width)
	}}
	startColumn = column{"+start", 6, false, 3, func(c *canvas, _ *picture, r *row, width int) {
		c.growth(r.newStart, width)
	}}
	runsColumn = column{"runs/s", 6, false, 0, func(c *canvas, p *picture, r *row, width int) {
		c.rate(p.rate(r.runs), width)
	}}
)

// right draws s at the right of so many columns.
func (c *canvas) right(style style, s string, width int) {
	c.pad(c.column + width - textWidth(s))
	c.style(style, s)
}

func (c *canvas) growth(n, width int) {
	s := ""
	if n > 0 {
		if s = fmt.Sprintf("+%d", n); len(s) > width {
			s = "+" + human(float64(n))
		}
	}
	c.right(good, s, width)
}

func (c *canvas) rate(n float64, width int) {
	s := ""
	if n > 0 {
		s = human(n)
	}
	c.right(hot, s, width)
}

// The orders. What has not run is in the order of the report: the worst first.
var (
	byHeat = order{"hot first", func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.runs, a.runs), cmp.Compare(b.called, a.called), worst(a, b))
	}}
	byGrowth = order{"most new lines first", func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.newTick, a.newTick), cmp.Compare(b.newStart, a.newStart), worst(a, b))
	}}
	byWorst  = order{"worst covered first", worst}
	byMissed = order{"most missed lines first", func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.lines.Missed(), a.lines.Missed()), byPlace(a, b))
	}}
	byName     = order{"by name", func(a, b *row) int { return cmp.Or(cmp.Compare(a.name, b.name), byPlace(a, b)) }}
	byCallsNow = order{"most calls per second first", func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.called, a.called), cmp.Compare(b.count, a.count), byPlace(a, b))
	}}
	byCalls = order{"most calls first", func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.count, a.count), byPlace(a, b))
	}}
	byUncalled = order{"never called first, the largest", func(a, b *row) int {
		return cmp.Or(cmp.Compare(min(a.count, 1), min(b.count, 1)), cmp.Compare(b.lines.Total, a.lines.Total), byPlace(a, b))
	}}
)

func worst(a, b *row) int {
	x, y := a.lines, b.lines
	return cmp.Or(
		cmp.Compare(int64(x.Covered)*int64(max(y.Total, 1)), int64(y.Covered)*int64(max(x.Total, 1))),
		cmp.Compare(y.Missed(), x.Missed()),
		byPlace(a, b))
}

// byPlace makes every order total, so that equal rows stay where they are.
func byPlace(a, b *row) int {
	return cmp.Or(
		cmp.Compare(a.key.file, b.key.file),
		cmp.Compare(a.key.line, b.key.line),
		cmp.Compare(a.key.column, b.key.column),
		cmp.Compare(a.key.function, b.key.function))
}

// update shows rows in place of those before. A cursor that was moved stays on
// its row, which stays where it is on the screen; one at the top stays there.
func (t *table) update(rows []row) {
	var at key
	if t.cursor > 0 && t.cursor < len(t.shown) {
		at = t.shown[t.cursor].key
	}
	offset := t.cursor - t.top
	t.order = t.arranged(rows)
	t.rows, t.ordered = rows, arrangement{t.sort, t.filter}
	t.shown = make([]*row, len(t.order))
	for i, n := range t.order {
		t.shown[i] = &rows[n]
	}
	if at != (key{}) {
		if i := slices.IndexFunc(t.shown, func(r *row) bool { return r.key == at }); i >= 0 {
			t.cursor, t.top = i, i-offset
		}
	}
	t.move(0)
}

// An arrangement says which rows are shown, and how.
type arrangement struct {
	sort   int
	filter string
}

// arranged returns the numbers of the rows that are to be shown, in order. Most are as they were:
// these stay in order, and only the others are sorted.
func (t *table) arranged(rows []row) []int32 {
	compare := func(a, b int32) int { return t.sorts[t.sort].compare(&rows[a], &rows[b]) }
	wanted := strings.ToLower(t.filter)
	var stay, others []int32
	same := t.ordered == arrangement{t.sort, t.filter} && len(rows) == len(t.rows)
	if same {
		stay = make([]int32, 0, len(t.order))
		for _, n := range t.order {
			if rows[n] == t.rows[n] {
				stay = append(stay, n)
			}
		}
	}
	for i := range rows {
		if r := &rows[i]; !(same && *r == t.rows[i]) && (wanted == "" || strings.Contains(strings.ToLower(r.name), wanted) || strings.Contains(strings.ToLower(r.place), wanted)) {
			others = append(others, int32(i))
		}
	}
	slices.SortFunc(others, compare)
	if len(stay) == 0 {
		return others
	}
	return merged(stay, others, compare)
}

// merged merges two sorted lists.
func merged(a, b []int32, compare func(a, b int32) int) []int32 {
	out := make([]int32, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compare(a[0], b[0]) <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// setFilter shows what contains filter.
func (t *table) setFilter(filter string) {
	t.filter = filter
	t.update(t.rows)
}

// nextSort changes the order, and goes to the top of it.
func (t *table) nextSort(by int) {
	t.sort = (t.sort + by + len(t.sorts)) % len(t.sorts)
	t.cursor, t.top = 0, 0
	t.update(t.rows)
}

// move moves the cursor, and the screen with it where it must.
func (t *table) move(by int) {
	t.cursor = max(0, min(t.cursor+by, len(t.shown)-1))
	t.top = scroll(t.top, t.cursor, t.height, len(t.shown))
}

// scroll returns the first of n rows on a screen of so many, so that the cursor
// is on it and it is not emptier than it must be.
func scroll(top, cursor, height, n int) int {
	height = max(height, 1)
	top = min(top, cursor, n-height)
	return max(top, cursor-height+1, 0)
}

// selected returns the row of the cursor; nil: there is none.
func (t *table) selected() *row {
	if t.cursor >= len(t.shown) {
		return nil
	}
	return t.shown[t.cursor]
}

// draw draws so many rows, and the titles of the columns above them.
func (t *table) draw(c *canvas, p *picture, height int, titles bool) {
	t.height = height
	t.move(0)
	columns, nameWidth := t.fit(c.width)
	if titles {
		t.drawTitles(c, columns, nameWidth)
	}
	for i := t.top; i < t.top+height; i++ {
		if i < len(t.shown) {
			c.selected = i == t.cursor
			t.drawRow(c, p, t.shown[i], columns, nameWidth)
		} else if i == 0 {
			c.style(dim, " nothing to show")
		}
		c.endRow()
	}
}

const gap = 2

// fit returns the columns that have room in a width beside the name, and the
// width of that.
func (t *table) fit(width int) (columns []column, nameWidth int) {
	columns = t.columns
	for {
		nameWidth = width - 1
		for _, c := range columns {
			nameWidth -= gap + c.width
		}
		const enough = 20
		if nameWidth >= enough || len(columns) == 0 {
			return columns, max(nameWidth, 0)
		}
		least := 0
		for i, c := range columns {
			if c.need > columns[least].need {
				least = i
			}
		}
		columns = slices.Delete(slices.Clone(columns), least, least+1)
	}
}

func (t *table) drawTitles(c *canvas, columns []column, nameWidth int) {
	line := &canvas{width: c.width}
	line.text(" " + strings.TrimSuffix(t.name, "s"))
	line.pad(1 + nameWidth)
	for _, col := range columns {
		line.pad(line.column + gap)
		if col.left {
			end := line.column + col.width
			line.text(col.title)
			line.pad(end)
			continue
		}
		line.right(plain, col.title, col.width)
	}
	c.style(bold, line.String())
	c.endRow()
}

func (t *table) drawRow(c *canvas, p *picture, r *row, columns []column, nameWidth int) {
	mark := " "
	if c.selected {
		mark = ">"
	}
	c.text(mark + fitEnd(r.name, nameWidth))
	c.pad(1 + nameWidth)
	for _, col := range columns {
		c.pad(c.column + gap)
		end := c.column + col.width
		col.draw(c, p, r, col.width)
		c.pad(end)
	}
}

// details returns what the columns leave out of the row of the cursor.
func (t *table) details() string {
	r := t.selected()
	switch {
	case r == nil:
		return ""
	case r.place == "":
		return fmt.Sprintf("%d of %d lines, %d of %d functions, %d of %d branches in %s",
			r.lines.Covered, r.lines.Total, r.functions.Covered, r.functions.Total, r.branches.Covered, r.branches.Total, r.name)
	case r.count <= 0:
		return fmt.Sprintf("never called, %d lines: %s %s", r.lines.Total, r.name, r.place)
	}
	return fmt.Sprintf("%s calls, %d of %d lines: %s %s", exact(r.count), r.lines.Covered, r.lines.Total, r.name, r.place)
}
