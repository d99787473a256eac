//go:build linux

package live

import (
	"encoding/binary"

	"footfall/formats/llvm"
)

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
// Records and versions are those of formats/llvm/version.go.

// padding is what makes n bytes a multiple of 8.
func padding(n int) []byte { return make([]byte, -n&7) }

// encode makes the bytes of the file of what was read.
func (p *llvmSections) encode(data, counters, bits, values []byte) []byte {
	v, l := p.raw.Number(), p.raw.Record(p.pointer)
	b := make([]byte, 0, 256+len(p.ids)+len(data)+len(counters)+len(bits)+len(p.text)+len(values))
	word := func(since uint32, x uint64) {
		if v >= since {
			b = p.order.AppendUint64(b, x)
		}
	}
	entry := 8
	if p.raw&llvm.FlagSingleBytes != 0 {
		entry = 1
	}
	word(0, rawMagic(p.pointer))
	word(0, uint64(p.raw))
	word(7, uint64(len(p.ids)))
	word(0, uint64(len(data)/l.Size))
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
	word(0, uint64(l.Kinds-1))
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
