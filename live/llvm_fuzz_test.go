//go:build linux

package live

import (
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"footfall/process"
)

// fakeMemory is a program that is one piece of memory.
type fakeMemory struct {
	start uint64
	b     []byte
}

func (m fakeMemory) ReadAt(b []byte, addr int64) (int, error) {
	at := uint64(addr) - m.start
	if at >= uint64(len(m.b)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(b, m.b[at:])
	if n < len(b) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

func (m fakeMemory) ReadRanges(ranges []process.MemoryRange) error {
	for _, r := range ranges {
		if _, err := m.ReadAt(r.Bytes, int64(r.Addr)); err != nil {
			return err
		}
	}
	return nil
}

func (m fakeMemory) maps() process.Maps {
	return process.Maps{{Start: m.start, End: m.start + uint64(len(m.b)), Read: true, Write: true, Exec: true, Inode: 1}}
}

func (m fakeMemory) walker(pointer int) *walker {
	return &walker{
		pages: newPages(m), image: &image{path: "fake"}, order: binary.LittleEndian, pointer: pointer, maps: m.maps(), budget: newBudget(),
	}
}

const fakeStart = 0x400000

// writeoutCode is what Clang makes of a file with one function, in 64 bits, at
// fakeStart: the table of constructors, the constructor, writeout, the name.
func writeoutCode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, fakeStart+8)
	lea := func(register byte, to int) { // lea to(%rip), register
		b = append(b, 0x48, 0x8d, register)
		b = binary.LittleEndian.AppendUint32(b, uint32(to-len(b)-4))
	}
	mov := func(register byte, x uint32) { b = binary.LittleEndian.AppendUint32(append(b, register), x) }
	branch := func(op byte, to int) {
		b = append(b, op)
		b = binary.LittleEndian.AppendUint32(b, uint32(to-len(b)-4))
	}
	const rdi, rsi, edi, esi, edx, call, jmp = 0x3d, 0x35, 0xbf, 0xbe, 0xba, 0xe8, 0xe9
	lea(rdi, 0x20)
	branch(jmp, 0x200)
	b = append(b, make([]byte, 0x20-len(b))...)
	b = append(b, 0x50) // push %rax
	lea(rdi, 0x100)
	mov(esi, 0x3430382a)
	mov(edx, 0x1234)
	branch(call, 0x210)
	mov(edi, 0)
	mov(esi, 0x99)
	branch(call, 0x220)
	lea(rsi, 0x180)
	mov(edi, 3)
	branch(call, 0x230)
	branch(call, 0x240)
	b = append(b, 0x58) // pop %rax
	branch(jmp, 0x250)
	b = append(b, make([]byte, 0x100-len(b))...)
	b = append(b, "/tmp/x.gcda\x00"...)
	return append(b, make([]byte, 0x300-len(b))...)
}

func fakeClang(b []byte, mode32 bool) ([]*unit, error) {
	m := fakeMemory{fakeStart, append(b, make([]byte, -len(b)&(pageSize-1))...)}
	pointer, code := 8, clangCode{machine: 62, constructors: fakeStart, size: 8}
	if mode32 {
		pointer, code.machine = 4, 3
	}
	return m.walker(pointer).clang(code, m.maps())
}

func TestFakeClang(t *testing.T) {
	units, err := fakeClang(writeoutCode(), false)
	if err != nil || len(units) != 1 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	u := units[0]
	if u.name != "/tmp/x.gcda" || u.stamp != 0x1234 || len(u.funcs) != 1 || u.funcs[0].line != 0x99 || u.funcs[0].arrays[0].length != 3 {
		t.Errorf("%+v", u)
	}
}

// FuzzClang runs damaged code: it must end, and stay within its limits.
func FuzzClang(f *testing.F) {
	f.Add(writeoutCode(), false)
	f.Add(writeoutCode(), true)
	f.Fuzz(func(t *testing.T, b []byte, mode32 bool) {
		units, _ := fakeClang(b, mode32)
		for _, u := range units {
			for _, fn := range u.funcs {
				if n := fn.arrays[0].length; n < 0 || n > maxFuncCounters {
					t.Fatalf("%d counters", n)
				}
			}
		}
	})
}

// TestProfileVersions names versions that are not known.
func TestProfileVersions(t *testing.T) {
	for version, message := range map[uint64]string{
		8:  "",
		6:  "raw profiles of version 6",
		12: "raw profiles of version 12",
	} {
		m := fakeMemory{fakeStart, make([]byte, pageSize)}
		binary.LittleEndian.PutUint64(m.b, version|1<<56)
		p := &llvmSections{order: binary.LittleEndian, pointer: 8, versionAt: fakeStart}
		p.data, p.counters = section{fakeStart + 0x100, 96}, section{fakeStart + 0x200, 64}
		err := p.prepare(m.walker(8))
		if message == "" && err != nil || message != "" && (err == nil || !strings.Contains(err.Error(), message)) {
			t.Errorf("version %d: error %v, expected %q", version, err, message)
		}
	}
}

// FuzzProfile makes raw profiles of damaged memory.
func FuzzProfile(f *testing.F) {
	// Words that are addresses in the memory, as pointers; as numbers of sites
	// they are 64, 0 and 0.
	var self []byte
	for i := range 0x80 {
		self = binary.LittleEndian.AppendUint64(self, uint64(fakeStart+8*i))
	}
	for version := range uint8(13) {
		f.Add(self, version, uint16(0x240), uint16(0x100), uint16(0x40), uint16(0x40), false)
	}
	f.Add(self, uint8(0), uint16(0x240), uint16(0x20), uint16(0x40), uint16(0x40), true)
	f.Fuzz(func(t *testing.T, b []byte, version uint8, data, counters, names, notes uint16, mode32 bool) {
		m := fakeMemory{fakeStart, append([]byte{version, 0, 0, 0, 0, 0, 0, 0}, b...)}
		p := &llvmSections{order: binary.LittleEndian, pointer: 8, versionAt: fakeStart, coverage: true, compilers: []int{9, 11, 13, 14, 18, 19, 23}}
		if mode32 {
			p.pointer = 4
		}
		if version == 0 {
			p.versionAt = 0
		}
		at := uint64(fakeStart + 8)
		for _, s := range []struct {
			to   *section
			size uint16
		}{{&p.data, data}, {&p.counters, counters}, {&p.names, names}} {
			*s.to = section{at, uint64(s.size)}
			at += uint64(s.size)
		}
		p.notes = []section{{at, uint64(notes)}}
		if err := p.prepare(m.walker(p.pointer)); err != nil {
			return
		}
		var r profileRead
		ranges, err := r.plan(p, m, m.maps(), nil)
		if err != nil || m.ReadRanges(ranges) != nil {
			return
		}
		values, err := p.values(r.data, m)
		if err != nil {
			return
		}
		if n := len(p.encode(r.data, r.counters, r.bits, values)); n > 1<<24 {
			t.Fatalf("a profile of %d bytes", n)
		}
	})
}
