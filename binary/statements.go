package binary

import (
	"debug/dwarf"
	"debug/elf"
	"iter"
)

// A Statement is a place in the code where one of the source begins: a row of the line table with
// is_stmt (DWARF 5, section 6.2.2). Several may be at one address.
type Statement struct {
	Addr uint64
	File string
	Line int
}

// Statements yields those of all units, of a sequence of code one after another. What is damaged is
// left out.
func (l *Lines) Statements() iter.Seq[Statement] {
	return func(yield func(Statement) bool) {
		for _, u := range l.units {
			if !l.statements(u, yield) {
				return
			}
		}
	}
}

// statements yields those of a unit; it returns false if no more are wanted.
func (l *Lines) statements(u *unit, yield func(Statement) bool) bool {
	if u.bad || !l.spend(u) {
		return true
	}
	r, err := l.data.LineReader(u.entry)
	if err != nil || r == nil {
		return true
	}
	begins, dropped := true, false // a sequence; the linker has thrown it away, so that it is at 0
	var e dwarf.LineEntry
	for r.Next(&e) == nil {
		if begins {
			dropped = e.Address == 0
		}
		begins = e.EndSequence
		if e.EndSequence || dropped || !e.IsStmt || e.Line <= 0 || e.File == nil {
			continue
		}
		if !yield(Statement{e.Address, e.File.Name, e.Line}) {
			return false
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
