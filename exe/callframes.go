package exe

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"sort"
)

// CallFrames are the rules by which exceptions, debuggers and profilers find
// the caller of code: the section .eh_frame, see DWARF 5, section 6.4, and the
// Linux Standard Base for what is different in this section.
//
//	length u32 (all ones: u64 follows), then
//	common part   0 u32, version u8, augmentation string, code and data factors,
//	              return register, augmentation data, rules
//	of code       distance back to the common part u32, begin, length,
//	              augmentation data, rules
type CallFrames struct {
	order  binary.ByteOrder
	wide   bool
	first  uint64 // register that rows have
	addr   uint64 // of the section
	data   []byte
	codes  []codeFrames // by ascending address
	common map[uint64]*commonFrames
}

type codeFrames struct {
	low, high uint64
	common    *commonFrames
	rules     []byte
}

type commonFrames struct {
	codeFactor   uint64
	dataFactor   int64
	returnColumn uint64
	encoding     byte // of addresses of code
	hasData      bool
	signal       bool
	rules        []byte
}

// A RuleKind says how to find the value of a register in the caller.
type RuleKind byte

// Kinds of rules.
const (
	RuleSame       RuleKind = iota // it is unchanged
	RuleUndefined                  // it is lost; of the return address: there is no caller
	RuleOffset                     // it is stored at CFA + Offset
	RuleValue                      // it is CFA + Offset
	RuleRegister                   // it is in register Register
	RuleExpression                 // it is stored at the address that Expression computes
	RuleComputed                   // it is what Expression computes
)

// A Rule says how to find one value.
type Rule struct {
	Kind       RuleKind
	Register   uint64
	Offset     int64
	Expression []byte
}

// FrameRegisters is the number of registers that rules know, by their numbers
// in DWARF; of arm64 they are those from firstARM64 on.
const FrameRegisters = 17

const firstARM64 = 16

// A FrameRow has the rules for code.
type FrameRow struct {
	// CFA, the canonical frame address, is what the stack pointer was before the
	// call: a register plus an offset (RuleRegister), or computed.
	CFA       Rule
	Registers [FrameRegisters]Rule
	Return    uint64 // the register that has the return address
	Signal    bool   // the code was not called but interrupted
}

var errFrames = errors.New("damaged .eh_frame")

// CallFrames reads the table of the section; nil if there is none.
func (f *File) CallFrames() (*CallFrames, error) {
	s := f.elf.Section(".eh_frame")
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	b, err := data(s)
	if err != nil {
		return nil, err
	}
	c := &CallFrames{order: f.Order, wide: f.Class == elf.ELFCLASS64, addr: s.Addr, data: b, common: make(map[uint64]*commonFrames)}
	if f.Machine == elf.EM_AARCH64 {
		c.first = firstARM64
	}
	c.index()
	slices.SortFunc(c.codes, func(a, b codeFrames) int { return cmp.Compare(a.low, b.low) })
	return c, nil
}

// index finds all entries. At damage it stops: the entries before are good.
func (c *CallFrames) index() {
	for at := uint64(0); at+4 <= uint64(len(c.data)); {
		r := &frameReader{c: c, b: c.data, off: at}
		size := uint64(r.u32())
		if size == 0xffffffff {
			size = r.u64()
		}
		begin := r.off
		if size == 0 || size > uint64(len(c.data))-begin {
			return
		}
		end := begin + size
		r.b = c.data[:end]
		back := uint64(r.u32())
		if back != 0 && back <= begin {
			if common := c.commonAt(begin - back); common != nil {
				low := r.encoded(common.encoding)
				high := low + r.encoded(common.encoding&0x0f)
				if common.hasData {
					r.skip(r.uleb())
				}
				if !r.bad && low < high {
					c.codes = append(c.codes, codeFrames{low, high, common, r.b[r.off:]})
				}
			}
		}
		at = end
	}
}

func (c *CallFrames) commonAt(at uint64) *commonFrames {
	if common, ok := c.common[at]; ok {
		return common
	}
	c.common[at] = nil
	r := &frameReader{c: c, b: c.data, off: at}
	size := uint64(r.u32())
	if size == 0xffffffff {
		size = r.u64()
	}
	if r.bad || size > uint64(len(c.data))-r.off {
		return nil
	}
	r.b = c.data[:r.off+size]
	id, version := r.u32(), r.u8()
	if id != 0 || version != 1 && version != 3 {
		return nil
	}
	augmentation := r.text()
	common := &commonFrames{codeFactor: r.uleb(), dataFactor: r.sleb()}
	if version == 1 {
		common.returnColumn = uint64(r.u8())
	} else {
		common.returnColumn = r.uleb()
	}
	if len(augmentation) > 0 && augmentation[0] == 'z' {
		common.hasData = true
		n := r.uleb()
		end := r.off + n
		for _, a := range augmentation[1:] {
			switch a {
			case 'R':
				common.encoding = r.u8()
			case 'P':
				r.encoded(r.u8())
			case 'L':
				r.u8()
			case 'S':
				common.signal = true
			}
		}
		if end < r.off || end > uint64(len(r.b)) {
			return nil
		}
		r.off = end
	} else if augmentation != "" {
		return nil // not known: what follows has no known form
	}
	if r.bad {
		return nil
	}
	common.rules = r.b[r.off:]
	c.common[at] = common
	return common
}

// Row returns the rules for the code at addr; ok is false if there are none.
func (c *CallFrames) Row(addr uint64) (row FrameRow, ok bool) {
	i := sort.Search(len(c.codes), func(i int) bool { return c.codes[i].low > addr })
	if i == 0 || addr >= c.codes[i-1].high {
		return row, false
	}
	code := &c.codes[i-1]
	common := code.common
	m := &frameMachine{c: c, common: common}
	m.row.Return, m.row.Signal = common.returnColumn, common.signal
	if err := m.run(common.rules, 0, ^uint64(0)); err != nil {
		return row, false
	}
	m.initial = m.row
	if err := m.run(code.rules, code.low, addr); err != nil {
		return row, false
	}
	return m.row, true
}

// A frameMachine carries out the rules' instructions up to an address.
type frameMachine struct {
	c            *CallFrames
	common       *commonFrames
	row, initial FrameRow
	stack        []FrameRow
	leave        func(addr uint64) // if not nil: called when a row is complete, with where it begins
}

// Instructions of DW_CFA_*; the first three have an operand in their low bits.
const (
	cfaAdvance = 0x40
	cfaOffset  = 0x80
	cfaRestore = 0xc0
)

func (m *frameMachine) run(rules []byte, loc, addr uint64) error {
	r := &frameReader{c: m.c, b: rules}
	factored := func(n uint64) int64 { return int64(n) * m.common.dataFactor }
	for r.off < uint64(len(r.b)) && !r.bad {
		op := r.u8()
		low := uint64(op & 0x3f)
		switch op & 0xc0 {
		case cfaAdvance:
			if loc = m.advance(loc, loc+low*m.common.codeFactor); loc > addr {
				return nil
			}
			continue
		case cfaOffset:
			m.set(low, Rule{Kind: RuleOffset, Offset: factored(r.uleb())})
			continue
		case cfaRestore:
			m.restore(low)
			continue
		}
		advance := uint64(0)
		switch op {
		case 0x00: // nop
		case 0x01: // set_loc
			if loc = m.advance(loc, r.encoded(m.common.encoding)); loc > addr {
				return nil
			}
		case 0x02: // advance_loc1
			advance = uint64(r.u8())
		case 0x03:
			advance = uint64(r.u16())
		case 0x04:
			advance = uint64(r.u32())
		case 0x05: // offset_extended
			reg := r.uleb()
			m.set(reg, Rule{Kind: RuleOffset, Offset: factored(r.uleb())})
		case 0x06: // restore_extended
			m.restore(r.uleb())
		case 0x07: // undefined
			m.set(r.uleb(), Rule{Kind: RuleUndefined})
		case 0x08: // same_value
			m.set(r.uleb(), Rule{})
		case 0x09: // register
			reg := r.uleb()
			m.set(reg, Rule{Kind: RuleRegister, Register: r.uleb()})
		case 0x0a: // remember_state
			if len(m.stack) > 64 {
				return errFrames
			}
			m.stack = append(m.stack, m.row)
		case 0x0b: // restore_state
			n := len(m.stack)
			if n == 0 {
				return errFrames
			}
			m.row, m.stack = m.stack[n-1], m.stack[:n-1]
		case 0x0c: // def_cfa
			m.row.CFA = Rule{Kind: RuleRegister, Register: r.uleb(), Offset: int64(r.uleb())}
		case 0x0d: // def_cfa_register
			m.row.CFA.Register = r.uleb()
		case 0x0e: // def_cfa_offset
			m.row.CFA.Offset = int64(r.uleb())
		case 0x0f: // def_cfa_expression
			m.row.CFA = Rule{Kind: RuleExpression, Expression: r.block()}
		case 0x10: // expression
			reg := r.uleb()
			m.set(reg, Rule{Kind: RuleExpression, Expression: r.block()})
		case 0x11: // offset_extended_sf
			reg := r.uleb()
			m.set(reg, Rule{Kind: RuleOffset, Offset: r.sleb() * m.common.dataFactor})
		case 0x12: // def_cfa_sf
			m.row.CFA = Rule{Kind: RuleRegister, Register: r.uleb(), Offset: r.sleb() * m.common.dataFactor}
		case 0x13: // def_cfa_offset_sf
			m.row.CFA.Offset = r.sleb() * m.common.dataFactor
		case 0x14: // val_offset
			reg := r.uleb()
			m.set(reg, Rule{Kind: RuleValue, Offset: factored(r.uleb())})
		case 0x15: // val_offset_sf
			reg := r.uleb()
			m.set(reg, Rule{Kind: RuleValue, Offset: r.sleb() * m.common.dataFactor})
		case 0x16: // val_expression
			reg := r.uleb()
			m.set(reg, Rule{Kind: RuleComputed, Expression: r.block()})
		case 0x2c, 0x2d: // AARCH64_negate_ra_state_with_pc, and without: the return address is signed, or no longer
			if m.c.first != firstARM64 {
				return errFrames
			}
		case 0x2e: // GNU_args_size
			r.uleb()
		default:
			return errFrames
		}
		if loc = m.advance(loc, loc+advance*m.common.codeFactor); loc > addr {
			return nil
		}
	}
	if r.bad {
		return errFrames
	}
	if m.leave != nil {
		m.leave(loc)
	}
	return nil
}

// advance goes to another address.
func (m *frameMachine) advance(from, to uint64) uint64 {
	if from != to && m.leave != nil {
		m.leave(from)
	}
	return to
}

func (m *frameMachine) set(register uint64, rule Rule) {
	if i := register - m.c.first; i < FrameRegisters {
		m.row.Registers[i] = rule
	}
}

func (m *frameMachine) restore(register uint64) {
	if i := register - m.c.first; i < FrameRegisters {
		m.row.Registers[i] = m.initial.Registers[i]
	}
}

// A frameReader reads from off on. After bytes that are missing it is bad, and
// all it reads is zero.
type frameReader struct {
	c   *CallFrames
	b   []byte
	off uint64
	bad bool
}

var zeros [8]byte

func (r *frameReader) take(n uint64) []byte {
	if r.bad || r.off > uint64(len(r.b)) || n > uint64(len(r.b))-r.off {
		r.bad = true
		return zeros[:]
	}
	r.off += n
	return r.b[r.off-n : r.off]
}

func (r *frameReader) skip(n uint64) { r.take(n) }
func (r *frameReader) u8() byte      { return r.take(1)[0] }
func (r *frameReader) u16() uint16   { return r.c.order.Uint16(r.take(2)) }
func (r *frameReader) u32() uint32   { return r.c.order.Uint32(r.take(4)) }
func (r *frameReader) u64() uint64   { return r.c.order.Uint64(r.take(8)) }
func (r *frameReader) block() []byte {
	n := r.uleb()
	if b := r.take(n); !r.bad {
		return b
	}
	return nil
}

func (r *frameReader) text() string {
	at := r.off
	for r.u8() != 0 {
	}
	if r.bad || r.off == at {
		return ""
	}
	return string(r.b[at : r.off-1])
}

func (r *frameReader) uleb() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b := r.u8()
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return v
		}
	}
	r.bad = true
	return 0
}

func (r *frameReader) sleb() int64 {
	var v int64
	for shift := 0; shift < 64; shift += 7 {
		b := r.u8()
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift < 57 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.bad = true
	return 0
}

// encoded reads an address in one of the forms DW_EH_PE_*: the low half of the
// encoding is the size, the high one what the value is relative to.
func (r *frameReader) encoded(encoding byte) uint64 {
	if encoding == 0xff { // omitted
		return 0
	}
	here := r.c.addr + r.off
	var v uint64
	switch encoding & 0x0f {
	case 0x00:
		if r.c.wide {
			v = r.u64()
		} else {
			v = uint64(r.u32())
		}
	case 0x01:
		v = r.uleb()
	case 0x02:
		v = uint64(r.u16())
	case 0x03:
		v = uint64(r.u32())
	case 0x04, 0x0c:
		v = r.u64()
	case 0x09:
		v = uint64(r.sleb())
	case 0x0a:
		v = uint64(int16(r.u16()))
	case 0x0b:
		v = uint64(int32(r.u32()))
	default:
		r.bad = true
	}
	if encoding&0x70 == 0x10 { // relative to itself
		v += here
		if !r.c.wide {
			v &= 0xffffffff
		}
	}
	return v
}
