package gcov

import "encoding/binary"

// addBytes adds w times the counts in the bytes of a data file that has the
// same layout, without decoding it. It returns false, and has done nothing,
// where something is not as usual.
func (c *Counts) addBytes(b []byte, w uint32) bool {
	if c.BigEndian || !c.Version.objectRuns() || len(c.Summaries) != 1 || len(c.Summaries[0].Words) != 2 || c.Summaries[0].Program || !c.walkBytes(b, nil) {
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
	if c.Version.byteLengths() {
		head, unit = 16, 1
	}
	if len(b) < head+16 || word(b) != dataMagic || word(b[4:]) != uint32(c.Version) || word(b[8:]) != c.Stamp ||
		head == 16 && word(b[12:]) != c.Checksum || word(b[head:]) != tagObjectSummary || int(word(b[head+4:]))*unit != 8 {
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
		if f.Placeholder || f.named || len(f.extra) > 0 || len(b) < 20 || word(b) != tagFunction || int(word(b[4:]))*unit != 12 ||
			word(b[8:]) != f.Ident || word(b[12:]) != f.LineChecksum || word(b[16:]) != f.CfgChecksum {
			return false
		}
		b = b[20:]
		for k := range f.Counters {
			ctr := &f.Counters[k]
			if len(b) < 8 || word(b) != tagCounters+uint32(ctr.Kind)<<17 || c.Version.operation(ctr.Kind) != opAdd {
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
