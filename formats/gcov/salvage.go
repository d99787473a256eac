package gcov

import "encoding/binary"

// Gcov does not notice that a file has been cut: every word behind the end is
// 0 for it, and with a tag of 0 all is read. So a function whose records are
// cut loses lines, or has arcs to block 0, and counters that are missing are
// 0. This file reads damaged files that way, for listings only.

// A looseReader takes words off a slice, and zeros behind its end.
type looseReader struct {
	b     []byte
	pos   int
	order binary.ByteOrder
	bytes bool
	short bool // something was asked for that is not there
}

func looseFrom(r *reader) *looseReader {
	l := &looseReader{b: r.b, pos: r.pos, order: binary.LittleEndian, bytes: r.bytes}
	if r.big {
		l.order = binary.BigEndian
	}
	return l
}

func (r *looseReader) word() uint32 {
	if r.ended() {
		r.pos, r.short = len(r.b), true
		return 0
	}
	r.pos += 4
	return r.order.Uint32(r.b[r.pos-4:])
}

func (r *looseReader) ended() bool { return r.pos > len(r.b)-4 }

// counter takes a counter; one that is cut is 0.
func (r *looseReader) counter() int64 {
	if r.pos > len(r.b)-8 {
		r.pos, r.short = len(r.b), true
		return 0
	}
	lo := r.word()
	return int64(uint64(r.word())<<32 | uint64(lo))
}

func (r *looseReader) size(length uint32) int {
	if r.bytes {
		return int(length)
	}
	return int(length) * 4
}

// text returns a string; one that is cut is empty.
func (r *looseReader) text() string {
	n := r.size(r.word())
	if n > len(r.b)-r.pos {
		r.pos, r.short = len(r.b), true
		return ""
	}
	s := r.b[r.pos : r.pos+n]
	r.pos += n
	for i, c := range s {
		if c == 0 {
			return string(s[:i])
		}
	}
	return string(s)
}

// source is reader.source.
func (r *looseReader) source() string {
	start := r.pos
	name := r.text()
	if name == "" && !r.short && r.pos > start+4 {
		return emptyName
	}
	return name
}

// next takes the tag and length of a record and returns where it ends.
func (r *looseReader) next() (tag, length uint32, end int) {
	tag = r.word()
	length = r.word()
	n := r.size(length)
	if int32(length) < 0 {
		n = 0
	}
	return tag, length, r.pos + n
}

// salvageNotes reads damaged notes, whose head stands, and the messages about
// them.
func salvageNotes(b []byte, name string) (*Notes, []notice) {
	n, head := readNotesHead(b)
	s := &notesSalvage{looseReader: looseFrom(&head), version: n.Version, name: name}
	for {
		tag, _, end := s.next()
		if tag == 0 {
			break
		}
		if !s.record(n, tag, end) {
			s.notices = append(s.notices, notice{name + ":corrupted\n", 4})
			break
		}
		s.pos = max(s.pos, end)
		if s.pos > end {
			s.pos = end
		}
		if s.short && s.version.noticesCuts() {
			s.notices = append(s.notices, notice{name + ":corrupted\n", 4})
			break
		}
		if s.pos > len(b) {
			break
		}
	}
	return n, s.notices
}

type notesSalvage struct {
	*looseReader
	version Version
	name    string
	fn      *Function // nil: records are skipped
	seen    map[uint32]bool
	notices []notice
}

// record takes one record; it reports whether that is possible.
func (s *notesSalvage) record(n *Notes, tag uint32, end int) bool {
	if tag == tagFunction {
		s.head(n)
		return true
	}
	if s.fn == nil {
		return true
	}
	fn := s.fn
	switch tag {
	case tagBlocks:
		return s.blocks(end)
	case tagArcs:
		src := s.word()
		if src >= uint32(fn.Blocks) || s.seen[src] {
			return false
		}
		for count := (end - s.pos) / 8; count > 0; count-- {
			dst, flags := s.word(), s.word()
			if dst >= uint32(fn.Blocks) {
				return false
			}
			fn.Arcs = append(fn.Arcs, Arc{src, dst, flags})
			s.seen[src] = true
			if s.ended() && count > len(s.b) {
				return false // hardly a record that was only cut
			}
		}
	case tagConditions:
		for count := (end - s.pos) / 8; count > 0; count-- {
			c := Condition{s.word(), s.word()}
			if c.Block >= uint32(fn.Blocks) {
				return false
			}
			fn.Conditions = append(fn.Conditions, c)
			if s.ended() && count > len(s.b) {
				return false
			}
		}
	case tagPaths:
		fn.Paths = s.word()
	case tagLines:
		return s.lines()
	default:
		if tag>>24 != tagFunction>>24 {
			s.fn = nil
		}
	}
	return true
}

func (s *notesSalvage) head(n *Notes) {
	fn := &Function{Ident: s.word(), LineChecksum: s.word()}
	if s.version.hasCfgChecksum() {
		fn.CfgChecksum = s.word()
	}
	fn.Name = s.text()
	if s.version.hasColumns() {
		fn.Artificial = s.word() != 0
	}
	fn.Source = s.source()
	fn.StartLine = s.word()
	if s.version.hasColumns() {
		fn.StartColumn = s.word()
		fn.EndLine = s.word()
	}
	if s.version.hasEndColumn() {
		fn.EndColumn = s.word()
	}
	n.Functions = append(n.Functions, fn)
	s.fn, s.seen = fn, make(map[uint32]bool)
}

func (s *notesSalvage) blocks(end int) bool {
	fn := s.fn
	if fn.hasBlocks {
		s.notices = append(s.notices, notice{s.name + ":already seen blocks for '" + fn.Name + "'\n", 0})
		return true
	}
	fn.hasBlocks = true
	count := (end - s.pos) / 4
	if s.version.hasColumns() {
		count = int(s.word())
	}
	// What the records of the function can describe; a function at the end
	// may have lost most of them.
	span, last := s.span(end)
	most := span/8 + 2
	if last {
		most = max(most, 1<<20)
	}
	if count > most {
		return false
	}
	fn.Blocks = count
	return true
}

// span is how many bytes of records of the same function follow, and whether it
// is the last one.
func (s *notesSalvage) span(from int) (n int, last bool) {
	r := *s.looseReader
	r.pos = from
	for {
		at := r.pos
		tag, _, end := r.next()
		if last = tag == 0 || end > len(r.b); last || tag == tagFunction {
			return min(at, len(r.b)) - min(from, len(r.b)), last
		}
		r.pos = end
	}
}

func (s *notesSalvage) lines() bool {
	fn := s.fn
	block := s.word()
	if block >= uint32(fn.Blocks) {
		return false
	}
	for open := false; ; {
		line := s.word()
		switch {
		case line == 0:
			name := s.source()
			if name == "" {
				return true
			}
			fn.Locations = append(fn.Locations, Location{Block: block, Source: name})
			open = true
		default:
			if !open {
				fn.Locations = append(fn.Locations, Location{Block: block})
				open = true
			}
			l := &fn.Locations[len(fn.Locations)-1]
			l.Lines = append(l.Lines, line)
		}
	}
}

// salvageCounts reads damaged data, whose head stands. cut tells that a record is not all
// there.
func salvageCounts(b []byte) (c *Counts, cut bool) {
	c, head := readCountsHead(b)
	r := looseFrom(&head)
	var fn *FunctionCounts
	for {
		r.short = false
		tag, length, end := r.next()
		if tag == 0 {
			return c, false
		}
		switch {
		case tag == tagObjectSummary || tag == tagProgramSummary:
			s := Summary{Program: tag == tagProgramSummary, Before: len(c.Functions)}
			for range min(9, (end-r.pos)/4) {
				s.Words = append(s.Words, r.word())
			}
			c.Summaries = append(c.Summaries, s)
		case tag == tagFunction && length != 0 && r.size(length) == r.functionSize(c.Version):
			f := FunctionCounts{Ident: r.word(), LineChecksum: r.word()}
			if c.Version.hasCfgChecksum() {
				f.CfgChecksum = r.word()
			}
			c.Functions = append(c.Functions, f)
			fn = &c.Functions[len(c.Functions)-1]
		case fn != nil && counterKind(tag) >= 0:
			fn.Counters = append(fn.Counters, r.counters(counterKind(tag), length, end))
		}
		r.pos = end
		if r.short || r.pos > len(b) {
			return c, r.short
		}
	}
}

func (r *looseReader) functionSize(v Version) int {
	if v.hasCfgChecksum() {
		return 12
	}
	return 8
}

// counters takes counters, zeros for those that are missing.
func (r *looseReader) counters(kind int, length uint32, end int) Counters {
	c := Counters{Kind: kind}
	if n := int32(length); n < 0 {
		c.Zeros = r.size(uint32(-int64(n))) / 8
		return c
	}
	n := (end - r.pos) / 8
	if n > len(r.b) {
		r.short = true
		c.Zeros = n
		return c
	}
	c.Values = make([]int64, n)
	for i := range c.Values {
		c.Values[i] = r.counter()
	}
	return c
}
