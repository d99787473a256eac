package tracefiles

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// A markup takes XML apart as it comes: only what Cobertura's reports consist
// of, elements with attributes and text, in UTF-8 or a code that has ASCII's
// characters. What the document type declares is not looked at.
type markup struct {
	in   *stream
	name []byte // of the last tag
	end  bool   // it was an end tag; elements without content have one, too
	text []byte // before the tag

	attributes []attribute
	values     []byte // of the attributes, one behind the other
	closing    bool   // an end tag is due
	err        error
}

// An attribute is a part of markup.values.
type attribute struct{ name, from, to int }

// longestTag is more than the longest name of a class or a function.
const longestTag = 1 << 24

// next goes to the next tag. It returns false at the end of the file.
func (m *markup) next() bool {
	if m.closing {
		m.closing, m.end = false, true
		m.text, m.attributes = m.text[:0], m.attributes[:0]
		return true
	}
	m.text = m.text[:0]
	for m.err == nil {
		if !m.upTo('<', &m.text) {
			return false
		}
		switch tag := m.tag(); {
		case m.err != nil:
			return false
		case bytes.HasPrefix(tag, []byte("![CDATA[")):
			m.text = append(m.text, tag[len("![CDATA["):len(tag)-2]...)
		case len(tag) > 0 && (tag[0] == '!' || tag[0] == '?'):
		default:
			m.split(tag)
			return m.err == nil
		}
	}
	return false
}

// upTo takes all before c into text, and c. Entities become what they stand for.
func (m *markup) upTo(c byte, text *[]byte) bool {
	from := len(*text)
	for {
		rest := m.in.peek()
		if i := bytes.IndexByte(rest, c); i >= 0 {
			*text = append(*text, rest[:i]...)
			m.in.pos += i + 1
			*text = append((*text)[:from], unescape((*text)[from:])...)
			return true
		}
		if len(*text)-from > longestTag {
			m.err = fmt.Errorf("16 MiB of text without %q", c)
			return false
		}
		*text = append(*text, rest...)
		m.in.pos = m.in.end
		if !m.in.fill() {
			return false
		}
	}
}

// tag takes a tag behind its "<", a comment, a CDATA section or a declaration.
// It is good until the next one.
func (m *markup) tag() []byte {
	for seen := 0; ; {
		rest := m.in.peek()
		for {
			i := bytes.IndexByte(rest[seen:], '>')
			if i < 0 {
				break
			}
			seen += i + 1
			if complete(rest[:seen]) {
				m.in.pos += seen
				return rest[:seen-1]
			}
		}
		seen = len(rest)
		if seen > longestTag || !m.in.fill() {
			m.err = fmt.Errorf("a tag without its end")
			return nil
		}
	}
}

// complete tells whether a tag that ends in ">" is whole.
func complete(tag []byte) bool {
	switch {
	case bytes.HasPrefix(tag, []byte("!--")):
		return len(tag) >= len("!---->") && bytes.HasSuffix(tag, []byte("-->"))
	case bytes.HasPrefix(tag, []byte("![CDATA[")):
		return len(tag) >= len("![CDATA[]]>") && bytes.HasSuffix(tag, []byte("]]>"))
	case tag[0] == '!' || tag[0] == '?':
		return bytes.Count(tag, []byte("[")) == bytes.Count(tag, []byte("]")) // a document type may have an inner part
	}
	quote := byte(0)
	for _, c := range tag {
		switch {
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		}
	}
	return quote == 0
}

// split takes a start or end tag apart.
func (m *markup) split(tag []byte) {
	m.attributes, m.values = m.attributes[:0], m.values[:0]
	tag, m.end = bytes.CutPrefix(tag, []byte("/"))
	tag, m.closing = bytes.CutSuffix(tag, []byte("/"))
	m.closing = m.closing && !m.end
	i := bytes.IndexAny(tag, " \t\r\n")
	if i < 0 {
		i = len(tag)
	}
	m.name = append(m.name[:0], tag[:i]...)
	for rest := bytes.TrimLeft(tag[i:], " \t\r\n"); len(rest) > 0; rest = bytes.TrimLeft(rest, " \t\r\n") {
		name, value, ok := bytes.Cut(rest, []byte("="))
		value = bytes.TrimLeft(value, " \t\r\n")
		if !ok || len(value) < 2 || value[0] != '"' && value[0] != '\'' {
			m.err = fmt.Errorf("<%.40s>: expected attributes as name=\"value\"", tag)
			return
		}
		n := bytes.IndexByte(value[1:], value[0])
		if n < 0 {
			m.err = fmt.Errorf("<%.40s>: a value without its end", tag)
			return
		}
		var a attribute
		m.values = append(m.values, bytes.TrimSpace(name)...)
		a.name = len(m.values)
		a.from = a.name
		m.values = append(m.values, unescape(value[1:1+n])...)
		a.to = len(m.values)
		m.attributes = append(m.attributes, a)
		rest = value[n+2:]
	}
}

// get returns the value of an attribute of the last tag, nil if it has none of
// that name. It is good until the next tag.
func (m *markup) get(name string) []byte {
	from := 0
	for _, a := range m.attributes {
		if string(m.values[from:a.name]) == name {
			return m.values[a.from:a.to:a.to]
		}
		from = a.to
	}
	return nil
}

// unescape returns text with characters in the place of entities. It may write
// over text.
func unescape(text []byte) []byte {
	i := bytes.IndexByte(text, '&')
	if i < 0 {
		return text
	}
	out := text[:i]
	for len(text) > i && i >= 0 {
		entity, _, ok := bytes.Cut(text[i+1:min(len(text), i+12)], []byte(";"))
		var room [utf8.UTFMax]byte
		if char := entityText(room[:0], entity); ok && len(char) > 0 {
			out = append(out, char...)
			text = text[i+1+len(entity)+1:]
		} else {
			out = append(out, '&')
			text = text[i+1:]
		}
		if i = bytes.IndexByte(text, '&'); i < 0 {
			i = len(text)
		}
		out = append(out, text[:i]...)
	}
	return out
}

// entityText appends what an entity stands for, nothing if that is not known.
func entityText(out, name []byte) []byte {
	switch string(name) {
	case "lt":
		return append(out, '<')
	case "gt":
		return append(out, '>')
	case "amp":
		return append(out, '&')
	case "quot":
		return append(out, '"')
	case "apos":
		return append(out, '\'')
	}
	number, ok := bytes.CutPrefix(name, []byte("#"))
	if !ok {
		return out
	}
	base := 10
	if hex, ok := bytes.CutPrefix(number, []byte("x")); ok {
		number, base = hex, 16
	}
	r, err := strconv.ParseUint(string(number), base, 32)
	if err != nil || r == 0 || r > utf8.MaxRune {
		return out
	}
	return utf8.AppendRune(out, rune(r))
}
