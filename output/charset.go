package output

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Charset tells which characters a format can carry in names, as [Escape] asks. All
// carry what ASCII prints.
type Charset func(c rune, size int) bool

// The charsets of formats.
var (
	// UTF8 has all characters: JSON has some way to write each.
	UTF8 Charset = func(c rune, size int) bool { return c != utf8.RuneError || size > 1 }

	// XML has the characters of XML 1.0, which has no way to write others.
	XML Charset = func(c rune, size int) bool {
		return UTF8(c, size) && (c >= ' ' && c != 0xfffe && c != 0xffff || c == '\t' || c == '\n' || c == '\r')
	}

	// Line has all that neither ends a line nor moves the cursor, and all bytes that are
	// not UTF-8, as they are.
	Line Charset = func(c rune, _ int) bool { return !unicode.IsControl(c) }

	// UTF8Line has what both have.
	UTF8Line Charset = func(c rune, size int) bool { return UTF8(c, size) && Line(c, size) }
)

// Charsets returns all of them.
func Charsets() []Charset { return []Charset{UTF8, XML, Line, UTF8Line} }

// Escape returns a name as formats of the charset have it: nearly always as it is, and
// this is found out fast.
func (set Charset) Escape(s string) string {
	if Plain(s) {
		return s
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == '\\' || c > '~' && !set(c, utf8.UTFMax) }) {
		return s
	}
	return Escape(s, set)
}

// Plain tells whether the formats of all charsets have a name as it is. Reports of C++ ask it
// of megabytes of names, so it looks at eight bytes at once.
func Plain(s string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		backslash := x ^ ones*'\\'
		odd := x | (x - ones*' ') | (x + ones) | (backslash - ones) // beyond ASCII, below ' ', 0x7f, 0
		if odd&high != 0 && !plain(s[:8]) {
			return false
		}
	}
	return plain(s)
}

func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}
