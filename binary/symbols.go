package binary

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"slices"
	"sort"
	"strings"
)

// A FunctionSymbol is code that has a name.
type FunctionSymbol struct {
	Name  string // as the linker knows it
	Addr  uint64 // as the file has it
	Size  uint64 // 0: not known
	Unit  string // of a local function: the source file, where the table tells
	Local bool
	// Indirect: the code only chooses, once, which function has the name.
	Indirect bool
	weak     bool
}

// Functions are functions by ascending address, one at each.
type Functions []FunctionSymbol

// Functions returns those of .symtab or, of a stripped file, those that are
// known to the dynamic linker, and the stubs by which shared libraries are
// called. It returns ErrNoSymbols if the file names no code.
func (f *File) Functions() (Functions, error) {
	fs, err := f.functions(elf.SHT_SYMTAB)
	if errors.Is(err, ErrNoSymbols) {
		fs, err = f.functions(elf.SHT_DYNSYM)
	}
	if err != nil {
		return nil, err
	}
	fs = append(fs, f.stubs(fs)...)
	if len(fs) == 0 {
		return nil, ErrNoSymbols
	}
	return fs.finish(), nil
}

// FunctionsWith are those of the file and of what has others of its symbols, as MiniDebug does.
func (f *File) FunctionsWith(more *File) (Functions, error) {
	all, err := more.functions(elf.SHT_SYMTAB)
	if err != nil {
		return nil, err
	}
	own, err := f.Functions()
	if err != nil && !errors.Is(err, ErrNoSymbols) {
		return nil, err
	}
	return append(all, own...).finish(), nil
}

func (f *File) functions(kind elf.SectionType) (Functions, error) {
	var fs Functions
	unit := ""
	err := f.eachSymbol(kind, func(s *tableSymbol) bool {
		switch elf.ST_TYPE(s.info) {
		case elf.STT_FILE:
			unit = string(s.name)
			return true
		case elf.STT_FUNC, elf.STT_GNU_IFUNC:
		case elf.STT_NOTYPE: // labels of hand-written assembly
			if bytes.HasPrefix(s.name, []byte("$")) || bytes.HasPrefix(s.name, []byte(".L")) {
				return true // marks of the assembler
			}
		default:
			return true
		}
		if len(s.name) == 0 || !f.isCode(s) {
			return true
		}
		name, _, _ := bytes.Cut(s.name, []byte("@")) // of a version: memcpy@@GLIBC_2.14
		fn := FunctionSymbol{Name: string(name), Addr: s.value, Size: s.size, Indirect: elf.ST_TYPE(s.info) == elf.STT_GNU_IFUNC}
		switch elf.ST_BIND(s.info) {
		case elf.STB_LOCAL:
			fn.Local, fn.Unit = true, unit
		case elf.STB_WEAK:
			fn.weak = true
		}
		if f.Machine == elf.EM_ARM {
			fn.Addr &^= 1 // Thumb
		}
		fs = append(fs, fn)
		return true
	})
	if err != nil {
		return nil, err
	}
	return fs, nil
}

// finish sorts, and keeps the best of several names of one address.
func (fs Functions) finish() Functions {
	slices.SortStableFunc(fs, func(a, b FunctionSymbol) int {
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.rank(), b.rank()))
	})
	n := 0
	for _, f := range fs {
		if n > 0 && fs[n-1].Addr == f.Addr {
			fs[n-1].Size = max(fs[n-1].Size, f.Size)
			continue
		}
		fs[n] = f
		n++
	}
	return fs[:n]
}

// rank is lower for a better name: what the programmer wrote is not local and
// has no underscores.
func (f FunctionSymbol) rank() int {
	r := 2 * (len(f.Name) - len(strings.TrimLeft(f.Name, "_")))
	switch {
	case f.Local:
		r += 200
	case f.weak:
		r++
	}
	return r
}

// At returns the function that has code at the address, nil if there is none.
// One whose size is not known goes on to the next.
func (fs Functions) At(addr uint64) *FunctionSymbol {
	f := fs.Before(addr)
	if f == nil || f.Size > 0 && addr-f.Addr >= f.Size {
		return nil
	}
	return f
}

// Before returns the last function that begins at the address or before it,
// nil if there is none.
func (fs Functions) Before(addr uint64) *FunctionSymbol {
	i := sort.Search(len(fs), func(i int) bool { return fs[i].Addr > addr })
	if i == 0 {
		return nil
	}
	return &fs[i-1]
}

// Executable returns the ranges of addresses that hold code.
func (f *File) Executable() [][2]uint64 {
	var ranges [][2]uint64
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			ranges = append(ranges, [2]uint64{p.Vaddr, p.Vaddr + p.Memsz})
		}
	}
	return ranges
}

// IsExecutable tells whether an address is one of code.
func (f *File) IsExecutable(addr uint64) bool {
	return slices.ContainsFunc(f.Executable(), func(r [2]uint64) bool { return r[0] <= addr && addr < r[1] })
}

// Entry is the address of the first instruction, as the file has it.
func (f *File) Entry() uint64 { return f.elf.Entry }

// DebugLink is the name of the separate debug file that the file names, "" for
// none.
func (f *File) DebugLink() string {
	s := f.elf.Section(".gnu_debuglink")
	if s == nil || s.Size > 1<<12 {
		return ""
	}
	b, err := data(s)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(b), "\x00")
	return name
}

// HasLines tells whether the file has debug information.
func (f *File) HasLines() bool {
	s := f.elf.Section(".debug_info")
	return s != nil && s.Type != elf.SHT_NOBITS || f.elf.Section(".zdebug_info") != nil
}

// Imports tells whether the file uses a symbol of another one.
func (f *File) Imports(names ...string) bool {
	found := false
	_ = f.eachSymbol(elf.SHT_DYNSYM, func(s *tableSymbol) bool {
		found = s.section == elf.SHN_UNDEF && elf.ST_BIND(s.info) == elf.STB_GLOBAL && slices.Contains(names, string(s.name))
		return !found
	})
	return found
}

// HasSymbols tells whether the file has a symbol table that strip removes.
func (f *File) HasSymbols() bool {
	s := f.elf.SectionByType(elf.SHT_SYMTAB)
	return s != nil
}

// FileOffset returns where in the file the byte of an address is, 0 if it is
// not loaded from there.
func (f *File) FileOffset(addr uint64) uint64 {
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= addr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off
		}
	}
	return 0
}

// CodeAddress returns the address of the code at an offset of the file. ok is
// false if none is loaded from there.
func (f *File) CodeAddress(offset uint64) (addr uint64, ok bool) {
	for _, p := range f.elf.Progs {
		// Whole pages are mapped.
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Off&^0xfff <= offset && offset < p.Off+p.Filesz {
			return offset - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}
