// Package unwind reads call-frame information: the rules by which exceptions,
// debuggers and profilers find the caller of code. It is in the section .eh_frame,
// or in .debug_frame.
//
// A [Table] is what such a section has. [Table.Row] interprets it for one address,
// as a profiler wants it; [Table.CompactRows] does so for all code and leaves out what
// code in a watched program, or in the kernel, could not follow anyway.
//
// The package knows bytes only: what is a section of a file is for package binary,
// which has the files, and what is in registers and on the stack for those who unwind.
package unwind

import (
	"cmp"
	"debug/elf"
	encoding "encoding/binary"
	"errors"
	"math"
	"slices"
	"sort"
)

// A Table is a section of call-frame information: DWARF 5, section 6.4, and the Linux
// Standard Base 5, core, section 10.6, for what is different in .eh_frame. Entries are
// of two kinds, which begin with their length: u32, or all ones and a u64.
//
//	CIE   id, version u8, augmentation string, [v4: address and segment sizes u8]
//	      code and data factors, return register, [z: augmentation data], instructions
//	FDE   pointer to its CIE, begin of code, size of code, [z: augmentation data],
//	      instructions
//
//	                 .eh_frame                     .debug_frame
//	id of a CIE      0 u32                         all ones, u32 or u64
//	pointer to it    how far back it is, u32       its place in the section, u32 or u64
//	addresses        as the augmentation R says    words
//
// A Table is not changed after it was read: goroutines may share it.
type Table struct {
	order  encoding.ByteOrder
	is64   bool
	debug  bool   // .debug_frame
	first  uint64 // register that rows have
	addr   uint64 // of the section
	data   []byte
	fdes   []fde // by ascending address
	common map[uint64]*cie
}

// A cie, common information entry, has what several FDEs share.
type cie struct {
	codeFactor   uint64
	dataFactor   int64
	returnColumn uint64
	encoding     byte // of addresses of code
	languageData byte // how its FDEs have the address of language-specific data; DW_EH_PE_omit: not
	hasData      bool // its FDEs have augmentation data
	signal       bool
	instructions []byte
}

// An fde, frame description entry, describes a function or a part of one.
type fde struct {
	low, high    uint64
	cie          *cie
	languageData uint64 // address; 0: none
	instructions []byte
}

// Options say what the bytes of a section are.
type Options struct {
	Machine elf.Machine
	Class   elf.Class
	Order   encoding.ByteOrder
	Addr    uint64 // of the section, as the file has it
	Debug   bool   // the section is .debug_frame, not .eh_frame
}

var errDamaged = errors.New("damaged call-frame information")

// Read reads the table that a section has. Entries that are damaged or of a form that is
// not known are left out; after one whose length is wrong there are no more.
func Read(section []byte, o Options) *Table {
	t := &Table{order: o.Order, is64: o.Class == elf.ELFCLASS64, debug: o.Debug, addr: o.Addr, data: section, common: make(map[uint64]*cie)}
	if o.Machine == elf.EM_AARCH64 {
		t.first = firstARM64
	}
	t.index()
	slices.SortFunc(t.fdes, func(a, b fde) int { return cmp.Compare(a.low, b.low) })
	return t
}

// Starts returns the addresses at which what the table describes begins, ascending.
func (t *Table) Starts() []uint64 {
	starts := make([]uint64, len(t.fdes))
	for i := range t.fdes {
		starts[i] = t.fdes[i].low
	}
	return starts
}

// Described returns the code around an address that is described together: a function or
// a part of one.
func (t *Table) Described(addr uint64) (low, high uint64, ok bool) {
	if f := t.at(addr); f != nil {
		return f.low, f.high, true
	}
	return 0, 0, false
}

// index finds all FDEs.
func (t *Table) index() {
	const bytesOfFDE = 64
	t.fdes = make([]fde, 0, len(t.data)/bytesOfFDE)
	for at := uint64(0); at+4 <= uint64(len(t.data)); {
		r, is64, ok := t.entry(at)
		if !ok || len(r.b) == int(r.off) { // a length of 0 ends .eh_frame
			return
		}
		if place, ok := t.ciePlace(&r, is64); ok {
			if common := t.cieAt(place); common != nil {
				if f, ok := t.fde(&r, common); ok {
					t.fdes = append(t.fdes, f)
				}
			}
		}
		at = uint64(len(r.b))
	}
}

// entry returns a reader of the entry at a place of the section, from behind its length
// to its end; ok is false if it goes beyond the section.
func (t *Table) entry(at uint64) (r reader, is64, ok bool) {
	r = reader{t: t, b: t.data, off: at}
	size := uint64(r.u32())
	if is64 = size == math.MaxUint32; is64 {
		size = r.u64()
	}
	if r.bad || size > uint64(len(t.data))-r.off {
		return r, false, false
	}
	r.b = t.data[:r.off+size]
	return r, is64, true
}

// id reads the first field: an entry of .debug_frame has it as wide as its length.
func (t *Table) id(r *reader, is64 bool) uint64 {
	if is64 && t.debug {
		return r.u64()
	}
	return uint64(r.u32())
}

// cieID is the id by which a CIE is known.
func (t *Table) cieID(is64 bool) uint64 {
	switch {
	case !t.debug:
		return 0
	case is64:
		return math.MaxUint64
	}
	return math.MaxUint32
}

// ciePlace reads where the CIE of an entry is; ok is false if the entry is one itself.
func (t *Table) ciePlace(r *reader, is64 bool) (place uint64, ok bool) {
	here := r.off
	id := t.id(r, is64)
	switch {
	case r.bad || id == t.cieID(is64):
		return 0, false
	case t.debug:
		return id, id < uint64(len(t.data))
	}
	return here - id, id <= here
}

// fde reads the rest of an entry that describes code.
func (t *Table) fde(r *reader, common *cie) (f fde, ok bool) {
	low := r.pointer(common.encoding)
	high := low + r.pointer(common.encoding&0x0f)
	languageData := uint64(0)
	if common.hasData {
		n := r.uleb()
		if data := *r; n > 0 {
			languageData = data.reference(common.languageData)
		}
		r.skip(n)
	}
	if r.bad || low >= high {
		return f, false
	}
	return fde{low, high, common, languageData, r.b[r.off:]}, true
}

// cieAt returns the CIE at a place of the section, nil if there is none that is known.
func (t *Table) cieAt(at uint64) *cie {
	if common, ok := t.common[at]; ok {
		return common
	}
	common := t.readCIE(at)
	t.common[at] = common
	return common
}

func (t *Table) readCIE(at uint64) *cie {
	r, is64, ok := t.entry(at)
	if !ok || t.id(&r, is64) != t.cieID(is64) {
		return nil
	}
	version := r.u8()
	if version != 1 && version != 3 && !(t.debug && version == 4) {
		return nil
	}
	augmentation := r.text()
	if version == 4 { // sizes of addresses and of segment selectors
		if size := r.u8(); t.is64 != (size == 8) || r.u8() != 0 {
			return nil
		}
	}
	common := &cie{codeFactor: r.uleb(), dataFactor: r.sleb(), languageData: DW_EH_PE_omit}
	if version == 1 {
		common.returnColumn = uint64(r.u8())
	} else {
		common.returnColumn = r.uleb()
	}
	if !r.augmentation(augmentation, common) || r.bad {
		return nil
	}
	common.instructions = r.b[r.off:]
	return common
}

// augmentation reads the data that the augmentation of a CIE announces; ok is false if
// it is not known, so that what follows has no known form.
func (r *reader) augmentation(augmentation string, common *cie) (ok bool) {
	if augmentation == "" {
		return true
	}
	if augmentation[0] != 'z' {
		return false
	}
	common.hasData = true
	n := r.uleb()
	end := r.off + n
	for _, a := range augmentation[1:] {
		switch a {
		case 'R': // how addresses of code are encoded
			common.encoding = r.u8()
		case 'P': // the personality routine
			r.pointer(r.u8())
		case 'L':
			common.languageData = r.u8()
		case 'S': // a signal's frame
			common.signal = true
		}
	}
	if end < r.off || end > uint64(len(r.b)) {
		return false
	}
	r.off = end
	return true
}

// at returns the entry that describes the code at an address, nil if there is none.
func (t *Table) at(addr uint64) *fde {
	i := sort.Search(len(t.fdes), func(i int) bool { return t.fdes[i].low > addr })
	if i == 0 || addr >= t.fdes[i-1].high {
		return nil
	}
	return &t.fdes[i-1]
}
