package binary

import (
	"debug/dwarf"
	"debug/elf"
	"iter"
)

// A Row is a row of a line table (DWARF 5, section 6.2): code from Addr to before End that belongs to a
// line of the source. With Statement (is_stmt) one begins there; else it is a part of one that has
// been moved there, or that goes on. Several may be at one address, of which all but the last have no code.
type Row struct {
	Addr, End uint64
	File      string
	Line      int
	Statement bool
}

// Rows yields those of all units that are statements or have code, of a sequence of code one after another. What
// is damaged is left out.
func (l *Lines) Rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for _, u := range l.units {
			if !l.rows(u, yield) {
				return
			}
		}
	}
}

// rows yields those of a unit; it returns false if no more are wanted.
func (l *Lines) rows(u *unit, yield func(Row) bool) bool {
	if u.bad || !l.spend(u) {
		return true
	}
	r, err := l.data.LineReader(u.entry)
	if err != nil || r == nil {
		return true
	}
	begins, dropped := true, false // a sequence; the linker has thrown it away, so that it is at 0
	var e dwarf.LineEntry
	var row Row // the one before, whose end is not known yet
	for r.Next(&e) == nil {
		if begins {
			dropped, row = e.Address == 0, Row{}
		}
		begins = e.EndSequence
		row.End = max(row.Addr, e.Address)
		if row.Line > 0 && (row.Statement || row.Addr < row.End) && !yield(row) {
			return false
		}
		row = Row{}
		if !e.EndSequence && !dropped && e.Line > 0 && e.File != nil {
			row = Row{Addr: e.Address, File: e.File.Name, Line: e.Line, Statement: e.IsStmt}
		}
	}
	return true
}

// HasCode tells whether an address of the file is in a section with code.
func (f *File) HasCode(addr uint64) bool {
	for _, s := range f.elf.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Addr <= addr && addr-s.Addr < s.Size {
			return true
		}
	}
	return false
}
