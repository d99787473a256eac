package tracefiles

import (
	"strings"

	"footfall/demangle"
)

// PlainName returns what the name of a function is in the source: without
// parameters and the type that it returns, which some tools write and others do
// not. The linker's name of C++ or Rust is read; any other is cut.
func PlainName(name string) string {
	if plain := demangle.Short(name); plain != name {
		return plain
	}
	if end := strings.LastIndexByte(name, ')'); end >= 0 {
		if start := demangle.Opening(name[:end+1]); start > 0 {
			name = name[:start]
		}
	}
	return withoutType(name)
}

// withoutType cuts what stands before the last space that is in no brackets, but
// for names with spaces: of operators.
func withoutType(name string) string {
	search := name
	if i := strings.Index(name, "operator"); i >= 0 {
		search = name[:i]
	}
	depth := 0
	for i := len(search) - 1; i >= 0; i-- {
		switch search[i] {
		case '>', ')', ']', '}':
			depth++
		case '<', '(', '[', '{':
			depth--
		case ' ':
			if depth == 0 {
				return name[i+1:]
			}
		}
	}
	return name
}
