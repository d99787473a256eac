package report

import (
	"unicode/utf8"

	"footfall/output"
)

// An xmlWriter appends XML 1.0.
type xmlWriter struct{ buffer }

const xmlHeader = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// attribute appends a name and a quoted value, after a space.
func (x *xmlWriter) attribute(name, value string) {
	x.buf = append(append(append(x.buf, ' '), name...), `="`...)
	x.text(value)
	x.buf = append(x.buf, '"')
}

// count appends an attribute that is a number.
func (x *xmlWriter) count(name string, n int64) {
	x.buf = append(append(append(x.buf, ' '), name...), `="`...)
	x.number("", n)
	x.buf = append(x.buf, '"')
}

// text appends character data, for an element or an attribute in double quotes.
// White space of a name stays what it is, by references, which a parser would
// otherwise make a blank. What is not UTF-8, or no character of XML 1.0, which
// has no way to write it at all, is escaped as in all names.
func (x *xmlWriter) text(s string) {
	for _, c := range output.XML.Escape(s) {
		switch {
		case c == '&':
			x.raw("&amp;")
		case c == '<':
			x.raw("&lt;")
		case c == '>':
			x.raw("&gt;")
		case c == '"':
			x.raw("&quot;")
		case c == '\t' || c == '\n' || c == '\r':
			x.number("&#", int64(c))
			x.raw(";")
		default:
			x.buf = utf8.AppendRune(x.buf, c)
		}
	}
}
