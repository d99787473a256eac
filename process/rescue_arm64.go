//go:build linux

package process

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

var (
	callCode       = []byte("\x01\x00\x00\xd4")                 // svc #0
	callReturnCode = []byte("\x01\x00\x00\xd4\xc0\x03\x5f\xd6") // svc #0; ret
	restorerCode   = []byte("\x68\x11\x80\xd2\x01\x00\x00\xd4") // mov x8, #139; svc #0
)

// codeAlign is what addresses of instructions are multiples of.
const codeAlign = 4

// Offsets in struct rt_sigframe, from arch/arm64/kernel/signal.c and
// arch/arm64/include/uapi/asm/ucontext.h and sigcontext.h.
const (
	frameContext  = 128                // struct ucontext, after struct siginfo
	frameStack    = frameContext + 16  // uc_stack
	frameMask     = frameContext + 40  // uc_sigmask
	frameRegs     = frameContext + 176 // uc_mcontext: fault address, x0 to x30, sp, pc, pstate
	frameMore     = frameRegs + 288    // records of further registers, up to one of 0
	frameSize     = frameMore + 4096
	floatingMagic = 0x46508001 // u32, size u32, fpsr u32, fpcr u32, registers
	vectorMagic   = 0x53564501 // u32, size u32, length of a vector u16, flags u16, 4 bytes, registers
	extraMagic    = 0x45585401 // u32, size u32, where more records are u64, their size u32, 12 bytes
	extraSize     = 32
	keepStack     = 0x55 // no flags of an alternate stack: it stays as it is
)

// rescueCalms tells that a rescued thread gets its scheduling back, too.
const rescueCalms = false

// interrupted are the registers of a stopped thread: the number of its system call is among them.
func (*Process) interrupted(regs registers) (with registers, forgets bool) { return regs, false }

// rescueFrame returns what is to be written below an address, and where; nil if
// the kernel does not say enough. The thread returns into the restorer, with the
// stack pointer at the frame.
func rescueFrame(tid int, saved *registers, mask uint64, _ useful, below uint64, _ *unix.SchedAttr) (at uint64, frame []byte) {
	floating, err := registersOf(tid, setFloating, floatingSize)
	if err != nil || len(floating) < floatingSize-8 {
		return 0, nil
	}
	le := binary.LittleEndian
	b := make([]byte, frameMore, frameSize)
	le.PutUint64(b[frameMask:], mask)
	regs := b[frameRegs+8:]
	for i, v := range append(append([]uint64{}, saved.Regs[:]...), saved.Sp, saved.Pc, saved.Pstate) {
		le.PutUint64(regs[8*i:], v)
	}
	le.PutUint32(b[frameStack+8:], keepStack)

	b = le.AppendUint32(b, floatingMagic)
	b = le.AppendUint32(b, 16+32*16)
	b = append(b, floating[32*16:32*16+8]...)
	b = append(b, floating[:32*16]...)
	var vectors []byte
	state, err := registersOf(tid, setSVE, vectorsRoom)
	if err == nil && len(state) >= vectorsHead && le.Uint16(state[vectorsFlags:])&vectorsLive != 0 {
		if vectors = vectorRecord(state); vectors == nil {
			return 0, nil
		}
	}
	const end = 16 // of records
	if len(b)+len(vectors)+end <= frameSize {
		b = append(b, vectors...)
		b = append(b, make([]byte, frameSize-len(b))...)
		return (below - redZone - frameSize) &^ 15, b
	}
	// What does not fit follows, after a record that says where and an end.
	at = (below - redZone - uint64(len(b)+extraSize+end+len(vectors)+end)) &^ 15
	more := at + uint64(len(b)+extraSize+end)
	b = le.AppendUint32(b, extraMagic)
	b = le.AppendUint32(b, extraSize)
	b = le.AppendUint64(b, more)
	b = le.AppendUint32(b, uint32(len(vectors)+end))
	b = append(b, make([]byte, extraSize-20+end)...)
	b = append(b, vectors...)
	return at, append(b, make([]byte, end)...)
}

// vectorRecord makes a record of the registers of SVE; nil if the kernel has said
// less than it should.
func vectorRecord(state []byte) []byte {
	le := binary.LittleEndian
	length := int(le.Uint16(state[8:]))
	size := 32*length + 17*length/8 // vectors; predicates, and one more
	if vectorsHead+size > len(state) {
		return nil
	}
	padded := (16 + size + 15) &^ 15
	b := le.AppendUint32(nil, vectorMagic)
	b = le.AppendUint32(b, uint32(padded))
	b = le.AppendUint16(b, uint16(length))
	b = append(b, make([]byte, 6)...)
	b = append(b, state[vectorsHead:vectorsHead+size]...)
	return append(b, make([]byte, padded-len(b))...)
}
