package binary

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// A Site is the beginning of a function where the compiler has left room: some
// instructions that do nothing and may be replaced.
//
//	-fpatchable-function-entry=5           -fpatchable-function-entry=16,11
//
//	                                       record: nop   11 bytes: Before
//	function: [endbr64]                            ...
//	record:   nop   5 bytes: Size          function: [endbr64]
//	          ...                          Addr:     nop   5 bytes: Size
//	          push %rbp                              push %rbp
//
// -mnop-mcount leaves one instruction of 5 bytes there, and clang's -fxray-instrument
// a jump over 9 bytes of nop. On arm64 a nop has 4 bytes, and "bti c" is what
// endbr64 is on x86-64.
type Site struct {
	Addr     uint64 // of the room in the function, as the file has it
	Size     int    // its bytes: whole instructions
	Before   int    // bytes of room that end where the function begins
	Function FunctionSymbol
	Section  string // that has the list
}

// siteSections have the addresses of the sites: the first is written for
// -fpatchable-function-entry, the second for -mrecord-mcount.
var siteSections = []string{"__patchable_function_entries", "__mcount_loc"}

// A siteCPU is what sites of a CPU look like.
type siteCPU struct {
	nops     func(code []byte, limit int) int
	landing  string // an instruction that must stay the first, if it is there
	relative uint32 // the relocation of addresses in the same file
}

var siteCPUs = map[elf.Machine]siteCPU{
	elf.EM_X86_64:  {nopsAMD64, "\xf3\x0f\x1e\xfa", uint32(elf.R_X86_64_RELATIVE)},  // endbr64
	elf.EM_AARCH64: {nopsARM64, "\x5f\x24\x03\xd5", uint32(elf.R_AARCH64_RELATIVE)}, // bti c
}

// maxRoom is where the search for room ends: nobody needs more.
const maxRoom = 64

// Sites lists the sites by ascending address, and how many entries of the
// lists have no room: those of functions that the linker threw away, and calls
// of mcount that are not nops. names are the functions of the file; they may
// come from a separate debug file. Only x86-64 and arm64 are known, and of arm64
// not what XRay leaves.
func (f *File) Sites(names Functions) (sites []Site, unusable int, err error) {
	cpu, known := siteCPUs[f.Machine]
	if !known || f.Class != elf.ELFCLASS64 {
		return nil, 0, nil
	}
	lists := f.siteLists()
	sleds, err := f.sleds()
	if err != nil {
		return nil, 0, fmt.Errorf("section %s: %w", sledSection, err)
	}
	if len(lists) == 0 && len(sleds) == 0 {
		return nil, 0, nil
	}
	code, err := f.code()
	if err != nil {
		return nil, 0, err
	}
	add := func(section string, records []uint64) {
		for _, record := range records {
			if site, ok := cpu.site(code, record, names); ok {
				site.Section = section
				sites = append(sites, site)
			} else {
				unusable++
			}
		}
	}
	for _, s := range lists {
		records, err := f.relocated(s, cpu.relative)
		if err != nil {
			return nil, 0, fmt.Errorf("section %s: %w", s.Name, err)
		}
		add(s.Name, records)
	}
	add(sledSection, sleds)
	slices.SortFunc(sites, func(a, b Site) int { return cmp.Compare(a.Addr, b.Addr) })
	sites = slices.CompactFunc(sites, func(a, b Site) bool { return a.Addr == b.Addr })
	return sites, unusable, nil
}

func (f *File) siteLists() []*elf.Section {
	var lists []*elf.Section
	for _, s := range f.elf.Sections {
		if slices.Contains(siteSections, s.Name) && s.Flags&elf.SHF_ALLOC != 0 {
			lists = append(lists, s)
		}
	}
	return lists
}

// HasSites tells whether there is a list of sites, which may be empty.
func (f *File) HasSites() bool {
	return len(f.siteLists()) > 0 || f.elf.Section(sledSection) != nil
}

// sleds returns the addresses of the entries that XRay lists. Its section has, for
// each place, 32 bytes: address i64, function i64, kind u8, always u8, version u8;
// since version 2 both addresses count from where they are.
func (f *File) sleds() ([]uint64, error) {
	s := f.elf.Section(sledSection)
	if s == nil || s.Flags&elf.SHF_ALLOC == 0 {
		return nil, nil
	}
	b, err := data(s)
	if err != nil {
		return nil, err
	}
	var sleds []uint64
	for at := s.Addr; len(b) >= 32; at, b = at+32, b[32:] {
		kind, version := b[16], b[18]
		if version >= 2 && (kind == sledEnter || kind == sledEnterArguments) {
			sleds = append(sleds, at+f.Order.Uint64(b))
		}
	}
	return sleds, nil
}

const (
	sledSection        = "xray_instr_map"
	sledEnter          = 0
	sledEnterArguments = 3
)

// relocated returns the addresses in a section as they are once the dynamic
// linker has been there, but for the bias. Linkers leave the words of
// relocations zero, or not.
func (f *File) relocated(s *elf.Section, relative uint32) ([]uint64, error) {
	b, err := data(s)
	if err != nil {
		return nil, err
	}
	words := make([]uint64, len(b)/8)
	for i := range words {
		words[i] = f.Order.Uint64(b[8*i:])
	}
	for _, r := range f.elf.Sections {
		if r.Type != elf.SHT_RELA || r.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := data(r)
		if err != nil {
			return nil, err
		}
		// offset u64, type u32, symbol u32, addend i64
		for ; len(b) >= 24; b = b[24:] {
			at := f.Order.Uint64(b) - s.Addr
			if at < uint64(8*len(words)) && at%8 == 0 && f.Order.Uint32(b[8:]) == relative {
				words[at/8] = f.Order.Uint64(b[16:])
			}
		}
	}
	return words, nil
}

// code returns the executable sections of the file.
func (f *File) code() (*pieces, error) {
	p := newPieces(codePiece, codePieces)
	for _, s := range f.elf.Sections {
		if s.Flags&elf.SHF_EXECINSTR == 0 || s.Type != elf.SHT_PROGBITS {
			continue
		}
		if err := p.add(s); err != nil {
			return nil, fmt.Errorf("section %s: %w", s.Name, err)
		}
	}
	return p, nil
}

// site finds the room of an entry of a list.
func (cpu *siteCPU) site(code *pieces, record uint64, names Functions) (Site, bool) {
	const most = 4 * maxRoom // before the function and in it, and what is behind
	b := code.at(record, most)
	site := Site{Addr: record}
	fn := names.At(record)
	// The room of an entry that points before its function goes on to it; that
	// address may still be within the function before, if that has no size.
	if next := names.Before(record + uint64(cpu.nops(b, maxRoom))); next != nil && next.Addr > record {
		fn = next
		site.Before = int(next.Addr - record)
		b = b[site.Before:]
		if rest, ok := bytes.CutPrefix(b, []byte(cpu.landing)); ok {
			b = rest
			site.Addr += uint64(len(cpu.landing))
		}
		site.Addr += uint64(site.Before)
	}
	if fn != nil {
		site.Function = *fn
	}
	site.Size = cpu.nops(b, maxRoom)
	return site, site.Size > 0
}

// Nops returns how many bytes at the beginning of code of the file's CPU are
// instructions that do nothing, at most about limit.
func (f *File) Nops(code []byte, limit int) int {
	cpu, known := siteCPUs[f.Machine]
	if !known {
		return 0
	}
	return cpu.nops(code, limit)
}

func nopsAMD64(code []byte, limit int) int {
	n := 0
	if len(code) >= 11 && code[0] == 0xeb && code[1] == 9 && nopsAMD64(code[2:11], 9) == 9 {
		return 11 // XRay's
	}
	for n < len(code) && n < limit {
		i, err := x86asm.Decode(code[n:], 64)
		if err != nil || i.Op != x86asm.NOP && !isNop66(code[n:]) {
			break
		}
		n += i.Len
	}
	return n
}

func nopsARM64(code []byte, limit int) int {
	n := 0
	for n < limit && bytes.HasPrefix(code[n:], []byte("\x1f\x20\x03\xd5")) {
		n += 4
	}
	return n
}

// isNop66 knows xchg %ax,%ax, which does nothing either.
func isNop66(code []byte) bool {
	return len(code) >= 2 && code[0] == 0x66 && code[1] == 0x90
}
