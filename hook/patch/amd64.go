//go:build linux

package patch

import (
	"bytes"
	"debug/elf"
	_ "embed"
	encoding "encoding/binary"
	"fmt"
	"footfall/binary/unwind"
	"footfall/trace"
	"os"
)

// The trampoline is trampoline/amd64.S, by
//
//	gcc -c -o amd64.o amd64.S && objcopy -O binary -j .text amd64.o amd64.bin
//
//go:embed trampoline/amd64.bin
var trampolineAMD64 []byte

var amd64 = &cpu{
	machine:    elf.EM_X86_64,
	trampoline: trampolineAMD64,
	routines: map[trace.Mode][2]routine{
		trace.Entries:  {entryOnlyRoutine},
		trace.Exits:    {entryRoutine, exitRoutine},
		trace.Counts:   {countRoutine},
		trace.Chains:   {chainRoutine},
		trace.Filtered: {entryFilteredRoutine, exitFilteredRoutine},
		chainsOn:       {chainRoutine, exitCallerRoutine},
		leads:          {entryCallerRoutine, exitCallerRoutine},
		notices:        {noticeRoutine},

		enters:         {entryOnlyRoutine},
		entersFiltered: {entryFilteredRoutine},
		entersUnseen:   {entryFilteredRoutine},
		leaves:         {exitOnlyRoutine},
		leavesFiltered: {exitFilteredOnlyRoutine},

		chainsOnSites: {chainRoutine},
		leadsSites:    {entryCallerRoutine},
		leavesCaller:  {exitCallerRoutine},
	},
	jumpSize:   5,
	jump:       func(at, target uint64) []byte { return relative(0xe9, at, target) },
	reach:      0x70000000,
	stub:       stubAMD64,
	described:  describedAMD64,
	breakpoint: []byte{0xcc},
	landing:    []byte{0xf3, 0x0f, 0x1e, 0xfa}, // endbr64
	ret:        []byte{0xc3},
	calls:      callsAMD64,
	idPlaces:   []uint64{0x2d0, 0x38}, // glibc, musl

	takesRings:        true,
	keepsFramePointer: keepsFramePointerAMD64,

	looksAtPointer: hasFSGSBASE(),
	withPointer:    withPointerAMD64,

	describesAll: true,
	returnStub:   returnStubAMD64,
}

// hasFSGSBASE tells whether programs may read the thread pointer itself: where the
// processor can, from Linux 5.9 on.
func hasFSGSBASE() bool {
	const (
		hwcap2   = 26     // AT_HWCAP2 of <elf.h>
		fsgsbase = 1 << 1 // HWCAP2_FSGSBASE of <asm/hwcap2.h>
	)
	auxv, _ := os.ReadFile("/proc/self/auxv")
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if encoding.LittleEndian.Uint64(auxv) == hwcap2 {
			return encoding.LittleEndian.Uint64(auxv[8:])&fsgsbase != 0
		}
	}
	return false
}

// withPointerAMD64 changes thread_id of trampoline/amd64.S: the jumps to where it looks for a
// thread pointer become loads.
func withPointerAMD64(code []byte) {
	looks := []byte{0xf3, 0x48, 0x0f, 0xae, 0xc2, 0x48, 0x85, 0xd2, 0x0f, 0x84} // rdfsbase %rdx; test %rdx,%rdx; jz
	const rest = 4 + 3                                                          // of jz; mov (%rdx,%rax),%eax
	load := []byte{0x64, 0x8b, 0x44, 0x20, 0}                                   // mov %fs:0(%rax),%eax, as long as the jump
	for at := bytes.Index(code, looks); at >= 0; {
		back := at + len(looks) + rest
		offset := int32(encoding.LittleEndian.Uint32(code[back+1:]))
		if code[back] != 0xe9 {
			panic("thread_id goes back otherwise")
		}
		copy(code[back+5+int(offset)-len(load):], load)
		next := bytes.Index(code[back:], looks)
		if next < 0 {
			break
		}
		at = back + next
	}
}

const descriptionAt = 40 // in a stub

// relative encodes a jump or call from at to target:  e9 rel32, e8 rel32
func relative(opcode byte, at, target uint64) []byte {
	b := []byte{opcode, 0, 0, 0, 0}
	d := int64(target - at - uint64(len(b)))
	if int64(int32(d)) != d {
		panic(fmt.Sprintf("%#x is out of the reach of a jump at %#x", target, at))
	}
	encoding.LittleEndian.PutUint32(b[1:], uint32(d))
	return b
}

// stubAMD64 encodes what is drawn in trampoline/amd64.S.
func stubAMD64(s stubCode) []byte {
	if s.leave != nil {
		return leaveCode(s)
	}
	var b []byte
	put := func(code ...byte) { b = append(b, code...) }
	branch := func(opcode byte, target uint64) { put(relative(opcode, s.at+uint64(len(b)), target)...) }
	push := func() { put(0x68); b = encoding.LittleEndian.AppendUint32(b, s.id) }
	push()
	branch(0xe8, s.entry)
	if s.exit == 0 {
		put(0x48, 0x8d, 0x64, 0x24, 0x08) // lea 8(%rsp),%rsp
		if s.resume != 0 {
			branch(0xe9, s.resume)
		} else {
			put(0xc3) // ret: the function was empty
		}
		if s.passes {
			put(bytes.Repeat([]byte{0xcc}, 10)...)
			put(0x48, 0x8d, 0x64, 0x24, 0x08) // lea 8(%rsp),%rsp
			branch(0xe9, s.resume)
		}
	} else {
		put(0x48, 0x83, 0xc4, 0x10) // add $16,%rsp
		put(0xff, 0x64, 0x24, 0xf0) // jmp *-16(%rsp)
		put(bytes.Repeat([]byte{0xcc}, 12)...)
		put(0x48, 0x83, 0xc4, 0x08) // add $8,%rsp
		branch(0xe9, s.resume)
	}
	for len(b) < descriptionAt {
		put(0xcc)
	}
	return encoding.LittleEndian.AppendUint64(b, s.description)
}

// describedAMD64 encodes a row as trampoline/amd64.S has it.
func describedAMD64(row unwind.CompactRow) uint64 {
	return uint64(uint32(row.CFA)) | uint64(uint16(row.FramePointer))<<32 | ruleDescribed
}
