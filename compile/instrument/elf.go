package instrument

import (
	"bytes"
	"encoding/binary"
)

// An elfProgram is the bytes of a program for amd64 or 386. Package debug/elf is initialised too late
// for package early.
type elfProgram struct {
	cpu      *cpu
	sections []elfSection
}

// An elfSection is one, as far as it is in the file.
type elfSection struct {
	name    string
	kind    uint32
	loaded  bool // is in the program's memory as it is in its file
	address uint64
	b       []byte
	link    int
}

// word returns the address that the word at an offset has, relative to its own.
func (s elfSection) word(at int) uint64 {
	return s.address + uint64(at) + uint64(int64(int32(binary.LittleEndian.Uint32(s.b[at:]))))
}

// elfFields are offsets in the headers of an ELF file and of its sections.
type elfFields struct {
	head, table, entry, count, names          int
	size, flags, address, offset, bytes, link int
	word                                      int // bytes of an address
}

var (
	elf64 = elfFields{head: 64, table: 0x28, entry: 0x3a, count: 0x3c, names: 0x3e, size: 64, flags: 8, address: 0x10, offset: 0x18, bytes: 0x20, link: 0x28, word: 8}
	elf32 = elfFields{head: 52, table: 0x20, entry: 0x2e, count: 0x30, names: 0x32, size: 40, flags: 8, address: 0x0c, offset: 0x10, bytes: 0x14, link: 0x18, word: 4}
)

const (
	sectionBits    = 1  // SHT_PROGBITS
	sectionSymbols = 2  // SHT_SYMTAB
	sectionDynamic = 6  // SHT_DYNAMIC
	sectionDynsym  = 11 // SHT_DYNSYM
)

// readProgram returns nil for what is no program for amd64 or 386.
func readProgram(b []byte) *elfProgram {
	if len(b) < elf64.head {
		return nil
	}
	p, f := &elfProgram{}, elf64
	switch machine := binary.LittleEndian.Uint16(b[18:]); {
	case bytes.HasPrefix(b, []byte("\x7fELF\x02\x01")) && machine == 62: // EM_X86_64
		p.cpu = amd64
	case bytes.HasPrefix(b, []byte("\x7fELF\x01\x01")) && machine == 3: // EM_386
		p.cpu, f = i386, elf32
	default:
		return nil
	}
	from := func(at, size uint64) []byte {
		if at > uint64(len(b)) || size > uint64(len(b))-at {
			return nil
		}
		return b[at : at+size : at+size]
	}
	address := func(b []byte) uint64 {
		if f.word == 4 {
			return uint64(binary.LittleEndian.Uint32(b))
		}
		return binary.LittleEndian.Uint64(b)
	}
	count, last := int(binary.LittleEndian.Uint16(b[f.count:])), int(binary.LittleEndian.Uint16(b[f.names:]))
	headers := from(address(b[f.table:]), uint64(count*f.size))
	if int(binary.LittleEndian.Uint16(b[f.entry:])) != f.size || headers == nil || last >= count {
		return nil
	}
	header := func(i int) []byte { return headers[i*f.size : (i+1)*f.size] }
	piece := func(h []byte) []byte { return from(address(h[f.offset:]), address(h[f.bytes:])) }
	names := piece(header(last))
	for i := range count {
		h := header(i)
		s := elfSection{
			kind: binary.LittleEndian.Uint32(h[4:]), address: address(h[f.address:]), b: piece(h),
			link: int(binary.LittleEndian.Uint32(h[f.link:])),
		}
		if name := uint64(binary.LittleEndian.Uint32(h)); name < uint64(len(names)) {
			text, _, _ := bytes.Cut(names[name:], []byte{0})
			s.name = string(text)
			s.loaded = s.kind == sectionBits && address(h[f.flags:])&2 != 0 // SHF_ALLOC
		}
		p.sections = append(p.sections, s)
	}
	return p
}

func (p *elfProgram) named(name string) []elfSection {
	var list []elfSection
	for _, s := range p.sections {
		if s.loaded && s.name == name {
			list = append(list, s)
		}
	}
	return list
}

// at returns what is at an address, up to the end of its section; nil if that is less
// than size.
func (p *elfProgram) at(address uint64, size int) []byte {
	for _, s := range p.sections {
		if offset := address - s.address; s.loaded && address >= s.address && offset < uint64(len(s.b)) && len(s.b)-int(offset) >= size {
			return s.b[offset:]
		}
	}
	return nil
}

// text returns the string at an offset of the section that s is linked to.
func (p *elfProgram) text(s elfSection, offset uint32) string {
	if s.link >= len(p.sections) || uint64(offset) >= uint64(len(p.sections[s.link].b)) {
		return ""
	}
	text, _, _ := bytes.Cut(p.sections[s.link].b[offset:], []byte{0})
	return string(text)
}
