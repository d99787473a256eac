package demangle

import (
	"slices"
	"strings"
)

// mostCompared is how many instances of a template are looked at for what their names
// have in common. A header's template has thousands.
const mostCompared = 64

// shared is the name that all the symbols, one at least, have in common: template arguments in
// which they differ are "<...>". Where more differs it is the name of the first.
func shared(symbols []string, leaveOut form) string {
	name, _ := common(symbols, leaveOut)
	return name
}

// common also returns how many names there are: the copies of a constructor have one.
func common(symbols []string, leaveOut form) (name string, names int) {
	first := inForm(symbols[0], leaveOut)
	if len(symbols) == 1 {
		return first, 1
	}
	list := []string{first}
	for _, s := range symbols[1:min(len(symbols), mostCompared)] {
		if n := inForm(s, leaveOut); !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	names = len(list)
	if len(symbols) > mostCompared {
		names = len(symbols)
	}
	shared := templateArguments(first)
	for _, n := range list[1:] {
		parts := templateArguments(n)
		if len(parts) != len(shared) {
			return first, names
		}
		for i, part := range parts {
			switch {
			case part == shared[i]:
			case i%2 == 0:
				return first, names
			default:
				shared[i] = "<...>"
			}
		}
	}
	return strings.Join(shared, ""), names
}

// templateArguments cuts a name into what is outside of template arguments and these, by
// turns. Those within others are not cut off.
func templateArguments(name string) []string {
	var parts []string
	from, depth := 0, 0
	var parens []int // in which template arguments began: in there > compares
	paren := 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '(':
			paren++
		case c == ')':
			paren--
		case strings.HasPrefix(name[i:], "operator") && (i == 0 || !isIdentifier(name[i-1])):
			i += len("operator") - 1
			for i+1 < len(name) && strings.IndexByte("<>=-", name[i+1]) >= 0 {
				i++
			}
		case c == '<':
			if depth == 0 {
				parts = append(parts, name[from:i])
				from = i
			}
			depth++
			parens = append(parens, paren)
		case c == '>' && depth > 0 && parens[depth-1] == paren && name[i-1] != '-':
			depth--
			parens = parens[:depth]
			if depth == 0 {
				parts = append(parts, name[from:i+1])
				from = i + 1
			}
		}
	}
	return append(parts, name[from:])
}

func isIdentifier(c byte) bool {
	return isDigit(c) || c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
