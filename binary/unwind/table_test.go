package unwind_test

import (
	"debug/elf"
	encoding "encoding/binary"
	"footfall/binary"
	"footfall/binary/unwind"
	"os"
	"testing"
)

// systemFrames returns the call frames of a C library's file, which has rules of
// every kind.
func systemFrames(tb testing.TB) (*binary.File, *unwind.Table) {
	tb.Helper()
	for _, name := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6"} {
		r, err := os.Open(name)
		if err != nil {
			continue
		}
		tb.Cleanup(func() { r.Close() })
		f, err := binary.Open(r)
		if err != nil {
			tb.Fatal(err)
		}
		c, err := f.CallFrames()
		if err != nil || c == nil {
			tb.Fatalf("%s: %v", name, err)
		}
		return f, c
	}
	tb.Skip("no C library of the GNU project here")
	return nil, nil
}

func TestTableCoversTheCLibrary(t *testing.T) {
	f, c := systemFrames(t)
	functions, err := f.Functions()
	if err != nil {
		t.Fatal(err)
	}
	with, without := 0, 0
	for _, fn := range functions {
		if fn.Size < 16 {
			continue
		}
		if row, ok := c.Row(fn.Addr); ok && (row.CFA.Kind == unwind.RuleRegister || row.CFA.Kind == unwind.RuleExpression) {
			with++
		} else {
			without++
		}
	}
	if with < 1000 || without*100 > with {
		t.Errorf("%d functions have rules, %d have none", with, without)
	}
}

// options are those of sections that are tried on all bytes.
var options = []unwind.Options{
	{Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Order: encoding.LittleEndian, Addr: 0x1000},
	{Machine: elf.EM_AARCH64, Class: elf.ELFCLASS64, Order: encoding.LittleEndian, Addr: 0x400000},
	{Machine: elf.EM_386, Class: elf.ELFCLASS32, Order: encoding.LittleEndian, Addr: 0x1000, Debug: true},
	{Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Order: encoding.LittleEndian, Debug: true},
}

func FuzzTable(f *testing.F) {
	file, _ := systemFrames(f)
	section, err := file.Contents(".eh_frame")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(section[:min(len(section), 4000)], uint64(0x1000))
	f.Add(debugFrame(), uint64(0x1000))
	f.Fuzz(func(t *testing.T, b []byte, addr uint64) {
		for _, o := range options {
			table := unwind.Read(b, o)
			for _, start := range table.Starts() {
				if row, ok := table.Row(start); ok {
					evaluate(row)
				}
			}
			table.Row(addr)
		}
	})
}

// evaluate carries out the expressions of a row in a memory of zeros.
func evaluate(row unwind.Row) {
	var registers [unwind.Registers]uint64
	for _, rule := range append(row.Registers[:], row.CFA) {
		if rule.Expression != nil {
			unwind.Evaluate(rule.Expression, &registers, noMemory{}, new(uint64))
		}
	}
}

type noMemory struct{}

func (noMemory) Load(addr uint64) (uint64, bool) { return 0, addr%2 == 0 }

// debugFrame is a section of one function, from 0x1000 to 0x1020, by version 4 of the
// format.
func debugFrame() []byte {
	b := entry(0xffffffff, []byte{4, 0, 8, 0, 1, 0x78, 16, unwind.DW_CFA_def_cfa, 7, 8, unwind.DW_CFA_offset | 16, 1})
	code := encoding.LittleEndian.AppendUint64(nil, 0x1000)
	code = encoding.LittleEndian.AppendUint64(code, 0x20)
	return append(b, entry(0, append(code, unwind.DW_CFA_advance_loc|4, unwind.DW_CFA_def_cfa_offset, 16))...)
}

func entry(id uint32, rest []byte) []byte {
	b := encoding.LittleEndian.AppendUint32(nil, uint32(4+len(rest)))
	return append(encoding.LittleEndian.AppendUint32(b, id), rest...)
}

func TestDebugFrame(t *testing.T) {
	table := unwind.Read(debugFrame(), unwind.Options{Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Order: encoding.LittleEndian, Debug: true})
	for addr, cfa := range map[uint64]int64{0xfff: 0, 0x1000: 8, 0x1003: 8, 0x1004: 16, 0x101f: 16, 0x1020: 0} {
		row, ok := table.Row(addr)
		if ok != (cfa != 0) || row.CFA.Offset != cfa {
			t.Errorf("%#x: CFA + %d, %v, want %d", addr, row.CFA.Offset, ok, cfa)
		}
		if ra := row.Registers[unwind.AMD64_RIP]; ok && (ra.Kind != unwind.RuleOffset || ra.Offset != -8) {
			t.Errorf("%#x: return address %+v", addr, row.Registers[16])
		}
	}
}

// TestLandingPads finds where exceptions lead in what g++ makes: behind calls, within the function.
func TestLandingPads(t *testing.T) {
	c := unwind.Read(nil, options[0])
	// 0xff: the base is the function; 0xff: no types; uleb128; 8 bytes: two calls, one with a pad
	data := []byte{0xff, 0xff, 0x01, 8, 0x10, 5, 0x40, 0, 0x20, 5, 0, 0}
	pads, err := c.LandingPads(0x5000, 0x9000, data)
	if err != nil || len(pads) != 1 || pads[0] != 0x5040 {
		t.Errorf("%#x, %v", pads, err)
	}
	for n := range data {
		if _, err := c.LandingPads(0x5000, 0x9000, data[:n]); err == nil {
			t.Errorf("%d of %d bytes do", n, len(data))
		}
	}
}

func FuzzLandingPads(f *testing.F) {
	f.Add([]byte{0xff, 0xff, 0x01, 8, 0x10, 5, 0x40, 0, 0x20, 5, 0, 0})
	f.Add([]byte{0x1b, 0, 0, 0, 0, 0x9b, 0x20, 0x03, 13, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, o := range options {
			if pads, err := unwind.Read(nil, o).LandingPads(0x5000, 0x9000, b); err == nil && len(pads) > len(b) {
				t.Errorf("%d pads of %d bytes", len(pads), len(b))
			}
		}
	})
}
