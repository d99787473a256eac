package unwind

import encoding "encoding/binary"

// A reader reads from off on. After bytes that are missing it is bad, and all it
// reads is zero.
type reader struct {
	t   *Table
	b   []byte
	off uint64
	bad bool
}

var zeros [8]byte

func (r *reader) take(n uint64) []byte {
	if r.bad || r.off > uint64(len(r.b)) || n > uint64(len(r.b))-r.off {
		r.bad = true
		return zeros[:]
	}
	r.off += n
	return r.b[r.off-n : r.off]
}

func (r *reader) skip(n uint64) { r.take(n) }
func (r *reader) u8() byte      { return r.take(1)[0] }
func (r *reader) u16() uint16   { return r.t.order.Uint16(r.take(2)) }
func (r *reader) u32() uint32   { return r.t.order.Uint32(r.take(4)) }
func (r *reader) u64() uint64   { return r.t.order.Uint64(r.take(8)) }

// block reads bytes that follow their number.
func (r *reader) block() []byte {
	n := r.uleb()
	if b := r.take(n); !r.bad {
		return b
	}
	return nil
}

func (r *reader) text() string {
	at := r.off
	for r.u8() != 0 {
	}
	if r.bad || r.off == at {
		return ""
	}
	return string(r.b[at : r.off-1])
}

func (r *reader) uleb() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b := r.u8()
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return v
		}
	}
	r.bad = true
	return 0
}

func (r *reader) sleb() int64 {
	var v int64
	for shift := 0; shift < 64; shift += 7 {
		b := r.u8()
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift < 57 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.bad = true
	return 0
}

// pointer reads an address in one of the forms DW_EH_PE_*.
func (r *reader) pointer(encoding byte) uint64 {
	if encoding == DW_EH_PE_omit {
		return 0
	}
	here := r.t.addr + r.off
	var v uint64
	switch encoding & 0x0f {
	case DW_EH_PE_absptr:
		if r.t.is64 {
			v = r.u64()
		} else {
			v = uint64(r.u32())
		}
	case DW_EH_PE_uleb128:
		v = r.uleb()
	case DW_EH_PE_udata2:
		v = uint64(r.u16())
	case DW_EH_PE_udata4:
		v = uint64(r.u32())
	case DW_EH_PE_udata8, DW_EH_PE_sdata8:
		v = r.u64()
	case DW_EH_PE_sleb128:
		v = uint64(r.sleb())
	case DW_EH_PE_sdata2:
		v = uint64(int16(r.u16()))
	case DW_EH_PE_sdata4:
		v = uint64(int32(r.u32()))
	default:
		r.bad = true
	}
	if encoding&0x70 == DW_EH_PE_pcrel {
		v += here
		if !r.t.is64 {
			v &= 0xffffffff
		}
	}
	return v
}

// reference is pointer for one to something, of which 0 is none.
func (r *reader) reference(encoding byte) uint64 {
	here := r.off
	addr := r.pointer(encoding)
	if encoding&0x70 == DW_EH_PE_pcrel && addr == r.t.addr+here || r.bad {
		return 0
	}
	return addr
}

// sleb decodes a signed LEB128 and returns the number of its bytes, 0 if it is
// damaged.
func sleb(b []byte) (v int64, n int) {
	r := reader{b: b}
	if v = r.sleb(); r.bad {
		return 0, 0
	}
	return v, int(r.off)
}

// uleb is sleb for one without a sign.
func uleb(b []byte) (v uint64, n int) {
	if v, n = encoding.Uvarint(b); n <= 0 {
		return 0, 0
	}
	return v, n
}
