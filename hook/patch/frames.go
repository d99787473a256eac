//go:build linux

package patch

import (
	encoding "encoding/binary"
	"maps"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"footfall/binary"
	"footfall/binary/unwind"
	"footfall/process"
)

// How to find the caller from every instruction of an island's code, for libgcc's unwinder:
// it is asked where a signal came as well as where functions return to. One rule is for
// all of the code (frameTable); it looks up the program counter in two tables that are in
// the island, so that stubs can be added later:
//
//	cells   a byte for each byte of the code, trampoline and stubs: which row
//	rows    of 16 bytes, see frameRow
//
// A row tells the state of the stack and of registers before the instruction. That is also
// the state of a caller, since the program counter it has is that of the next instruction.
type frameRow struct {
	words   uint8    // the CFA is the base and so many words
	fromRBP bool     // the base is %rbp, not %rsp
	saved   [6]uint8 // of frameRegisters: so many words below the CFA; 0: unchanged
	known   bool     // else the chain of callers ends
}

// frameRegisters are those that calls preserve, by their numbers in DWARF.
var frameRegisters = [6]byte{3, 6, 12, 13, 14, 15} // rbx, rbp, r12 ... r15

// Where fields are in a row as the island has it.
const (
	rowWords = iota
	rowFromRBP
	rowSaved // 6
	rowKnown = rowSaved + 6
	rowSize  = 16
	maxRows  = 256
)

func (r frameRow) encode() [rowSize]byte {
	var b [rowSize]byte
	flag := func(at int, set bool) {
		if set {
			b[at] = 1
		}
	}
	b[rowWords] = r.words
	flag(rowFromRBP, r.fromRBP)
	copy(b[rowSaved:], r.saved[:])
	flag(rowKnown, r.known)
	return b
}

// justCalled is the row of code that was called and has done nothing yet.
var justCalled = frameRow{words: 1, known: true}

// moved is the row after so many words more are on the stack.
func (r frameRow) moved(words int) frameRow {
	n := int(r.words) + words
	if r.fromRBP {
		return r
	}
	if n < 0 || n > 255 {
		return frameRow{}
	}
	r.words = uint8(n)
	for i, k := range r.saved {
		if k > r.words {
			r.saved[i] = 0
		}
	}
	return r
}

// frameRegister returns the index of a register in frameRegisters, -1 if it is none.
func frameRegister(arg x86asm.Arg) int {
	switch arg {
	case x86asm.RBX:
		return 0
	case x86asm.RBP:
		return 1
	case x86asm.R12, x86asm.R13, x86asm.R14, x86asm.R15:
		return 2 + int(arg.(x86asm.Reg)-x86asm.R12)
	}
	return -1
}

// after is the row after an instruction that does not go elsewhere.
func (r frameRow) after(inst x86asm.Inst) frameRow {
	switch inst.Op {
	case x86asm.PUSH:
		r = r.moved(1)
		if i := frameRegister(inst.Args[0]); i >= 0 && r.saved[i] == 0 {
			r.saved[i] = r.words
		}
	case x86asm.POP:
		if i := frameRegister(inst.Args[0]); i >= 0 && r.saved[i] == r.words {
			r.saved[i] = 0
		}
		r = r.moved(-1)
	case x86asm.SUB, x86asm.ADD:
		if n, ok := inst.Args[1].(x86asm.Imm); ok && inst.Args[0] == x86asm.RSP {
			if inst.Op == x86asm.ADD {
				n = -n
			}
			r = r.moved(int(n) / 8)
		}
	}
	return r
}

// trampolineFrames returns the rows of the trampoline's instructions by their places: it
// follows the code from where it is called. Code that only pointers lead to returns without
// having used the stack.
func trampolineFrames(code []byte, routines []uint64) map[int]frameRow {
	rows := make(map[int]frameRow)
	type place struct {
		at  int
		row frameRow
	}
	var todo []place
	for _, at := range routines {
		todo = append(todo, place{int(at), justCalled})
	}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for p.at < len(code) {
			if _, known := rows[p.at]; known {
				break
			}
			inst, err := binary.DecodeAMD64(code[p.at:])
			if err != nil {
				break
			}
			rows[p.at] = p.row
			next := p.at + inst.Len
			target, direct := inst.Args[0].(x86asm.Rel)
			jumps := direct || inst.Op == x86asm.JMP
			switch {
			case inst.Op == x86asm.CALL && direct:
				todo = append(todo, place{next + int(target), justCalled})
			case jumps && inst.Op != x86asm.CALL && direct:
				todo = append(todo, place{next + int(target), p.row})
			}
			if inst.Op == x86asm.RET || inst.Op == x86asm.JMP {
				break
			}
			p = place{next, p.row.after(inst)}
		}
	}
	return rows
}

// cellRows are rows by the places in a stub.
type cellRows [stubSize]frameRow

// fill sets the rows from an instruction on.
func (c *cellRows) fill(at int, row frameRow) {
	for ; at < stubSize; at++ {
		c[at] = row
	}
}

// fillUpTo sets the rows up to an instruction to its row.
func (c *cellRows) fillUpTo(at int) {
	for i := range at {
		c[i] = c[at]
	}
}

// stubFrames returns the rows of a stub, of a site that is no exit: trampoline/amd64.S
// draws both kinds.
func stubFrames(returns bool) *cellRows {
	c := new(cellRows)
	c.fill(0, justCalled)
	c.fill(5, justCalled.moved(1))
	if !returns {
		c.fill(15, justCalled)
		c.fill(20, justCalled.moved(1))
		c.fill(35, justCalled)
		return c
	}
	c.fill(14, justCalled.moved(-1))
	c.fill(30, justCalled.moved(1))
	c.fill(34, justCalled)
	return c
}

// leaveFrames returns the rows of the stub of an exit: those of the function where its
// instructions have been moved here.
func leaveFrames(x *binary.ExitFinder, e *binary.Exit) *cellRows {
	c := new(cellRows)
	for _, at := range e.Starts[:len(e.Starts)-1] {
		row, ok := x.Frame(e.Addr + uint64(at))
		if c.fill(at, frameRow{}); ok {
			c.fill(at, frameRowOf(row))
		}
	}
	last := e.Starts[len(e.Starts)-1]
	c.fill(last, justCalled)
	c.fill(last+5, justCalled.moved(1)) // as leaveCode has it
	c.fill(last+15, justCalled)
	return c
}

// frameRowOf takes over a row of a file; what it cannot say is not known.
func frameRowOf(row unwind.Row) frameRow {
	r := frameRow{known: true, fromRBP: row.CFA.Register == rbp}
	words := row.CFA.Offset / 8
	if row.CFA.Kind != unwind.RuleRegister || row.CFA.Register != rbp && row.CFA.Register != rsp || words < 0 || words > 255 || words*8 != row.CFA.Offset {
		return frameRow{}
	}
	r.words = uint8(words)
	for i, register := range frameRegisters {
		rule := row.Registers[register]
		switch k := -rule.Offset / 8; {
		case rule.Kind == unwind.RuleSame:
		case rule.Kind == unwind.RuleOffset && 0 < k && k <= 255:
			r.saved[i] = uint8(k)
		default:
			return frameRow{}
		}
	}
	return r
}

// Short names of operations, for expressions that are written out.
const (
	opDeref     = unwind.DW_OP_deref
	opConst1s   = unwind.DW_OP_const1s
	opConst8u   = unwind.DW_OP_const8u
	opDup       = unwind.DW_OP_dup
	opDrop      = unwind.DW_OP_drop
	opSwap      = unwind.DW_OP_swap
	opAnd       = unwind.DW_OP_and
	opMinus     = unwind.DW_OP_minus
	opMul       = unwind.DW_OP_mul
	opPlus      = unwind.DW_OP_plus
	opPlusConst = unwind.DW_OP_plus_uconst
	opShl       = unwind.DW_OP_shl
	opBra       = unwind.DW_OP_bra
	opEq        = unwind.DW_OP_eq
	opSkip      = unwind.DW_OP_skip
	opLit       = unwind.DW_OP_lit0
	opBreg      = unwind.DW_OP_breg0
	opDerefSize = unwind.DW_OP_deref_size
)

// frameTable is .eh_frame for all code of an island, so many bytes.
func frameTable(island, size uint64) []byte { return ehFrame(frameRules(island), island+codeAt, size) }

// frameRules are the rules for it:
//
//	CFA = base + 8 words
//	return address         at CFA - 8
//	registers              where the row says
func frameRules(island uint64) []byte {
	base := island + codeAt
	field := func(at byte) []byte { return []byte{opPlusConst, at, opDerefSize, 1} }
	row := join([]byte{opBreg + rip, 0}, word(island+cellsAt-base), []byte{opPlus, opDerefSize, 1, opLit + 4, opShl}, word(island+rowsOfCellsAt), []byte{opPlus})

	cfa := join(row, []byte{opDup}, field(rowFromRBP), []byte{opBreg + rbp, 0, opBreg + rsp, 0, opMinus, opMul, opSwap}, // (row is on top)
		field(rowWords), []byte{opLit + 8, opMul, opPlus, opBreg + rsp, 0, opPlus})
	address := join([]byte{opLit + 8, opMinus}, word(island+zeroAt), []byte{opMinus}, row, field(rowKnown), []byte{opMul}, word(island+zeroAt), []byte{opPlus})

	rules := join(rule(cfa, unwind.DW_CFA_def_cfa_expression), rule(address, unwind.DW_CFA_expression, rip))
	for i, register := range frameRegisters {
		saved := []byte{opLit + 8, opMul, opMinus, opDeref}
		same := []byte{opDrop, opDrop, opBreg + register, 0, opSkip, byte(len(saved)), 0}
		rules = join(rules, rule(join(row, field(rowSaved+byte(i)), []byte{opDup, opBra, byte(len(same)), 0}, same, saved), unwind.DW_CFA_val_expression, register))
	}
	return rules
}

// Registers by their numbers in DWARF.
const rbp, rsp, rip = unwind.AMD64_RBP, unwind.AMD64_RSP, unwind.AMD64_RIP

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func word(v uint64) []byte {
	return encoding.LittleEndian.AppendUint64([]byte{opConst8u}, v)
}

// rule is one of .eh_frame: its code, and the register if it is of one.
func rule(expression []byte, code ...byte) []byte {
	return append(append(code, byte(len(expression))), expression...)
}

// rules are those for return stubs:
//
//	CFA              the stack pointer and what is on the stack, by the place in a stub;
//	                 for libgcc less one where that is nothing: it tells frames apart by
//	                 their CFA, and a function that has returned has the same
//	stack pointer    the CFA, rounded up
//	return address   in the stub's place
func (r *returnStubs) rules(libgcc bool) []byte {
	cfa := join([]byte{opBreg + rip, 0, opConst1s, returnStubSize - 1, opAnd}, word(r.table()+returnsCellsAt), []byte{opPlus, opDerefSize, 1})
	if !libgcc {
		cfa = join(cfa, []byte{opLit + 8, opMul, opBreg + rsp, 0, opPlus})
	} else {
		cfa = join(cfa, []byte{opDup, opLit + 8, opMul, opSwap, opLit, opEq, opMinus, opBreg + rsp, 0, opPlus})
	}
	address := join([]byte{opBreg + rip, 0, opConst1s, 0x100 - returnStubSize, opAnd}, word(r.size), []byte{opMinus})
	rules := join(rule(cfa, unwind.DW_CFA_def_cfa_expression), rule(address, unwind.DW_CFA_expression, rip))
	if libgcc {
		rules = join(rules, rule([]byte{opPlusConst, 7, opConst1s, 0xf8, opAnd}, unwind.DW_CFA_val_expression, rsp))
	}
	return rules
}

const returnsCellsAt = 0x400 // behind the return stubs

// unwindTable is .eh_frame for return stubs, and the cells that the rules look at.
func (r *returnStubs) unwindTable() []byte {
	b := ehFrame(r.rules(true), r.addr, r.size)
	b = append(b, make([]byte, returnsCellsAt-len(b))...)
	words := byte(0)
	for at := range returnStubSize { // as trampoline/amd64.S has it
		switch at {
		case 12, 18:
			words++
		case 29:
			words--
		}
		b = append(b, words)
	}
	return b
}

// ehFrame is a table of one entry for so many bytes of code at an address.
func ehFrame(rules []byte, code, size uint64) []byte {
	b := frameEntry(join([]byte{0, 0, 0, 0}, cieFields, rules))
	fde := encoding.LittleEndian.AppendUint32(nil, uint32(len(b)+4)) // back to the CIE
	fde = encoding.LittleEndian.AppendUint64(fde, code)
	b = append(b, frameEntry(encoding.LittleEndian.AppendUint64(fde, size))...)
	return append(b, 0, 0, 0, 0)
}

// cieFields are those of a CIE behind its id.
var cieFields = []byte{
	1,            // version
	0,            // no augmentation: addresses are absolute
	1, 0x78, rip, // code alignment 1, data alignment -8
}

// frameEntry is a CIE or FDE with its length.
func frameEntry(b []byte) []byte {
	b = pad(b)
	return append(encoding.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// cells returns the cells for rows, which are written to the island where they are new.
// Where there are too many different ones the others are not known.
func (b *island) cells(p *process.Process, rows []frameRow) ([]byte, error) {
	if b.rows == nil {
		if err := b.readRows(p); err != nil {
			return nil, err
		}
	}
	cells := make([]byte, len(rows))
	before := len(b.rows)
	for i, row := range rows {
		n := slices.Index(b.rows, row)
		if n < 0 && row.known && len(b.rows) < maxRows-1 {
			n = len(b.rows)
			b.rows = append(b.rows, row)
		}
		cells[i] = byte(n + 1)
	}
	var added []byte
	for _, row := range b.rows[before:] {
		e := row.encode()
		added = append(added, e[:]...)
	}
	if len(added) == 0 {
		return cells, nil
	}
	_, err := p.WriteAt(added, int64(b.addr+rowsOfCellsAt+uint64(1+before)*rowSize))
	return cells, err
}

// readRows reads those that an earlier session has written.
func (b *island) readRows(p *process.Process) error {
	var all [maxRows * rowSize]byte
	if _, err := p.ReadAt(all[:], int64(b.addr+rowsOfCellsAt)); err != nil {
		return err
	}
	b.rows = []frameRow{}
	for at := rowSize; at < len(all) && all[at+rowKnown] != 0; at += rowSize {
		e := all[at:]
		row := frameRow{words: e[rowWords], fromRBP: e[rowFromRBP] != 0, known: true}
		copy(row.saved[:], e[rowSaved:])
		b.rows = append(b.rows, row)
	}
	return nil
}

// describeTrampoline writes the cells of the trampoline.
func (b *island) describeTrampoline(p *process.Process) error {
	rows := make([]frameRow, stubsAt-codeAt)
	known := trampolineFrames(native.trampoline, native.calledRoutines())
	row := justCalled
	for i := range rows {
		if r, ok := known[i]; ok {
			row = r
		}
		rows[i] = row // withPointer puts others in place of some, which do not use the stack
	}
	cells, err := b.cells(p, rows)
	if err == nil {
		_, err = p.WriteAt(cells, int64(b.addr+cellsAt))
	}
	return err
}

// calledRoutines returns where those are in the trampoline that stubs call.
func (c *cpu) calledRoutines() []uint64 {
	var all []uint64
	for r := entryRoutine; r <= exitFilteredOnlyRoutine; r++ {
		if r != noticeEnd {
			all = append(all, c.offset(r))
		}
	}
	return all
}

// describeStubs writes the cells of those of the stubs that are in the island.
func (b *island) describeStubs(p *process.Process, stubs []*stub) error {
	known := make(map[uint32]*cellRows)
	for _, st := range stubs {
		switch {
		case st.island != b:
		case st.frames != nil:
			known[st.index] = st.frames
		case !st.leaves() && st.mode != copies && st.mode != copiesLeaving && !st.notesRun():
			known[st.index] = stubFrames(native.routines[st.mode][1] != 0)
		} // else of an earlier session, which has written them if it knew the unwinder
	}
	indices := slices.Sorted(maps.Keys(known))
	for len(indices) > 0 {
		first, n := indices[0], 0
		var rows []frameRow
		for n < len(indices) && indices[n] == first+uint32(n) {
			rows = append(rows, known[indices[n]][:]...)
			n++
		}
		cells, err := b.cells(p, rows)
		if err != nil {
			return err
		}
		if _, err := p.WriteAt(cells, int64(b.addr+cellsAt+stubsAt-codeAt+uint64(first)*stubSize)); err != nil {
			return err
		}
		indices = indices[n:]
	}
	return nil
}
