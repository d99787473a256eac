//go:build linux

package live

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

// A machine runs a function of the target here, on a copy of its memory, for
// the calls that it makes: it steps over them and tells what they were called
// with. It knows the instructions that Clang needs for functions that do nothing
// but call others with constants; at any other, and at a write outside of its
// stack, it gives up.
type machine struct {
	mem     *pages
	mode    int        // bits: 32 or 64
	steps   int        // that are left
	reg     [16]uint64 // in the order of the encoding: ax cx dx bx sp bp si di r8 ...
	pc      uint64
	flags   flags
	stack   [stackSize]byte
	decoded [256]decoded // by address, the last ones
}

// A decoded is an instruction and where it is.
type decoded struct {
	pc uint64
	in x86asm.Inst
}

type flags struct{ zero, sign, carry, overflow, parity bool }

// A call is one that a function made.
type call struct {
	target uint64
	args   [5]uint64
}

const (
	stackSize = 1 << 12
	// No process has memory there, so that reads do not hit its.
	stackBase64 = 1<<63 + 1<<20
	stackBase32 = 1<<32 - 1<<16
	ax, cx      = 0, 1
	sp, bp      = 4, 5
)

var (
	errSteps       = errors.New("it does not end")
	errInstruction = errors.New("unexpected instruction")
)

func newMachine(mem *pages, pointer int, steps int) *machine {
	return &machine{mem: mem, mode: 8 * pointer, steps: steps}
}

// run runs the function at entry to its end, or until visit returns false.
func (m *machine) run(entry uint64, visit func(call) bool) error {
	m.reg, m.flags, m.pc = [16]uint64{}, flags{}, entry
	top := m.base() + stackSize - 256
	m.reg[sp] = top
	for {
		if m.steps--; m.steps < 0 {
			return errSteps
		}
		in, err := m.fetch()
		if err != nil {
			return err
		}
		next := m.pc + uint64(in.Len)
		switch in.Op {
		case x86asm.CALL:
			target, err := m.target(in, next)
			if err != nil {
				return err
			}
			if target == next { // how 32-bit code asks where it is
				m.push(next)
			} else if !visit(m.call(target, 0)) {
				return nil
			}
		case x86asm.RET:
			if m.reg[sp] != top {
				return fmt.Errorf("%w: return with a stack of %d bytes", errInstruction, top-m.reg[sp])
			}
			return nil
		case x86asm.JMP:
			target, err := m.target(in, next)
			if err != nil {
				return err
			}
			if m.reg[sp] == top {
				// The last call, in place of a return: jumps within a function
				// that has nothing on the stack, and so makes no calls, have
				// conditions.
				visit(m.call(target, m.mode/8))
				return nil
			}
			next = target
		default:
			jump, err := m.step(in)
			if err != nil {
				return fmt.Errorf("%w: %v at %#x", err, in, m.pc)
			}
			if jump {
				if next, err = m.target(in, next); err != nil {
					return err
				}
			}
		}
		m.pc = next & m.mask(m.mode)
	}
}

func (m *machine) base() uint64 {
	if m.mode == 32 {
		return stackBase32
	}
	return stackBase64
}

func (m *machine) mask(bits int) uint64 { return ^uint64(0) >> (64 - bits) }

// call takes the arguments from where the calling convention has them; in 32
// bits above what is pushed.
func (m *machine) call(target uint64, pushed int) call {
	c := call{target: target & m.mask(m.mode)}
	for i := range c.args {
		if m.mode == 64 {
			c.args[i] = m.reg[[...]int{7, 6, 2, 1, 8}[i]]
		} else {
			c.args[i], _ = m.load(m.reg[sp]+uint64(pushed+4*i), 4)
		}
	}
	return c
}

// Marks of places that may be jumped to, which x86asm does not know.
var endbr64, endbr32 = []byte{0xf3, 0x0f, 0x1e, 0xfa}, []byte{0xf3, 0x0f, 0x1e, 0xfb}

// fetch decodes the instruction at pc.
func (m *machine) fetch() (*x86asm.Inst, error) {
	kept := &m.decoded[m.pc%uint64(len(m.decoded))]
	if kept.in.Len > 0 && kept.pc == m.pc {
		return &kept.in, nil
	}
	const longest = 15
	b, err := m.mem.read(m.pc, longest)
	if err != nil {
		// At the end of a mapping.
		if b, err = m.mem.read(m.pc, pageSize-int(m.pc%pageSize)); err != nil {
			return nil, err
		}
	}
	in, err := x86asm.Decode(b, m.mode)
	if bytes.HasPrefix(b, endbr64) || bytes.HasPrefix(b, endbr32) {
		in, err = x86asm.Inst{Op: x86asm.NOP, Len: len(endbr64)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: % x at %#x", errInstruction, b[:min(len(b), 8)], m.pc)
	}
	kept.pc, kept.in = m.pc, in
	return &kept.in, nil
}

// target is where a jump or call leads.
func (m *machine) target(in *x86asm.Inst, next uint64) (uint64, error) {
	if rel, ok := in.Args[0].(x86asm.Rel); ok {
		return next + uint64(int64(rel)), nil
	}
	return m.get(in, 0)
}

// step runs an instruction that is no call, return or jump. jump tells that it
// is a conditional jump which is taken.
func (m *machine) step(in *x86asm.Inst) (jump bool, err error) {
	switch in.Op {
	case x86asm.NOP:
		return false, nil
	case x86asm.PUSH:
		x, err := m.get(in, 0)
		m.push(x)
		return false, err
	case x86asm.POP:
		x, err := m.load(m.reg[sp], m.mode/8)
		m.reg[sp] += uint64(m.mode / 8)
		return false, errors.Join(err, m.set(in, x))
	case x86asm.LEAVE:
		m.reg[sp] = m.reg[bp]
		m.reg[bp], err = m.load(m.reg[sp], m.mode/8)
		m.reg[sp] += uint64(m.mode / 8)
		return false, err
	}
	if cond, kind := condition(in.Op); kind != 0 {
		return m.conditional(in, kind, m.holds(cond))
	}
	return false, m.compute(in)
}

func (m *machine) push(x uint64) {
	m.reg[sp] -= uint64(m.mode / 8)
	_ = m.store(m.reg[sp], m.mode/8, x) // a stack that is too deep fails where it is used
}

// compute runs an instruction that makes a value of its operands.
func (m *machine) compute(in *x86asm.Inst) error {
	if in.Op == x86asm.LEA {
		at, ok := in.Args[1].(x86asm.Mem)
		if !ok {
			return errInstruction
		}
		return m.set(in, m.address(in, at))
	}
	bits := 8 * m.width(in, 0)
	args := [2]uint64{}
	for i := range args {
		if in.Args[i] == nil {
			break
		}
		if i == 0 && (in.Op == x86asm.MOV || in.Op == x86asm.MOVZX || in.Op == x86asm.MOVSX || in.Op == x86asm.MOVSXD) {
			continue
		}
		var err error
		if args[i], err = m.get(in, i); err != nil {
			return err
		}
	}
	x, y := args[0], args[1]
	switch in.Op {
	case x86asm.MOV, x86asm.MOVZX:
		return m.set(in, y)
	case x86asm.MOVSX, x86asm.MOVSXD:
		return m.set(in, extend(y, 8*m.width(in, 1)))
	case x86asm.ADD:
		return m.set(in, m.add(x, y, bits))
	case x86asm.INC:
		carry := m.flags.carry
		err := m.set(in, m.add(x, 1, bits))
		m.flags.carry = carry
		return err
	case x86asm.SUB:
		return m.set(in, m.sub(x, y, bits))
	case x86asm.DEC:
		carry := m.flags.carry
		err := m.set(in, m.sub(x, 1, bits))
		m.flags.carry = carry
		return err
	case x86asm.NEG:
		return m.set(in, m.sub(0, x, bits))
	case x86asm.CMP:
		m.sub(x, y, bits)
		return nil
	case x86asm.AND:
		return m.set(in, m.logic(x&y, bits))
	case x86asm.OR:
		return m.set(in, m.logic(x|y, bits))
	case x86asm.XOR:
		return m.set(in, m.logic(x^y, bits))
	case x86asm.TEST:
		m.logic(x&y, bits)
		return nil
	case x86asm.SHL:
		return m.set(in, m.logic(x<<(y&63), bits))
	case x86asm.SHR:
		return m.set(in, m.logic(x&m.mask(bits)>>(y&63), bits))
	case x86asm.SAR:
		return m.set(in, m.logic(uint64(int64(extend(x, bits))>>(y&63)), bits))
	case x86asm.IMUL:
		if in.Args[1] == nil {
			return errInstruction
		}
		if in.Args[2] != nil {
			x = y
			var err error
			if y, err = m.get(in, 2); err != nil {
				return err
			}
		}
		return m.set(in, m.logic(x*y, bits))
	}
	return errInstruction
}

func extend(x uint64, bits int) uint64 {
	return uint64(int64(x<<(64-bits)) >> (64 - bits))
}

func (m *machine) add(x, y uint64, bits int) uint64 {
	x, y = x&m.mask(bits), y&m.mask(bits)
	sum := (x + y) & m.mask(bits)
	m.logic(sum, bits)
	m.flags.carry = sum < x
	m.flags.overflow = (^(x^y)&(x^sum))>>(bits-1)&1 == 1
	return sum
}

func (m *machine) sub(x, y uint64, bits int) uint64 {
	x, y = x&m.mask(bits), y&m.mask(bits)
	difference := (x - y) & m.mask(bits)
	m.logic(difference, bits)
	m.flags.carry = x < y
	m.flags.overflow = ((x^y)&(x^difference))>>(bits-1)&1 == 1
	return difference
}

// logic sets the flags that a value decides alone.
func (m *machine) logic(x uint64, bits int) uint64 {
	x &= m.mask(bits)
	ones := byte(x)
	ones ^= ones >> 4
	ones ^= ones >> 2
	ones ^= ones >> 1
	m.flags = flags{zero: x == 0, sign: x>>(bits-1) == 1, parity: ones&1 == 0}
	return x
}

// Conditional instructions.
const (
	jumpIf = iota + 1
	setIf
	moveIf
)

var conditions = map[x86asm.Op]struct {
	name string
	kind int
}{
	x86asm.JA: {"A", jumpIf}, x86asm.JAE: {"AE", jumpIf}, x86asm.JB: {"B", jumpIf}, x86asm.JBE: {"BE", jumpIf},
	x86asm.JE: {"E", jumpIf}, x86asm.JNE: {"NE", jumpIf}, x86asm.JG: {"G", jumpIf}, x86asm.JGE: {"GE", jumpIf},
	x86asm.JL: {"L", jumpIf}, x86asm.JLE: {"LE", jumpIf}, x86asm.JS: {"S", jumpIf}, x86asm.JNS: {"NS", jumpIf},
	x86asm.SETE: {"E", setIf}, x86asm.SETNE: {"NE", setIf}, x86asm.SETL: {"L", setIf}, x86asm.SETGE: {"GE", setIf},
	x86asm.SETB: {"B", setIf}, x86asm.SETAE: {"AE", setIf}, x86asm.SETG: {"G", setIf}, x86asm.SETLE: {"LE", setIf},
	x86asm.SETA: {"A", setIf}, x86asm.SETBE: {"BE", setIf},
	x86asm.CMOVE: {"E", moveIf}, x86asm.CMOVNE: {"NE", moveIf}, x86asm.CMOVL: {"L", moveIf}, x86asm.CMOVGE: {"GE", moveIf},
	x86asm.CMOVG: {"G", moveIf}, x86asm.CMOVLE: {"LE", moveIf}, x86asm.CMOVB: {"B", moveIf}, x86asm.CMOVAE: {"AE", moveIf},
	x86asm.CMOVS: {"S", moveIf}, x86asm.CMOVNS: {"NS", moveIf},
}

func condition(op x86asm.Op) (name string, kind int) {
	c := conditions[op]
	return c.name, c.kind
}

func (m *machine) holds(name string) bool {
	f := &m.flags
	switch name {
	case "A":
		return !f.carry && !f.zero
	case "AE":
		return !f.carry
	case "B":
		return f.carry
	case "BE":
		return f.carry || f.zero
	case "E":
		return f.zero
	case "NE":
		return !f.zero
	case "G":
		return !f.zero && f.sign == f.overflow
	case "GE":
		return f.sign == f.overflow
	case "L":
		return f.sign != f.overflow
	case "LE":
		return f.zero || f.sign != f.overflow
	case "S":
		return f.sign
	default: // NS
		return !f.sign
	}
}

func (m *machine) conditional(in *x86asm.Inst, kind int, holds bool) (jump bool, err error) {
	switch {
	case kind == jumpIf:
		return holds, nil
	case kind == setIf:
		var x uint64
		if holds {
			x = 1
		}
		return false, m.set(in, x)
	}
	from := 0 // not moved; but the upper half of a register of 32 bits is cleared
	if holds {
		from = 1
	}
	x, err := m.get(in, from)
	if err != nil {
		return false, err
	}
	return false, m.set(in, x)
}

// width is the size of an operand in bytes.
func (m *machine) width(in *x86asm.Inst, i int) int {
	switch arg := in.Args[i].(type) {
	case x86asm.Reg:
		_, size, _ := register(arg)
		return max(size, 1)
	case x86asm.Mem:
		return max(in.MemBytes, 1)
	}
	return max(in.DataSize/8, 1)
}

// register returns the number, size in bytes, and shift of a register; a size
// of 0 for those that are not general.
func register(r x86asm.Reg) (number, size, shift int) {
	switch {
	case r >= x86asm.AH && r <= x86asm.BH:
		return int(r - x86asm.AH), 1, 8
	case r >= x86asm.AL && r <= x86asm.BL:
		return int(r - x86asm.AL), 1, 0
	case r >= x86asm.SPB && r <= x86asm.R15B:
		return int(r-x86asm.SPB) + 4, 1, 0
	case r >= x86asm.AX && r <= x86asm.R15W:
		return int(r - x86asm.AX), 2, 0
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return int(r - x86asm.EAX), 4, 0
	case r >= x86asm.RAX && r <= x86asm.R15:
		return int(r - x86asm.RAX), 8, 0
	}
	return 0, 0, 0
}

func (m *machine) get(in *x86asm.Inst, i int) (uint64, error) {
	switch arg := in.Args[i].(type) {
	case x86asm.Imm:
		return uint64(int64(arg)), nil
	case x86asm.Reg:
		if n, size, shift := register(arg); size > 0 {
			return m.reg[n] >> shift & m.mask(8*size), nil
		}
	case x86asm.Mem:
		if n := in.MemBytes; n == 1 || n == 2 || n == 4 || n == 8 {
			return m.load(m.address(in, arg), n)
		}
	}
	return 0, errInstruction
}

// set stores the result into the first operand.
func (m *machine) set(in *x86asm.Inst, x uint64) error {
	switch arg := in.Args[0].(type) {
	case x86asm.Reg:
		n, size, shift := register(arg)
		switch size {
		case 0:
			return errInstruction
		case 4, 8:
			m.reg[n] = x & m.mask(8*size)
		default:
			mask := m.mask(8*size) << shift
			m.reg[n] = m.reg[n]&^mask | x<<shift&mask
		}
		return nil
	case x86asm.Mem:
		if n := in.MemBytes; n == 1 || n == 2 || n == 4 || n == 8 {
			return m.store(m.address(in, arg), n, x)
		}
	}
	return errInstruction
}

func (m *machine) address(in *x86asm.Inst, at x86asm.Mem) uint64 {
	addr := uint64(at.Disp)
	if at.Base == x86asm.RIP || at.Base == x86asm.EIP {
		// x86asm leaves these without their sign.
		addr = uint64(int64(int32(at.Disp))) + m.pc + uint64(in.Len)
	} else if n, size, _ := register(at.Base); size > 0 {
		addr += m.reg[n]
	}
	if n, size, _ := register(at.Index); size > 0 && at.Scale > 0 {
		addr += m.reg[n] * uint64(at.Scale)
	}
	return addr & m.mask(in.AddrSize)
}

func (m *machine) load(addr uint64, size int) (uint64, error) {
	b := m.onStack(addr, size)
	if b == nil {
		var err error
		if b, err = m.mem.read(addr, size); err != nil {
			return 0, err
		}
	}
	var x uint64
	for i := size - 1; i >= 0; i-- {
		x = x<<8 | uint64(b[i])
	}
	return x, nil
}

func (m *machine) store(addr uint64, size int, x uint64) error {
	b := m.onStack(addr, size)
	if b == nil {
		return fmt.Errorf("write to %#x: %w", addr, errInstruction)
	}
	for i := range b {
		b[i] = byte(x)
		x >>= 8
	}
	return nil
}

// onStack returns bytes of the stack, nil for other memory.
func (m *machine) onStack(addr uint64, size int) []byte {
	if at := addr - m.base(); at <= uint64(stackSize-size) {
		return m.stack[at : at+uint64(size)]
	}
	return nil
}
