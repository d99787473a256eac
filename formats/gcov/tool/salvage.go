package tool

import (
	"math/bits"
	"slices"

	"footfall/formats/gcov"
)

// maxSalvaged is how many counters a damaged record may claim.
const maxSalvaged = 1 << 20

// salvage reads a data file that is damaged as gcov-tool does, which warns and takes
// what is missing for zero. Of another version's only the head is read.
func (t *tool) salvage(name string, b []byte, s *said) *gcov.Counts {
	c, r := gcov.CountsHead(b)
	if c.Version.Major() == t.Version.Major() {
		t.salvageRecords(c, r, name, s)
		evenKinds(c)
	}
	return c
}

// evenKinds gives all functions the kinds of counters that one has.
func evenKinds(c *gcov.Counts) {
	for kind := range gcov.Kinds {
		if !slices.ContainsFunc(c.Functions, func(f gcov.FunctionCounts) bool { return f.Of(kind) != nil }) {
			continue
		}
		for i := range c.Functions {
			if f := &c.Functions[i]; !f.Placeholder && f.Of(kind) == nil {
				at := slices.IndexFunc(f.Counters, func(c gcov.Counters) bool { return c.Kind > kind })
				if at < 0 {
					at = len(f.Counters)
				}
				f.Counters = slices.Insert(f.Counters, at, gcov.Counters{Kind: kind})
			}
		}
	}
}

func (t *tool) salvageRecords(c *gcov.Counts, r *gcov.LooseReader, name string, s *said) {
	d := &dumper{v: c.Version, r: r}
	d.r.Bytes = c.Version.ByteLengths()
	if !d.r.Bytes {
		d.r.B = d.r.B[:len(d.r.B)&^3]
	}
	warn := func(format string, args ...any) {
		s.errorf("%s: warning: %s:", t.prog, name)
		s.errorf(format+"\n", args...)
	}
	for all := d.r.B; ; d.r.B = all {
		tag := d.r.Word()
		if tag == 0 {
			return
		}
		if zeros := bits.TrailingZeros32(tag); zeros&7 != 0 && zeros < 24 && tag&0xff != 0 {
			warn("tag '%x' is invalid", tag)
			return
		}
		length := int(int32(d.r.Word()))
		base := d.r.Pos
		size := max(length, 0)
		if !d.v.OmitsZeros() {
			size = int(uint32(length))
		}
		if !d.salvageRecord(c, tag, length) {
			return
		}
		switch actual := (d.r.Pos - base) / d.r.Size(1); {
		case !d.interprets(tag):
		case actual > size:
			warn("record size mismatch %d bytes overread", actual-size)
		case actual < size:
			warn("record size mismatch %d bytes unread", size-actual)
		}
		end := base + d.r.Size(uint32(size))
		d.r.Pos = min(end, len(all))
		if d.r.Short && d.v.NoticesCuts() {
			warn("read error at %d", end)
			return
		}
	}
}

// salvageRecord reads a record into c; it reports whether that makes sense.
func (d *dumper) salvageRecord(c *gcov.Counts, tag uint32, length int) bool {
	kind := gcov.CounterKind(tag)
	switch {
	case tag == gcov.TagObjectSummary:
		c.Summaries = []gcov.Summary{{Words: []uint32{d.r.Word(), d.r.Word()}}}
	case tag == gcov.TagFunction:
		if length == 0 && !d.r.Short && !d.r.Ended() {
			c.Functions = append(c.Functions, gcov.FunctionCounts{Placeholder: true})
			return true
		}
		c.Functions = append(c.Functions, gcov.FunctionCounts{Ident: d.r.Word(), LineChecksum: d.r.Word(), CfgChecksum: d.r.Word()})
	case kind >= 0 && d.interprets(tag) && len(c.Functions) > 0:
		f := &c.Functions[len(c.Functions)-1]
		n := d.words(length) / 2
		if n < 0 {
			f.Counters = append(f.Counters, gcov.Counters{Kind: kind, Zeros: -n})
			return -n <= maxSalvaged
		}
		if n > maxSalvaged || f.Placeholder {
			return false
		}
		values := make([]int64, n)
		for i := range values {
			values[i] = d.count()
		}
		f.Counters = append(f.Counters, gcov.Counters{Kind: kind, Values: values})
	}
	return true
}
