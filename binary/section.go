package binary

import (
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"slices"
)

// Section returns where a section of that name is in memory: its address, as
// the file has it, and its size. ok is false if there is none that is loaded.
// Names survive strip.
func (f *File) Section(name string) (addr, size uint64, ok bool) {
	for _, s := range f.elf.Sections {
		if s.Name == name && s.Flags&elf.SHF_ALLOC != 0 {
			return s.Addr, s.Size, true
		}
	}
	return 0, 0, false
}

// Contents returns what the file has in the section of that name, nil if there
// is none.
func (f *File) Contents(name string) ([]byte, error) {
	s := f.elf.Section(name)
	if s == nil {
		return nil, nil
	}
	return data(s)
}

// EachContents returns what the file has in each section of that name: objects may have one a function. They are in room,
// as far as it is large enough; left is what is left of it.
func (f *File) EachContents(name string, room []byte) (all [][]byte, left []byte, err error) {
	var found []*elf.Section
	for _, s := range f.elf.Sections {
		if s.Name == name {
			found = append(found, s)
		}
	}
	// Many may claim the same bytes.
	byPlace := slices.Clone(found)
	slices.SortFunc(byPlace, func(a, b *elf.Section) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := 1; i < len(byPlace); i++ {
		if a, b := byPlace[i-1], byPlace[i]; a.Type != elf.SHT_NOBITS && b.Type != elf.SHT_NOBITS && a.FileSize > b.Offset-a.Offset && b.FileSize > 0 {
			return nil, room, fmt.Errorf("sections %s overlap", name)
		}
	}
	for _, s := range found {
		var b []byte
		if b, room, err = dataIn(s, room); err != nil {
			return all, room, err
		}
		all = append(all, b)
	}
	return all, room, nil
}

// dataIn is data, in room if that is large enough.
func dataIn(s *elf.Section, room []byte) (b, left []byte, err error) {
	if s.Type == elf.SHT_NOBITS || s.Flags&elf.SHF_COMPRESSED != 0 || s.Size > uint64(len(room)) {
		b, err = data(s)
		return b, room, err
	}
	b, left = room[:s.Size:s.Size], room[s.Size:]
	_, err = io.ReadFull(s.Open(), b)
	if err == io.EOF && len(b) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return b, left, err
}

// Notes returns the addresses, as the file has them, and the sizes of all
// segments of notes, in the order of the program headers.
func (f *File) Notes() (addrs, sizes []uint64) {
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_NOTE {
			addrs, sizes = append(addrs, p.Vaddr), append(sizes, p.Memsz)
		}
	}
	return addrs, sizes
}

// Has tells whether there is a section of that name, loaded or not.
func (f *File) Has(name string) bool { return f.elf.Section(name) != nil }

// OpenMapped reads the headers of a file out of the memory of a process that
// has the file's beginning at start. It has no sections and no symbols.
func OpenMapped(mem io.ReaderAt, start uint64) (*File, error) {
	return Open(&mapped{mem, start})
}

// A mapped is the first part of a file, in memory.
type mapped struct {
	mem   io.ReaderAt
	start uint64
}

// ReadAt hides the section headers, which are not in memory.
func (m *mapped) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 || at >= 1<<32 {
		return 0, io.EOF
	}
	n, err := m.mem.ReadAt(b, int64(m.start)+at)
	var class [elf.EI_NIDENT]byte
	if _, err := m.mem.ReadAt(class[:], int64(m.start)); err != nil {
		return 0, err
	}
	// Offset, number of the headers, and which of them has the names.
	hidden := [][2]int64{{40, 48}, {60, 64}}
	if elf.Class(class[elf.EI_CLASS]) == elf.ELFCLASS32 {
		hidden = [][2]int64{{32, 36}, {48, 52}}
	}
	for _, h := range hidden {
		for i := max(h[0], at); i < min(h[1], at+int64(n)); i++ {
			b[i-at] = 0
		}
	}
	return n, err
}

// Dynamic returns where the table for the dynamic linker is in memory, as the
// file has it.
func (f *File) Dynamic() (addr, size uint64, ok bool) {
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_DYNAMIC {
			return p.Vaddr, p.Memsz, true
		}
	}
	return 0, 0, false
}

// ReadOnlyAfterRelocation returns what the dynamic linker makes read-only when it has
// relocated the file, as the file has it.
func (f *File) ReadOnlyAfterRelocation() (addr, size uint64, ok bool) {
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_GNU_RELRO {
			return p.Vaddr, p.Memsz, true
		}
	}
	return 0, 0, false
}
