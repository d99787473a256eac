package binary

import (
	"errors"

	"golang.org/x/arch/x86/x86asm"
)

// DecodeAMD64 decodes the first instruction of x86-64's 64-bit code. It knows better than x86asm how
// long an instruction with a VEX or EVEX prefix is, of which one may have no more than
// the length, and that endbr64 is one that does nothing.
func DecodeAMD64(code []byte) (x86asm.Inst, error) {
	if isEndbr(code) { // x86asm takes its first byte for an instruction
		return x86asm.Inst{Op: x86asm.NOP, Len: len(endbr64)}, nil
	}
	prefixed, length := lengthVEX(code)
	if !prefixed {
		i, err := x86asm.Decode(code, 64)
		if err == nil && i.Op == 0 { // of one that it does not know it returns the first prefix
			err = errPrefix
		}
		return i, err
	}
	if length == 0 {
		return x86asm.Inst{}, errVEX
	}
	i, err := x86asm.Decode(code[:length], 64)
	if err != nil || i.Len != length { // as of vzeroupper, which has no operands
		i = x86asm.Inst{Len: length}
	}
	if at := relativeVEX(code[:length]); at > 0 && i.PCRel == 0 {
		i.PCRel, i.PCRelOff = 4, at
	}
	return i, nil
}

var (
	errVEX    = errors.New("an instruction with a VEX prefix that is not known, or is cut")
	errPrefix = errors.New("a prefix of an instruction that is not known")
)

// beforeVEX returns where the prefix of an instruction is that may be VEX or EVEX.
func beforeVEX(code []byte) (at int) {
	for at < len(code) && (code[at] == 0x64 || code[at] == 0x65 || code[at] == 0x67) { // fs, gs, 32 bits
		at++
	}
	return at
}

// lengthVEX tells whether an instruction has a VEX or EVEX prefix, and how long it is then: 0
// if that is not known.
//
//	VEX    c5 RvvvvLpp                    opcode modrm [sib] [displacement] [immediate]     in map 1
//	       c4 RXBmmmmm WvvvvLpp           opcode ...
//	EVEX   62 RXBR0mmm Wvvvv1pp zLLbVaaa  opcode ...
func lengthVEX(code []byte) (prefixed bool, length int) {
	at := beforeVEX(code)
	if at == len(code) {
		return false, 0
	}
	table := byte(1)
	switch size := len(code) - at; code[at] {
	case 0xc5:
		at += 2
	case 0xc4:
		if size > 1 {
			table = code[at+1] & 0x1f
		}
		at += 3
	case 0x62:
		if size > 1 {
			table = code[at+1] & 7
		}
		at += 4
	default:
		return false, 0
	}
	if at >= len(code) {
		return true, 0
	}
	opcode := code[at]
	if at++; opcode == 0x77 && table == 1 { // vzeroupper, vzeroall
		return true, at
	}
	immediate := 0
	switch table {
	case 1:
		if opcode >= 0x70 && opcode <= 0x73 || opcode == 0xc2 || opcode >= 0xc4 && opcode <= 0xc6 {
			immediate = 1
		}
	case 3:
		immediate = 1
	case 2, 5, 6:
	default:
		return true, 0
	}
	operands := lengthOperands(code[at:])
	if length = at + operands + immediate; operands == 0 || length > len(code) {
		return true, 0
	}
	return true, length
}

// lengthOperands is that of modrm, sib and displacement, 0 if they are cut.
func lengthOperands(code []byte) int {
	const register, sib = 3, 4
	if len(code) < 2 {
		return len(code)
	}
	mode, base, length := code[0]>>6, code[0]&7, 1
	if mode == register {
		return length
	}
	if base == sib {
		base, length = code[1]&7, 2
	}
	switch {
	case mode == 1:
		length++
	case mode == 2, base == 5:
		length += 4
	}
	if length > len(code) {
		return 0
	}
	return length
}

// relativeVEX returns where in an instruction with a VEX or EVEX prefix there are 4 bytes
// which are relative to its end, or 0: x86asm does not tell.
func relativeVEX(code []byte) int {
	at := beforeVEX(code)
	switch code[at] { // to the byte that says what the operands are
	case 0xc5:
		at += 3
	case 0xc4:
		at += 4
	case 0x62:
		at += 5
	}
	if at+5 > len(code) || code[at]&0xc7 != 5 {
		return 0
	}
	return at + 1
}

const endbr64 = "\xf3\x0f\x1e\xfa"

func isEndbr(code []byte) bool {
	return len(code) >= len(endbr64) && string(code[:len(endbr64)]) == endbr64
}
