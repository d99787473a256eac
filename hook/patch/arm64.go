//go:build linux

package patch

import (
	"debug/elf"
	_ "embed"
	encoding "encoding/binary"
	"fmt"
	"footfall/binary/unwind"
	"footfall/trace"
)

// The trampoline is trampoline/arm64.S, by
//
//	aarch64-linux-gnu-gcc -c -o arm64.o arm64.S
//	aarch64-linux-gnu-objcopy -O binary -j .text arm64.o arm64.bin
//
//go:embed trampoline/arm64.bin
var trampolineARM64 []byte

// A site becomes a branch in place of its first nop. The kernel's ftrace has
// "mov x9, x30; bl" in place of two, to have one trampoline for all sites; a stub
// for each needs no more than its own address. One instruction, aligned as all
// are, is written at once: whatever a thread runs is the one or the other, and
// none can be between. Writing as a debugger makes the kernel clean the caches.
var arm64 = &cpu{
	machine:        elf.EM_AARCH64,
	looksAtPointer: true,
	trampoline:     trampolineARM64,
	routines: map[trace.Mode][2]routine{
		trace.Entries:  {entryOnlyRoutine},
		trace.Exits:    {entryRoutine, exitRoutine},
		trace.Counts:   {countRoutine},
		trace.Chains:   {chainRoutine},
		trace.Filtered: {entryFilteredRoutine, exitFilteredRoutine},
		chainsOn:       {chainRoutine, exitCallerRoutine},
		leads:          {entryCallerRoutine, exitCallerRoutine},
		notices:        {noticeRoutine},
	},
	jumpSize: 4,
	jump: func(at, target uint64) []byte {
		return encoding.LittleEndian.AppendUint32(nil, branchARM64(arm64B, at, target))
	},
	reach:       1<<27 - islandSize - 1<<16,
	stub:        stubARM64,
	described:   describedARM64,
	breakpoint:  []byte{0x00, 0x00, 0x20, 0xd4}, // brk #0
	landing:     []byte{0x5f, 0x24, 0x03, 0xd5}, // bti c
	ret:         []byte{0xc0, 0x03, 0x5f, 0xd6},
	stacksFrom:  0xfe0000000000,
	threadBlock: -2048, // before the thread pointer
	calls:       callsARM64,

	keepsFramePointer: keepsFramePointerARM64,

	stackColumn: 31, returnColumn: 30, slot: 1,
}

// Instructions, as the Arm Architecture Reference Manual has them, section C6.2.
const (
	arm64B    = 0x14000000 // b   imm26, in instructions from here
	arm64BL   = 0x94000000 // bl  imm26
	arm64CBZ  = 0xb4000010 // cbz x16, imm19 << 5
	arm64Push = 0xa9bc7bf0 // stp x16, x30, [sp, #-64]!
	arm64Pop  = 0xa8c47bf0 // ldp x16, x30, [sp], #64
	arm64Drop = 0xf84407f0 // ldr x16, [sp], #64
	arm64Ret  = 0xd65f03c0
	arm64Brk  = 0xd4200000
)

const arm64IDAt = 44 // in a stub

// branchARM64 encodes a branch of the kind from at to target: within 128 MB.
func branchARM64(kind uint32, at, target uint64) uint32 {
	d := int64(target - at)
	if d%4 != 0 || d < -1<<27 || d >= 1<<27 {
		panic(fmt.Sprintf("%#x is out of the reach of a branch at %#x", target, at))
	}
	return kind | uint32(d/4)&(1<<26-1)
}

// stubARM64 encodes what is drawn in trampoline/arm64.S.
func stubARM64(s stubCode) []byte {
	var code []byte
	put := func(i uint32) { code = encoding.LittleEndian.AppendUint32(code, i) }
	branch := func(kind uint32, target uint64) { put(branchARM64(kind, s.at+uint64(len(code)), target)) }
	put(arm64Push)
	branch(arm64BL, s.entry)
	if s.exit == 0 {
		put(arm64Pop)
		if s.resume != 0 {
			branch(arm64B, s.resume)
		} else {
			put(arm64Ret) // the function was empty
		}
	} else {
		put(arm64CBZ | (36-8)/4<<5)
		put(arm64Drop)
		branch(arm64BL, s.resume)
		put(arm64Push)
		branch(arm64BL, s.exit)
		put(arm64Pop)
		put(arm64Ret)
		put(arm64Pop)
		branch(arm64B, s.resume)
	}
	for len(code) < arm64IDAt {
		put(arm64Brk)
	}
	put(s.id)
	return code
}

// describedARM64 encodes a row as trampoline/arm64.S has it. Compilers store registers
// near the CFA, below which are the variables, or near the stack pointer.
func describedARM64(row unwind.CompactRow) uint64 {
	fromBase := row.CFA + 8
	for _, from := range []struct {
		offset int32
		flag   uint64
	}{{0, 0}, {fromBase, 1 << 47}} {
		fp, ret := int64(row.FramePointer)+int64(from.offset), int64(row.Return)+int64(from.offset)
		if row.FramePointer == 0 {
			fp = 0
		} else if fp == 0 {
			continue // that is for one that is not stored
		}
		if words(fp, 15) && words(ret, 14) {
			return uint64(uint32(row.CFA)) | uint64(fp/8)&(1<<15-1)<<32 | from.flag | ruleDescribed | uint64(ret/8)<<50
		}
	}
	return ruleEnd
}

// words tells whether n bytes are words whose number has so many bits.
func words(n int64, bits int) bool {
	limit := int64(8) << (bits - 1)
	return n%8 == 0 && -limit <= n && n < limit
}
