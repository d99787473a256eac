package patch

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// trampoline is the code that runs inside the target: trampoline/amd64.S, by
//
//	gcc -c -o amd64.o amd64.S && objcopy -O binary -j .text amd64.o amd64.bin
//
//go:embed trampoline/amd64.bin
var trampoline []byte

// trampolineVersion tells code of one footfall from that of another.
var trampolineVersion = crc32.ChecksumIEEE(trampoline)

// What the trampoline has at its beginning.
const (
	shadowConstant = 0 // u64
	threadIDPlace  = 8 // u64
	rangeCount     = 16
	rangesAt       = 24 // 8 pairs of u64
	maxBlocks      = 8
	routineTable   = 0x100 // u32 each, in the order of routine
)

type routine int

const (
	entryRoutine routine = iota
	exitRoutine
	entryOnlyRoutine
	countRoutine
	chainRoutine
	entryFilteredRoutine
	exitFilteredRoutine
	entryArgumentsRoutine
)

// offset returns where in the trampoline a routine begins.
func (r routine) offset() uint64 {
	return uint64(binary.LittleEndian.Uint32(trampoline[routineTable+4*r:]))
}

// routines of each mode; the second is 0 if exits are not seen.
var routines = map[Mode][2]routine{
	Entries:  {entryOnlyRoutine},
	Exits:    {entryRoutine, exitRoutine},
	Counts:   {countRoutine},
	Chains:   {chainRoutine},
	Filtered: {entryFilteredRoutine, exitFilteredRoutine},
}

const (
	stubSize      = 48
	descriptionAt = 40 // in a stub
	jumpSize      = 5
)

// jump encodes a jump from at to target:  e9 rel32
func jump(at, target uint64) []byte { return relative(0xe9, at, target) }

func relative(opcode byte, at, target uint64) []byte {
	b := []byte{opcode, 0, 0, 0, 0}
	d := int64(target - at - jumpSize)
	if int64(int32(d)) != d {
		panic(fmt.Sprintf("%#x is out of the reach of a jump at %#x", target, at))
	}
	binary.LittleEndian.PutUint32(b[1:], uint32(d))
	return b
}

// A stub is drawn in trampoline/amd64.S. description is that of the arguments.
func (m Mode) stub(at, code, resume uint64, id uint32, description uint64) []byte {
	var b []byte
	put := func(code ...byte) { b = append(b, code...) }
	branch := func(opcode byte, target uint64) { put(relative(opcode, at+uint64(len(b)), target)...) }
	push := func() { put(0x68); b = binary.LittleEndian.AppendUint32(b, id) }
	r := routines[m]
	if m == Entries && description != 0 {
		r[0] = entryArgumentsRoutine
	}
	push()
	branch(0xe8, code+r[0].offset())
	if r[1] == 0 {
		put(0x48, 0x8d, 0x64, 0x24, 0x08) // lea 8(%rsp),%rsp
		branch(0xe9, resume)
	} else {
		put(0x48, 0x83, 0xc4, 0x10) // add $16,%rsp
		branch(0xe8, resume)
		push()
		branch(0xe8, code+r[1].offset())
		put(0xc3)                   // ret
		put(0x48, 0x83, 0xc4, 0x08) // add $8,%rsp
		branch(0xe9, resume)
	}
	for len(b) < descriptionAt {
		put(0xcc)
	}
	return binary.LittleEndian.AppendUint64(b, description)
}

// unwindTable is .eh_frame for the stubs: how to go on from where a function
// returns into a stub, when an exception passes through. There %rsp is A + 8, A
// the slot which had the return address; that is now at A + shadow.
//
//	CFA = %rsp - 1        the unwinder tells frames apart by their CFA, and the
//	                      function that the stub called has %rsp
//	%rsp = CFA + 1
//	return address        at CFA + shadow - 7
func unwindTable(stubs, size, shadow uint64) []byte {
	word := binary.LittleEndian.AppendUint64
	expression := word([]byte{0x0e}, shadow-7) // DW_OP_const8u
	expression = append(expression, 0x22)      // DW_OP_plus: the CFA is on the stack
	cie := []byte{
		0, 0, 0, 0, 1, // id 0, version 1
		0,           // no augmentation: addresses are absolute
		1, 0x7f, 16, // code alignment 1, data alignment -1, return address in column 16
		0x12, 7, 1, // DW_CFA_def_cfa_sf: %rsp (column 7) + 1 * -1
		0x15, 7, 0x7f, // DW_CFA_val_offset_sf: %rsp is CFA + -1 * -1
	}
	cie = append(cie, 0x10, 16, byte(len(expression))) // DW_CFA_expression
	cie = append(cie, expression...)
	cie = pad(cie)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(cie)))
	b = append(b, cie...)
	fde := binary.LittleEndian.AppendUint32(nil, uint32(len(b)+4)) // back to the CIE
	fde = word(word(fde, stubs), size)
	fde = pad(fde)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(fde)))
	b = append(b, fde...)
	return append(b, 0, 0, 0, 0)
}

// pad fills with DW_CFA_nop, up to where the next length field is aligned.
func pad(b []byte) []byte {
	for len(b)%8 != 4 {
		b = append(b, 0)
	}
	return b
}
