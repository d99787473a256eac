package unwind

import "math"

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

// Registers is the number of registers that rules know, by their numbers
// in DWARF; of arm64 they are those from firstARM64 on.
const Registers = 17

const firstARM64 = 16

// A Row has the rules for the code from an address on: a row of the table that DWARF
// defines and that instructions stand for.
type Row struct {
	// CFA, the canonical frame address, is what the stack pointer was before the
	// call: a register plus an offset (RuleRegister), or computed.
	CFA       Rule
	Registers [Registers]Rule
	Return    uint64 // the register that has the return address
	Signal    bool   // the code was not called but interrupted
}

// Row returns the rules for the code at addr; ok is false if there are none.
func (t *Table) Row(addr uint64) (row Row, ok bool) {
	f := t.at(addr)
	if f == nil {
		return row, false
	}
	m := newInterpreter(t, f.cie)
	if err := m.begin(); err != nil {
		return row, false
	}
	if err := m.run(f.instructions, f.low, addr); err != nil {
		return row, false
	}
	return m.row, true
}

// An interpreter carries out the instructions of entries up to an address.
type interpreter struct {
	t            *Table
	cie          *cie
	row, initial Row
	stack        []Row              // of DW_CFA_remember_state
	done         func(begin uint64) // if not nil: called when a row is complete, with where it begins
}

// maxStates is how many rows are remembered at a time.
const maxStates = 64

// noEnd is an address that instructions do not reach.
const noEnd = math.MaxUint64

func newInterpreter(t *Table, common *cie) *interpreter {
	m := &interpreter{t: t, cie: common}
	m.row.Return, m.row.Signal = common.returnColumn, common.signal
	return m
}

// begin carries out the instructions of the CIE, which make the row that all of its
// FDEs begin with, and which DW_CFA_restore goes back to.
func (m *interpreter) begin() error {
	err := m.run(m.cie.instructions, 0, noEnd)
	m.initial = m.row
	return err
}

// run carries out instructions from the address loc on, until the row for addr is
// complete.
func (m *interpreter) run(instructions []byte, loc, addr uint64) error {
	r := &reader{t: m.t, b: instructions}
	for r.off < uint64(len(r.b)) && !r.bad {
		op := r.u8()
		next, moves := m.location(r, op, loc)
		if !moves {
			if err := m.change(r, op); err != nil {
				return err
			}
			continue
		}
		if next != loc && m.done != nil {
			m.done(loc)
		}
		if loc = next; loc > addr {
			return nil
		}
	}
	if r.bad {
		return errDamaged
	}
	if m.done != nil {
		m.done(loc)
	}
	return nil
}

// operandBits are those of the first three instructions.
const operandBits = 0x3f

// location carries out an instruction that goes on to another address; moves is false
// if it is none.
func (m *interpreter) location(r *reader, op byte, loc uint64) (next uint64, moves bool) {
	if op&^operandBits == DW_CFA_advance_loc {
		return loc + uint64(op&operandBits)*m.cie.codeFactor, true
	}
	switch op {
	case DW_CFA_set_loc:
		return r.pointer(m.cie.encoding), true
	case DW_CFA_advance_loc1:
		return loc + uint64(r.u8())*m.cie.codeFactor, true
	case DW_CFA_advance_loc2:
		return loc + uint64(r.u16())*m.cie.codeFactor, true
	case DW_CFA_advance_loc4:
		return loc + uint64(r.u32())*m.cie.codeFactor, true
	}
	return 0, false
}

// change carries out an instruction that changes the row.
func (m *interpreter) change(r *reader, op byte) error {
	unsigned := func() int64 { return int64(r.uleb()) * m.cie.dataFactor }
	signed := func() int64 { return r.sleb() * m.cie.dataFactor }
	switch op &^ operandBits {
	case DW_CFA_offset:
		m.set(uint64(op&operandBits), Rule{Kind: RuleOffset, Offset: unsigned()})
		return nil
	case DW_CFA_restore:
		m.restore(uint64(op & operandBits))
		return nil
	}
	switch op {
	case DW_CFA_nop:
	case DW_CFA_offset_extended:
		m.set(r.uleb(), Rule{Kind: RuleOffset, Offset: unsigned()})
	case DW_CFA_restore_extended:
		m.restore(r.uleb())
	case DW_CFA_undefined:
		m.set(r.uleb(), Rule{Kind: RuleUndefined})
	case DW_CFA_same_value:
		m.set(r.uleb(), Rule{})
	case DW_CFA_register:
		m.set(r.uleb(), Rule{Kind: RuleRegister, Register: r.uleb()})
	case DW_CFA_remember_state:
		if len(m.stack) > maxStates {
			return errDamaged
		}
		m.stack = append(m.stack, m.row)
	case DW_CFA_restore_state:
		n := len(m.stack)
		if n == 0 {
			return errDamaged
		}
		m.row, m.stack = m.stack[n-1], m.stack[:n-1]
	case DW_CFA_def_cfa:
		m.row.CFA = Rule{Kind: RuleRegister, Register: r.uleb(), Offset: int64(r.uleb())}
	case DW_CFA_def_cfa_register:
		m.row.CFA.Register = r.uleb()
	case DW_CFA_def_cfa_offset:
		m.row.CFA.Offset = int64(r.uleb())
	case DW_CFA_def_cfa_expression:
		m.row.CFA = Rule{Kind: RuleExpression, Expression: r.block()}
	case DW_CFA_expression:
		m.set(r.uleb(), Rule{Kind: RuleExpression, Expression: r.block()})
	case DW_CFA_offset_extended_sf:
		m.set(r.uleb(), Rule{Kind: RuleOffset, Offset: signed()})
	case DW_CFA_def_cfa_sf:
		m.row.CFA = Rule{Kind: RuleRegister, Register: r.uleb(), Offset: signed()}
	case DW_CFA_def_cfa_offset_sf:
		m.row.CFA.Offset = signed()
	case DW_CFA_val_offset:
		m.set(r.uleb(), Rule{Kind: RuleValue, Offset: unsigned()})
	case DW_CFA_val_offset_sf:
		m.set(r.uleb(), Rule{Kind: RuleValue, Offset: signed()})
	case DW_CFA_val_expression:
		m.set(r.uleb(), Rule{Kind: RuleComputed, Expression: r.block()})
	case DW_CFA_AARCH64_negate_ra_state, DW_CFA_AARCH64_negate_ra_state_with_pc:
		if m.t.first != firstARM64 {
			return errDamaged
		}
	case DW_CFA_GNU_args_size:
		r.uleb()
	default:
		return errDamaged
	}
	return nil
}

// set gives a register of the row a rule.
func (m *interpreter) set(register uint64, rule Rule) {
	if i := register - m.t.first; i < Registers {
		m.row.Registers[i] = rule
	}
}

// restore gives it the rule back that the CIE has for it.
func (m *interpreter) restore(register uint64) {
	if i := register - m.t.first; i < Registers {
		m.row.Registers[i] = m.initial.Registers[i]
	}
}
