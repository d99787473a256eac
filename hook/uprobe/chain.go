//go:build linux

package uprobe

import (
	"fmt"
	"footfall/binary/unwind"
	"math/bits"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// maxRows is more than the largest programs have.
const maxRows = 1 << 24

// makeRows makes the table of the unwind rows: address u64, rule u64. The first
// row is for everything below.
func (s *ProbeSet) makeRows() (err error) {
	n := len(s.options.Rows) + 1
	if n > maxRows {
		return fmt.Errorf("%d unwind rows, at most %d are expected", n, maxRows)
	}
	keys, values := make([]uint32, n), make([][2]uint64, n)
	for i, row := range s.options.Rows {
		keys[i+1], values[i+1] = uint32(i+1), [2]uint64{row.Addr, rule(row)}
	}
	if s.rows, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: uint32(n)}); err != nil {
		return err
	}
	_, err = s.rows.BatchUpdate(keys, values, nil)
	return err
}

// rule encodes a row: CFA in bits 0 to 31, the place of the frame pointer in 32
// to 47, then whether the CFA is from the frame pointer, and a 1. 0 ends the
// chain.
func rule(row unwind.CompactRow) uint64 {
	if !row.Known {
		return 0
	}
	v := uint64(uint32(row.CFA)) | uint64(uint16(row.FramePointer))<<32 | 1<<49
	if row.FromFramePointer {
		v |= 1 << 48
	}
	return v
}

// countChain walks up the stack and adds 1 to the count of the chain. Loops are
// written out, for the verifier's sake.
//
//	R6 first row of those that may be the right one     R7 return address, rule
//	R8 stack pointer of the caller, CFA                 R9 its frame pointer
//
//	RFP - 8*depth    the chain: the key in the table
//	   8 lower       first row of those that are too far
//	   16            what is read
//	   24            row u32
//	   32            1
//	   40            0
func countChain(table, rows *ebpf.Map, depth, rowCount int) asm.Instructions {
	chain := int16(-8 * depth)
	beyond, word, row, one, zero := chain-8, chain-16, chain-24, chain-32, chain-40
	code := asm.Instructions{
		asm.LoadMem(asm.R8, asm.R1, regsRSP, asm.DWord),
		asm.LoadMem(asm.R9, asm.R1, regsRBP, asm.DWord),
	}
	code = append(code, asm.Mov.Imm(asm.R1, 0))
	for i := range int16(depth) {
		code = append(code, asm.StoreMem(asm.RFP, chain+8*i, asm.R1, asm.DWord))
	}
	// read reads the word at R3 of the process to a register.
	read := func(to asm.Register) {
		code = append(code,
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(word)),
			asm.Mov.Imm(asm.R2, 8),
			asm.FnProbeReadUser.Call(),
			asm.JNE.Imm(asm.R0, 0, "chain"),
			asm.LoadMem(to, asm.RFP, word, asm.DWord))
	}
	// lookUp looks the row of R1 up.
	lookUp := func() {
		code = append(code,
			asm.StoreMem(asm.RFP, row, asm.R1, asm.Word),
			asm.LoadMapPtr(asm.R1, rows.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(row)),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "chain"))
	}
	// The verifier would follow known numbers of rows into every search that there
	// could be. It does not know that the address of the first row is 0.
	code = append(code, asm.Mov.Imm(asm.R1, 0))
	lookUp()
	code = append(code, asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.StoreMem(asm.RFP, zero, asm.R1, asm.DWord))
	code = append(code, asm.Mov.Reg(asm.R3, asm.R8))
	read(asm.R7)
	code = append(code, asm.StoreMem(asm.RFP, chain, asm.R7, asm.DWord), asm.Add.Imm(asm.R8, 8))
	for i := 1; i < depth; i++ {
		// The call may be the last instruction of its function.
		code = append(code, asm.Sub.Imm(asm.R7, 1), asm.LoadMem(asm.R6, asm.RFP, zero, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R6), asm.Add.Imm(asm.R1, int32(rowCount)), asm.StoreMem(asm.RFP, beyond, asm.R1, asm.DWord))
		for step := range bits.Len(uint(rowCount)) {
			high, next := fmt.Sprintf("high%d.%d", i, step), fmt.Sprintf("next%d.%d", i, step)
			code = append(code, asm.LoadMem(asm.R1, asm.RFP, beyond, asm.DWord), asm.Add.Reg(asm.R1, asm.R6), asm.RSh.Imm(asm.R1, 1))
			lookUp()
			code = append(code,
				asm.LoadMem(asm.R2, asm.RFP, row, asm.Word),
				asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
				asm.JGT.Reg(asm.R1, asm.R7, high),
				asm.Mov.Reg(asm.R6, asm.R2),
				asm.Ja.Label(next),
				asm.StoreMem(asm.RFP, beyond, asm.R2, asm.DWord).WithSymbol(high),
				asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(next)) // for lookUp, at last
		}
		lookUp()
		onStack, kept := fmt.Sprintf("stack%d", i), fmt.Sprintf("kept%d", i)
		code = append(code,
			asm.LoadMem(asm.R7, asm.R0, 8, asm.DWord),
			asm.JEq.Imm(asm.R7, 0, "chain"),
			asm.Mov.Reg(asm.R1, asm.R7), asm.RSh.Imm(asm.R1, 48), asm.And.Imm(asm.R1, 1),
			asm.JEq.Imm(asm.R1, 0, onStack),
			asm.Mov.Reg(asm.R8, asm.R9),
			asm.Mov.Reg(asm.R1, asm.R7).WithSymbol(onStack), asm.LSh.Imm(asm.R1, 32), asm.ArSh.Imm(asm.R1, 32),
			asm.Add.Reg(asm.R8, asm.R1),
			asm.Mov.Reg(asm.R3, asm.R7), asm.LSh.Imm(asm.R3, 16), asm.ArSh.Imm(asm.R3, 48),
			asm.JEq.Imm(asm.R3, 0, kept),
			asm.Add.Reg(asm.R3, asm.R8))
		read(asm.R9)
		code = append(code, asm.Mov.Reg(asm.R3, asm.R8).WithSymbol(kept), asm.Sub.Imm(asm.R3, 8))
		read(asm.R7)
		code = append(code, asm.StoreMem(asm.RFP, chain+8*int16(i), asm.R7, asm.DWord))
	}
	find := func(label, missing string) asm.Instructions {
		return asm.Instructions{
			asm.LoadMapPtr(asm.R1, table.FD()).WithSymbol(label),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(chain)),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, missing),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Ja.Label("end"),
		}
	}
	code = append(code, find("chain", "fresh")...)
	code = append(code,
		asm.Mov.Imm(asm.R1, 1).WithSymbol("fresh"),
		asm.StoreMem(asm.RFP, one, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, table.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(chain)),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, int32(one)),
		asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)),
		asm.FnMapUpdateElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"))
	// Another thread may have been faster.
	return append(code, find("again", "lost")...)
}
