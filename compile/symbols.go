//go:build linux

package compile

import (
	"bytes"
	"encoding/binary"
	"io"
)

// definitions returns the symbols of an ELF object that others can use; none of
// what is no such object. Package debug/elf is initialised too late for package early.
//
// The header has the offset of the table of sections, and their size and number; a
// section its type, offset, size and, of symbols, the section with their names. Offsets
// are of 32 and 64 bits:
//
//	header    table 0x20 0x28, size 0x2e 0x3a, number 0x30 0x3c
//	section   type 4 4, offset 0x10 0x18, size 0x14 0x20, names 0x18 0x28
//	symbol    name 0 0, info 12 4, section 14 6; 16 or 24 bytes
func definitions(r io.ReaderAt) []string {
	var head [64]byte
	if n, _ := r.ReadAt(head[:], 0); n < 52 || string(head[:4]) != "\x7fELF" {
		return nil
	}
	f := &object{r: r, wide: head[4] == 2, order: binary.LittleEndian}
	if head[5] == 2 {
		f.order = binary.BigEndian
	}
	at := f.address(head[:], 0x20, 0x28)
	size, count := int64(f.half(head[:], 0x2e, 0x3a)), int64(f.half(head[:], 0x30, 0x3c))
	if size < 40 || f.wide && size < 64 {
		return nil
	}
	if count == 0 { // 65,280 or more: the first section has their number
		first := f.bytes(at, size)
		if first == nil {
			return nil
		}
		count = f.address(first, 0x14, 0x20)
	}
	for i := range min(count, maxSections) {
		section := f.bytes(at+i*size, size)
		if section == nil {
			return nil
		}
		if f.order.Uint32(section[4:]) != 2 { // SHT_SYMTAB
			continue
		}
		names := f.bytes(at+int64(f.order.Uint32(section[f.either(0x18, 0x28):]))*size, size)
		if names == nil {
			return nil
		}
		return f.defined(f.section(section), f.section(names))
	}
	return nil
}

const (
	maxSections = 1 << 22
	maxSymbols  = 1 << 28 // bytes of symbols, or of their names
)

// An object is an ELF file.
type object struct {
	r     io.ReaderAt
	wide  bool
	order binary.ByteOrder
}

func (f *object) either(narrow, wide int) int {
	if f.wide {
		return wide
	}
	return narrow
}

func (f *object) half(b []byte, narrow, wide int) uint16 {
	return f.order.Uint16(b[f.either(narrow, wide):])
}

func (f *object) address(b []byte, narrow, wide int) int64 {
	if f.wide {
		return int64(f.order.Uint64(b[wide:]))
	}
	return int64(f.order.Uint32(b[narrow:]))
}

// bytes reads a part of the file, nil if that is not there.
func (f *object) bytes(at, size int64) []byte {
	if at < 0 || size < 0 || size > maxSymbols {
		return nil
	}
	b, err := io.ReadAll(io.NewSectionReader(f.r, at, size))
	if err != nil || int64(len(b)) != size {
		return nil
	}
	return b
}

func (f *object) section(header []byte) []byte {
	return f.bytes(f.address(header, 0x10, 0x18), f.address(header, 0x14, 0x20))
}

func (f *object) defined(symbols, names []byte) []string {
	var list []string
	for size := f.either(16, 24); len(symbols) >= size; symbols = symbols[size:] {
		name, local, undefined := f.order.Uint32(symbols), symbols[f.either(12, 4)]>>4 == 0, f.half(symbols, 14, 6) == 0
		if local || undefined || int64(name) >= int64(len(names)) {
			continue
		}
		if text, _, ok := bytes.Cut(names[name:], []byte{0}); ok && len(text) > 0 {
			list = append(list, string(text))
		}
	}
	return list
}
