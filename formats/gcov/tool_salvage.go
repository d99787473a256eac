package gcov

import (
	"math/bits"
	"slices"
)

// maxSalvaged is how many counters a damaged record may claim.
const maxSalvaged = 1 << 20

// salvage reads a data file that is damaged as gcov-tool does, which warns and takes
// what is missing for zero. Of another version's only the head is read.
func (t *tool) salvage(name string, b []byte, s *said) *Counts {
	c, head := readCountsHead(b)
	if c.Version.Major() == t.Version.Major() {
		t.salvageRecords(c, &head, name, s)
		c.evenKinds()
	}
	return c
}

// evenKinds gives all functions the kinds of counters that one has.
func (c *Counts) evenKinds() {
	for kind := range kinds {
		if !slices.ContainsFunc(c.Functions, func(f FunctionCounts) bool { return f.Of(kind) != nil }) {
			continue
		}
		for i := range c.Functions {
			if f := &c.Functions[i]; !f.Placeholder && f.Of(kind) == nil {
				at := slices.IndexFunc(f.Counters, func(c Counters) bool { return c.Kind > kind })
				if at < 0 {
					at = len(f.Counters)
				}
				f.Counters = slices.Insert(f.Counters, at, Counters{Kind: kind})
			}
		}
	}
}

func (t *tool) salvageRecords(c *Counts, head *reader, name string, s *said) {
	d := &dumper{v: c.Version, r: looseFrom(head)}
	d.r.bytes = c.Version.byteLengths()
	if !d.r.bytes {
		d.r.b = d.r.b[:len(d.r.b)&^3]
	}
	warn := func(format string, args ...any) {
		s.errorf("%s: warning: %s:", t.prog, name)
		s.errorf(format+"\n", args...)
	}
	for all := d.r.b; ; d.r.b = all {
		tag := d.r.word()
		if tag == 0 {
			return
		}
		if zeros := bits.TrailingZeros32(tag); zeros&7 != 0 && zeros < 24 && tag&0xff != 0 {
			warn("tag '%x' is invalid", tag)
			return
		}
		length := int(int32(d.r.word()))
		base := d.r.pos
		size := max(length, 0)
		if !d.v.omitsZeros() {
			size = int(uint32(length))
		}
		if !c.salvageRecord(d, tag, length) {
			return
		}
		switch actual := (d.r.pos - base) / d.r.size(1); {
		case !d.interprets(tag):
		case actual > size:
			warn("record size mismatch %d bytes overread", actual-size)
		case actual < size:
			warn("record size mismatch %d bytes unread", size-actual)
		}
		end := base + d.r.size(uint32(size))
		d.r.pos = min(end, len(all))
		if d.r.short && d.v.noticesCuts() {
			warn("read error at %d", end)
			return
		}
	}
}

// salvageRecord reads a record into c; it reports whether that makes sense.
func (c *Counts) salvageRecord(d *dumper, tag uint32, length int) bool {
	kind := counterKind(tag)
	switch {
	case tag == tagObjectSummary:
		c.Summaries = []Summary{{Words: []uint32{d.r.word(), d.r.word()}}}
	case tag == tagFunction:
		if length == 0 && !d.r.short && !d.r.ended() {
			c.Functions = append(c.Functions, FunctionCounts{Placeholder: true})
			return true
		}
		c.Functions = append(c.Functions, FunctionCounts{Ident: d.r.word(), LineChecksum: d.r.word(), CfgChecksum: d.r.word()})
	case kind >= 0 && d.interprets(tag) && len(c.Functions) > 0:
		f := &c.Functions[len(c.Functions)-1]
		n := d.words(length) / 2
		if n < 0 {
			f.Counters = append(f.Counters, Counters{Kind: kind, Zeros: -n})
			return -n <= maxSalvaged
		}
		if n > maxSalvaged || f.Placeholder {
			return false
		}
		values := make([]int64, n)
		for i := range values {
			values[i] = d.count()
		}
		f.Counters = append(f.Counters, Counters{Kind: kind, Values: values})
	}
	return true
}
