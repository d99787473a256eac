package output

import (
	"io"
	"os"
)

// Terminal returns the terminal that is behind a writer, nil if there is none.
func Terminal(w io.Writer) *os.File {
	if t, ok := w.(*Text); ok {
		w = t.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if _, ok := columns(f); !ok {
		return nil
	}
	return f
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
	n, _ := columns(f)
	if n == 0 { // a terminal that does not know
		return 80
	}
	return n
}
