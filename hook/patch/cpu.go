//go:build linux

package patch

import (
	"debug/elf"
	encoding "encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"slices"

	features "golang.org/x/sys/cpu"

	"footfall/binary"
	"footfall/binary/unwind"
	"footfall/process"
	"footfall/trace"
)

// A cpu is what differs between processors: the bytes. amd64.go and arm64.go
// have one each, and are compiled everywhere.
type cpu struct {
	machine    elf.Machine               // of programs
	trampoline []byte                    // the code that runs in the target
	routines   map[trace.Mode][2]routine // of the modes that there are; the second is 0 if exits are not seen

	jumpSize    int                            // of what is written at a site
	jump        func(at, target uint64) []byte // encodes that
	reach       int64                          // of jumps, from an island to its sites
	stub        func(stubCode) []byte          // encodes a stub, of stubSize bytes
	described   func(unwind.CompactRow) uint64 // encodes a row that is known, but for where the CFA is from; or ruleEnd
	breakpoint  []byte                         // an instruction
	landing     []byte                         // one where branches may lead, of no effect
	ret         []byte                         // one
	stacksFrom  uint64                         // the lowest address of stacks whose exits are seen
	threadBlock int64                          // where libc keeps what it knows of a thread, from the thread pointer on
	idPlaces    []uint64                       // where its id is in that of some libc

	looksAtPointer bool              // the trampoline can tell whether a thread has a thread pointer
	withPointer    func(code []byte) // changes it to what costs less, where all have one; nil: nothing does

	takesRings bool // threads take their rings from a queue; else each place has one

	keepsFramePointer, calls func(code []byte) bool // a function does

	// Of stubs, for unwinding: the numbers of the stack pointer and the return
	// address, and where the slot of that is, less the CFA.
	stackColumn, returnColumn byte
	slot                      int64
	describesAll              bool // there are rows for all of the code, see frameRow

	returnStub func(size uint64) []byte // encodes one of return stubs of that size; nil: there are none, but a shadow
}

// native is this machine's; one that has no modes if nobody wrote it.
var native = nativeCPU()

func nativeCPU() *cpu {
	if c := map[string]*cpu{"amd64": amd64, "arm64": arm64}[runtime.GOARCH]; c != nil {
		return c
	}
	return new(cpu)
}

// pageSize is that of memory. On arm64 there are systems with larger ones.
const pageSize = 4096

// Known returns an error where nobody has written the code for this machine's processor.
func Known() error {
	if len(native.routines) == 0 {
		return fmt.Errorf("functions of running programs are traced on x86-64 and arm64 only, this is %s: %w", runtime.GOARCH, ErrNotSupported)
	}
	return nil
}

// supports returns an error if what the options want is not there.
func (c *cpu) supports(p *process.Process, o *Options) error {
	switch {
	case len(c.routines) == 0:
		return fmt.Errorf("process %d: calls are recorded on x86-64 and arm64 only: %w", p.PID, ErrNotSupported)
	case os.Getpagesize() != pageSize:
		return fmt.Errorf("process %d: calls are recorded where memory has pages of %d bytes, not %d: %w", p.PID, pageSize, os.Getpagesize(), ErrNotSupported)
	}
	return nil
}

// version tells code of one footfall from that of another.
func (c *cpu) version() uint32 { return crc32.ChecksumIEEE(c.trampoline) + layout }

// layout is changed with that of islands.
const layout = 4

// What a trampoline has at its beginning.
const (
	shadowConstant = 0 // u64; of arm64
	returnsPlace   = 0 // u64: the return stubs to be used; of amd64
	threadIDPlace  = 8 // u64
	rangeCount     = 16
	rangesAt       = 24 // 8 pairs of u64: of stubs, or of return stubs
	maxIslands      = 8
	stacksAt       = rangesAt + 16*maxIslands // address and size u64; of arm64
	sveAt          = stacksAt + 16           // u64, not 0: there is SVE; of arm64
	routineTable   = 0x100                   // u32 each, in the order of routine

	returnsSizePlace = rangesAt + 16*maxIslands // u64: of returnsPlace
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
	entryCallerRoutine
	exitCallerRoutine
	noticeRoutine
	noticeEnd
	exitOnlyRoutine // amd64
	exitFilteredOnlyRoutine
)

// offset returns where in the trampoline a routine begins.
func (c *cpu) offset(r routine) uint64 {
	return uint64(encoding.LittleEndian.Uint32(c.trampoline[routineTable+4*r:]))
}

// code is the trampoline for a process with those islands; pointerless tells whether there
// may be threads without a thread pointer.
func (c *cpu) code(shadow, idPlace uint64, pointerless bool, stacks [2]uint64, islands []*island, returns []returnStubs) []byte {
	code := slices.Clone(c.trampoline)
	word := encoding.LittleEndian.PutUint64
	word(code[threadIDPlace:], idPlace)
	if c.returnStub != nil {
		c.putReturns(code, returns)
	} else {
		word(code[shadowConstant:], shadow)
		word(code[rangeCount:], uint64(len(islands)))
		for i, b := range islands {
			word(code[rangesAt+16*i:], b.addr+stubsAt)
			word(code[rangesAt+16*i+8:], uint64(b.room)*stubSize)
		}
		word(code[stacksAt:], stacks[0])
		word(code[stacksAt+8:], stacks[1])
	}
	if !pointerless && c.withPointer != nil {
		c.withPointer(code)
	}
	if features.ARM64.HasSVE {
		code[sveAt] = 1
	}
	return code
}

// A stubCode is what a stub is made of. Its trampoline/*.S has drawings.
type stubCode struct {
	at          uint64 // where it will be
	entry, exit uint64 // routines; exit is 0 if exits are not seen
	resume      uint64 // where the function goes on, behind the site; 0: it returns
	id          uint32
	description uint64 // of the arguments
	passes      bool   // the entry returns to either end of the stub, which are the same

	// Of an exit.
	leave        *binary.Exit
	site, target uint64 // where that is, and where it jumps to
}

const stubSize = 48

// stubAt encodes the stub for a mode, which goes to s.at and uses the trampoline
// at code.
func (c *cpu) stubAt(mode trace.Mode, code uint64, s stubCode) []byte {
	r := c.routines[mode]
	if mode == trace.Entries && s.description != 0 {
		r[0] = entryArgumentsRoutine
	}
	if mode == notices {
		s.resume = 0 // nothing is left of the function
	}
	s.entry = code + c.offset(r[0])
	switch mode {
	case entersFiltered, entersUnseen, chainsOnSites, leadsSites:
		s.passes = true
	}
	if r[1] != 0 {
		s.exit = code + c.offset(r[1])
	}
	return c.stub(s)
}

// unwindTable is .eh_frame for the stubs: how to go on from where a function
// returns into a stub, when an exception passes through.
//
//	CFA = stack pointer - 1   the unwinder tells frames apart by their CFA, and
//	                          the function that the stub called has the stack
//	                          pointer
//	stack pointer = CFA + 1
//	return address            at A + shadow, A = CFA + slot: on arm64 the stack
//	                          pointer is A when the function has returned
//
// Of amd64 there is more: see frameTable.
func (c *cpu) unwindTable(stubs, size, shadow uint64) []byte {
	word := encoding.LittleEndian.AppendUint64
	expression := word([]byte{unwind.DW_OP_const8u}, shadow+uint64(c.slot))
	expression = append(expression, unwind.DW_OP_plus) // the CFA is on the stack
	cie := []byte{
		0, 0, 0, 0, 1, // id 0, version 1
		0,                       // no augmentation: addresses are absolute
		1, 0x7f, c.returnColumn, // code alignment 1, data alignment -1
		unwind.DW_CFA_def_cfa_sf, c.stackColumn, 1, // + 1 * -1
		unwind.DW_CFA_val_offset_sf, c.stackColumn, 0x7f, // it is CFA + -1 * -1
	}
	cie = append(cie, unwind.DW_CFA_expression, c.returnColumn, byte(len(expression)))
	cie = append(cie, expression...)
	cie = pad(cie)
	b := encoding.LittleEndian.AppendUint32(nil, uint32(len(cie)))
	b = append(b, cie...)
	fde := encoding.LittleEndian.AppendUint32(nil, uint32(len(b)+4)) // back to the CIE
	fde = word(word(fde, stubs), size)
	fde = pad(fde)
	b = encoding.LittleEndian.AppendUint32(b, uint32(len(fde)))
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
