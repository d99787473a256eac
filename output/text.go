package output

import (
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Printable returns a name for people, on one line: what cannot be seen, such as
// control characters and those that turn the direction of text, and bytes that
// are not UTF-8 are written as \x1b.
func Printable(s string) string {
	if isPlain(s) {
		return s
	}
	return string(appendPrintable(nil, s))
}

func appendPrintable(b []byte, s string) []byte {
	for len(s) > 0 {
		c, size := utf8.DecodeRuneInString(s)
		if shows(c, size) {
			b = append(b, s[:size]...)
		} else {
			b = appendEscaped(b, s[:size])
		}
		s = s[size:]
	}
	return b
}

// shows tells whether a character that takes size bytes is one that is seen, and
// does nothing else.
func shows(c rune, size int) bool {
	return unicode.IsPrint(c) && (c != utf8.RuneError || size > 1)
}

func appendEscaped[T string | []byte](b []byte, s T) []byte {
	const digits = "0123456789abcdef"
	for _, x := range []byte(s) {
		b = append(b, '\\', 'x', digits[x>>4], digits[x&15])
	}
	return b
}

// Escape returns a name for a format that cannot carry each character: what it
// does not carry is written as \x1b. carries is told of each character how many
// bytes it takes: what is not UTF-8 is utf8.RuneError of one byte. Two names stay
// two: a backslash that could be taken for such an escape is one, \x5c.
func Escape(s string, carries func(c rune, size int) bool) string {
	done := 0
	var b []byte
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		if !carries(c, size) || c == '\\' && escaped(s[i:]) >= 0 {
			b = appendEscaped(append(b, s[done:i]...), s[i:i+size])
			done = i + size
		}
		i += size
	}
	if b == nil {
		return s
	}
	return string(append(b, s[done:]...))
}

// Unescape returns the name that [Escape] was given.
func Unescape(s string) string {
	var b []byte
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			break
		}
		b = append(b, s[:i]...)
		if c := escaped(s[i:]); c >= 0 {
			b, s = append(b, byte(c)), s[i+len(`\x00`):]
		} else {
			b, s = append(b, '\\'), s[i+1:]
		}
	}
	if b == nil {
		return s
	}
	return string(append(b, s...))
}

// escaped returns the byte that an escape at the beginning of s stands for, -1 if
// there is none: no format is in want of escapes for letters.
func escaped(s string) int {
	if len(s) < len(`\x00`) || s[1] != 'x' || strings.ToLower(s[2:4]) != s[2:4] {
		return -1
	}
	c, err := strconv.ParseUint(s[2:4], 16, 8)
	if err != nil || c >= ' ' && c < 0x7f && c != '\\' {
		return -1
	}
	return int(c)
}

// isPlain tells whether all of s is seen, which it nearly always is.
func isPlain(s string) bool {
	ascii := true
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
		ascii = ascii && s[i] < utf8.RuneSelf
	}
	if ascii {
		return true
	}
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}

// A Text is a writer for what people read. What [Printable] would not show of it
// is escaped in the same way, except for ends of lines, tabs, and the colours
// that footfall uses itself: a name that has these can colour, and no more.
type Text struct {
	w    io.Writer
	lock sync.Mutex
	// rest is the beginning of a character or of a colour, which the next Write
	// goes on with.
	rest []byte
	buf  []byte
}

// NewText returns a writer of text to w.
func NewText(w io.Writer) *Text { return &Text{w: w} }

// Standard returns a writer for standard output or standard error that escapes
// what a terminal gets; other programs get every byte as it is.
func Standard(f *os.File) io.Writer {
	if Terminal(f) == nil {
		return f
	}
	return NewText(f)
}

// Stderr is for what is said to people.
var Stderr io.Writer = NewText(os.Stderr)

// Write writes text. Several may write at the same time.
func (t *Text) Write(b []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	text := b
	if len(t.rest) > 0 {
		text = append(t.rest, b...)
		t.rest = nil
	}
	t.buf = t.buf[:0]
	for len(text) > 0 {
		n := plainBytes(text)
		t.buf = append(t.buf, text[:n]...)
		if text = text[n:]; len(text) == 0 {
			break
		}
		n, whole := t.special(text)
		if !whole {
			t.rest = append([]byte(nil), text...)
			break
		}
		text = text[n:]
	}
	if len(t.buf) == 0 {
		return len(b), nil
	}
	if _, err := t.w.Write(t.buf); err != nil {
		return 0, err
	}
	return len(b), nil
}

// plainBytes counts the bytes up to the first that is more than a letter of ASCII.
func plainBytes(b []byte) int {
	for i, c := range b {
		if (c < ' ' || c >= 0x7f) && c != '\n' && c != '\t' {
			return i
		}
	}
	return len(b)
}

// color returns the length of the sequence at the beginning of text if it is one
// that footfall or gcov colour by, else 0; false if it is not all there.
func color(text []byte) (n int, whole bool) {
	const longest = len("\x1b[41;37")
	for n = 1; n < len(text) && n < longest && (n == 1 && text[n] == '[' || n > 1 && (text[n] == ';' || '0' <= text[n] && text[n] <= '9')); n++ {
	}
	if n == len(text) {
		return 0, false
	}
	if n > 1 && (text[n] == 'm' || text[n] == 'K') {
		switch string(text[2:n]) {
		case "", "1", "2", "7", "31", "32", "33", "35", "36", "41", "42", "43", "45", "46", "41;37", "45;37", "46;37":
			return n + 1, true
		}
	}
	return 0, true
}

// special appends what begins with a byte that is not plain, and returns the
// number of bytes that it took; false if it is not all there.
func (t *Text) special(text []byte) (n int, whole bool) {
	switch {
	case text[0] == '\x1b':
		if n, whole := color(text); n > 0 || !whole {
			t.buf = append(t.buf, text[:n]...)
			return n, whole
		}
	case text[0] == '\r': // sources may have the line ends of other systems
		if len(text) == 1 {
			return 0, false
		}
		if text[1] == '\n' {
			t.buf = append(t.buf, '\r', '\n')
			return 2, true
		}
	case !utf8.FullRune(text):
		return 0, false
	}
	c, size := utf8.DecodeRune(text)
	if shows(c, size) {
		t.buf = append(t.buf, text[:size]...)
	} else {
		t.buf = appendEscaped(t.buf, text[:size])
	}
	return size, true
}

// Control writes a sequence of ours for the terminal behind w, as it is.
func Control(w io.Writer, sequence string) error {
	if t, ok := w.(*Text); ok {
		w = t.w
	}
	_, err := io.WriteString(w, sequence)
	return err
}
