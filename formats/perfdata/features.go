package perfdata

import (
	"bytes"
	"encoding/hex"
)

// Features that are used, by their bits.
const (
	featureBuildIDs = 2
	featureRelease  = 4
	featureArch     = 6
	featureEvents   = 12
)

// readFeatures reads what the header's bits say there is: at, after the records, is
// the place of each.
func (f *Recording) readFeatures(flags []byte, at, size int64) {
	for bit := range 256 {
		if f.Order.Uint64(flags[bit/64*8:])>>(bit%64)&1 == 0 {
			continue
		}
		place := make([]byte, 16)
		if _, err := f.r.ReadAt(place, at); err != nil {
			return
		}
		at += 16
		switch bit {
		case featureBuildIDs, featureRelease, featureArch, featureEvents:
			f.feature(bit, f.section(place, size))
		}
	}
}

// feature takes over one.
func (f *Recording) feature(bit int, b []byte) {
	c := &cursor{b: b, order: f.Order}
	switch bit {
	case featureRelease:
		f.Release = c.text()
	case featureArch:
		f.Arch = c.text()
	case featureBuildIDs:
		for len(c.b) >= 8 {
			kind, misc, n := c.u32(), c.u16(), c.u16()
			if n < 8 {
				return
			}
			_ = kind // of a record, in a file that has it among its records
			f.addBuildID(c.take(uint64(n)-8), misc)
		}
	case featureEvents:
		f.nameEvents(c)
	}
}

// addBuildID takes over a build ID.
//
//	i32 pid, u8[20] ID, u8 its size, u8[3], the path
//
// Without the bit of misc the size is not there: it is 20, or what is not 0.
func (f *Recording) addBuildID(b []byte, misc uint16) {
	const hasSize = 1 << 15
	if len(b) < 28 {
		return
	}
	id := b[4:24]
	if n := b[24]; misc&hasSize != 0 && n <= 20 {
		id = id[:n]
	} else if bytes.Count(id[16:], []byte{0}) == 4 {
		id = id[:16] // of MD5
	}
	if len(bytes.Trim(id, "\x00")) == 0 {
		return
	}
	cpu := misc & miscMode
	f.BuildIDs = append(f.BuildIDs, BuildID{Path: cString(b[28:]), ID: hex.EncodeToString(id), Kernel: cpu == modeKernel})
}

// nameEvents takes over the names of events, which are in their order.
//
//	u32 number, u32 size of an attribute, then of each:
//	attribute, u32 number of IDs, u32 length of name, name, u64[] IDs
func (f *Recording) nameEvents(c *cursor) {
	n, size := c.u32(), c.u32()
	for i := uint32(0); i < n && !c.bad; i++ {
		e := f.event(c.take(uint64(size)))
		ids := c.u32()
		name := c.text()
		numbers := c.take(8 * uint64(ids))
		if c.bad || e == nil || name == "" {
			return
		}
		if int(i) < len(f.Events) && f.Events[i].Config == e.Config {
			f.Events[i].Name = name
			continue
		}
		for ; len(numbers) >= 8; numbers = numbers[8:] {
			if known := f.byID[f.Order.Uint64(numbers)]; known != nil {
				known.Name = name
			}
		}
	}
}

func cString(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
