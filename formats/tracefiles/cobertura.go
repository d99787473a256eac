package tracefiles

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"footfall/coverage"
	"footfall/input"
)

// cobertura reads the XML of Cobertura (coverage-04.dtd), which gcovr,
// coverage.py, many other tools and footfall write:
//
//	<coverage> <sources> <source>directory</source> ...
//	  <packages> <package> <classes>
//	    <class filename="relative/path">
//	      <methods> <method name="f" signature="(int)"> <lines> <line number="3" hits="2"/> ...
//	      <lines>
//	        <line number="3" hits="2" branch="true" condition-coverage="50% (1/2)"/>
//
// Of branches only the numbers are known: so many of them, the first ones, are
// taken as taken. Lines of methods are those of the class again, and tell only
// where a function starts and how often that ran.
func (r *reader) cobertura() error {
	c := coberturaReader{reader: r, m: markup{in: &r.in}}
	for c.m.next() {
		c.element()
	}
	err := c.m.err
	if err == nil {
		err = r.in.failed()
	}
	if err == nil && c.depth > 0 {
		err = errors.New("the file ends before its last tag; is it complete?")
	}
	c.endClass()
	switch {
	case err != nil && c.classes == 0:
		return fmt.Errorf("at offset %#x: %w", r.in.offset(), err)
	case err != nil:
		r.cut(0, "at offset %#x: %w; what came before counts", r.in.offset(), err)
	case !c.known:
		return fmt.Errorf("XML with <%.40s>, expected <coverage> as Cobertura writes it", c.root)
	case c.classes == 0:
		return errors.New("no <class> in it: expected a report as Cobertura writes it, with lines")
	}
	r.tellNegative(c.negative)
	return nil
}

type coberturaReader struct {
	*reader
	m     markup
	depth int
	root  string // the first element
	known bool   // it is that of Cobertura

	directories []string // <source>
	classes     int
	negative    int64  // counts
	ways        int64  // of all lines: no more than there are bytes, or a few
	filename    string // of the class under way, "" if none
	method      coverage.Function
	inMethod    bool
}

func (c *coberturaReader) element() {
	m := &c.m
	if m.end {
		c.depth--
		switch string(m.name) {
		case "source":
			c.directories = append(c.directories, string(bytes.TrimSpace(m.text)))
		case "class":
			c.endClass()
		case "method":
			c.endMethod()
		}
		return
	}
	if c.depth++; c.root == "" {
		c.root = string(m.name)
		c.known = c.root == "coverage" && m.get("clover") == nil
	}
	switch string(m.name) {
	case "class":
		c.endClass()
		c.classes++
		c.filename = c.intern(m.get("filename"))
	case "method":
		c.inMethod = true
		name := append(m.get("name"), m.get("signature")...)
		c.method = coverage.Function{Instances: []coverage.Instance{{Name: c.intern(name)}}}
	case "line":
		c.line()
	}
}

func (c *coberturaReader) line() {
	number, _, ok := lineNumber(append(c.m.get("number"), ','))
	hits, _, counted := integer(c.m.get("hits"))
	switch {
	case !ok || number == 0 || !counted:
		c.problem(0, "at offset %#x: expected <line number=... hits=...>", c.in.offset())
		return
	case c.inMethod:
		if c.method.StartLine == 0 {
			c.method.StartLine = number
			c.method.Instances[0].Count = max(hits, 0)
		}
		c.method.EndLine = max(c.method.EndLine, number)
	case c.filename != "":
		c.build.line(number, hits)
		c.branches(number)
	}
	if hits < 0 {
		c.negative++
	}
}

// branches reads "50% (1/2)".
func (c *coberturaReader) branches(number int32) {
	text := c.m.get("condition-coverage")
	open := bytes.IndexByte(text, '(')
	if open < 0 {
		return
	}
	const (
		most    = 1 << 12 // more than a line has
		fewWays = 1 << 16
	)
	taken, rest, ok := integer(text[open+1:])
	total, isNumber := int64(0), false
	if len(rest) > 0 && rest[0] == '/' {
		total, _, isNumber = integer(rest[1:])
	}
	if !ok || !isNumber || total < taken || taken < 0 || total > most {
		c.problem(0, "at offset %#x: expected condition-coverage as \"50%% (1/2)\"", c.in.offset())
		return
	}
	if c.ways += total; c.ways > c.in.offset()+fewWays {
		c.problem(0, "at offset %#x: more branches than a report of this size is likely to have: those of line %d are left out", c.in.offset(), number)
		return
	}
	for i := range total {
		w := way{line: number, index: i, undivided: true, guessed: true, evaluated: taken > 0}
		if i < taken {
			w.count = 1
		}
		c.build.ways = append(c.build.ways, w)
	}
}

func (c *coberturaReader) endMethod() {
	if c.inMethod && c.method.StartLine > 0 && c.method.Instances[0].Name != "" {
		c.build.function(c.method)
	}
	c.inMethod = false
}

// endClass adds the class to the sum.
func (c *coberturaReader) endClass() {
	c.endMethod()
	if c.filename != "" {
		c.build.file.Normalize()
		c.build.addWays()
		c.add(c.directory(), c.filename, "")
	}
	c.filename = ""
}

// directory returns the one of the directories that has the file, or the first.
func (c *coberturaReader) directory() string {
	if filepath.IsAbs(c.filename) || len(c.directories) == 0 {
		return ""
	}
	first := ""
	for i, d := range c.directories {
		if d == "." {
			d = ""
		}
		if i == 0 {
			first = d
		}
		if len(c.directories) == 1 {
			break
		}
		if input.IsFile(filepath.Join(d, c.filename)) {
			return d
		}
	}
	return first
}
