package gcov

import "encoding/binary"

// Counts are the counters of one object: the contents of a data file, or of
// the gcov_info structure in a running program.
//
//	magic  version  stamp  [checksum: 12+]
//	summary  a1000000  9+: runs, sum of maxima; before 9 words nobody reads
//	summary  a3000000  until 8: see Runs
//	function 01000000  ident line-checksum [cfg-checksum: 4.7+] [name: Clang 9]
//	                   an empty one is a placeholder for a function that the
//	                   linker dropped
//	  counters 01a10000 + kind<<17
//	                   64 bits each; a negative length, 11+: so many zeros
//	                   without data
//	0 [0]              GCC one word, Clang two
//
// Before GCC 4.5 the summaries stand behind the functions.
type Counts struct {
	BigEndian bool
	Version   Version
	Stamp     uint32 // that of the notes
	Checksum  uint32
	Summaries []Summary
	Functions []FunctionCounts
	Trailer   []byte // from the closing tag on
}

// A Summary is a summary record, as it stands in the file.
type Summary struct {
	Program bool // of the program (until GCC 8), else of the object
	Words   []uint32
	// Before is the index in Counts.Functions of the function it stands
	// before, the number of functions for one at the end.
	Before int
}

// FunctionCounts are the counters of one function.
type FunctionCounts struct {
	Placeholder  bool // nothing else is set
	Ident        uint32
	LineChecksum uint32
	CfgChecksum  uint32
	Name         string // Clang 9
	Counters     []Counters

	named bool
	extra []record
}

// Kinds of counters, the same numbers in all versions that have them.
const (
	KindArcs       = 0
	KindTopN       = 3 // value profiles: total, n, n pairs of value and count
	KindIndirect   = 4 // callees, like KindTopN
	KindAverage    = 5
	KindIor        = 6
	KindTime       = 7 // order of first execution
	KindConditions = 8 // 14+: two masks for each condition
	KindPaths      = 9 // 15+: a bit for each prime path
	Kinds          = 16
)

// Counters are all counters of one kind of a function.
type Counters struct {
	Kind   int
	Values []int64
	// Zeros is set instead of Values where the file says only that there are
	// so many counters, all zero.
	Zeros int
}

// Len is the number of counters.
func (c *Counters) Len() int { return len(c.Values) + c.Zeros }

// At returns counter i.
func (c *Counters) At(i int) int64 {
	if c.Zeros > 0 {
		return 0
	}
	return c.Values[i]
}

// Of returns the counters of a kind, nil when there are none.
func (f *FunctionCounts) Of(kind int) *Counters {
	for i := range f.Counters {
		if f.Counters[i].Kind == kind {
			return &f.Counters[i]
		}
	}
	return nil
}

// FileStamp returns the eight bytes behind the magic of a data file: the version and the
// stamp, as they are in the notes, too.
func (c *Counts) FileStamp() []byte {
	order := binary.AppendByteOrder(binary.LittleEndian)
	if c.BigEndian {
		order = binary.BigEndian
	}
	return order.AppendUint32(order.AppendUint32(nil, uint32(c.Version)), c.Stamp)
}

// Runs is the number of runs that were added up, and programs the number of
// program summaries (before GCC 9).
func (c *Counts) Runs() (runs, programs int) {
	for _, s := range c.Summaries {
		switch {
		case !s.Program && c.Version.ObjectRuns() && len(s.Words) > 0:
			runs = int(s.Words[0])
		case s.Program:
			programs++
			if len(s.Words) > 2 && !c.Version.ObjectRuns() {
				runs += int(s.Words[2]) // checksum, number of counters, runs
			}
		}
	}
	return runs, programs
}

// ReadCounts decodes a data file. On a *FormatError the counts hold what was
// read before it, except for bytes that are no data file at all, for which
// they are nil.
func ReadCounts(b []byte) (*Counts, error) {
	c, r := readCountsHead(b)
	if r.err != nil {
		return nil, r.result()
	}
	fn := -1 // index of the current function
	for {
		tag, length, data, ok := r.next()
		if !ok {
			break
		}
		switch {
		case tag == TagFunction:
			fn = len(c.Functions)
			c.Functions = append(c.Functions, readFunctionCounts(&data, c.Version))
		case tag == TagObjectSummary || tag == TagProgramSummary:
			s := Summary{Program: tag == TagProgramSummary, Before: len(c.Functions)}
			for data.pos < len(data.b) && data.err == nil {
				s.Words = append(s.Words, data.word())
			}
			c.Summaries = append(c.Summaries, s)
		case fn < 0 || c.Functions[fn].Placeholder:
			data.fail(-8, "record %08x outside of a function", tag)
		case CounterKind(tag) >= 0:
			k := readCounters(&data, CounterKind(tag), length)
			c.Functions[fn].Counters = append(c.Functions[fn].Counters, k)
		default:
			c.Functions[fn].extra = append(c.Functions[fn].extra, record{tag, data.b})
		}
		if data.err != nil {
			return c, data.result()
		}
	}
	if r.err == nil {
		c.Trailer = r.b[r.pos:]
	}
	return c, r.result()
}

func readCountsHead(b []byte) (*Counts, reader) {
	r := reader{b: b}
	r.magic(DataMagic, "data")
	c := &Counts{BigEndian: r.big, Version: Version(r.word()), Stamp: r.word()}
	r.bytes = c.Version.ByteLengths()
	if r.err == nil && c.Version.Number() == 0 {
		r.fail(4, "version word %q is none of a known compiler", c.Version.String())
	}
	if c.Version.HasObjectChecksum() {
		c.Checksum = r.word()
	}
	return c, r
}

// CounterKind is the kind of counters that the tag announces, or -1.
func CounterKind(tag uint32) int {
	k := int(tag-TagCounters) >> 17
	if tag < TagCounters || tag&0x1ffff != TagCounters&0x1ffff || k >= Kinds {
		return -1
	}
	return k
}

func readFunctionCounts(r *reader, v Version) FunctionCounts {
	if len(r.b) == 0 {
		return FunctionCounts{Placeholder: true}
	}
	f := FunctionCounts{Ident: r.word(), LineChecksum: r.word()}
	if v.HasCfgChecksum() {
		f.CfgChecksum = r.word()
	}
	if r.pos < len(r.b) {
		f.named = true
		f.Name = string(r.text())
	}
	if r.err == nil && r.pos < len(r.b) {
		r.fail(r.pos, "function record has %d bytes too many", len(r.b)-r.pos)
	}
	return f
}

func readCounters(r *reader, kind int, length uint32) Counters {
	c := Counters{Kind: kind}
	if n := int32(length); n < 0 {
		c.Zeros = r.size(uint32(-int64(n))) / 8
		return c
	}
	if len(r.b)%8 != 0 {
		r.fail(0, "counters of %d bytes, expected a multiple of 8", len(r.b))
		return c
	}
	c.Values = make([]int64, len(r.b)/8)
	for i := range c.Values {
		c.Values[i] = r.counter()
	}
	return c
}

// Encode returns the bytes of the data file. For counts that were read from a
// file which a program wrote they are the same bytes.
func (c *Counts) Encode() []byte {
	w := &writer{big: c.BigEndian, bytes: c.Version.ByteLengths()}
	w.word(DataMagic)
	w.word(uint32(c.Version))
	w.word(c.Stamp)
	if c.Version.HasObjectChecksum() {
		w.word(c.Checksum)
	}
	sums := c.Summaries
	for i := range c.Functions {
		sums = w.summaries(sums, i)
		c.Functions[i].encode(w, c.Version)
	}
	w.summaries(sums, len(c.Functions))
	return append(w.b, c.Trailer...)
}

// summaries writes those that stand before function i and returns the rest.
func (w *writer) summaries(sums []Summary, i int) []Summary {
	for len(sums) > 0 && sums[0].Before <= i {
		tag := uint32(TagObjectSummary)
		if sums[0].Program {
			tag = TagProgramSummary
		}
		mark := w.open(tag)
		for _, x := range sums[0].Words {
			w.word(x)
		}
		w.close(mark)
		sums = sums[1:]
	}
	return sums
}

func (f *FunctionCounts) encode(w *writer, v Version) {
	mark := w.open(TagFunction)
	if !f.Placeholder {
		w.word(f.Ident)
		w.word(f.LineChecksum)
		if v.HasCfgChecksum() {
			w.word(f.CfgChecksum)
		}
		if f.named {
			w.text(f.Name)
		}
	}
	w.close(mark)
	for i := range f.Counters {
		f.Counters[i].encode(w)
	}
	w.records(f.extra)
}

func (c *Counters) encode(w *writer) {
	tag := TagCounters + uint32(c.Kind)<<17
	if c.Zeros > 0 {
		n := int32(c.Zeros * 2)
		if w.bytes {
			n *= 4
		}
		w.word(tag)
		w.word(uint32(-n))
		return
	}
	mark := w.open(tag)
	for _, x := range c.Values {
		w.counter(x)
	}
	w.close(mark)
}
