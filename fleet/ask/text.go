package ask

import (
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"footfall/output"
)

// A table has columns of text; those on the right are numbers.
type table struct {
	rows    [][]string
	numbers []int
}

func newTable(titles ...string) *table { return &table{rows: [][]string{titles}} }

func (t *table) right(columns ...int) *table {
	t.numbers = columns
	return t
}

func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = output.Printable(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// write writes the table, of its rows no more than so many; 0: all.
func (t *table) write(w io.Writer, most int) error {
	rows := t.rows
	if most > 0 && len(rows) > most+1 {
		rows = rows[:most+1]
	}
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, r := range rows {
		line := ""
		for i, cell := range r {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(t.numbers, i) {
				line += space + cell + "  "
			} else {
				line += cell + space + "  "
			}
		}
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if more := len(t.rows) - len(rows); more > 0 {
		fmt.Fprintf(&text, "and %s more; --all shows them\n", number(more))
	}
	return say(w, "%s", text.String())
}

func say(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// number writes a number with a comma at each thousand.
func number[T ~int | ~int32 | ~int64 | ~uint64](n T) string {
	s := strconv.FormatUint(uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural is a number of things.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}

func day(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.DateOnly)
}

func ones(words []uint64) (n int) {
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return n
}

// number0 is a number as it is.
func number0(n int32) string { return strconv.Itoa(int(n)) }
