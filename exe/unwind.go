package exe

import (
	"cmp"
	"debug/elf"
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
	Missing          bool // if not Known: nothing describes this code
}

// Columns of registers on x86-64.
const (
	columnRBP    = 6
	columnRSP    = 7
	columnReturn = 16
)

// UnwindRows returns what .eh_frame says, by ascending address. Only x86-64 is
// known. Where a description is damaged or of another form rows are not Known.
func (f *File) UnwindRows() ([]UnwindRow, error) {
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
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
	err := m.run(code.common.rules, 0, ^uint64(0))
	m.initial = m.row
	m.leave = func(addr uint64) { rows = append(rows, m.row.unwindRow(addr)) }
	if err == nil {
		err = m.run(code.rules, code.low, ^uint64(0))
	}
	if err != nil {
		return []UnwindRow{{Addr: code.low}, end}
	}
	return append(rows, end)
}

// unwindRow makes an UnwindRow of the rules at an address.
func (r *FrameRow) unwindRow(addr uint64) UnwindRow {
	fp, ret := r.Registers[columnRBP], r.Registers[columnReturn]
	row := UnwindRow{Addr: addr, CFA: int32(r.CFA.Offset), FromFramePointer: r.CFA.Register == columnRBP}
	if fp.Kind == RuleOffset {
		row.FramePointer = int16(fp.Offset)
	}
	row.Known = !r.Signal && r.Return == columnReturn &&
		r.CFA.Kind == RuleRegister && (r.CFA.Register == columnRSP || r.CFA.Register == columnRBP) && int64(row.CFA) == r.CFA.Offset &&
		ret.Kind == RuleOffset && ret.Offset == -8 &&
		(fp.Kind == RuleSame || fp.Kind == RuleOffset && int64(row.FramePointer) == fp.Offset)
	return row
}
