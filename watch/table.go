package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"footfall/coverage"
	"footfall/watch/growth"
)

// A table shows rows, sorted and filtered, and has a cursor.
type table struct {
	name    string
	rows    []growth.Row // of the picture
	columns []column
	sorts   []order
	sort    int     // index in sorts
	back    bool    // sorted backwards
	filter  string  // what names must contain
	order   []int32 // of rows, those that are shown
	ordered arrangement
	shown   []*growth.Row
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
	draw  func(c *canvas, p *growth.Picture, r *growth.Row, width int)
	by    *order // that sorts by what it shows; nil: none does
}

// An order is a way to sort.
type order struct {
	name    string
	compare func(a, b *growth.Row) int
	down    bool // the most come first
}

func newFileTable() *table {
	return &table{
		name: "files",
		columns: []column{
			{"", 10, true, 5, func(c *canvas, _ *growth.Picture, r *growth.Row, width int) { c.bar(r.Lines, width) }, nil},
			ratioColumn("lines", 1, linesOf, &byWorst),
			{"", 11, false, 8, func(c *canvas, _ *growth.Picture, r *growth.Row, width int) { c.right(plain, r.Lines.Counts(), width) }, &byMissed},
			tickColumn,
			startColumn,
			ratioColumn("funcs", 7, functionsOf, &byFunctions),
			ratioColumn("branch", 6, branchesOf, &byBranches),
			runsColumn,
		},
		sorts: []order{byHeat, byGrowth, byWorst, byMissed, byName, bySinceStart, byFunctions, byBranches},
	}
}

func newFunctionTable() *table {
	return &table{
		name: "functions",
		columns: []column{
			{"at", 22, true, 6, func(c *canvas, _ *growth.Picture, r *growth.Row, width int) { c.style(dim, fitEnd(r.Place, width)) }, &byWhere},
			ratioColumn("lines", 4, linesOf, &byWorst),
			tickColumn,
			startColumn,
			{"calls", 6, false, 1, func(c *canvas, _ *growth.Picture, r *growth.Row, width int) {
				if r.Count <= 0 {
					c.right(bad, "never", width)
					return
				}
				c.right(plain, growth.Human(float64(r.Count)), width)
			}, &byCalls},
			{"calls/s", 7, false, 2, func(c *canvas, p *growth.Picture, r *growth.Row, width int) {
				c.rate(p.Rate(float64(r.Called)), width)
			}, &byCallsNow},
			runsColumn,
		},
		sorts: []order{byHeat, byCallsNow, byCalls, byUncalled, byGrowth, byWorst, byName, bySinceStart, byWhere},
	}
}

func linesOf(r *growth.Row) coverage.Ratio     { return r.Lines }
func functionsOf(r *growth.Row) coverage.Ratio { return r.Functions }
func branchesOf(r *growth.Row) coverage.Ratio  { return r.Branches }

func ratioColumn(title string, need int, of func(*growth.Row) coverage.Ratio, by *order) column {
	return column{title, len("100.0%"), false, need, func(c *canvas, _ *growth.Picture, r *growth.Row, width int) {
		c.right(level(of(r)), of(r).Rounded(), width)
	}, by}
}

var (
	tickColumn = column{"+tick", 5, false, 4, func(c *canvas, _ *growth.Picture, r *growth.Row, width int) {
		c.growth(r.NewTick, width)
	}, &byGrowth}
	startColumn = column{"+start", 6, false, 3, func(c *canvas, _ *growth.Picture, r *growth.Row, width int) {
		c.growth(r.NewStart, width)
	}, &bySinceStart}
	runsColumn = column{"runs/s", 6, false, 0, func(c *canvas, p *growth.Picture, r *growth.Row, width int) {
		c.rate(p.Rate(r.Runs), width)
	}, &byHeat}
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
			s = "+" + growth.Human(float64(n))
		}
	}
	c.right(good, s, width)
}

func (c *canvas) rate(n float64, width int) {
	s := ""
	if n > 0 {
		s = growth.Human(n)
	}
	c.right(hot, s, width)
}

// The orders. What has not run is in the order of the report: the worst first.
var (
	byHeat = order{"hot first", func(a, b *growth.Row) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(b.Called, a.Called), worst(a, b))
	}, true}
	byGrowth = order{"most new lines first", func(a, b *growth.Row) int {
		return cmp.Or(cmp.Compare(b.NewTick, a.NewTick), cmp.Compare(b.NewStart, a.NewStart), worst(a, b))
	}, true}
	bySinceStart = order{"most new lines since the start first", func(a, b *growth.Row) int {
		return cmp.Or(cmp.Compare(b.NewStart, a.NewStart), worst(a, b))
	}, true}
	byWorst     = order{"worst covered first", worst, false}
	byFunctions = order{"fewest functions called first", worstBy(functionsOf), false}
	byBranches  = order{"fewest branches taken first", worstBy(branchesOf), false}
	byMissed    = order{"most missed lines first", func(a, b *growth.Row) int {
		return cmp.Or(cmp.Compare(b.Lines.Missed(), a.Lines.Missed()), byPlace(a, b))
	}, true}
	byName = order{"by name", func(a, b *growth.Row) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), byPlace(a, b))
	}, false}
	byWhere    = order{"by file and line", byPlace, false}
	byCallsNow = order{"most calls per second first", func(a, b *growth.Row) int {
		return cmp.Or(cmp.Compare(b.Called, a.Called), cmp.Compare(b.Count, a.Count), byPlace(a, b))
	}, true}
	byCalls = order{"most calls first", func(a, b *growth.Row) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), byPlace(a, b))
	}, true}
	byUncalled = order{"never called first, the largest", func(a, b *growth.Row) int {
		return cmp.Or(cmp.Compare(min(a.Count, 1), min(b.Count, 1)), cmp.Compare(b.Lines.Total, a.Lines.Total), byPlace(a, b))
	}, false}
)

var worst = worstBy(linesOf)

// worstBy compares by the share that is covered, and of equal ones by what is missed.
func worstBy(of func(*growth.Row) coverage.Ratio) func(a, b *growth.Row) int {
	return func(a, b *growth.Row) int {
		x, y := of(a), of(b)
		return cmp.Or(
			cmp.Compare(int64(x.Covered)*int64(max(y.Total, 1)), int64(y.Covered)*int64(max(x.Total, 1))),
			cmp.Compare(y.Missed(), x.Missed()),
			byPlace(a, b))
	}
}

// byPlace makes every order total, so that equal rows stay where they are.
func byPlace(a, b *growth.Row) int {
	return cmp.Or(
		cmp.Compare(a.Key.File, b.Key.File),
		cmp.Compare(a.Key.Line, b.Key.Line),
		cmp.Compare(a.Key.Column, b.Key.Column),
		cmp.Compare(a.Key.Function, b.Key.Function))
}

// update shows rows in place of those before. A cursor that was moved stays on
// its row, which stays where it is on the screen; one at the top stays there.
func (t *table) update(rows []growth.Row) {
	var at growth.Key
	if t.cursor > 0 && t.cursor < len(t.shown) {
		at = t.shown[t.cursor].Key
	}
	offset := t.cursor - t.top
	t.order = t.arranged(rows)
	t.rows, t.ordered = rows, t.arrangement()
	t.shown = make([]*growth.Row, len(t.order))
	for i, n := range t.order {
		t.shown[i] = &rows[n]
	}
	if at != (growth.Key{}) {
		if i := slices.IndexFunc(t.shown, func(r *growth.Row) bool { return r.Key == at }); i >= 0 {
			t.cursor, t.top = i, i-offset
		}
	}
	t.move(0)
}

// An arrangement says which rows are shown, and how.
type arrangement struct {
	sort   int
	back   bool
	filter string
}

func (t *table) arrangement() arrangement { return arrangement{t.sort, t.back, t.filter} }

// arranged returns the numbers of the rows that are to be shown, in order. Most are as they were:
// these stay in order, and only the others are sorted.
func (t *table) arranged(rows []growth.Row) []int32 {
	compare := func(a, b int32) int {
		if t.back {
			a, b = b, a
		}
		return t.sorts[t.sort].compare(&rows[a], &rows[b])
	}
	wanted := strings.ToLower(t.filter)
	var stay, others []int32
	same := t.ordered == t.arrangement() && len(rows) == len(t.rows)
	if same {
		stay = make([]int32, 0, len(t.order))
		for _, n := range t.order {
			if rows[n] == t.rows[n] {
				stay = append(stay, n)
			}
		}
	}
	for i := range rows {
		if r := &rows[i]; !(same && *r == t.rows[i]) && (wanted == "" || strings.Contains(strings.ToLower(r.Name), wanted) || strings.Contains(strings.ToLower(r.Place), wanted)) {
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
	t.sortBy((t.sort+by+len(t.sorts))%len(t.sorts), false)
}

// sortBy changes the order to one of sorts, perhaps backwards, and goes to the top of it.
func (t *table) sortBy(sort int, back bool) {
	t.sort, t.back = sort, back
	t.cursor, t.top = 0, 0
	t.update(t.rows)
}

// nextColumn sorts by a column to the right of the one by which it is sorted, or to the left.
func (t *table) nextColumn(by int) {
	orders := []*order{&byName}
	for _, c := range t.columns {
		if c.by != nil {
			orders = append(orders, c.by)
		}
	}
	at := slices.IndexFunc(orders, t.isSortedBy) // or none, left of all
	if at < 0 && by < 0 {
		at = 0
	}
	next := orders[(at+by+len(orders))%len(orders)]
	t.sortBy(slices.IndexFunc(t.sorts, func(o order) bool { return o.name == next.name }), false)
}

func (t *table) isSortedBy(o *order) bool { return o != nil && t.sorts[t.sort].name == o.name }

// arrow is what a heading has beside it if the table is sorted by its column: up where what is
// shown there becomes more from row to row.
func (t *table) arrow(by *order) string {
	switch {
	case !t.isSortedBy(by):
		return ""
	case by.down != t.back:
		return "▼"
	}
	return "▲"
}

// sorted says how the table is sorted.
func (t *table) sorted() string {
	if t.back {
		return t.sorts[t.sort].name + ", backwards"
	}
	return t.sorts[t.sort].name
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
func (t *table) selected() *growth.Row {
	if t.cursor >= len(t.shown) {
		return nil
	}
	return t.shown[t.cursor]
}

// draw draws so many rows, and the titles of the columns above them.
func (t *table) draw(c *canvas, p *growth.Picture, height int, titles bool) {
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
	line.text(" " + strings.TrimSuffix(t.name, "s") + t.arrow(&byName))
	line.pad(1 + nameWidth)
	for _, col := range columns {
		if !col.left { // the arrow may be in the gap
			line.pad(line.column + gap - 1)
			line.right(plain, t.arrow(col.by)+col.title, 1+col.width)
			continue
		}
		line.pad(line.column + gap)
		end := line.column + col.width
		line.text(col.title + t.arrow(col.by))
		line.pad(end)
	}
	c.style(bold, line.String())
	c.endRow()
}

func (t *table) drawRow(c *canvas, p *growth.Picture, r *growth.Row, columns []column, nameWidth int) {
	mark := " "
	if c.selected {
		mark = ">"
	}
	c.text(mark + fitEnd(r.Name, nameWidth))
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
	case r.Place == "":
		return fmt.Sprintf("%d of %d lines, %d of %d functions, %d of %d branches in %s",
			r.Lines.Covered, r.Lines.Total, r.Functions.Covered, r.Functions.Total, r.Branches.Covered, r.Branches.Total, r.Name)
	case r.Count <= 0:
		return fmt.Sprintf("never called, %d lines: %s %s", r.Lines.Total, r.Name, r.Place)
	}
	return fmt.Sprintf("%s calls, %d of %d lines: %s %s", exact(r.Count), r.Lines.Covered, r.Lines.Total, r.Name, r.Place)
}
