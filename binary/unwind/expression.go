package unwind

import encoding "encoding/binary"

// maxOperands is how deep the stack of an expression may be.
const maxOperands = 64

// Memory is that of the program whose stack is unwound.
type Memory interface {
	// Load returns the word at an address; ok is false if it is not known.
	Load(addr uint64) (v uint64, ok bool)
}

// Evaluate carries out an expression, DWARF 5, section 2.5: the operations that
// compilers and C libraries use in .eh_frame. Others make it fail, as damage does.
// cfa is on the stack at the beginning; for an expression that computes the CFA it
// is nil.
func Evaluate(expression []byte, registers *[Registers]uint64, memory Memory, cfa *uint64) (value uint64, ok bool) {
	e := evaluation{code: expression, registers: registers, memory: memory}
	if cfa != nil {
		e.stack = append(e.stack, *cfa)
	}
	for len(e.code) > 0 {
		if !e.step() {
			return 0, false
		}
	}
	if len(e.stack) == 0 {
		return 0, false
	}
	return e.stack[len(e.stack)-1], true
}

type evaluation struct {
	code      []byte // what is left of it
	stack     []uint64
	registers *[Registers]uint64
	memory    Memory
}

// operands is how many an operation takes from the stack.
func operands(op byte) int {
	switch op {
	case DW_OP_deref, DW_OP_dup, DW_OP_drop, DW_OP_neg, DW_OP_not, DW_OP_plus_uconst:
		return 1
	}
	if op >= DW_OP_and && op <= DW_OP_ne {
		return 2
	}
	return 0
}

// step carries out one operation.
func (e *evaluation) step() (ok bool) {
	op := e.code[0]
	e.code = e.code[1:]
	need, n := operands(op), len(e.stack)
	if n < need || n > maxOperands {
		return false
	}
	switch {
	case need == 2:
		v, ok := binaryOperation(op, e.stack[n-2], e.stack[n-1])
		e.stack = append(e.stack[:n-2], v)
		return ok
	case need == 1:
		return e.unary(op, &e.stack[n-1])
	}
	v, ok := e.constant(op)
	e.stack = append(e.stack, v)
	return ok
}

// unary carries out an operation that replaces the top of the stack, or changes
// its height by one.
func (e *evaluation) unary(op byte, top *uint64) (ok bool) {
	switch op {
	case DW_OP_deref:
		*top, ok = e.memory.Load(*top)
		return ok
	case DW_OP_dup:
		e.stack = append(e.stack, *top)
	case DW_OP_drop:
		e.stack = e.stack[:len(e.stack)-1]
	case DW_OP_neg:
		*top = -*top
	case DW_OP_not:
		*top = ^*top
	case DW_OP_plus_uconst:
		v, size := uleb(e.code)
		*top += v
		e.code = e.code[size:]
		return size > 0
	}
	return true
}

// constant returns what an operation without operands puts on the stack.
func (e *evaluation) constant(op byte) (v uint64, ok bool) {
	size := 0
	switch {
	case op >= DW_OP_lit0 && op <= DW_OP_lit31:
		return uint64(op - DW_OP_lit0), true
	case op >= DW_OP_breg0 && op < DW_OP_breg0+Registers:
		offset, n := sleb(e.code)
		v, size = e.registers[op-DW_OP_breg0]+uint64(offset), n
	case op == DW_OP_const1u && len(e.code) >= 1:
		v, size = uint64(e.code[0]), 1
	case op == DW_OP_const1s && len(e.code) >= 1:
		v, size = uint64(int8(e.code[0])), 1
	case op == DW_OP_const2u && len(e.code) >= 2:
		v, size = uint64(encoding.LittleEndian.Uint16(e.code)), 2
	case op == DW_OP_const2s && len(e.code) >= 2:
		v, size = uint64(int16(encoding.LittleEndian.Uint16(e.code))), 2
	case op == DW_OP_consts:
		s, n := sleb(e.code)
		v, size = uint64(s), n
	}
	e.code = e.code[size:]
	return v, size > 0
}

func binaryOperation(op byte, a, b uint64) (v uint64, ok bool) {
	x, y := int64(a), int64(b)
	truth := false
	switch op {
	case DW_OP_and:
		return a & b, true
	case DW_OP_minus:
		return a - b, true
	case DW_OP_mul:
		return a * b, true
	case DW_OP_or:
		return a | b, true
	case DW_OP_plus:
		return a + b, true
	case DW_OP_shl:
		return a << b, true
	case DW_OP_shr:
		return a >> b, true
	case DW_OP_shra:
		return uint64(x >> b), true
	case DW_OP_xor:
		return a ^ b, true
	case DW_OP_eq:
		truth = x == y
	case DW_OP_ge:
		truth = x >= y
	case DW_OP_gt:
		truth = x > y
	case DW_OP_le:
		truth = x <= y
	case DW_OP_lt:
		truth = x < y
	case DW_OP_ne:
		truth = x != y
	default:
		return 0, false
	}
	if truth {
		v = 1
	}
	return v, true
}
