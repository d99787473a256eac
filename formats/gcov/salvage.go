package gcov

import "encoding/binary"

// Gcov does not notice that a file has been cut: every word behind the end is
// 0 for it, and with a tag of 0 all is read. So a function whose records are
// cut loses lines, or has arcs to block 0, and counters that are missing are
// 0. This file reads damaged files that way, for listings only.

// A LooseReader takes words off a slice, and zeros behind its end.
type LooseReader struct {
	B     []byte
	Pos   int
	Order binary.ByteOrder
	Bytes bool // lengths are in bytes, not words
	Short bool // something was asked for that is not there
}

func looseFrom(r *reader) *LooseReader {
	l := &LooseReader{B: r.b, Pos: r.pos, Order: binary.LittleEndian, Bytes: r.bytes}
	if r.big {
		l.Order = binary.BigEndian
	}
	return l
}

// Word takes a word, 0 behind the end.
func (r *LooseReader) Word() uint32 {
	if r.Ended() {
		r.Pos, r.Short = len(r.B), true
		return 0
	}
	r.Pos += 4
	return r.Order.Uint32(r.B[r.Pos-4:])
}

// Ended tells whether there is no further word.
func (r *LooseReader) Ended() bool { return r.Pos > len(r.B)-4 }

// Counter takes a counter; one that is cut is 0.
func (r *LooseReader) Counter() int64 {
	if r.Pos > len(r.B)-8 {
		r.Pos, r.Short = len(r.B), true
		return 0
	}
	lo := r.Word()
	return int64(uint64(r.Word())<<32 | uint64(lo))
}

// Size is a length of the file in bytes.
func (r *LooseReader) Size(length uint32) int {
	if r.Bytes {
		return int(length)
	}
	return int(length) * 4
}

// Text returns a string; one that is cut is empty.
func (r *LooseReader) Text() string {
	n := r.Size(r.Word())
	if n > len(r.B)-r.Pos {
		r.Pos, r.Short = len(r.B), true
		return ""
	}
	s := r.B[r.Pos : r.Pos+n]
	r.Pos += n
	for i, c := range s {
		if c == 0 {
			return string(s[:i])
		}
	}
	return string(s)
}

// source is reader.source.
func (r *LooseReader) source() string {
	start := r.Pos
	name := r.Text()
	if name == "" && !r.Short && r.Pos > start+4 {
		return EmptyName
	}
	return name
}

// next takes the tag and length of a record and returns where it ends.
func (r *LooseReader) next() (tag, length uint32, end int) {
	tag = r.Word()
	length = r.Word()
	n := r.Size(length)
	if int32(length) < 0 {
		n = 0
	}
	return tag, length, r.Pos + n
}

// Damage is a message of gcov about notes, which stands behind the name of the file.
type Damage struct {
	Message string
	Cut     bool // the rest is not there
}

// SalvageNotes reads damaged notes, whose head stands, and the messages about
// them.
func SalvageNotes(b []byte) (*Notes, []Damage) {
	n, head := readNotesHead(b)
	s := &notesSalvage{LooseReader: looseFrom(&head), version: n.Version}
	for {
		tag, _, end := s.next()
		if tag == 0 {
			break
		}
		if !s.record(n, tag, end) {
			s.notices = append(s.notices, Damage{":corrupted", true})
			break
		}
		s.Pos = max(s.Pos, end)
		if s.Pos > end {
			s.Pos = end
		}
		if s.Short && s.version.NoticesCuts() {
			s.notices = append(s.notices, Damage{":corrupted", true})
			break
		}
		if s.Pos > len(b) {
			break
		}
	}
	return n, s.notices
}

type notesSalvage struct {
	*LooseReader
	version Version
	fn      *FunctionGraph // nil: records are skipped
	seen    map[uint32]bool
	notices []Damage
	beyond  int // bytes of lists of lines behind the ends of their records
}

// MostBeyond is how many bytes gcov's way of reading lists of lines, to a name that is empty wherever a record
// ends, may lead behind the ends of a file's records. Damage goes on for as much as there
// is; to read the rest of the file for each of thousands of records takes minutes.
func MostBeyond(file []byte) int { return 1<<20 + 4*len(file) }

// record takes one record; it reports whether that is possible.
func (s *notesSalvage) record(n *Notes, tag uint32, end int) bool {
	if tag == TagFunction {
		s.head(n)
		return true
	}
	if s.fn == nil {
		return true
	}
	fn := s.fn
	switch tag {
	case TagBlocks:
		return s.blocks(end)
	case TagArcs:
		src := s.Word()
		if src >= uint32(fn.Blocks) || s.seen[src] {
			return false
		}
		for count := (end - s.Pos) / 8; count > 0; count-- {
			dst, flags := s.Word(), s.Word()
			if dst >= uint32(fn.Blocks) {
				return false
			}
			fn.Arcs = append(fn.Arcs, Arc{src, dst, flags})
			s.seen[src] = true
			if s.Ended() && count > len(s.B) {
				return false // hardly a record that was only cut
			}
		}
	case TagConditions:
		for count := (end - s.Pos) / 8; count > 0; count-- {
			c := Decision{s.Word(), s.Word()}
			if c.Block >= uint32(fn.Blocks) {
				return false
			}
			fn.Conditions = append(fn.Conditions, c)
			if s.Ended() && count > len(s.B) {
				return false
			}
		}
	case TagPaths:
		fn.Paths = s.Word()
	case TagLines:
		return s.lines(end)
	default:
		if tag>>24 != TagFunction>>24 {
			s.fn = nil
		}
	}
	return true
}

func (s *notesSalvage) head(n *Notes) {
	fn := &FunctionGraph{Ident: s.Word(), LineChecksum: s.Word()}
	if s.version.HasCfgChecksum() {
		fn.CfgChecksum = s.Word()
	}
	fn.Name = s.Text()
	if s.version.HasColumns() {
		fn.Artificial = s.Word() != 0
	}
	fn.Source = s.source()
	fn.StartLine = s.Word()
	if s.version.HasColumns() {
		fn.StartColumn = s.Word()
		fn.EndLine = s.Word()
	}
	if s.version.HasEndColumn() {
		fn.EndColumn = s.Word()
	}
	n.Functions = append(n.Functions, fn)
	s.fn, s.seen = fn, make(map[uint32]bool)
}

func (s *notesSalvage) blocks(end int) bool {
	fn := s.fn
	if fn.hasBlocks {
		s.notices = append(s.notices, Damage{":already seen blocks for '" + fn.Name + "'", false})
		return true
	}
	fn.hasBlocks = true
	count := (end - s.Pos) / 4
	if s.version.HasColumns() {
		count = int(s.Word())
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
	r := *s.LooseReader
	r.Pos = from
	for {
		at := r.Pos
		tag, _, end := r.next()
		if last = tag == 0 || end > len(r.B); last || tag == TagFunction {
			return min(at, len(r.B)) - min(from, len(r.B)), last
		}
		r.Pos = end
	}
}

func (s *notesSalvage) lines(end int) bool {
	fn := s.fn
	left := MostBeyond(s.B) - s.beyond
	block := s.Word()
	if block >= uint32(fn.Blocks) {
		return false
	}
	for open := false; ; {
		if s.Pos-end > left {
			return false
		}
		line := s.Word()
		switch {
		case line == 0:
			name := s.source()
			if name == "" {
				s.beyond += max(0, s.Pos-end)
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

// CountsHead reads the head of data, which may be damaged. The reader stands behind it.
func CountsHead(b []byte) (*Counts, *LooseReader) {
	c, r := readCountsHead(b)
	return c, looseFrom(&r)
}

// SalvageCounts reads damaged data, whose head stands. cut tells that a record is not all
// there.
func SalvageCounts(b []byte) (c *Counts, cut bool) {
	c, head := readCountsHead(b)
	r := looseFrom(&head)
	var fn *FunctionCounts
	for {
		r.Short = false
		tag, length, end := r.next()
		if tag == 0 {
			return c, false
		}
		switch {
		case tag == TagObjectSummary || tag == TagProgramSummary:
			s := Summary{Program: tag == TagProgramSummary, Before: len(c.Functions)}
			for range min(9, (end-r.Pos)/4) {
				s.Words = append(s.Words, r.Word())
			}
			c.Summaries = append(c.Summaries, s)
		case tag == TagFunction && length != 0 && r.Size(length) == r.functionSize(c.Version):
			f := FunctionCounts{Ident: r.Word(), LineChecksum: r.Word()}
			if c.Version.HasCfgChecksum() {
				f.CfgChecksum = r.Word()
			}
			c.Functions = append(c.Functions, f)
			fn = &c.Functions[len(c.Functions)-1]
		case fn != nil && CounterKind(tag) >= 0:
			fn.Counters = append(fn.Counters, r.counters(CounterKind(tag), length, end))
		}
		r.Pos = end
		if r.Short || r.Pos > len(b) {
			return c, r.Short
		}
	}
}

func (r *LooseReader) functionSize(v Version) int {
	if v.HasCfgChecksum() {
		return 12
	}
	return 8
}

// counters takes counters, zeros for those that are missing.
func (r *LooseReader) counters(kind int, length uint32, end int) Counters {
	c := Counters{Kind: kind}
	if n := int32(length); n < 0 {
		c.Zeros = r.Size(uint32(-int64(n))) / 8
		return c
	}
	n := (end - r.Pos) / 8
	if n > len(r.B) {
		r.Short = true
		c.Zeros = n
		return c
	}
	c.Values = make([]int64, n)
	for i := range c.Values {
		c.Values[i] = r.Counter()
	}
	return c
}
