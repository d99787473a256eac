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
		if newer := lengthNewer(code); err != nil && newer.Len > 0 {
			return newer, nil
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
	if len(code) == 0 {
		return 0
	}
	mode, base, length := code[0]>>6, code[0]&7, 1
	if mode == register {
		return length
	}
	if base == sib {
		if len(code) < 2 {
			return 0
		}
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

// lengthNewer knows how long some instructions are that x86asm does not know, of which there is
// no more than that; one of no length is not known:
//
//	[66 f2 f3] [rex] 0f 38 opcode modrm ...            adcx, adox, sha, gfni, movdir
//	[66 f2 f3] [rex] 0f 3a opcode modrm ... immediate  gf2p8affine, sha1rnds4
//	[66 f2 f3] [rex] 0f c7 modrm ...                   rdseed, rdpid, xsaves, xrstors
//	[66 f2 f3] 0f 01 modrm of registers                rdpkru, wrpkru, monitorx, clzero
//	XOP 8f RXBmmmmm Wvvvvlpp opcode modrm ...          vprot and others of AMD's; map 8 has an immediate of 1 byte, 10 one of 4
func lengthNewer(code []byte) (i x86asm.Inst) {
	at := 0
	for at < len(code) && (code[at] == 0x66 || code[at] == 0xf2 || code[at] == 0xf3) {
		at++
	}
	if at < len(code) && code[at]&0xf0 == 0x40 {
		at++
	}
	if len(code)-at < 3 || at > 5 {
		return i
	}
	immediate := 0
	switch c := code[at:]; {
	case c[0] == 0x0f && c[1] == 0x38:
		at += 3
	case c[0] == 0x0f && c[1] == 0x3a:
		at, immediate = at+3, 1
	case c[0] == 0x0f && c[1] == 0xc7, c[0] == 0x0f && c[1] == 0x01 && c[2] >= 0xc0:
		at += 2
	case len(c) > 3 && c[0] == 0x8f && at == 0 && c[1]&0x1f >= 8 && c[1]&0x1f <= 10:
		at, immediate = 4, [...]int{1, 0, 4}[c[1]&0x1f-8]
	default:
		return i
	}
	operands := lengthOperands(code[at:])
	if length := at + operands + immediate; operands > 0 && length <= len(code) && length <= maxInstruction {
		i.Len = length
		if code[at]&0xc7 == 5 {
			i.PCRel, i.PCRelOff = 4, at+1
		}
	}
	return i
}

// maxInstruction is how long an instruction is at most.
const maxInstruction = 15

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
