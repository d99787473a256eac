package instrument

import "bytes"

// A reader goes through a file line by line.
type reader struct {
	src               []byte
	start, end, after int // of the line; end is before what ends it, after behind
	semicolon         int // the next one, from the start of some line on
}

// next goes to the next line, false means that there is none.
func (r *reader) next() bool {
	r.start = r.after
	n := bytes.IndexByte(r.src[r.start:], '\n')
	r.end, r.after = r.start+n, r.start+n+1
	if n < 0 {
		r.end, r.after = len(r.src), len(r.src)
	}
	return r.start < len(r.src)
}

func (r *reader) line() []byte { return r.src[r.start:r.end] }

// single tells whether the line is one statement at most, without a semicolon.
func (r *reader) single() bool {
	if r.semicolon < r.start {
		r.semicolon = r.start + bytes.IndexByte(r.src[r.start:], ';')
		if r.semicolon < r.start {
			r.semicolon = len(r.src)
		}
	}
	return r.semicolon >= r.end
}

// A kind is what a line is at the first look.
type kind uint8

const (
	anyLine     kind = iota // to be taken apart
	dataLine                // without a meaning for us
	localLine               // a label that begins with .L
	instruction             // one that is not inline assembly's
)

// kind tells quickly what most lines are.
func (r *reader) kind() kind {
	line := r.line()
	switch {
	case len(line) < 3:
	case line[0] == '.':
		if colon := bytes.IndexByte(line, ':'); line[1] == 'L' && colon == len(line)-1 && r.single() {
			return localLine
		}
	case line[0] != '\t':
	case line[1] == '.':
		if dull(line) {
			return dataLine
		}
	case line[1] >= 'a' && line[1] <= 'z' && r.single():
		return instruction
	}
	return anyLine
}

// A statement is a label, a directive or an instruction of a line.
type statement struct {
	label    []byte // the name, unquoted; nil: no label
	word     []byte // directive with its dot, or mnemonic
	prefix   []byte // prefixes such as notrack, as written
	operands []byte // what follows, without the comment
	comment  []byte // the rest of the line, where the statement is the last
}

// A scanner takes a line apart.
type scanner struct {
	rest  []byte
	slash bool // comments begin with // (arm64), not with #
}

// next returns the next statement of the line, ok is false at its end.
func (s *scanner) next() (st statement, ok bool) {
	s.rest = trimLeft(s.rest)
	for len(s.rest) > 0 && s.rest[0] == ';' {
		s.rest = trimLeft(s.rest[1:])
	}
	if len(s.rest) == 0 || s.comment(0) || s.rest[0] == '#' {
		return st, false
	}
	name, n := symbol(s.rest)
	after := trimLeft(s.rest[n:])
	if n > 0 && len(after) > 0 && after[0] == ':' {
		s.rest = after[1:]
		return statement{label: name}, true
	}
	end := s.end()
	text := trimRight(s.rest[:end])
	s.rest = s.rest[end:]
	if c := trimLeft(s.rest); len(c) > 0 && c[0] != ';' {
		st.comment, s.rest = c, nil
	}
	start := text
	for {
		n := wordEnd(text)
		if n == len(text) {
			st.word, text = text, nil
			break
		}
		st.word, text = text[:n], trimLeft(text[n:])
		if !prefixes[string(st.word)] {
			break
		}
		st.prefix = start[:len(start)-len(text)]
	}
	st.operands = text
	return st, true
}

// wordEnd returns the length of the word at the start of b.
func wordEnd(b []byte) int {
	for i, c := range b {
		if c == ' ' || c == '\t' {
			return i
		}
	}
	return len(b)
}

// prefixes may stand before a mnemonic.
var prefixes = map[string]bool{
	"notrack": true, "bnd": true, "rep": true, "repz": true, "repnz": true, "repe": true, "repne": true,
	"lock": true, "data16": true, "rex64": true, "rex.w": true, "cs": true, "ds": true, "es": true,
}

// end returns where the statement at the start of rest ends: at a semicolon or
// a comment outside of quotes.
func (s *scanner) end() int {
	quoted := false
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ';' || s.comment(i):
			return i
		}
	}
	return len(s.rest)
}

func (s *scanner) comment(i int) bool {
	if s.slash {
		return s.rest[i] == '/' && i+1 < len(s.rest) && s.rest[i+1] == '/'
	}
	return s.rest[i] == '#'
}

// symbol returns the symbol at the start of b, unquoted and not empty, and its
// length there; 0 if there is none.
func symbol(b []byte) (name []byte, n int) {
	if len(b) > 0 && b[0] == '"' {
		for i := 1; i < len(b); i++ {
			switch b[i] {
			case '\\':
				i++
			case '"':
				if i == 1 {
					return nil, 0
				}
				return b[1:i], i + 1
			}
		}
		return nil, 0
	}
	for n < len(b) && symbolByte(b[n]) {
		n++
	}
	return b[:n], n
}

func symbolByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '$' || c >= 0x80
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

func trimLeft(b []byte) []byte {
	for len(b) > 0 && space(b[0]) {
		b = b[1:]
	}
	return b
}

func trimRight(b []byte) []byte {
	for len(b) > 0 && space(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// arguments splits the operands of a directive at commas outside of quotes.
func arguments(b []byte) [][]byte {
	var list [][]byte
	quoted, start := false, 0
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '\\' && quoted:
			i++
		case b[i] == '"':
			quoted = !quoted
		case b[i] == ',' && !quoted:
			list = append(list, trimRight(trimLeft(b[start:i])))
			start = i + 1
		}
	}
	return append(list, trimRight(trimLeft(b[start:])))
}

// dull tells quickly that a line has data or line numbers only, as most have
// with debug information.
func dull(line []byte) bool {
	if len(line) < 6 || line[0] != '\t' || line[1] != '.' {
		return false
	}
	word := line[2:]
	for _, d := range dullDirectives[word[0]] {
		if len(word) > len(d) && string(word[:len(d)]) == d {
			return d[0] == 's' || d[0] == 'a' || bytes.IndexByte(word, ';') < 0 // strings may hold any
		}
	}
	return false
}

// dullDirectives are those without a meaning for us, by their initial.
var dullDirectives = [256][]string{
	'a': {"ascii\t", "asciz\t"}, 'b': {"byte\t"}, 'l': {"long\t", "loc "}, 'q': {"quad\t"}, 's': {"string\t", "sleb128 ", "short\t"},
	'u': {"uleb128 "}, 'v': {"value\t"}, 'z': {"zero\t"},
	'c': {"cfi_def_cfa", "cfi_offset", "cfi_remember", "cfi_restore", "cfi_adjust"}, 'p': {"p2align ", "p2align\t"},
}
