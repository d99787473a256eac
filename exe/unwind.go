package exe

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// An UnwindRow says how to get from a function to its caller, from an address
// on up to that of the next row.
//
//	CFA            %rsp or %rbp, plus CFA: where the caller's stack began
//	return address at the CFA - 8
//	caller's %rbp  at the CFA + FramePointer; 0: still in %rbp
type UnwindRow struct {
	Addr             uint64 // as the file has it
	CFA              int32
	FramePointer     int16
	FromFramePointer bool // the CFA is from %rbp
	Known            bool // else there is no caller, or no way to find it
}

// Columns of registers on x86-64.
const (
	columnRBP    = 6
	columnRSP    = 7
	columnReturn = 16
)

var errFrame = errors.New("cut off")

// UnwindRows returns what .eh_frame says, by ascending address. Only x86-64 is
// known. Descriptions that are damaged or of another form are left out.
func (f *File) UnwindRows() ([]UnwindRow, error) {
	s := f.elf.Section(".eh_frame")
	if s == nil || f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return nil, nil
	}
	b, err := data(s)
	if err != nil {
		return nil, fmt.Errorf("section .eh_frame: %w", err)
	}
	return unwindRows(b, s.Addr), nil
}

// unwindRows reads a section that is at addr.
func unwindRows(b []byte, addr uint64) []UnwindRow {
	var rows []UnwindRow
	cies := make(map[int]*cie)
	for at := 0; at+8 <= len(b); {
		size := int(binary.LittleEndian.Uint32(b[at:]))
		if size < 4 || size > len(b)-at-4 {
			break // 0 is the end, 0xffffffff the form of 64 bits
		}
		entry := b[at+4 : at+4+size]
		// To the CIE it belongs to, back from here; 0: it is one itself.
		if back := int(binary.LittleEndian.Uint32(entry)); back != 0 {
			from := at + 4 - back
			if _, ok := cies[from]; !ok && from >= 0 {
				cies[from] = readCIE(b, from)
			}
			if c := cies[from]; c != nil {
				rows = append(rows, c.rows(entry[4:], addr+uint64(at)+8)...)
			}
		}
		at += 4 + size
	}
	slices.SortStableFunc(rows, func(a, b UnwindRow) int {
		known := func(r UnwindRow) int {
			if r.Known {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), known(a)-known(b))
	})
	return rows
}

// A cie has what several functions have in common.
type cie struct {
	codeAlign    uint64
	dataAlign    int64
	encoding     byte
	augmented    bool // the function has data of that, too
	signal       bool
	instructions []byte
}

func readCIE(b []byte, at int) *cie {
	if at+9 > len(b) {
		return nil
	}
	size := int(binary.LittleEndian.Uint32(b[at:]))
	if size < 5 || size > len(b)-at-4 {
		return nil
	}
	r := &cursor{b: b[at+8 : at+4+size]}
	version := r.byte()
	var augmentation []byte
	for c := r.byte(); c != 0; c = r.byte() {
		augmentation = append(augmentation, c)
	}
	c := &cie{codeAlign: r.unsigned(), dataAlign: r.signed()}
	column := uint64(0)
	if version == 1 {
		column = uint64(r.byte())
	} else {
		column = r.unsigned()
	}
	for i, letter := range augmentation {
		switch {
		case i == 0 && letter == 'z':
			c.augmented = true
			r.unsigned()
		case letter == 'R':
			c.encoding = r.byte()
		case letter == 'P':
			r.pointer(r.byte(), 0)
		case letter == 'L':
			r.byte()
		case letter == 'S':
			c.signal = true
		default:
			return nil
		}
	}
	c.instructions = r.b
	if r.err != nil || column != columnReturn || version != 1 && version != 3 {
		return nil
	}
	return c
}

// rows returns those of one function, whose description is at addr.
func (c *cie) rows(b []byte, addr uint64) []UnwindRow {
	r := &cursor{b: b}
	low := r.pointer(c.encoding, addr)
	length := r.pointer(c.encoding&0x0f, 0)
	if c.augmented {
		r.bytes(r.unsigned())
	}
	if r.err != nil || low == 0 || length == 0 { // at 0: thrown away by the linker
		return nil
	}
	end := UnwindRow{Addr: low + length}
	if c.signal {
		return []UnwindRow{{Addr: low}, end}
	}
	u := unwinder{cie: c, addr: low}
	u.run(c.instructions)
	u.initial, u.rows = u.state, nil
	u.run(r.b)
	u.emit()
	if u.failed {
		return []UnwindRow{{Addr: low}, end}
	}
	return append(u.rows, end)
}

// An unwinder carries out the instructions that describe a function.
type unwinder struct {
	*cie
	addr    uint64
	state   unwindState
	initial unwindState
	stack   []unwindState
	rows    []UnwindRow
	failed  bool
}

type unwindState struct {
	register uint64 // that the CFA is from
	offset   int64
	odd      bool // the CFA is an expression
	rbp      rule
	ret      rule
}

// A rule says where a register of the caller is.
type rule struct {
	saved  bool
	offset int64 // from the CFA
	odd    bool  // nowhere, or by an expression
}

func (u *unwinder) emit() {
	s := u.state
	row := UnwindRow{Addr: u.addr, CFA: int32(s.offset), FramePointer: int16(s.rbp.offset), FromFramePointer: s.register == columnRBP}
	row.Known = !s.odd && (s.register == columnRSP || s.register == columnRBP) && int64(row.CFA) == s.offset &&
		s.ret == rule{saved: true, offset: -8} && !s.rbp.odd && int64(row.FramePointer) == s.rbp.offset
	u.rows = append(u.rows, row)
}

func (u *unwinder) advance(n uint64) {
	if n != 0 {
		u.emit()
		u.addr += n * u.codeAlign
	}
}

func (u *unwinder) set(column uint64, r rule) {
	switch column {
	case columnRBP:
		u.state.rbp = r
	case columnReturn:
		u.state.ret = r
	}
}

func (u *unwinder) restore(column uint64) {
	switch column {
	case columnRBP:
		u.state.rbp = u.initial.rbp
	case columnReturn:
		u.state.ret = u.initial.ret
	}
}

func (u *unwinder) run(b []byte) {
	r := &cursor{b: b}
	saved := func(column uint64, offset int64) { u.set(column, rule{saved: true, offset: offset}) }
	for len(r.b) > 0 && r.err == nil && len(u.rows) < 1<<16 {
		op := r.byte()
		switch low := uint64(op & 0x3f); op >> 6 {
		case 1: // DW_CFA_advance_loc
			u.advance(low)
			continue
		case 2: // DW_CFA_offset
			saved(low, int64(r.unsigned())*u.dataAlign)
			continue
		case 3: // DW_CFA_restore
			u.restore(low)
			continue
		}
		switch op {
		case 0x00: // DW_CFA_nop
		case 0x02: // DW_CFA_advance_loc1
			u.advance(uint64(r.byte()))
		case 0x03:
			u.advance(r.number(2))
		case 0x04:
			u.advance(r.number(4))
		case 0x05: // DW_CFA_offset_extended
			column := r.unsigned()
			saved(column, int64(r.unsigned())*u.dataAlign)
		case 0x06: // DW_CFA_restore_extended
			u.restore(r.unsigned())
		case 0x07: // DW_CFA_undefined
			u.set(r.unsigned(), rule{odd: true})
		case 0x08: // DW_CFA_same_value
			u.set(r.unsigned(), rule{})
		case 0x09: // DW_CFA_register
			u.set(r.unsigned(), rule{odd: true})
			r.unsigned()
		case 0x0a: // DW_CFA_remember_state
			if u.failed = len(u.stack) > 64; u.failed {
				return
			}
			u.stack = append(u.stack, u.state)
		case 0x0b: // DW_CFA_restore_state
			if u.failed = len(u.stack) == 0; u.failed {
				return
			}
			u.state, u.stack = u.stack[len(u.stack)-1], u.stack[:len(u.stack)-1]
		case 0x0c: // DW_CFA_def_cfa
			u.state.register, u.state.offset, u.state.odd = r.unsigned(), int64(r.unsigned()), false
		case 0x0d: // DW_CFA_def_cfa_register
			u.state.register = r.unsigned()
		case 0x0e: // DW_CFA_def_cfa_offset
			u.state.offset = int64(r.unsigned())
		case 0x0f: // DW_CFA_def_cfa_expression
			r.bytes(r.unsigned())
			u.state.odd = true
		case 0x10, 0x16: // DW_CFA_expression, DW_CFA_val_expression
			u.set(r.unsigned(), rule{odd: true})
			r.bytes(r.unsigned())
		case 0x11: // DW_CFA_offset_extended_sf
			column := r.unsigned()
			saved(column, r.signed()*u.dataAlign)
		case 0x12: // DW_CFA_def_cfa_sf
			u.state.register, u.state.offset, u.state.odd = r.unsigned(), r.signed()*u.dataAlign, false
		case 0x13: // DW_CFA_def_cfa_offset_sf
			u.state.offset = r.signed() * u.dataAlign
		case 0x2e: // DW_CFA_GNU_args_size
			r.unsigned()
		default:
			u.failed = true
			return
		}
	}
	u.failed = u.failed || r.err != nil
}

// A cursor takes numbers from bytes.
type cursor struct {
	b   []byte
	err error
}

func (r *cursor) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errFrame
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *cursor) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// number takes an unsigned number of n bytes.
func (r *cursor) number(n int) uint64 {
	var v uint64
	for i, b := range r.bytes(uint64(n)) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

// unsigned takes a LEB128.
func (r *cursor) unsigned() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errFrame
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *cursor) signed() int64 {
	var v int64
	for shift := 0; shift < 64; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if b&0x40 != 0 && shift < 57 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	return v
}

// pointer takes a pointer that is encoded in one of the ways (DW_EH_PE) that
// x86-64 uses; addr is that of the pointer itself.
func (r *cursor) pointer(encoding byte, addr uint64) uint64 {
	var v uint64
	switch encoding & 0x0f {
	case 0x00, 0x04, 0x0c:
		v = r.number(8)
	case 0x03:
		v = r.number(4)
	case 0x0b:
		v = uint64(int64(int32(r.number(4))))
	default:
		r.err = errFrame
	}
	if encoding&0x70 == 0x10 {
		v += addr
	}
	return v
}
