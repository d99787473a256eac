//go:build linux

package uprobe

import (
	"encoding/binary"
	"fmt"
	"footfall/trace"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Limits of arguments.
const (
	MaxArgument  = 15 // the last Index
	maxArguments = 8  // of a function
)

// stringSize is how many bytes of a string are kept.
const stringSize = 48

// In the record they follow the event (program.go):
//
//	integer    word u64
//	string     pointer u64, what came of reading i64: bytes with the 0 at the end,
//	           or an error; then the bytes [56]
const (
	resultAt = 8
	textAt   = 16
	textSize = stringSize + 8
	readSize = stringSize + 2 // a string that is longer shows in the result
)

// argumentRegisters are where struct pt_regs of x86-64 has rdi, rsi, rdx, rcx, r8, r9.
var argumentRegisters = []int16{112, 104, 96, 88, 72, 64}

// sizeOf is how many bytes of an event an argument takes. It is read at the entry, where the
// calling convention of System V has it.
func sizeOf(a trace.Capture) int {
	if a.Kind == trace.CaptureString {
		return textAt + textSize
	}
	return 8
}

// entryProgram returns the program for functions with these arguments, which it
// loads if it is the first of them.
func (s *ProbeSet) entryProgram(arguments []trace.Capture) (*ebpf.Program, error) {
	if len(arguments) == 0 {
		return s.entry, nil
	}
	if len(arguments) > maxArguments || s.options.Mode == trace.Counts || s.options.Mode == trace.Chains {
		return nil, fmt.Errorf("%d arguments: of an event there can be %d", len(arguments), maxArguments)
	}
	key := fmt.Sprint(arguments)
	if p := s.entries[key]; p != nil {
		return p, nil
	}
	for _, a := range arguments {
		if a.Index < 0 || a.Index > MaxArgument {
			return nil, fmt.Errorf("argument %d: there can be %d", a.Index+1, MaxArgument+1)
		}
	}
	p, err := s.loadEntry(arguments)
	if err == nil {
		s.entries[key] = p
	}
	return p, err
}

// recordSize is the size of an event with its arguments.
func recordSize(arguments []trace.Capture) int {
	size := eventSize
	for _, a := range arguments {
		size += sizeOf(a)
	}
	return size
}

// maxRecord is the size of the largest event.
const maxRecord = eventSize + maxArguments*(textAt+textSize)

// readArguments reads arguments to where they belong behind the event R7. R6 has the
// registers of the thread; R8 changes.
func readArguments(arguments []trace.Capture) (code asm.Instructions) {
	at := int16(eventSize)
	for _, a := range arguments {
		if a.Index < len(argumentRegisters) {
			code = append(code,
				asm.LoadMem(asm.R8, asm.R6, argumentRegisters[a.Index], asm.DWord),
				asm.StoreMem(asm.R7, at, asm.R8, asm.DWord))
		} else { // above the return address; what cannot be read becomes 0
			code = append(code,
				asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Imm(asm.R1, int32(at)),
				asm.Mov.Imm(asm.R2, 8),
				asm.LoadMem(asm.R3, asm.R6, regsRSP, asm.DWord), asm.Add.Imm(asm.R3, int32(8+8*(a.Index-len(argumentRegisters)))),
				asm.FnProbeReadUser.Call(),
				asm.LoadMem(asm.R8, asm.R7, at, asm.DWord))
		}
		if a.Kind == trace.CaptureString {
			code = append(code,
				asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Imm(asm.R1, int32(at+textAt)),
				asm.Mov.Imm(asm.R2, readSize),
				asm.Mov.Reg(asm.R3, asm.R8),
				asm.FnProbeReadUserStr.Call(),
				asm.StoreMem(asm.R7, at+resultAt, asm.R0, asm.DWord))
		}
		at += int16(sizeOf(a))
	}
	return code
}

// Of the word with the length of a string, as package trace has it: there is more of
// it, and there is no memory.
const (
	stringCut = 1 << 32
	stringBad = 1 << 33
)

// argumentWords makes words of the arguments in a record: of a string the pointer, a
// word with the length, and as many words as it takes.
func argumentWords(b []byte, arguments []trace.Capture) []uint64 {
	var words []uint64
	for _, a := range arguments {
		if len(b) < sizeOf(a) {
			break
		}
		words = append(words, binary.NativeEndian.Uint64(b))
		if a.Kind == trace.CaptureString {
			words = append(words, stringWords(int64(binary.NativeEndian.Uint64(b[resultAt:])), b[textAt:textAt+textSize])...)
		}
		b = b[sizeOf(a):]
	}
	return words
}

func stringWords(result int64, text []byte) []uint64 {
	if result <= 0 {
		return []uint64{stringBad}
	}
	status := uint64(result - 1) // without the 0
	if status > stringSize {
		status = stringSize | stringCut
	}
	n := int(status & (stringCut - 1))
	words := []uint64{status}
	for padded := append(text[:n:n], strings.Repeat("\x00", 7)...); len(words) <= (n+7)/8; padded = padded[8:] {
		words = append(words, binary.LittleEndian.Uint64(padded))
	}
	return words
}
