package instrument

import "bytes"

// What amd64 and 386 share.

var x86Branches = [256]string{
	'c': "as", 'j': "*", // call, cs
	// Prefixes: notrack, bnd, rep, rex, lock, data16, ds, es.
	'n': "o", 'b': "n", 'r': "e", 'l': "o", 'd': "as", 'e': "s",
}

// x86Landing tells whether an instruction must stay the first of its function:
// the landing pad of indirect calls, or room for patching.
func x86Landing(st statement) bool {
	switch string(st.word) {
	case "endbr64", "endbr32", "nop", "nopl", "nopw":
		return true
	}
	return false
}

func x86Branch(st statement) branch {
	word := string(st.word)
	switch word {
	case "call", "callq", "calll":
	case "jmp", "jmpq", "jmpl":
	default:
		if len(word) < 2 || word[0] != 'j' || x86Inverse[word] == "" {
			return branch{}
		}
		return branch{conditionalJump, calledSymbol(st.operands)}
	}
	jump := word[0] == 'j'
	if len(st.operands) > 0 && st.operands[0] == '*' {
		return x86Indirect(jump, trimLeft(st.operands[1:]))
	}
	return direct(jump, calledSymbol(st.operands))
}

// direct is what leads to a function of that name, or to none that is known.
func direct(jump bool, name []byte) branch {
	switch {
	case jump:
		return branch{directJump, name}
	case name == nil || helper(name):
		return branch{kind: otherCall}
	}
	return branch{directCall, name}
}

func x86Indirect(jump bool, operand []byte) branch {
	name, n := symbol(operand)
	rest := bytes.ToUpper(operand[n:])
	switch {
	case bytes.Contains(rest, []byte("@TLSCALL")):
		return branch{kind: otherCall} // keeps registers that others do not
	case n > 0 && (bytes.HasPrefix(rest, []byte("@GOTPCREL(%RIP)")) || bytes.HasPrefix(rest, []byte("@GOT("))):
		// -fno-plt: through the linker's table, but to one known function.
		return direct(jump, name)
	case jump:
		return branch{indirectJump, operand}
	}
	return branch{indirectCall, operand}
}

// x86Inverse has the opposite of each conditional jump.
var x86Inverse = func() map[string]string {
	m := make(map[string]string)
	for _, pair := range [][2]string{
		{"o", "no"}, {"b", "ae"}, {"c", "nc"}, {"nae", "nb"}, {"e", "ne"}, {"z", "nz"}, {"be", "a"}, {"na", "nbe"},
		{"s", "ns"}, {"p", "np"}, {"pe", "po"}, {"l", "ge"}, {"nge", "nl"}, {"le", "g"}, {"ng", "nle"},
	} {
		m["j"+pair[0]], m["j"+pair[1]] = "j"+pair[1], "j"+pair[0]
	}
	return m
}()

func x86SkipCall(b []byte, st statement, label int) []byte {
	return appendf(b, "\t%s\t.Lfj%d\n", x86Inverse[string(st.word)], label)
}
