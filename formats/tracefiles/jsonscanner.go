package tracefiles

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A jsonScanner takes JSON apart as it comes, without ever having more of it than a
// string. After an error all of its loops end:
//
//	for s.begin('['); s.more(']'); {
//		for s.begin('{'); s.more('}'); {
//			switch string(s.key()) {
//			case "count":
//				n = s.integer()
//			default:
//				s.skip()
//			}
//		}
//	}
//
// null stands for 0, "" and false, and for an empty list.
type jsonScanner struct {
	in    *stream
	text  []byte // the last string
	first bool   // nothing has come of what was begun last
	empty bool   // it was null
	err   error
}

func (s *jsonScanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// peek returns the next byte that is no space, 0 at the end.
func (s *jsonScanner) peek() byte {
	for {
		for in := s.in; in.pos < in.end; in.pos++ {
			if c := in.buf[in.pos]; c > ' ' {
				return c
			}
		}
		if !s.in.fill() {
			return 0
		}
	}
}

// begin takes the bracket of an object or a list.
func (s *jsonScanner) begin(bracket byte) {
	switch c := s.peek(); {
	case s.err != nil:
	case c == bracket:
		s.in.pos++
		s.first = true
	case c == 'n':
		s.word("null")
		s.empty = true
	default:
		s.unexpected(string(bracket))
	}
}

func (s *jsonScanner) unexpected(wanted string) {
	if c := s.peek(); c == 0 {
		s.fail("the file ends, expected %s", wanted)
	} else {
		s.fail("%q, expected %s", c, wanted)
	}
}

// more tells whether something comes before the closing bracket.
func (s *jsonScanner) more(bracket byte) bool {
	if s.empty || s.err != nil {
		s.empty = false
		return false
	}
	switch c := s.peek(); {
	case c == bracket:
		s.in.pos++
		s.first = false
		return false
	case s.first:
		s.first = false
	case c == ',':
		s.in.pos++
	default:
		s.unexpected("a comma or " + string(bracket))
		return false
	}
	return true
}

// key takes the name of a member. It is good until the next string.
func (s *jsonScanner) key() []byte {
	k := s.string()
	if s.peek() != ':' {
		s.unexpected("a colon")
		return nil
	}
	s.in.pos++
	return k
}

// longestString is more than the longest name of a function.
const longestString = 1 << 24

// string takes a string. It is good until the next one.
func (s *jsonScanner) string() []byte {
	s.text = s.text[:0]
	switch c := s.peek(); {
	case s.err != nil:
		return nil
	case c == 'n':
		s.word("null")
		return nil
	case c != '"':
		s.unexpected("a string")
		return nil
	}
	in := s.in
	in.pos++
	for {
		rest := in.peek()
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			i = len(rest)
		}
		if k := bytes.IndexByte(rest[:i], '\\'); k >= 0 {
			s.text = append(s.text, rest[:k]...)
			in.pos += k + 1
			if s.escape(); s.err != nil {
				return nil
			}
			continue
		}
		s.text = append(s.text, rest[:i]...)
		in.pos += i
		if i < len(rest) {
			in.pos++
			return s.text
		}
		if len(s.text) > longestString {
			s.fail("a string of more than 16 MiB")
			return nil
		}
		if !in.fill() {
			s.fail("the file ends in a string")
			return nil
		}
	}
}

// escape takes what follows a backslash.
func (s *jsonScanner) escape() {
	switch c := s.take(); c {
	case 'n':
		s.text = append(s.text, '\n')
	case 't':
		s.text = append(s.text, '\t')
	case 'r':
		s.text = append(s.text, '\r')
	case 'b':
		s.text = append(s.text, '\b')
	case 'f':
		s.text = append(s.text, '\f')
	case 'u':
		r := s.hex()
		if utf16.IsSurrogate(r) {
			second := rune(0)
			if s.take() == '\\' && s.take() == 'u' {
				second = s.hex()
			}
			r = utf16.DecodeRune(r, second)
		}
		s.text = utf8.AppendRune(s.text, r)
	case 0:
		s.fail("the file ends in a string")
	default:
		s.text = append(s.text, c)
	}
}

// take takes a byte, 0 at the end.
func (s *jsonScanner) take() byte {
	if s.in.pos == s.in.end && !s.in.fill() {
		return 0
	}
	s.in.pos++
	return s.in.buf[s.in.pos-1]
}

func (s *jsonScanner) hex() (r rune) {
	for range 4 {
		d, err := strconv.ParseUint(string(rune(s.take())), 16, 8)
		if err != nil {
			s.fail(`four hexadecimal digits are expected after \u`)
		}
		r = r<<4 | rune(d)
	}
	return r
}

// integer takes a number; what is too large becomes the largest.
func (s *jsonScanner) integer() int64 {
	switch c := s.peek(); {
	case s.err != nil:
		return 0
	case c == 'n':
		s.word("null")
		return 0
	case c != '-' && c-'0' > 9:
		s.unexpected("a number")
		return 0
	}
	var room [32]byte
	text := room[:0]
	whole := true
	for len(text) < 1<<10 {
		if s.in.pos == s.in.end && !s.in.fill() {
			break
		}
		c := s.in.buf[s.in.pos]
		if c-'0' > 9 {
			if c != '-' && c != '+' && c != '.' && c|0x20 != 'e' {
				break
			}
			whole = whole && c == '-' && len(text) == 0
		}
		text = append(text, c)
		s.in.pos++
	}
	if whole {
		if n, rest, ok := integer(text); ok && len(rest) == 0 {
			return n
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	switch {
	case err != nil && f == 0:
		s.fail("%.20q is no number", text)
	case f >= 1<<63:
		return 1<<63 - 1
	case f > -1<<63:
		return int64(f)
	}
	return 0
}

// line takes the number of a line or of a column, 0 if it cannot be one.
func (s *jsonScanner) line() int32 {
	n := s.integer()
	if n < 0 || n > 1<<31-1 {
		return 0
	}
	return int32(n)
}

// bool takes true or false.
func (s *jsonScanner) bool() bool {
	switch s.peek() {
	case 't':
		s.word("true")
		return true
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.unexpected("true or false")
	}
	return false
}

func (s *jsonScanner) word(w string) {
	for i := range len(w) {
		if c := s.take(); c != w[i] {
			s.fail("expected %s", w)
			return
		}
	}
}

// skip takes any value, of any depth.
func (s *jsonScanner) skip() {
	depth := 0
	for s.err == nil {
		switch c := s.peek(); {
		case c == '"':
			s.string()
		case c == '{' || c == '[':
			depth++
			s.in.pos++
		case c == '}' || c == ']':
			depth--
			s.in.pos++
		case c == ',' || c == ':':
			s.in.pos++
		case c == 't' || c == 'f':
			s.bool()
		case c == 'n':
			s.word("null")
		default:
			s.integer()
		}
		if depth <= 0 {
			return
		}
	}
}
