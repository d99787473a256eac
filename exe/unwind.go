package exe

import (
	"cmp"
	"debug/elf"
	"fmt"
	"math"
	"slices"
)

// An UnwindRow says how to get from a function to its caller, from an address
// on up to that of the next row.
//
//	CFA                      stack or frame pointer, plus CFA: where the caller's stack began
//	return address           at the CFA + Return
//	caller's frame pointer   at the CFA + FramePointer; 0: as it is
//
// The stack pointer is %rsp or sp, the frame pointer %rbp or x29.
type UnwindRow struct {
	Addr             uint64 // as the file has it
	CFA              int32
	FramePointer     int32
	Return           int32 // on x86-64 -8
	FromFramePointer bool  // the CFA is from the frame pointer
	Known            bool  // else there is no caller, or no way to find it
	Missing          bool  // if not Known: nothing describes this code
}

// unwinding has the columns of registers on a processor.
type unwinding struct {
	first                                uint64 // that a FrameRow has
	framePointer, stackPointer, returned uint64
	pushed                               bool  // where a function returns is just below the CFA
	farthest                             int64 // from the CFA that a frame pointer is kept
}

var (
	unwindingAMD64 = unwinding{framePointer: 6, stackPointer: 7, returned: 16, pushed: true, farthest: math.MaxInt16}
	unwindingARM64 = unwinding{first: firstARM64, framePointer: 29, stackPointer: 31, returned: 30, farthest: math.MaxInt32}
)

// UnwindRows returns what .eh_frame says, by ascending address. Only x86-64 and arm64
// are known. Where a description is damaged or of another form rows are not Known.
func (f *File) UnwindRows() ([]UnwindRow, error) {
	if f.Machine != elf.EM_X86_64 && f.Machine != elf.EM_AARCH64 || f.Class != elf.ELFCLASS64 {
		return nil, nil
	}
	c, err := f.CallFrames()
	if err != nil {
		return nil, fmt.Errorf("section .eh_frame: %w", err)
	}
	if c == nil {
		return nil, nil
	}
	return c.unwindRows(), nil
}

func (c *CallFrames) unwindRows() []UnwindRow {
	var rows []UnwindRow
	for i := range c.codes {
		if c.codes[i].low != 0 { // at 0: thrown away by the linker
			rows = append(rows, c.codes[i].unwindRows(c)...)
		}
	}
	slices.SortStableFunc(rows, func(a, b UnwindRow) int {
		known := func(r UnwindRow) int {
			switch {
			case r.Known:
				return 2
			case r.Missing:
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), known(a)-known(b))
	})
	return rows
}

// unwindRows returns those of one function.
func (code *codeFrames) unwindRows(c *CallFrames) []UnwindRow {
	var rows []UnwindRow
	end := UnwindRow{Addr: code.high, Missing: true}
	m := &frameMachine{c: c, common: code.common}
	m.row.Return, m.row.Signal = code.common.returnColumn, code.common.signal
	u := &unwindingAMD64
	if c.first == unwindingARM64.first {
		u = &unwindingARM64
	}
	err := m.run(code.common.rules, 0, ^uint64(0))
	m.initial = m.row
	m.leave = func(addr uint64) { rows = append(rows, m.row.unwindRow(addr, u)) }
	if err == nil {
		err = m.run(code.rules, code.low, ^uint64(0))
	}
	if err != nil {
		return []UnwindRow{{Addr: code.low}, end}
	}
	return append(rows, end)
}

// unwindRow makes an UnwindRow of the rules at an address.
func (r *FrameRow) unwindRow(addr uint64, u *unwinding) UnwindRow {
	fp, ret := r.Registers[u.framePointer-u.first], r.Registers[u.returned-u.first]
	row := UnwindRow{Addr: addr, CFA: int32(r.CFA.Offset), Return: int32(ret.Offset), FromFramePointer: r.CFA.Register == u.framePointer}
	if fp.Kind == RuleOffset {
		row.FramePointer = int32(fp.Offset)
	}
	row.Known = !r.Signal && r.Return == u.returned &&
		r.CFA.Kind == RuleRegister && (r.CFA.Register == u.stackPointer || r.CFA.Register == u.framePointer) && int64(row.CFA) == r.CFA.Offset &&
		ret.Kind == RuleOffset && int64(row.Return) == ret.Offset && (!u.pushed || ret.Offset == -8) &&
		(fp.Kind == RuleSame || fp.Kind == RuleOffset && fp.Offset >= ^u.farthest && fp.Offset <= u.farthest)
	return row
}
