// Package demangle makes C++ names of the symbols that the linker knows.
package demangle

import (
	"strings"
	"sync"
)

// mostGNU is the longest symbol that GNU's demangler takes.
const mostGNU = 1024

// lenient stands for a GCC that reads what none does.
const lenient = 1000

var parsers = sync.Pool{New: func() any { return &parser{nodes: make([]node, 256)} }}

// GNU is the name as libiberty of that GCC prints it, with parameters and what
// a template returns. It is the symbol itself where that gives up.
func GNU(symbol string, gcc int) string {
	if !strings.HasPrefix(symbol, "_Z") && globals(symbol) == kName || len(symbol) > mostGNU {
		return symbol
	}
	p := parsers.Get().(*parser)
	defer parsers.Put(p)
	for qualifiers := int8(1); qualifiers >= 0; qualifiers-- {
		*p = parser{s: symbol, gcc: gcc, qualifiers: qualifiers, subs: p.subs[:0], nodes: p.nodes}
		if gcc < 11 {
			p.qualifiers = 0
		}
		if n := p.symbol(); n != nil {
			w := printer{gcc: gcc}
			w.node(n)
			if w.failed {
				return symbol
			}
			return string(w.out)
		}
		if p.qualifiers >= 0 {
			break
		}
	}
	return symbol
}
