package unwind

import (
	"cmp"
	"math"
	"slices"
)

// A CompactRow says how to get from a function to its caller, from an address
// on up to that of the next row.
//
//	CFA                      stack or frame pointer, plus CFA: where the caller's stack began
//	return address           at the CFA + Return
//	caller's frame pointer   at the CFA + FramePointer; 0: as it is
//
// The stack pointer is %rsp or sp, the frame pointer %rbp or x29.
type CompactRow struct {
	Addr             uint64 // as the file has it
	CFA              int32
	FramePointer     int32
	Return           int32 // on x86-64 -8
	FromFramePointer bool  // the CFA is from the frame pointer
	Known            bool  // else there is no caller, or no way to find it
	Missing          bool  // if not Known: nothing describes this code
}

// columns are the numbers of registers in DWARF on a processor.
type columns struct {
	first                                uint64 // that a Row has
	framePointer, stackPointer, returned uint64
	pushed                               bool  // where a function returns is just below the CFA
	farthest                             int64 // from the CFA that a frame pointer is kept
}

var (
	columnsAMD64 = columns{framePointer: AMD64_RBP, stackPointer: AMD64_RSP, returned: AMD64_RIP, pushed: true, farthest: math.MaxInt16}
	columnsARM64 = columns{first: firstARM64, framePointer: ARM64_X29, stackPointer: ARM64_SP, returned: ARM64_X30, farthest: math.MaxInt32}
)

// CompactRows returns what the table says, by ascending address. Only x86-64 and arm64
// are known. Where a description is damaged or of another form rows are not Known.
func (t *Table) CompactRows() []CompactRow {
	var rows []CompactRow
	for i := range t.fdes {
		if t.fdes[i].low != 0 { // at 0: thrown away by the linker
			rows = append(rows, t.fdes[i].compactRows(t)...)
		}
	}
	slices.SortStableFunc(rows, func(a, b CompactRow) int {
		known := func(r CompactRow) int {
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

// compactRows returns those of one function.
func (f *fde) compactRows(t *Table) []CompactRow {
	var rows []CompactRow
	end := CompactRow{Addr: f.high, Missing: true}
	columns := &columnsAMD64
	if t.first == columnsARM64.first {
		columns = &columnsARM64
	}
	m := newInterpreter(t, f.cie)
	err := m.begin()
	if err == nil {
		m.done = func(begin uint64) { rows = append(rows, m.row.compact(begin, columns)) }
		err = m.run(f.instructions, f.low, noEnd)
	}
	if err != nil {
		return []CompactRow{{Addr: f.low}, end}
	}
	return append(rows, end)
}

// compact makes a CompactRow of the rules at an address.
func (r *Row) compact(addr uint64, u *columns) CompactRow {
	fp, ret := r.Registers[u.framePointer-u.first], r.Registers[u.returned-u.first]
	row := CompactRow{Addr: addr, CFA: int32(r.CFA.Offset), Return: int32(ret.Offset), FromFramePointer: r.CFA.Register == u.framePointer}
	if fp.Kind == RuleOffset {
		row.FramePointer = int32(fp.Offset)
	}
	row.Known = !r.Signal && r.Return == u.returned &&
		r.CFA.Kind == RuleRegister && (r.CFA.Register == u.stackPointer || r.CFA.Register == u.framePointer) && int64(row.CFA) == r.CFA.Offset &&
		ret.Kind == RuleOffset && int64(row.Return) == ret.Offset && (!u.pushed || ret.Offset == -8) &&
		(fp.Kind == RuleSame || fp.Kind == RuleOffset && fp.Offset >= ^u.farthest && fp.Offset <= u.farthest)
	return row
}
