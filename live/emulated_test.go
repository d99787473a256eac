//go:build linux

package live

import (
	encoding "encoding/binary"
	"testing"

	"footfall/process"
)

// FuzzAuxiliary: whatever lies in the memory of an emulator, a base that is found in it is
// one by which a program header of the guest is where the file was mapped.
func FuzzAuxiliary(f *testing.F) {
	const start, base, entry = 0x40001000, 0x1000, 0x1090
	for _, pointer := range []int{4, 8} {
		for _, order := range []byteOrder{encoding.LittleEndian, encoding.BigEndian} {
			var b []byte
			for _, x := range []uint64{0xfeed, 0, auxHeaders, start - base + 52, auxHeaderSize, 32, auxHeaderCount, 11, 6, 4096, 7, 0, 8, 0, auxEntry, start - base + entry} {
				b = appendWord(b, order, pointer, x)
			}
			f.Add(b, pointer == 4, order == byteOrder(encoding.BigEndian))
			f.Add(b[:len(b)-pointer], pointer == 4, order == byteOrder(encoding.BigEndian))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, narrow, big bool) {
		a := &auxiliary{file: &process.MappedFile{Start: start}, order: encoding.LittleEndian, pointer: 8, headers: start + 52, entry: entry - 52}
		if narrow {
			a.pointer = 4
		}
		if big {
			a.order = encoding.BigEndian
		}
		for _, x := range []uint64{auxHeaderSize, 32, auxHeaderCount, 11} {
			a.middle = appendWord(a.middle, a.order, a.pointer, x)
		}
		found, ok := a.find(b)
		if ok && (found > a.headers || found%pageSize != 0) {
			t.Errorf("base %#x", found)
		}
		if len(b) == 16*a.pointer && a.word(b) == 0xfeed && a.word(b[3*a.pointer:]) == start-base+52 &&
			a.word(b[15*a.pointer:]) == start-base+entry && a.word(b[14*a.pointer:]) == auxEntry && (!ok || found != base) &&
			a.word(b[2*a.pointer:]) == auxHeaders && string(b[4*a.pointer:8*a.pointer]) == string(a.middle) &&
			a.word(b[8*a.pointer:]) != auxEntry && a.word(b[10*a.pointer:]) != auxEntry && a.word(b[12*a.pointer:]) != auxEntry {
			t.Errorf("base %#x, %t, expected %#x", found, ok, base)
		}
	})
}
