//go:build linux

package live

import "encoding/binary"

// Programs that Clang (-fprofile-instr-generate) or Rust (-C
// instrument-coverage) compiled have their counters in sections whose names
// survive strip, each linked object its own. A raw profile is a head and copies
// of these sections. Words are of 64 bits in the byte order of the program;
// what does not say since when is in all versions.
//
//	magic                            "\xfflprofr\x81", R in place of r: 32 bits
//	version                          its upper 8 bits are flags of the build
//	7+   size of build IDs
//	     records
//	5+   padding before counters     0
//	     counters
//	5+   padding after counters
//	9+   bytes of bitmaps, padding after them
//	11+  uniform counters, padding, their distance (GPUs have them)
//	     size of names
//	     address of the counters     8+: their distance from the records
//	9+   distance of the bitmaps from the records
//	     address of names
//	10+  vtables, size of their names
//	     last kind of values         1, 10+: 2
//
//	7+   build IDs: size u64, bytes  8+: padded to 8 bytes
//	     __llvm_prf_data             records as they are in memory
//	     __llvm_prf_cnts             padded, as all that follows
//	9+   __llvm_prf_bits             MC/DC
//	     __llvm_prf_names
//	     values of each record that has sites for them
//
// A record:
//
//	name u64, hash u64, counters, [11+ uniform counters], [9+ bitmaps],
//	function, values: pointers; number of counters u32, number of sites u16 of
//	each kind of values (2, 10+: 3), [11+ u16], [9+ bytes of bitmap u32]
//
// Versions: 4 Clang 9, 5 Clang 11, 7 Clang 13, 8 Clang 14 to 17, 9 Clang 18, 10
// Clang 19 to 22, 11 Clang 23.

// A rawVersion is the version of a raw profile, with its flags.
type rawVersion uint64

// flagSingleBytes says that counters are bytes: 0xff, and 0 once it ran.
const flagSingleBytes = 1 << 60

func (v rawVersion) number() uint32 { return uint32(v) }

// known tells whether the layout is.
func (v rawVersion) known() bool {
	n := v.number()
	return n >= 4 && n <= 11 && n != 6
}

// rawVersionOf is the version that a Clang writes, 0 for those of which it is
// not known.
func rawVersionOf(clang int) rawVersion {
	switch {
	case clang == 9:
		return 4
	case clang == 11:
		return 5
	case clang == 13:
		return 7
	case clang >= 14 && clang <= 17:
		return 8
	case clang == 18:
		return 9
	case clang >= 19 && clang <= 22:
		return 10
	case clang == 23:
		return 11
	}
	return 0
}

// A recordLayout says where the fields of a record are that we look at.
type recordLayout struct{ size, counters, bitmaps, values, number, sites, kinds int }

func (v rawVersion) record(pointer int) recordLayout {
	l := recordLayout{counters: 16, kinds: 2}
	at := l.counters + pointer
	if v.number() >= 11 {
		at += pointer // uniform counters
	}
	if v.number() >= 9 {
		l.bitmaps = at
		at += pointer
	}
	if v.number() >= 10 {
		l.kinds = 3
	}
	l.values = at + pointer // function
	l.number = l.values + pointer
	l.sites = l.number + 4
	at = l.sites + 2*l.kinds
	if v.number() >= 11 {
		at += 2
	}
	if v.number() >= 9 {
		at = align(at, 4) + 4
	}
	l.size = align(at, 8)
	return l
}

func align(n, to int) int { return (n + to - 1) / to * to }

// padding is what makes n bytes a multiple of 8.
func padding(n int) []byte { return make([]byte, -n&7) }

// encode makes the bytes of the file of what was read.
func (p *profile) encode(data, counters, bits, values []byte) []byte {
	v, l := p.raw.number(), p.raw.record(p.pointer)
	b := make([]byte, 0, 256+len(p.ids)+len(data)+len(counters)+len(bits)+len(p.text)+len(values))
	word := func(since uint32, x uint64) {
		if v >= since {
			b = p.order.AppendUint64(b, x)
		}
	}
	entry := 8
	if p.raw&flagSingleBytes != 0 {
		entry = 1
	}
	word(0, rawMagic(p.pointer))
	word(0, uint64(p.raw))
	word(7, uint64(len(p.ids)))
	word(0, uint64(len(data)/l.size))
	word(5, 0)
	word(0, uint64(len(counters)/entry))
	word(5, uint64(-len(counters)&7))
	word(9, uint64(len(bits)))
	word(9, uint64(-len(bits)&7))
	for range 3 {
		word(11, 0)
	}
	word(0, uint64(len(p.text)))
	if v < 8 {
		word(0, p.counters.addr)
	}
	word(8, p.wrap(p.counters.addr-p.data.addr))
	word(9, p.wrap(p.bits.addr-p.data.addr))
	word(0, p.names.addr)
	word(10, 0)
	word(10, 0)
	word(0, uint64(l.kinds-1))
	b = append(append(b, p.ids...), data...)
	for _, part := range [][]byte{counters, bits, p.text} {
		b = append(append(b, part...), padding(len(part))...)
	}
	return append(b, values...)
}

func rawMagic(pointer int) uint64 {
	magic := []byte("\xfflprofr\x81")
	if pointer == 4 {
		magic[6] = 'R'
	}
	return binary.BigEndian.Uint64(magic)
}
