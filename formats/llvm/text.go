package llvm

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Profiles in text are what llvm-profdata merge -text writes:
//
//	# comments, also after :ir, :fe and other words about all functions
//	name
//	hash
//	number of counters
//	counters, one a line
//	$ number of bytes of bitmaps    if there are any
//	0x.., one a line
//	number of kinds of values       if there are any, then for each: kind, number of sites, for each:
//	                                number of values, VALUE:COUNT

// isText tells whether a file may be one: it has no bytes that text has not.
func isText(b []byte) bool {
	head := b[:min(len(b), 4096)]
	if bytes.IndexByte(head, 0) >= 0 || bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")) {
		return false
	}
	for len(head) > 0 {
		c, size := utf8.DecodeRune(head)
		if c == utf8.RuneError && size <= 1 && len(head) >= utf8.UTFMax || c < ' ' && c != '\n' && c != '\t' && c != '\r' && c != 1 {
			return false
		}
		head = head[size:]
	}
	return true
}

// textFlags are the words about all functions.
var textFlags = map[string]uint64{
	"fe": 0, "ir": FlagIR, "csir": FlagIR | FlagContext, "entry_first": FlagEntry, "not_entry_first": 0,
	"instrument_loop_entries": FlagLoopEntries, "single_byte_coverage": FlagSingleBytes, "temporal_prof_traces": FlagTemporal,
}

// A textReader gives the lines that are neither empty nor comments.
type textReader struct {
	rest   string
	number int // of the line, from 1
	line   string
	err    error

	targets Names // of functions that are called
}

func (t *textReader) next() bool {
	for t.err == nil && t.rest != "" {
		t.number++
		t.line, t.rest, _ = strings.Cut(t.rest, "\n")
		t.line = strings.TrimRight(t.line, " \t\r")
		if line := strings.TrimLeft(t.line, " \t"); line != "" && line[0] != '#' {
			return true
		}
	}
	return false
}

// peek is the next line that next would find.
func (t *textReader) peek() string {
	look := *t
	if look.next() {
		return look.line
	}
	return ""
}

// A TextError is a line of a profile in text that says something else than expected.
type TextError struct {
	Line            int // from 1
	Expected, Found string
}

func (e *TextError) Error() string {
	return fmt.Sprintf("line %d: %s expected, found %.40q", e.Line, e.Expected, e.Found)
}

func (t *textReader) fail(what string) {
	if t.err == nil {
		t.err = &TextError{Line: t.number, Expected: what, Found: t.line}
	}
}

func (t *textReader) uint(what string) uint64 {
	if !t.next() {
		t.line = ""
		t.fail(what)
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(t.line), 0, 64)
	if err != nil {
		t.fail(what)
	}
	return n
}

// count reads how many lines follow.
func (t *textReader) count(what string) uint64 {
	n := t.uint(what)
	if n > uint64(len(t.rest)) {
		t.fail(what + " that fits the file")
		return 0
	}
	return n
}

func readText(b []byte) (*Profile, error) {
	p := &Profile{Format: Text}
	t := &textReader{rest: string(b)}
	for strings.HasPrefix(t.peek(), ":") && t.next() {
		word := strings.ToLower(t.line[1:])
		flag, ok := textFlags[word]
		if !ok || word == "temporal_prof_traces" {
			return nil, fmt.Errorf("line %d: %q is not known", t.number, t.line)
		}
		p.Flags |= flag
	}
	for t.next() {
		c := Counted{Name: t.line, NameHash: HashOf(t.line)}
		c.Hash = t.uint("the hash of a function")
		n := t.count("a number of counters")
		if n == 0 {
			t.fail("a number of counters above 0")
		}
		for range n {
			if t.err != nil {
				break
			}
			c.Counts = append(c.Counts, t.uint("a count"))
		}
		if strings.HasPrefix(t.peek(), "$") {
			t.textBitmap(&c)
		} else if n, err := strconv.ParseUint(t.peek(), 10, 32); err == nil && n <= 3 {
			c.Values = t.textValues()
		}
		if t.err != nil {
			if len(p.Counted) == 0 {
				return nil, fmt.Errorf("%w: %w", ErrNotProfile, t.err)
			}
			return p, t.err
		}
		p.Counted = append(p.Counted, c)
	}
	p.targets = t.targets
	if len(p.Counted) == 0 && len(bytes.TrimSpace(b)) > 0 && !bytes.HasPrefix(b, []byte(":")) && !bytes.HasPrefix(b, []byte("#")) {
		return nil, ErrNotProfile
	}
	return p, nil
}

func (t *textReader) textBitmap(c *Counted) {
	t.next()
	n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(t.line, "$")), 0, 64)
	if err != nil {
		t.fail("a number of bytes of a bitmap")
		return
	}
	if n > uint64(len(t.rest)) {
		t.fail("a number of bytes that fits the file")
		return
	}
	for range n {
		if t.err != nil {
			return
		}
		b := t.uint("a byte of a bitmap")
		if b > 255 {
			t.fail("a byte of a bitmap")
		}
		c.Bitmap = append(c.Bitmap, byte(b))
	}
}

func (t *textReader) textValues() Values {
	values := make(Values, 3)
	for range t.count("a number of kinds") {
		kind := t.uint("a kind of values")
		if kind > 2 {
			t.fail("a kind of values")
		}
		for range t.count("a number of sites") {
			if t.err != nil {
				return nil
			}
			var site ValueSite
			for range t.count("a number of values") {
				if t.err != nil || !t.next() {
					t.fail("a value")
					return nil
				}
				site = append(site, t.value(int(kind)))
			}
			values[kind] = append(values[kind], site)
		}
		if t.err != nil {
			return nil
		}
	}
	return values
}

// value reads VALUE:COUNT; functions and tables stand by their names.
func (t *textReader) value(kind int) (v ValueCount) {
	i := strings.LastIndexByte(t.line, ':')
	if i < 0 {
		t.fail("VALUE:COUNT")
		return v
	}
	var err error
	if v.Count, err = strconv.ParseUint(t.line[i+1:], 10, 64); err != nil {
		t.fail("VALUE:COUNT")
	}
	name := t.line[:i]
	switch {
	case kind == MemorySizes:
		if v.Value, err = strconv.ParseUint(name, 10, 64); err != nil {
			t.fail("VALUE:COUNT")
		}
	case name == "":
		t.fail("the name of a function")
	case name != externalSymbol:
		v.Value = HashOf(name)
		if t.targets == nil {
			t.targets = make(Names)
		}
		t.targets[v.Value] = name
	}
	return v
}
