package gcov

import "encoding/binary"

func appendNumber(b []byte, x int32) []byte {
	if x < 0 {
		return binary.LittleEndian.AppendUint32(b, uint32(-x)|1<<31)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(x))
}

func appendCounter(b []byte, x int64) []byte {
	if x < 0 {
		return binary.LittleEndian.AppendUint64(b, uint64(-x)|1<<63)
	}
	return binary.LittleEndian.AppendUint64(b, uint64(x))
}

// appendPadded writes text, its NUL and padding.
func appendPadded(b []byte, s string) []byte {
	return append(append(b, s...), make([]byte, 4-len(s)%4)...)
}

func appendLegacyText(b []byte, s string) []byte {
	b = appendNumber(appendNumber(b, -1), int32(len(s)))
	return appendNumber(appendPadded(b, s), -1)
}

// Encode returns the bytes of the .bb and the .bbg file.
func (n *LegacyNotes) Encode() (bb, bbg []byte) {
	for _, t := range n.Lines {
		bb = appendNumber(bb, t.Number)
		if t.Number < 0 {
			bb = appendNumber(appendPadded(bb, t.Name), t.Number)
		}
	}
	for _, g := range n.Graphs {
		if n.Named {
			bbg = appendNumber(appendLegacyText(bbg, g.Name), g.Checksum)
		}
		bbg = appendNumber(appendNumber(bbg, int32(g.Blocks)), int32(len(g.Arcs)))
		arcs := g.Arcs
		for block := range g.Blocks {
			k := 0
			for k < len(arcs) && arcs[k].Src == uint32(block) {
				k++
			}
			bbg = appendNumber(bbg, int32(k))
			for _, a := range arcs[:k] {
				bbg = appendNumber(appendNumber(bbg, int32(a.Dst)), int32(a.Flags))
			}
			arcs = arcs[k:]
		}
		bbg = appendNumber(bbg, -1)
	}
	return bb, bbg
}

// Encode returns the bytes of the .da file.
func (c *LegacyCounts) Encode() []byte {
	if !c.Named {
		b := appendCounter(nil, int64(len(c.Values)))
		for _, x := range c.Values {
			b = appendCounter(b, x)
		}
		return b
	}
	var b []byte
	for _, k := range c.Blocks {
		b = appendNumber(appendNumber(b, legacyMagic), int32(len(k.Functions)))
		b = append(appendNumber(b, int32(len(k.Extension))), k.Extension...)
		for _, f := range k.Functions {
			b = appendNumber(appendNumber(appendLegacyText(b, f.Name), f.Checksum), int32(len(f.Values)))
			for _, x := range f.Values {
				b = appendCounter(b, x)
			}
		}
	}
	return b
}
