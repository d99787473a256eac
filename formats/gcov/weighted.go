package gcov

import "encoding/binary"

// AddBytes adds w times the counts in the bytes of a data file that has the
// same layout, without decoding it. It returns false, and has done nothing,
// where something is not as usual.
func (c *Counts) AddBytes(b []byte, w uint32) bool {
	if c.BigEndian || !c.Version.ObjectRuns() || len(c.Summaries) != 1 || len(c.Summaries[0].Words) != 2 || c.Summaries[0].Program || !c.walkBytes(b, nil) {
		return false
	}
	return c.walkBytes(b, func(to *Counters, data []byte) {
		to.expand()
		for i := range to.Values {
			to.Values[i] += int64(binary.LittleEndian.Uint64(data[i*8:])) * int64(w)
		}
	})
}

// walkBytes calls add with all counters in b that are written out. With add nil
// it checks whether the layout is that of c.
func (c *Counts) walkBytes(b []byte, add func(to *Counters, data []byte)) bool {
	word := binary.LittleEndian.Uint32
	head, unit := 12, 4
	if c.Version.ByteLengths() {
		head, unit = 16, 1
	}
	if len(b) < head+16 || word(b) != DataMagic || word(b[4:]) != uint32(c.Version) || word(b[8:]) != c.Stamp ||
		head == 16 && word(b[12:]) != c.Checksum || word(b[head:]) != TagObjectSummary || int(word(b[head+4:]))*unit != 8 {
		return false
	}
	sum := c.Summaries[0].Words
	if add != nil {
		sum[0] += word(b[head+8:])
		sum[1] += word(b[head+12:])
	}
	b = b[head+16:]
	for i := range c.Functions {
		f := &c.Functions[i]
		if f.Placeholder || f.named || len(f.extra) > 0 || len(b) < 20 || word(b) != TagFunction || int(word(b[4:]))*unit != 12 ||
			word(b[8:]) != f.Ident || word(b[12:]) != f.LineChecksum || word(b[16:]) != f.CfgChecksum {
			return false
		}
		b = b[20:]
		for k := range f.Counters {
			ctr := &f.Counters[k]
			if len(b) < 8 || word(b) != TagCounters+uint32(ctr.Kind)<<17 || c.Version.operation(ctr.Kind) != opAdd {
				return false
			}
			length := int(int32(word(b[4:]))) * unit
			b = b[8:]
			switch {
			case length == -8*ctr.Len():
				continue
			case length != 8*ctr.Len() || len(b) < length:
				return false
			case add != nil:
				add(ctr, b)
			}
			b = b[length:]
		}
	}
	return len(b) == 4 && word(b) == 0
}

// AddRuns adds the runs of o, of which the summaries tell.
func (c *Counts) AddRuns(o *Counts) {
	for i := range min(len(c.Summaries), len(o.Summaries)) {
		to, from := c.Summaries[i].Words, o.Summaries[i].Words
		switch {
		case c.Version.ObjectRuns() && !c.Summaries[i].Program && len(to) > 1 && len(from) > 1:
			to[0] += from[0]
			to[1] += from[1]
		case c.Summaries[i].Program && len(to) > 2 && len(from) > 2:
			to[2] += from[2]
		}
	}
	if len(c.Summaries) == 0 {
		c.Summaries = o.Summaries
	}
}

// AddWeighted adds w times o, as gcov-tool does. Functions that differ are left as they are;
// differs is called with the number of each, and whether its flow graph is another one.
func (c *Counts) AddWeighted(o *Counts, w uint32, differs func(i int, cfg bool)) {
	c.AddRuns(o)
	for i := range c.Functions {
		f, g := &c.Functions[i], &o.Functions[i]
		switch {
		case g.Placeholder:
		case f.Placeholder:
			*f = *g
			f.extra = nil
		case f.CfgChecksum != g.CfgChecksum:
			differs(i, true)
		case !f.Matches(g, c.Version):
			differs(i, false)
		default:
			for k := range f.Counters {
				c.mergeCounters(&f.Counters[k], &g.Counters[k], w)
			}
		}
	}
}

// Scale applies f to all that is a count; masks, times and values stay.
func (c *Counts) Scale(f func(int64) int64) {
	for i := range c.Functions {
		for k := range c.Functions[i].Counters {
			ctr := &c.Functions[i].Counters[k]
			switch c.Version.operation(ctr.Kind) {
			case opAdd:
				for n, x := range ctr.Values {
					ctr.Values[n] = f(x)
				}
			case opValues, opOther:
				c.scaleValues(ctr, f)
			}
		}
	}
}

func (c *Counts) mergeCounters(to, from *Counters, w uint32) {
	if from.Zeros > 0 {
		return
	}
	to.expand()
	switch op := c.Version.operation(to.Kind); op {
	case opAdd:
		for i, x := range from.Values {
			to.Values[i] += x * int64(w)
		}
	case opValues, opOther:
		c.scaleValues(from, func(x int64) int64 {
			if x == -1 {
				return x
			}
			return x * int64(w)
		})
		if op == opValues {
			to.merge(from, op)
		} else {
			c.mergeOldValues(to, from)
		}
	default:
		to.merge(from, op)
	}
}
