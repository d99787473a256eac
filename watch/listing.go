package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"footfall/coverage"
	"footfall/output"
	"footfall/watch/growth"
)

// A listing is the text of a file, with the counts of its lines.
type listing struct {
	name, shown string
	text        []string // without line ends, as it is in the file
	err         error    // why there is no text

	seconds float64         // since the tick before
	lines   []coverage.Line // with code
	heat    []float64       // runs of these since the tick before
	fresh   []bool          // which of these were covered since the start
	hottest float64         // the most in heat

	cursor, top int    // line numbers, from 0
	left        int    // columns that are not shown
	wanted      string // what is searched for, in any case of letters
	origin      int    // where the search began
	height      int
}

// newSource splits a text into lines.
func newSource(name, shown string, text []byte, err error) *listing {
	s := &listing{name: name, shown: shown, err: err}
	if err == nil && len(text) > 0 {
		s.text = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	return s
}

// update takes the counts of a picture.
func (s *listing) update(p *growth.Picture) {
	s.seconds = p.Seconds
	grown := p.Lines(s.name)
	s.lines, s.heat, s.fresh, s.hottest = make([]coverage.Line, len(grown)), make([]float64, len(grown)), make([]bool, len(grown)), 0
	for i, l := range grown {
		s.lines[i], s.heat[i], s.fresh[i] = *l.Line, l.Runs, l.NewStart
		s.hottest = max(s.hottest, l.Runs)
	}
}

// count is the number of lines.
func (s *listing) count() int {
	n := len(s.text)
	if len(s.lines) > 0 {
		n = max(n, int(s.lines[len(s.lines)-1].Number))
	}
	return n
}

// begin goes to a line; to the hottest, or else the first with code, if it is 0.
func (s *listing) begin(line int32, height int) {
	s.height = height
	switch {
	case line > 0:
		s.jump(int(line) - 1)
	case s.hottest > 0:
		s.toHottest()
	case len(s.lines) > 0:
		s.jump(int(s.lines[0].Number) - 1)
	}
}

// move moves the cursor.
func (s *listing) move(by int) {
	s.cursor = max(0, min(s.cursor+by, s.count()-1))
	s.top = scroll(s.top, s.cursor, s.height, s.count())
}

// jump moves the cursor to a line, and shows what is around it.
func (s *listing) jump(line int) {
	s.cursor = line
	if line < s.top || line >= s.top+s.height {
		s.top = max(0, line-s.height/3)
	}
	s.move(0)
}

// toHottest jumps to the line that ran most since the tick before, or ever.
func (s *listing) toHottest() {
	most, at := 0.0, -1
	for i := range s.lines {
		n := s.heat[i]
		if s.hottest == 0 {
			n = float64(s.lines[i].Count)
		}
		if n > most {
			most, at = n, i
		}
	}
	if at >= 0 {
		s.jump(int(s.lines[at].Number) - 1)
	}
}

// toUncovered jumps to the next line, or the one before, that begins a group of
// lines that never ran, and tells if there is one.
func (s *listing) toUncovered(forward bool) bool {
	var groups []int
	for i := range s.lines {
		if s.lines[i].Count <= 0 && (i == 0 || s.lines[i-1].Count > 0) {
			groups = append(groups, int(s.lines[i].Number)-1)
		}
	}
	i, here := slices.BinarySearch(groups, s.cursor)
	switch {
	case forward && here:
		i++
	case !forward:
		i--
	}
	if i < 0 || i >= len(groups) {
		return false
	}
	s.jump(groups[i])
	return true
}

// beginSearch forgets what was searched for before.
func (s *listing) beginSearch() { s.wanted, s.origin = "", s.cursor }

// search goes to the first line with a text from where the search began, or back there if there is none.
func (s *listing) search(text string) {
	s.wanted = text
	s.jump(s.origin)
	if !s.has(s.cursor) {
		s.toMatch(true)
	}
}

// has tells whether a line, from 0, has the text that is searched for.
func (s *listing) has(line int) bool {
	return s.wanted != "" && line < len(s.text) && strings.Contains(strings.ToLower(clean(s.text[line])), strings.ToLower(s.wanted))
}

// toMatch jumps to the next line with the text, or the one before, round the end of the file, and tells if there
// is one.
func (s *listing) toMatch(forward bool) bool {
	step := 1
	if !forward {
		step = -1
	}
	for n := 1; n <= len(s.text); n++ {
		if line := (s.cursor + n*step + n*len(s.text)) % len(s.text); s.has(line) {
			s.jump(line)
			return true
		}
	}
	return false
}

// found says how many lines have the text.
func (s *listing) found() string {
	n := 0
	for line := range s.text {
		if s.has(line) {
			n++
		}
	}
	if n == 0 {
		return fmt.Sprintf("no line with %q", s.wanted)
	}
	return fmt.Sprintf("%s with %q: m goes to the next one, M to the one before", output.Plural(n, "line"), s.wanted)
}

// drawText draws text, what is searched for in it in reverse.
func (s *listing) drawText(c *canvas, style style, text string) {
	lower, wanted := strings.ToLower(text), strings.ToLower(s.wanted)
	if s.wanted == "" || c.selected || len(lower) != len(text) { // letters whose lower ones are longer
		c.style(style, text)
		return
	}
	for {
		i := strings.Index(lower, wanted)
		if i < 0 {
			c.style(style, text)
			return
		}
		c.style(style, text[:i])
		c.style(reverse, text[i:i+len(wanted)])
		text, lower = text[i+len(wanted):], lower[i+len(wanted):]
	}
}

// line returns the index in s.lines of a line number from 0; -1: no code.
func (s *listing) line(number int) int {
	i, ok := slices.BinarySearchFunc(s.lines, number+1, func(l coverage.Line, n int) int { return cmp.Compare(int(l.Number), n) })
	if !ok {
		return -1
	}
	return i
}

// Columns beside the text.
const (
	countWidth    = 6
	branchesWidth = 5
	rateWidth     = 6
)

// draw draws so many lines, with titles of the columns above them.
func (s *listing) draw(c *canvas, height int, titles bool) {
	s.height = height
	s.move(0)
	number := max(len(strconv.Itoa(s.count())), 4)
	if titles {
		s.drawTitles(c, number)
	}
	for n := s.top; n < s.top+height; n++ {
		if n < s.count() {
			c.selected = n == s.cursor
			s.drawLine(c, n, number)
		}
		c.endRow()
	}
}

func (s *listing) drawTitles(c *canvas, number int) {
	covered, missed := 0, 0
	for i := range s.lines {
		if s.lines[i].Count > 0 {
			covered++
		} else {
			missed++
		}
	}
	r := coverage.Ratio{Covered: covered, Total: len(s.lines)}
	summary := fmt.Sprintf("%s %s, %d never ran ", r.Rounded(), r.Counts(), missed)
	c.text(" ")
	c.style(reverse, "["+fitEnd(s.shown, max(8, c.width-len(summary)-5))+"]")
	c.text("  ")
	c.style(level(r), summary)
	c.endRow()

	line := &canvas{width: c.width}
	line.right(plain, "line", 1+number)
	line.right(plain, "count", 1+countWidth)
	line.text("  ")
	line.right(plain, "taken", 1+branchesWidth)
	line.right(plain, "runs/s", 1+rateWidth)
	switch {
	case s.err != nil:
		line.text("   " + clean(s.err.Error()))
	case s.left > 0:
		line.text(fmt.Sprintf("   from column %d", s.left+1))
	}
	c.style(bold, line.String())
	c.endRow()
}

// drawLine draws a line: its number, count, "*" if part of it never ran, "+" if
// it ran first since the start, branches if some were never taken, its heat.
func (s *listing) drawLine(c *canvas, n, number int) {
	mark := " "
	if c.selected {
		mark = ">"
	}
	c.text(mark)
	c.right(dim, strconv.Itoa(n+1), number)
	i, style := s.line(n), dim
	if i < 0 {
		c.pad(c.column + 3 + countWidth + 1 + branchesWidth + 1 + rateWidth)
	} else {
		style = s.drawCounts(c, i)
	}
	c.pad(c.column + 1)
	c.style(dim, "│")
	if n < len(s.text) {
		s.drawText(c, style, cut(clean(s.text[n]), s.left))
	}
}

// drawCounts draws what is known about the i-th line with code, and returns the
// style for its text.
func (s *listing) drawCounts(c *canvas, i int) style {
	l := &s.lines[i]
	taken, ways := branches(l)
	text := plain
	c.pad(c.column + 1)
	if l.Count <= 0 {
		text = bad
		c.right(bad, "#####", countWidth)
	} else {
		c.right(good, lineCount(l.Count), countWidth)
	}
	flags := [2]string{" ", " "}
	if l.Count > 0 && (l.Unexecuted || taken < ways) {
		text = fair
	}
	if l.Unexecuted && l.Count > 0 {
		flags[0] = "*"
	}
	if s.fresh[i] {
		flags[1] = "+"
	}
	c.style(fair, flags[0])
	c.style(good, flags[1])

	missing := ""
	if l.Count > 0 && taken < ways {
		missing = fmt.Sprintf("%d/%d", taken, ways)
	}
	c.pad(c.column + 1)
	c.right(fair, missing, branchesWidth)
	c.pad(c.column + 1)
	if s.heat[i] > 0 {
		c.right(hot, growth.Human(s.heat[i]/s.seconds)+growth.Bar(s.heat[i], s.hottest), rateWidth)
	} else {
		c.pad(c.column + rateWidth)
	}
	return text
}

// lineCount writes the count of a line in countWidth columns.
func lineCount(n int64) string {
	if n < 1_000_000 {
		return strconv.FormatInt(n, 10)
	}
	return growth.Human(float64(n))
}

// branches counts the branches of a line that were taken, and all, without
// those that only an exception decides.
func branches(l *coverage.Line) (taken, ways int) {
	for _, b := range l.Branches {
		if b.Exception {
			continue
		}
		ways++
		if b.Count > 0 {
			taken++
		}
	}
	return taken, ways
}

// cut returns s without its first columns.
func cut(s string, columns int) string {
	if columns == 0 {
		return s
	}
	return ansi.TruncateLeft(s, columns, "")
}

// details returns the exact numbers of the line of the cursor.
func (s *listing) details() string {
	i := s.line(s.cursor)
	if i < 0 {
		return fmt.Sprintf("line %d: no code", s.cursor+1)
	}
	l := &s.lines[i]
	if l.Count <= 0 {
		return fmt.Sprintf("line %d: never ran", s.cursor+1)
	}
	text := fmt.Sprintf("line %d: %s runs", s.cursor+1, exact(l.Count))
	if s.heat[i] > 0 {
		text += fmt.Sprintf(", %s/s", growth.Human(s.heat[i]/s.seconds))
	}
	if l.Unexecuted {
		text += ", not all of it"
	}
	if _, ways := branches(l); ways > 0 {
		text += "; branches taken:"
		for _, b := range l.Branches {
			if !b.Exception {
				text += " " + exact(b.Count)
			}
		}
	}
	return text
}
