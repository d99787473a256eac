package binary

import (
	"debug/elf"
	"fmt"

	"footfall/binary/unwind"
)

// CallFrames reads the call-frame information of the section .eh_frame, which is loaded
// with the code; nil if there is none.
func (f *File) CallFrames() (*unwind.Table, error) { return f.callFrames(".eh_frame") }

// DebugFrames reads that of .debug_frame, which compilers write as debug information for
// code that .eh_frame does not describe; nil if there is none.
func (f *File) DebugFrames() (*unwind.Table, error) { return f.callFrames(".debug_frame") }

func (f *File) callFrames(name string) (*unwind.Table, error) {
	s := f.elf.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	b, err := data(s)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", name, err)
	}
	o := unwind.Options{Machine: f.Machine, Class: f.Class, Order: f.Order, Addr: s.Addr, Debug: name == ".debug_frame"}
	return unwind.Read(b, o), nil
}

// UnwindRows returns what .eh_frame says in the form for tables of watched programs, by
// ascending address; nil for processors other than x86-64 and arm64.
func (f *File) UnwindRows() ([]unwind.CompactRow, error) {
	if f.Machine != elf.EM_X86_64 && f.Machine != elf.EM_AARCH64 || f.Class != elf.ELFCLASS64 {
		return nil, nil
	}
	t, err := f.CallFrames()
	if t == nil {
		return nil, err
	}
	return t.CompactRows(), nil
}
