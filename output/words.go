package output

import (
	"os"
	"strconv"

	"io"

	"golang.org/x/sys/unix"
)

// Plural is a number of things: "1 file", "2 files".
func Plural(n int, thing string) string { return Count(n, thing, thing+"s") }

// Count is Plural for things whose plural is not formed by an s.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Style returns the width of text for w, 0 for any, and whether to use colours:
// those of a terminal.
func Style(w io.Writer) (width int, color bool) {
	width = Width(w)
	return width, width > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Width returns the columns of the terminal behind w, 0 if there is none.
func Width(w io.Writer) int {
	f := Terminal(w)
	if f == nil {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0
	case size.Col == 0: // a terminal that does not know
		return 80
	}
	return int(size.Col)
}
