package watch

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"footfall/coverage"
	"footfall/output"
)

// Styles are parameters of the terminal's escape sequence for colours. The
// terminal's own 16 colours fit its background, whichever that is.
type style string

const (
	plain   style = ""
	bold    style = "1"
	dim     style = "2"
	reverse style = "7"
	bad     style = "31"
	good    style = "32"
	fair    style = "33"
	hot     style = "35"
)

// A canvas is the screen, drawn row by row from left to right. What goes beyond
// its width is not drawn.
type canvas struct {
	b        strings.Builder
	width    int
	color    bool
	column   int
	selected bool // the row is the cursor's: reverse, without other styles
}

func (c *canvas) String() string { return c.b.String() }

// text draws s, which was cleaned.
func (c *canvas) text(s string) { c.style(plain, s) }

// style draws s in a style.
func (c *canvas) style(style style, s string) {
	room := c.width - c.column
	n := textWidth(s)
	if n > room {
		s = ansi.Truncate(s, max(room, 0), "")
		n = textWidth(s)
	}
	if s == "" {
		return
	}
	switch {
	case c.selected:
		style = reverse
	case !c.color && style != bold && style != reverse:
		style = plain
	}
	c.column += n
	if style == plain {
		c.b.WriteString(s)
		return
	}
	c.b.WriteString("\x1b[" + string(style) + "m" + s + "\x1b[m")
}

// pad draws spaces up to a column.
func (c *canvas) pad(column int) {
	if n := min(column, c.width) - c.column; n > 0 {
		c.text(strings.Repeat(" ", n))
	}
}

// endRow goes on to the next row.
func (c *canvas) endRow() {
	c.endLast()
	c.b.WriteByte('\n')
	c.column, c.selected = 0, false
}

// endLast ends the last row of the screen.
func (c *canvas) endLast() {
	if c.selected {
		c.pad(c.width)
	}
}

// bar draws a ratio as a bar.
func (c *canvas) bar(r coverage.Ratio, width int) {
	full := r.Covered * width / max(r.Total, 1)
	c.style(level(r), strings.Repeat("█", full))
	c.style(level(r), strings.Repeat("░", width-full))
}

// level returns the style of a ratio, with the steps of the report.
func level(r coverage.Ratio) style {
	switch p := r.Percent(); {
	case r.Total == 0:
		return dim
	case p >= 90:
		return good
	case p >= 75:
		return fair
	}
	return bad
}

// exact writes a number with commas: 1,234,567.
func exact(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

const tabWidth = 8

// clean returns s in a form that takes the columns that textWidth says, and
// cannot change the terminal or the order of what is read: tabs are spaces, and
// what cannot be seen is escaped. Names and sources are somebody else's.
func clean(s string) string {
	if plainASCII(s) {
		return s
	}
	before, rest, tab := strings.Cut(s, "\t")
	if !tab {
		return output.Printable(s)
	}
	var b strings.Builder
	column := 0
	for ; tab; before, rest, tab = strings.Cut(rest, "\t") {
		before = output.Printable(before)
		column += textWidth(before)
		n := tabWidth - column%tabWidth
		b.WriteString(before + strings.Repeat(" ", n))
		column += n
	}
	b.WriteString(output.Printable(before))
	return b.String()
}

func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// textWidth returns the columns of a text that was cleaned.
func textWidth(s string) int {
	if plainASCII(s) {
		return len(s)
	}
	return ansi.StringWidth(s)
}

// fitEnd returns the end of s that is so wide, which of a path tells more.
func fitEnd(s string, width int) string {
	n := textWidth(s)
	if n <= width {
		return s
	}
	if width < 2 {
		return ansi.Truncate(s, max(width, 0), "")
	}
	return ansi.TruncateLeft(s, n-width+1, "…")
}
