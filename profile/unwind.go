package profile

import (
	encoding "encoding/binary"
	"footfall/binary/unwind"
)

// An unwinder finds the callers of sampled code in a copy of its stack, by the
// rules in .eh_frame, and by frame pointers where there are no rules.
type unwinder struct {
	// find returns the image that has code at an address of the process, and the
	// address as the image's file has it. nil: none.
	find func(addr uint64) (*image, uint64)
	rows map[rowKey]*unwind.Row

	cpu    *cpuFrames
	regs   [unwind.Registers]uint64
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
	framesAMD64 = &cpuFrames{8, unwind.AMD64_RSP, unwind.AMD64_RBP, unwind.AMD64_RIP, []int{0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15}}
	frames386   = &cpuFrames{4, unwind.I386_ESP, unwind.I386_EBP, unwind.I386_EIP, []int{0, 3, 1, 2, 6, 7, 5, 4, 8}}
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
	u.regs = [unwind.Registers]uint64{}
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
func (u *unwinder) keepsPointer(row *unwind.Row) bool {
	return row.CFA.Kind == unwind.RuleRegister && row.CFA.Register == uint64(u.cpu.fp)
}

func (u *unwinder) row(addr uint64) (*unwind.Row, *image) {
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
func (u *unwinder) step(row *unwind.Row) bool {
	var cfa uint64
	ok := true
	switch row.CFA.Kind {
	case unwind.RuleRegister:
		if row.CFA.Register >= unwind.Registers {
			return false
		}
		cfa = u.regs[row.CFA.Register] + uint64(row.CFA.Offset)
	case unwind.RuleExpression:
		cfa, ok = unwind.Evaluate(row.CFA.Expression, &u.regs, u, nil)
	default:
		ok = false
	}
	if !ok || row.Return >= unwind.Registers {
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
		case unwind.RuleSame:
			continue
		case unwind.RuleUndefined:
			next[i] = 0
		case unwind.RuleOffset:
			at := cfa + uint64(rule.Offset)
			if at < u.regs[u.cpu.sp] {
				continue // the end of a function: it has its old value again
			}
			next[i], ok = u.Load(at)
		case unwind.RuleValue:
			next[i] = cfa + uint64(rule.Offset)
		case unwind.RuleRegister:
			if rule.Register < unwind.Registers {
				next[i] = u.regs[rule.Register]
			}
		case unwind.RuleExpression:
			var at uint64
			if at, ok = unwind.Evaluate(rule.Expression, &u.regs, u, &cfa); ok {
				next[i], ok = u.Load(at)
			}
		case unwind.RuleComputed:
			next[i], ok = unwind.Evaluate(rule.Expression, &u.regs, u, &cfa)
		}
		if !ok {
			return false
		}
	}
	if row.Registers[row.Return].Kind == unwind.RuleSame {
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
	caller, ok1 := u.Load(fp)
	pc, ok2 := u.Load(fp + u.cpu.word)
	if !ok1 || !ok2 || pc == 0 {
		return false
	}
	if image, _ := u.find(pc - 1); image == nil {
		return false // no frame pointer after all
	}
	u.regs[u.cpu.fp], u.regs[u.cpu.sp], u.regs[u.cpu.pc] = caller, fp+2*u.cpu.word, pc
	return true
}

// Load reads a word of the stack.
func (u *unwinder) Load(addr uint64) (uint64, bool) {
	at := addr - u.sp
	if addr < u.sp || at >= uint64(len(u.stack)) || uint64(len(u.stack))-at < u.cpu.word {
		u.beyond = true
		return 0, false
	}
	if u.cpu.word == 4 {
		return uint64(encoding.LittleEndian.Uint32(u.stack[at:])), true
	}
	return encoding.LittleEndian.Uint64(u.stack[at:]), true
}
