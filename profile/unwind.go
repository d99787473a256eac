package profile

import (
	"encoding/binary"

	"footfall/exe"
)

// An unwinder finds the callers of sampled code in a copy of its stack, by the
// rules in .eh_frame, and by frame pointers where there are no rules.
type unwinder struct {
	// find returns the image that has code at an address of the process, and the
	// address as the image's file has it. nil: none.
	find func(addr uint64) (*image, uint64)
	rows map[rowKey]*exe.FrameRow

	cpu    *cpuFrames
	regs   [exe.FrameRegisters]uint64
	stack  []byte
	sp     uint64 // address of stack[0]
	beyond bool   // something was asked for that is not in the copy
	// pointers is how many of the frames so far belong to functions that keep a
	// frame pointer.
	pointers int
}

type rowKey struct {
	image *image
	addr  uint64
}

// cpuFrames are the numbers of registers in DWARF for a kind of CPU.
type cpuFrames struct {
	word       uint64
	sp, fp, pc int
	// perf are the numbers of the registers of a sample, in its order.
	perf []int
}

// By the ABIs for System V of AMD64 and i386. The kernel's order is
// ax bx cx dx si di bp sp ip, r8 to r15.
var (
	framesAMD64 = &cpuFrames{8, 7, 6, 16, []int{0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15}}
	frames386   = &cpuFrames{4, 4, 5, 8, []int{0, 3, 1, 2, 6, 7, 5, 4, 8}}
)

const mostFrames = 1024

// chain returns the addresses of the chain of calls, the innermost first; those
// of callers lie within the call. whole is false if the chain ends too early.
//
// byPointers is the kernel's chain, by frame pointers. It goes on where the copy
// of the stack ends, if that is at the frame of a function that keeps a pointer.
func (u *unwinder) chain(registers []uint64, compat bool, stack []byte, byPointers []uint64) (addrs []uint64, whole bool) {
	u.cpu = framesAMD64
	if compat {
		u.cpu = frames386
	}
	u.regs = [exe.FrameRegisters]uint64{}
	for i, n := range u.cpu.perf {
		if i < len(registers) {
			u.regs[n] = registers[i]
		}
	}
	u.stack, u.sp, u.beyond = stack, u.regs[u.cpu.sp], false
	u.pointers = 0
	interrupted := true
	for len(addrs) < mostFrames {
		pc := u.regs[u.cpu.pc]
		if pc == 0 {
			return addrs, true
		}
		at := pc
		if !interrupted {
			at-- // the call may be the last instruction of its function
		}
		addrs = append(addrs, at)
		row, image := u.row(at)
		before := u.regs[u.cpu.sp]
		more := false
		if row != nil {
			interrupted = row.Signal
			more = u.step(row)
		} else {
			interrupted = false
			more = (image == nil || len(addrs) == 1) && u.byPointer()
		}
		if !more {
			if u.beyond && row != nil && u.keepsPointer(row) && u.pointers+1 < len(byPointers) {
				for _, pc := range byPointers[u.pointers+1:] {
					addrs = append(addrs, pc-1)
				}
				return addrs, true
			}
			return addrs, !u.beyond
		}
		if row == nil || u.keepsPointer(row) {
			u.pointers++
		}
		if u.regs[u.cpu.sp] <= before && !(row != nil && row.Signal) {
			return addrs, false // no caller's frame lies below: it would not end
		}
	}
	return addrs, false
}

// keepsPointer tells whether the function of the row has a frame pointer.
func (u *unwinder) keepsPointer(row *exe.FrameRow) bool {
	return row.CFA.Kind == exe.RuleRegister && row.CFA.Register == uint64(u.cpu.fp)
}

func (u *unwinder) row(addr uint64) (*exe.FrameRow, *image) {
	image, at := u.find(addr)
	if image == nil {
		return nil, nil
	}
	key := rowKey{image, at}
	row, ok := u.rows[key]
	if !ok {
		row = image.frameRow(at)
		u.rows[key] = row
	}
	return row, image
}

// step replaces the registers by those of the caller.
func (u *unwinder) step(row *exe.FrameRow) bool {
	var cfa uint64
	ok := true
	switch row.CFA.Kind {
	case exe.RuleRegister:
		if row.CFA.Register >= exe.FrameRegisters {
			return false
		}
		cfa = u.regs[row.CFA.Register] + uint64(row.CFA.Offset)
	case exe.RuleExpression:
		cfa, ok = u.compute(row.CFA.Expression, nil)
	default:
		ok = false
	}
	if !ok || row.Return >= exe.FrameRegisters {
		return false
	}
	if u.cpu.word == 4 {
		cfa &= 0xffffffff
	}
	next := u.regs
	next[u.cpu.sp] = cfa
	for i, rule := range row.Registers {
		ok := true
		switch rule.Kind {
		case exe.RuleSame:
			continue
		case exe.RuleUndefined:
			next[i] = 0
		case exe.RuleOffset:
			at := cfa + uint64(rule.Offset)
			if at < u.regs[u.cpu.sp] {
				continue // the end of a function: it has its old value again
			}
			next[i], ok = u.load(at)
		case exe.RuleValue:
			next[i] = cfa + uint64(rule.Offset)
		case exe.RuleRegister:
			if rule.Register < exe.FrameRegisters {
				next[i] = u.regs[rule.Register]
			}
		case exe.RuleExpression:
			var at uint64
			if at, ok = u.compute(rule.Expression, &cfa); ok {
				next[i], ok = u.load(at)
			}
		case exe.RuleComputed:
			next[i], ok = u.compute(rule.Expression, &cfa)
		}
		if !ok {
			return false
		}
	}
	if row.Registers[row.Return].Kind == exe.RuleSame {
		return false // such as code that hand-written assembly begins a thread with
	}
	next[u.cpu.pc] = next[row.Return]
	u.regs = next
	return next[u.cpu.pc] != 0
}

// byPointer goes to the caller by the frame pointer: it points to that of the
// caller, and above it lies the return address.
func (u *unwinder) byPointer() bool {
	fp := u.regs[u.cpu.fp]
	if fp < u.regs[u.cpu.sp] || fp%u.cpu.word != 0 || fp-u.sp >= uint64(len(u.stack)) {
		return false
	}
	caller, ok1 := u.load(fp)
	pc, ok2 := u.load(fp + u.cpu.word)
	if !ok1 || !ok2 || pc == 0 {
		return false
	}
	if image, _ := u.find(pc - 1); image == nil {
		return false // no frame pointer after all
	}
	u.regs[u.cpu.fp], u.regs[u.cpu.sp], u.regs[u.cpu.pc] = caller, fp+2*u.cpu.word, pc
	return true
}

// load reads a word of the stack.
func (u *unwinder) load(addr uint64) (uint64, bool) {
	at := addr - u.sp
	if addr < u.sp || at >= uint64(len(u.stack)) || uint64(len(u.stack))-at < u.cpu.word {
		u.beyond = true
		return 0, false
	}
	if u.cpu.word == 4 {
		return uint64(binary.LittleEndian.Uint32(u.stack[at:])), true
	}
	return binary.LittleEndian.Uint64(u.stack[at:]), true
}

// compute carries out an expression of DWARF, section 2.5: those operations
// that compilers and C libraries use in .eh_frame.
func (u *unwinder) compute(code []byte, first *uint64) (uint64, bool) {
	var s []uint64
	if first != nil {
		s = append(s, *first)
	}
	for len(code) > 0 {
		op := code[0]
		code = code[1:]
		need := 0
		switch {
		case op == 0x06, op == 0x12, op == 0x13, op == 0x1f, op == 0x20, op == 0x23: // deref dup drop neg not plus_uconst
			need = 1
		case op >= 0x1a && op <= 0x2e: // binary ones
			need = 2
		}
		if len(s) < need || len(s) > 64 {
			return 0, false
		}
		n := len(s)
		switch {
		case op >= 0x30 && op <= 0x4f: // lit0 to lit31
			s = append(s, uint64(op-0x30))
		case op >= 0x70 && op < 0x70+exe.FrameRegisters: // breg
			v, k := sleb(code)
			if k == 0 {
				return 0, false
			}
			s = append(s, u.regs[op-0x70]+uint64(v))
			code = code[k:]
		case op == 0x08 && len(code) >= 1: // const1u
			s, code = append(s, uint64(code[0])), code[1:]
		case op == 0x09 && len(code) >= 1: // const1s
			s, code = append(s, uint64(int8(code[0]))), code[1:]
		case op == 0x0a && len(code) >= 2: // const2u
			s, code = append(s, uint64(binary.LittleEndian.Uint16(code))), code[2:]
		case op == 0x0b && len(code) >= 2: // const2s
			s, code = append(s, uint64(int16(binary.LittleEndian.Uint16(code)))), code[2:]
		case op == 0x11: // consts
			v, k := sleb(code)
			if k == 0 {
				return 0, false
			}
			s, code = append(s, uint64(v)), code[k:]
		case op == 0x06: // deref
			v, ok := u.load(s[n-1])
			if !ok {
				return 0, false
			}
			s[n-1] = v
		case op == 0x12: // dup
			s = append(s, s[n-1])
		case op == 0x13: // drop
			s = s[:n-1]
		case op == 0x1f: // neg
			s[n-1] = -s[n-1]
		case op == 0x20: // not
			s[n-1] = ^s[n-1]
		case op == 0x23: // plus_uconst
			v, k := binary.Uvarint(code)
			if k <= 0 {
				return 0, false
			}
			s[n-1] += v
			code = code[k:]
		case need == 2:
			v, ok := binaryOperation(op, s[n-2], s[n-1])
			if !ok {
				return 0, false
			}
			s = append(s[:n-2], v)
		default:
			return 0, false
		}
	}
	if len(s) == 0 {
		return 0, false
	}
	return s[len(s)-1], true
}

func binaryOperation(op byte, a, b uint64) (uint64, bool) {
	truth := func(v bool) (uint64, bool) {
		if v {
			return 1, true
		}
		return 0, true
	}
	x, y := int64(a), int64(b)
	switch op {
	case 0x1a:
		return a & b, true
	case 0x1c:
		return a - b, true
	case 0x1e:
		return a * b, true
	case 0x21:
		return a | b, true
	case 0x22:
		return a + b, true
	case 0x24:
		return a << b, true
	case 0x25:
		return a >> b, true
	case 0x26:
		return uint64(x >> b), true
	case 0x27:
		return a ^ b, true
	case 0x29:
		return truth(x == y)
	case 0x2a:
		return truth(x >= y)
	case 0x2b:
		return truth(x > y)
	case 0x2c:
		return truth(x <= y)
	case 0x2d:
		return truth(x < y)
	case 0x2e:
		return truth(x != y)
	}
	return 0, false
}

// sleb decodes a signed LEB128 and returns the number of its bytes, 0 if it is
// damaged.
func sleb(b []byte) (v int64, n int) {
	for shift := 0; shift < 64 && n < len(b); shift += 7 {
		c := b[n]
		n++
		v |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			if c&0x40 != 0 && shift < 57 {
				v |= -1 << (shift + 7)
			}
			return v, n
		}
	}
	return 0, 0
}
