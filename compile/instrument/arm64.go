package instrument

import "bytes"

var arm64 = &cpu{
	name:     "arm64",
	pointer:  "31",
	frame:    0,
	none:     "R_AARCH64_NONE",
	slash:    true,
	align:    65536, // the largest page that kernels are built with
	branches: &[256]string{'b': "*"},
	landing:  arm64Landing,
	branch:   arm64Branch,
	count:    arm64Count,
	indirect: arm64Indirect,
	skipCall: arm64SkipCall,
	miss:     [5]string{Plain: arm64Miss, Atomic: arm64Miss},
}

// arm64Landing tells whether an instruction must stay the first: bti and the
// signing of the return address.
func arm64Landing(st statement) bool {
	switch string(st.word) {
	case "bti", "paciasp", "pacibsp", "nop":
		return true
	case "hint":
		switch string(bytes.TrimPrefix(st.operands, []byte("#"))) {
		case "25", "27", "32", "34", "36", "38":
			return true
		}
	}
	return false
}

func arm64Branch(st statement) branch {
	word := string(st.word)
	switch {
	case word == "bl":
		name := calledSymbol(st.operands)
		if name == nil || helper(name) {
			return branch{kind: otherCall}
		}
		return branch{directCall, name}
	case word == "b":
		return branch{directJump, calledSymbol(st.operands)}
	case word == "blr":
		return branch{indirectCall, st.operands}
	case word == "br":
		return branch{indirectJump, st.operands}
	case len(word) > 2 && word[:2] == "b.":
		return branch{conditionalJump, calledSymbol(st.operands)}
	case word == "blraa" || word == "blraaz" || word == "blrab" || word == "blrabz":
		return branch{kind: otherCall}
	}
	return branch{}
}

// arm64Count uses x16 and x17, which the linker may use between a call and its
// function too. (GCC assumes otherwise with -fipa-ra, see docs/instrument.md.)
func arm64Count(b []byte, k int, u ProfileUpdate, _ bool) []byte {
	if u == Atomic {
		return appendf(b, `	adrp	x16, .Lfc+%d
	add	x16, x16, :lo12:.Lfc+%d
	str	x15, [sp, -16]!
7711:	ldxr	x17, [x16]
	add	x17, x17, 1
	stxr	w15, x17, [x16]
	cbnz	w15, 7711b
	ldr	x15, [sp], 16
`, 8*k, 8*k)
	}
	return appendf(b, `	adrp	x16, .Lfc+%d
	ldr	x17, [x16, :lo12:.Lfc+%d]
	add	x17, x17, 1
	str	x17, [x16, :lo12:.Lfc+%d]
`, 8*k, 8*k, 8*k)
}

func arm64Indirect(b []byte, st statement, br branch, site int, l labels, u ProfileUpdate, _ bool) (code, after []byte, ok bool) {
	target := string(br.target)
	if target == "x16" || target == "x17" || target == "x30" {
		return b, nil, false
	}
	b = appendf(b, "\tadrp\tx16, .Lfc+%d\n\tadd\tx16, x16, :lo12:.Lfc+%d\n", 8*site, 8*site)
	if u == Plain {
		b = appendf(b, "\tldr\tx17, [x16]\n\tcmp\tx17, %s\n\tb.ne\t.Lfm%d\n", target, l.miss)
		b = append(b, "\tldr\tx17, [x16, 8]\n\tadd\tx17, x17, 1\n\tstr\tx17, [x16, 8]\n"...)
		after = appendf(nil, ".Lfm%d:\n\tmov\tx17, %s\n\tbl\t%s\n\tb\t.Lfs%d\n", l.miss, target, missName(u), l.site)
	} else {
		b = appendf(b, "\tmov\tx17, %s\n\tbl\t%s\n", target, missName(u))
	}
	b = appendf(b, ".Lfs%d:\n\tblr\t%s\n", l.site, target)
	return b, after, true
}

func arm64SkipCall(b []byte, st statement, label int) []byte {
	return appendf(b, "\t%s\t.Lfj%d\n", "b."+arm64Inverse[string(st.word[2:])], label)
}

var arm64Inverse = map[string]string{
	"eq": "ne", "ne": "eq", "cs": "cc", "hs": "lo", "cc": "cs", "lo": "hs", "mi": "pl", "pl": "mi", "vs": "vc", "vc": "vs",
	"hi": "ls", "ls": "hi", "ge": "lt", "lt": "ge", "gt": "le", "le": "gt",
}

// arm64Miss is given x16, the site, and x17, the target; it may change both, and
// x30, which the call that follows changes too. See amd64Miss.
const arm64Miss = `	stp	x0, x1, [sp, -32]!
	str	x2, [sp, 16]
	add	x2, x16, 64
1:	ldxr	x0, [x16]
	cmp	x0, x17
	b.eq	3f
	cbnz	x0, 2f
	stxr	w1, x17, [x16]
	cbnz	w1, 1b
	b	3f
2:	add	x16, x16, 16
	cmp	x16, x2
	b.ne	1b
	sub	x16, x16, 8
3:	add	x16, x16, 8
4:	ldxr	x0, [x16]
	add	x0, x0, 1
	stxr	w1, x0, [x16]
	cbnz	w1, 4b
	clrex
	ldr	x2, [sp, 16]
	ldp	x0, x1, [sp], 32
	ret
`
