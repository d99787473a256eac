package binary

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
)

// Symbols are read here, not by debug/elf, which copies each one's name: thousands of
// symbols may have one name of many megabytes, or the ends of it.

// errLongNames is wrapped by errors about tables whose names are not all read.
var errLongNames = errors.New("the names of symbols have far more bytes together than the table of names: the rest is left out")

// A nameTable is a section of names, each ended by 0, to which others refer.
type nameTable struct {
	b    []byte
	left int // bytes that are read of it, many times what there is
}

// names reads the names that a section refers to.
func (f *File) names(of *elf.Section) (*nameTable, error) {
	if int(of.Link) >= len(f.elf.Sections) {
		return nil, fmt.Errorf("section %d of names does not exist", of.Link)
	}
	b, err := data(f.elf.Sections[of.Link])
	if err != nil {
		return nil, fmt.Errorf("names of symbols: %w", err)
	}
	return &nameTable{b, 1<<24 + 8*len(b)}, nil
}

// at returns the name at an offset, as long as the table is; "" outside of it.
func (t *nameTable) at(offset uint64) ([]byte, error) {
	if offset >= uint64(len(t.b)) {
		return nil, nil
	}
	n := bytes.IndexByte(t.b[offset:], 0)
	if n < 0 {
		n = 0
	}
	if t.left -= n; t.left < 0 {
		return nil, errLongNames
	}
	return t.b[offset : offset+uint64(n)], nil
}

// A tableSymbol is one of a table. Its name is valid as long as it is visited.
type tableSymbol struct {
	name        []byte
	info, other byte
	section     elf.SectionIndex
	value, size uint64
}

// eachSymbol visits the symbols of the first table of that kind, without the first, which
// is none, until visit returns false. It returns ErrNoSymbols if there are none.
//
//	64 bits:  name u32, info u8, other u8, section u16, value u64, size u64
//	32 bits:  name u32, value u32, size u32, info u8, other u8, section u16
func (f *File) eachSymbol(kind elf.SectionType, visit func(s *tableSymbol) bool) error {
	table := f.elf.SectionByType(kind)
	if table == nil || table.Type == elf.SHT_NOBITS {
		return ErrNoSymbols
	}
	names, err := f.names(table)
	if err != nil {
		return fmt.Errorf("symbol table: %w", err)
	}
	b, err := data(table)
	if err != nil {
		return fmt.Errorf("symbol table: %w", err)
	}
	each := elf.Sym64Size
	if f.Class == elf.ELFCLASS32 {
		each = elf.Sym32Size
	}
	if len(b) == 0 {
		return ErrNoSymbols
	}
	for b = b[min(each, len(b)):]; len(b) >= each; b = b[each:] {
		s := tableSymbol{info: b[4], other: b[5]}
		if f.Class == elf.ELFCLASS32 {
			s = tableSymbol{info: b[12], other: b[13], section: elf.SectionIndex(f.Order.Uint16(b[14:])), value: uint64(f.Order.Uint32(b[4:])), size: uint64(f.Order.Uint32(b[8:]))}
		} else {
			s.section, s.value, s.size = elf.SectionIndex(f.Order.Uint16(b[6:])), f.Order.Uint64(b[8:]), f.Order.Uint64(b[16:])
		}
		if s.name, err = names.at(uint64(f.Order.Uint32(b))); err != nil {
			return fmt.Errorf("symbol table: %w", err)
		}
		if !visit(&s) {
			return nil
		}
	}
	return nil
}

// isCode tells whether a symbol is of a section that has code.
func (f *File) isCode(s *tableSymbol) bool {
	return s.section != elf.SHN_UNDEF && int(s.section) < len(f.elf.Sections) && f.elf.Sections[s.section].Flags&elf.SHF_EXECINSTR != 0
}

// hiddenVersions returns what tells of the symbol N of .dynsym whether another one of its name is the
// default.
//
//	a u16 for each symbol: 0x8000 hidden, the rest the version
func (f *File) hiddenVersions() func(n int) bool {
	var versions []byte
	if s := f.elf.SectionByType(elf.SHT_GNU_VERSYM); s != nil {
		versions, _ = data(s)
	}
	return func(n int) bool {
		return 2*n+2 <= len(versions) && f.Order.Uint16(versions[2*n:])&0x8000 != 0
	}
}

// dynamicNames returns the names that the table for the dynamic linker has under a tag.
//
//	64 bits:  tag u64, value u64
//	32 bits:  tag u32, value u32
func (f *File) dynamicNames(tag elf.DynTag) (all []string) {
	table := f.elf.SectionByType(elf.SHT_DYNAMIC)
	if table == nil {
		return nil
	}
	b, err := data(table)
	if err != nil {
		return nil
	}
	names, err := f.names(table)
	if err != nil {
		return nil
	}
	word := f.PointerSize()
	for number := f.word; len(b) >= 2*word; b = b[2*word:] {
		if elf.DynTag(number(b)) != tag {
			continue
		}
		name, err := names.at(number(b[word:]))
		if err != nil {
			break
		}
		if len(name) > 0 {
			all = append(all, string(name))
		}
	}
	return all
}

// word is a number as long as an address.
func (f *File) word(b []byte) uint64 {
	if f.Class == elf.ELFCLASS32 {
		return uint64(f.Order.Uint32(b))
	}
	return f.Order.Uint64(b)
}
