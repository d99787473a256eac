package exe

import "debug/elf"

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
