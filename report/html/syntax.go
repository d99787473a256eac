package html

import (
	"bytes"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A highlighter writes lines of a source as HTML with its words marked: <a>
// for keywords, <q> for strings and numbers, <i> for comments. These are the
// elements with the shortest names that mean nothing else to a browser; a
// quarter of a page's bytes depends on it. It knows as much of a language as
// tells these apart, line by line, in one pass over the bytes.
type highlighter struct {
	*language
	depth int    // of block comments that are open at the start of the line
	until string // what ends the string that is open at the start of the line, "" for none
}

// longestLine is the most bytes of a line that are shown: generated sources
// have lines of megabytes, which no reader reads and no browser lays out.
const longestLine = 16 << 10

// line appends a line, without its end.
func (h *highlighter) line(buf, text []byte) []byte {
	cut := 0
	if len(text) > longestLine {
		cut = len(text) - longestLine
		text = text[:longestLine]
	}
	if h.language == nil {
		buf = appendSource(buf, text)
	} else {
		buf = h.words(buf, text)
	}
	if cut > 0 {
		buf = append(buf, "<small>… "...)
		buf = appendGrouped(buf, int64(cut))
		buf = append(buf, " more bytes</small>"...)
	}
	return buf
}

func (h *highlighter) words(buf, text []byte) []byte {
	i, begin := 0, len(buf)
	switch {
	case len(text) > 0 && strings.IndexByte(h.firstColumn, text[0]) >= 0:
		return appendMarked(buf, 'i', text)
	case h.depth > 0:
		i = h.comment(text, 0)
		buf = appendMarked(buf, 'i', text[:i])
	case h.until != "":
		i = h.stringEnd(text, 0)
		buf = appendMarked(buf, 'q', text[:i])
	case h.directives:
		buf, i = h.directive(buf, text)
	}
	plain := i // what is before is written
	mark := func(element byte, from, to int) {
		if n := len(buf) - len("</a>"); element == 'a' && from-plain == 1 && text[plain] == ' ' && n >= begin && string(buf[n:]) == "</a>" {
			buf = append(appendSource(buf[:n], text[plain:to]), "</a>"...) // static const char: one element
		} else {
			buf = appendMarked(appendSource(buf, text[plain:from]), element, text[from:to])
		}
		plain, i = to, to
	}
	for i < len(text) {
		c := text[i]
		switch classes[c] {
		case letter:
			from := i
			for i++; i < len(text) && classes[text[i]] <= digit; i++ {
			}
			if i < len(text) && (text[i] == '"' || text[i] == '\'') && h.prefixed(text[from:i], text[i:]) {
				i = h.open(text, i)
				mark('q', from, i)
			} else if h.keywords[string(text[from:i])] {
				mark('a', from, i)
			}
		case digit:
			from := i
			for i++; i < len(text) && h.inNumber(text, i); i++ {
			}
			mark('q', from, i)
		case other:
			i++
		default: // punctuation that may begin a comment or a string
			switch {
			case h.startsLineComment(text[i:]):
				mark('i', i, len(text))
			case h.blockOpen != "" && hasPrefix(text[i:], h.blockOpen):
				h.depth = 1
				mark('i', i, h.comment(text, i+len(h.blockOpen)))
			case strings.IndexByte(h.quotes, c) >= 0:
				mark('q', i, h.open(text, i))
			default:
				i++
			}
		}
	}
	return appendSource(buf, text[plain:])
}

// directive marks what a line of the C preprocessor begins with, and the name
// of a header.
func (h *highlighter) directive(buf, text []byte) ([]byte, int) {
	i := skipBlanks(text, 0)
	if i == len(text) || text[i] != '#' {
		return buf, 0
	}
	i = skipBlanks(text, i+1)
	from := i
	for i < len(text) && classes[text[i]] == letter {
		i++
	}
	buf = appendMarked(buf, 'a', text[:i])
	if word := string(text[from:i]); word != "include" && word != "include_next" && word != "import" {
		return buf, i
	}
	open := skipBlanks(text, i)
	if open < len(text) && text[open] == '<' {
		if n := bytes.IndexByte(text[open:], '>'); n > 0 {
			buf = append(buf, text[i:open]...)
			return appendMarked(buf, 'q', text[open:open+n+1]), open + n + 1
		}
	}
	return buf, i
}

func skipBlanks(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	return i
}

func (h *highlighter) startsLineComment(rest []byte) bool {
	for _, start := range h.lineComments {
		if hasPrefix(rest, start) {
			return true
		}
	}
	return false
}

// comment returns where the open block comment ends in text, from i on.
func (h *highlighter) comment(text []byte, i int) int {
	for i < len(text) {
		switch {
		case hasPrefix(text[i:], h.blockClose):
			i += len(h.blockClose)
			if h.depth--; h.depth == 0 {
				return i
			}
		case h.nested && hasPrefix(text[i:], h.blockOpen):
			i += len(h.blockOpen)
			h.depth++
		default:
			i++
		}
	}
	return i
}

// prefixed tells whether a word belongs to the literal after it: R"(...)",
// u8"...", b'...', f"...".
func (h *highlighter) prefixed(word, rest []byte) bool {
	return len(word) <= 3 && strings.Contains(h.prefixes, " "+string(word)+" ") && strings.IndexByte(h.quotes, rest[0]) >= 0
}

// open returns the end of the literal whose quote is at i, in this line.
func (h *highlighter) open(text []byte, i int) int {
	quote := string(text[i])
	switch {
	case h.triple && hasPrefix(text[i:], quote+quote+quote):
		h.until = quote + quote + quote
		return h.stringEnd(text, i+3)
	case quote == `"` && h.rawParens && i > 0 && text[i-1] == 'R':
		if n := bytes.IndexByte(text[i:], '('); n > 0 && n <= 17 {
			h.until = ")" + string(text[i+1:i+n]) + `"`
			return h.stringEnd(text, i+n+1)
		}
	case quote == "`":
		h.until = quote
		return h.stringEnd(text, i+1)
	case quote == "'" && h.lifetimes:
		// 'a' is a character, 'a a lifetime.
		_, size := utf8.DecodeRune(text[min(i+1, len(text)):])
		if end := i + 1 + size; !(end < len(text) && text[end] == '\'') && !hasPrefix(text[i+1:], `\`) {
			return i + 1
		}
	}
	for i++; i < len(text); i++ {
		switch {
		case text[i] == '\\' && !h.doubled:
			i++
		case text[i] == quote[0]:
			return i + 1
		}
	}
	if n := len(text); n > 0 && text[n-1] == '\\' && h.directives {
		h.until = quote // goes on in the next line
	}
	return len(text)
}

// stringEnd returns where the open string ends in text, from i on.
func (h *highlighter) stringEnd(text []byte, i int) int {
	for ; i < len(text); i++ {
		switch {
		case hasPrefix(text[i:], h.until):
			i += len(h.until)
			h.until = ""
			return i
		case text[i] == '\\' && h.until[0] != ')':
			i++
		}
	}
	if len(h.until) == 1 && h.until != "`" && (len(text) == 0 || text[len(text)-1] != '\\') {
		h.until = ""
	}
	return len(text)
}

func (h *highlighter) inNumber(text []byte, i int) bool {
	switch c := text[i]; {
	case classes[c] <= digit:
		return true
	case c == '.':
		return i+1 < len(text) && classes[text[i+1]] == digit
	case c == '+' || c == '-':
		return (text[i-1] == 'e' || text[i-1] == 'E') && !hasPrefix(text[max(i-4, 0):], "0x") && i+1 < len(text) && classes[text[i+1]] == digit
	case c == '\'':
		return h.rawParens && i+1 < len(text) && classes[text[i+1]] <= digit // 1'000 in C++
	}
	return false
}

func hasPrefix(b []byte, s string) bool {
	return len(b) >= len(s) && string(b[:len(s)]) == s
}

// Classes of bytes: letter and digit first, they make words.
const (
	letter = iota
	digit
	other // what never begins anything
	special
)

var classes = func() (t [256]uint8) {
	for c := range t {
		switch b := byte(c); {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b == '_', b >= utf8.RuneSelf:
			t[c] = letter
		case b >= '0' && b <= '9':
			t[c] = digit
		case strings.IndexByte("\"'`/#-!*({%;", b) >= 0:
			t[c] = special
		default:
			t[c] = other
		}
	}
	return t
}()

func appendMarked(buf []byte, element byte, text []byte) []byte {
	if len(text) == 0 {
		return buf
	}
	buf = append(buf, '<', element, '>')
	buf = appendSource(buf, text)
	return append(buf, '<', '/', element, '>')
}

// appendSource appends text of a source for HTML. Bytes that are not UTF-8 are
// taken for Latin-1. Control characters are shown as pictures, and those that
// change the direction of text as their codes, so that code is what it seems.
func appendSource(buf, text []byte) []byte {
	from := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0x7f && c != '<' && c != '&' || c == '\t' {
			i++
			continue
		}
		buf = append(buf, text[from:i]...)
		size := 1
		switch {
		case c == '<':
			buf = append(buf, "&lt;"...)
		case c == '&':
			// Alone it is itself: && and & x need no escape.
			if i+1 < len(text) && (classes[text[i+1]] <= digit || text[i+1] == '#') {
				buf = append(buf, "&amp;"...)
			} else {
				buf = append(buf, '&')
			}
		case c < ' ':
			buf = utf8.AppendRune(buf, 0x2400+rune(c))
		case c == 0x7f:
			buf = utf8.AppendRune(buf, 0x2421)
		default:
			var r rune
			r, size = utf8.DecodeRune(text[i:])
			buf = appendRune(buf, r, c, size)
		}
		i += size
		from = i
	}
	return append(buf, text[from:]...)
}

// appendRune appends a character beyond ASCII that was decoded from so many
// bytes, the first of which is c.
func appendRune(buf []byte, r rune, c byte, size int) []byte {
	switch {
	case r == utf8.RuneError && size == 1:
		if c < 0xa0 { // control characters
			return utf8.AppendRune(buf, utf8.RuneError)
		}
		return utf8.AppendRune(buf, rune(c))
	case r < 0xa0, r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe:
		return utf8.AppendRune(buf, utf8.RuneError) // not allowed in HTML
	case unicode.Is(unicode.Bidi_Control, r):
		const hex = "0123456789ABCDEF"
		return append(buf, '[', 'U', '+', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15], ']')
	}
	return utf8.AppendRune(buf, r)
}

// languageOf returns what is known of the language of a source, nil for
// nothing. A header is C++ where its functions are.
func languageOf(name string, cpp bool) *language {
	suffix := strings.TrimPrefix(path.Ext(name), ".")
	if suffix == "h" && cpp {
		suffix = "hpp"
	}
	if suffix != "C" && suffix != "H" { // C++ by custom
		suffix = strings.ToLower(suffix)
	}
	return languages()[suffix]
}
