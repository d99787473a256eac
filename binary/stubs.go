package binary

import (
	"bytes"
	"debug/elf"
	encoding "encoding/binary"
	"strings"
)

// stubs returns the entries of the procedure linkage table, "puts@plt". Only those of
// x86-64 are known. own are the functions of the file: the entry of one of these, which
// is chosen when the program starts, has its plain name, as its address is that of the
// function for the program.
//
// An entry jumps to where a slot of the global offset table says, and that slot's
// relocation has the name. Neither has to be in the order of the other: linkers put
// those of chosen functions last.
func (f *File) stubs(own Functions) Functions {
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return nil
	}
	slots := f.slots(own)
	if len(slots) == 0 {
		return nil
	}
	var fs Functions
	for _, s := range f.elf.Sections {
		switch s.Name {
		case ".plt", ".plt.sec", ".plt.got", ".plt.bnd", ".iplt":
		default:
			continue
		}
		b, err := data(s)
		if err != nil {
			continue
		}
		name := func(at int) string {
			return slots[slotOf(b[min(at, len(b)):], s.Addr+uint64(at))]
		}
		for at := 0; at < len(b); at += 8 {
			if name(at) == "" {
				continue
			}
			size := 16
			if at+size > len(b) || name(at+8) != "" { // those that are never bound later
				size = 8
			}
			fs = append(fs, FunctionSymbol{Name: name(at), Addr: s.Addr + uint64(at), Size: uint64(size), Local: true, Indirect: !strings.HasSuffix(name(at), "@plt")})
			at += size - 8
		}
	}
	return fs
}

// slotOf returns the address of the slot by which the entry at addr jumps, 0 if it is of
// another kind, such as the first entry, which calls the dynamic linker.
//
//	{f3 0f 1e fa} {41 bb i32} {f2} ff 25 i32    {endbr64} {mov $i32, %r11d} {bnd} jmp *i32(%rip)
func slotOf(entry []byte, addr uint64) uint64 {
	entry = entry[:min(len(entry), 16)]
	rest := bytes.TrimPrefix(entry, []byte{0xf3, 0x0f, 0x1e, 0xfa})
	if len(rest) > 6 && rest[0] == 0x41 && rest[1] == 0xbb { // of the linker mold
		rest = rest[6:]
	}
	rest = bytes.TrimPrefix(rest, []byte{0xf2})
	if len(rest) < 6 || rest[0] != 0xff || rest[1] != 0x25 {
		return 0
	}
	next := addr + uint64(len(entry)-len(rest)) + 6
	return next + uint64(int64(int32(encoding.LittleEndian.Uint32(rest[2:]))))
}

// slots returns the names of the entries that jump by the slots of the global offset
// table, by the slots' addresses.
func (f *File) slots(own Functions) map[uint64]string {
	const entry = 24
	var symbols []string
	_ = f.eachSymbol(elf.SHT_DYNSYM, func(s *tableSymbol) bool { // programs that are linked statically have none
		symbols = append(symbols, string(s.name)+"@plt")
		return true
	})
	slots := make(map[uint64]string)
	for _, section := range f.elf.Sections {
		switch section.Name {
		case ".rela.plt", ".rela.dyn", ".rela.iplt":
		default:
			continue
		}
		b, err := data(section)
		if err != nil {
			continue
		}
		// offset u64, type u32, symbol u32, addend i64
		for ; len(b) >= entry; b = b[entry:] {
			slot, symbol, addend := f.Order.Uint64(b), uint64(f.Order.Uint32(b[12:])), f.Order.Uint64(b[16:])
			switch elf.R_X86_64(f.Order.Uint32(b[8:])) {
			case elf.R_X86_64_JMP_SLOT, elf.R_X86_64_GLOB_DAT:
				if symbol > 0 && symbol <= uint64(len(symbols)) {
					slots[slot] = symbols[symbol-1]
				}
			case elf.R_X86_64_IRELATIVE:
				slots[slot] = own.chosenBy(addend)
			}
		}
	}
	return slots
}

// chosenBy returns the name that the function at the address chooses a function for, ""
// if it is not known.
func (fs Functions) chosenBy(addr uint64) string {
	best := ""
	for _, f := range fs {
		switch {
		case f.Addr != addr || !f.Indirect:
		case best == "" || f.rank() < (FunctionSymbol{Name: best}).rank():
			best = f.Name
		}
	}
	return best
}
