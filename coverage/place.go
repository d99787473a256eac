package coverage

import (
	"slices"
	"strconv"
	"strings"
)

// This file tells functions of C++ apart that one macro makes at one place. All
// the positions in it are that of the macro, so that a function begins where it
// ends. Instances of a template at such a place are one function all the same: it
// is the names without template arguments that differ or not.

// atOnePlace tells whether f begins where it ends, which is only so in a macro.
func (f *Function) atOnePlace() bool {
	return f.StartColumn > 0 && f.StartLine == f.EndLine && f.StartColumn == f.EndColumn
}

// scopeNames returns the names that a mangled name (_Z...) is made of, without
// template arguments and parameters: "fmt.formatter.format". Of names with parts
// that it does not know it is "", as if it could not be told what they name.
func scopeNames(mangled string) string {
	s := scopeReader{rest: strings.TrimPrefix(mangled, "_Z")}
	s.name()
	if s.failed {
		return ""
	}
	return strings.Join(s.names, ".")
}

// A scopeReader reads the <name> of the Itanium C++ ABI,
// https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling-structure.
type scopeReader struct {
	rest   string
	names  []string
	failed bool
	ended  bool // there is no more to know
}

// byte is the next byte but n, 0 at the end.
func (s *scopeReader) byte(n int) byte {
	if n < len(s.rest) {
		return s.rest[n]
	}
	return 0
}

func (s *scopeReader) skip(n int) { s.rest = s.rest[min(n, len(s.rest)):] }

// take skips c if it is next.
func (s *scopeReader) take(c byte) bool {
	if s.byte(0) != c || c == 0 {
		return false
	}
	s.skip(1)
	return true
}

// through skips all up to c, and c.
func (s *scopeReader) through(c byte) {
	_, rest, found := strings.Cut(s.rest, string(c))
	s.rest, s.failed = rest, s.failed || !found && !s.ended
}

func (s *scopeReader) fail() { s.failed, s.rest = !s.ended, "" }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

// name reads a <name>.
func (s *scopeReader) name() {
	switch {
	case s.take('N'):
		for !s.take('E') && !s.failed && !s.ended {
			s.component()
		}
	case s.take('Z'):
		s.name()
		s.arguments() // of the function around, up to its E
		if s.take('d') {
			s.through('_')
		}
		s.name()
	default:
		internal := s.byte(0) == 'L'
		if internal {
			s.skip(1)
		}
		std := s.byte(0) == 'S'
		s.component()
		if std && s.byte(0) != 'I' { // St4swap
			s.component()
		}
	}
	if s.take('I') {
		s.arguments()
	}
}

// component reads a part of a nested name.
func (s *scopeReader) component() {
	switch c := s.byte(0); {
	case isDigit(c):
		s.names = append(s.names, s.source())
	case c == 'I':
		s.skip(1)
		s.arguments()
	case c == 'C' && isDigit(s.byte(1)), c == 'D' && isDigit(s.byte(1)): // constructors, destructors
		s.names = append(s.names, s.rest[:1])
		s.skip(2)
	case c == 'S':
		s.names = append(s.names, s.substitution())
	case c == 'U' && s.byte(1) == 'l', c == 'U' && s.byte(1) == 't':
		s.unnamed()
	case c == 'B': // an ABI tag
		s.skip(1)
		s.source()
	case c == 'K', c == 'V', c == 'R', c == 'O', c == 'L', c == 'M':
		s.skip(1)
	case c == 'c' && s.byte(1) == 'v': // to what, is not told, nor what follows
		s.names, s.ended, s.rest = append(s.names, "cv"), true, ""
	case isLower(c) && isLower(s.byte(1)) || isLower(c) && s.byte(1) >= 'A' && s.byte(1) <= 'Z': // an operator
		s.names = append(s.names, s.rest[:2])
		s.skip(2)
	default:
		s.fail()
	}
}

// source reads a <source-name>: its length, and the name.
func (s *scopeReader) source() string {
	digits := 0
	for isDigit(s.byte(digits)) {
		digits++
	}
	n, err := strconv.Atoi(s.rest[:digits])
	if err != nil || n <= 0 || n > len(s.rest)-digits {
		s.fail()
		return ""
	}
	name := s.rest[digits:][:n]
	s.skip(digits + n)
	return name
}

// substitution reads St, Sa, S_, S1A_.
func (s *scopeReader) substitution() string {
	all := s.rest
	if s.skip(1); isLower(s.byte(0)) {
		s.skip(1)
	} else {
		s.through('_')
	}
	return all[:len(all)-len(s.rest)]
}

// unnamed reads Ut_, Ul...E0_, which are told apart by their numbers.
func (s *scopeReader) unnamed() {
	lambda := s.byte(1) == 'l'
	if s.skip(2); lambda {
		s.arguments()
	}
	all := s.rest
	s.through('_')
	s.names = append(s.names, all[:len(all)-len(s.rest)])
}

// arguments skips what is up to the next E, and that: template arguments,
// parameters. They are told apart only as far as nested ones have to be skipped.
func (s *scopeReader) arguments() { s.throughE(false) }

func (s *scopeReader) expression() { s.throughE(true) }

// throughE skips what is up to the next E. In expressions calls and lists have an E
// of their own.
func (s *scopeReader) throughE(expression bool) {
	for !s.take('E') && !s.failed && !s.ended {
		switch c := s.byte(0); {
		case isDigit(c):
			s.source()
		case expression && slices.Contains([]string{"cl", "il", "tl", "nw", "na"}, s.rest[:min(2, len(s.rest))]):
			s.skip(2)
			s.expression()
		case c == 'X':
			s.skip(1)
			s.expression()
		case c == 'I', c == 'N', c == 'J', c == 'F':
			s.skip(1)
			s.arguments()
		case c == 'Z':
			s.skip(1)
			s.arguments()
			s.take('s')
		case c == 'L':
			s.literal()
		case c == 'S':
			s.substitution()
		case c == 'T', c == 'A', c == 'f' && (s.byte(1) == 'p' || s.byte(1) == 'L' && isDigit(s.byte(2))), c == 'D' && s.byte(1) == 'v':
			s.through('_')
		case c == 'D' && strings.IndexByte("tTO", s.byte(1)) >= 0:
			s.skip(2)
			s.expression()
		case c == 'D', c == 'C' && isDigit(s.byte(1)):
			s.skip(2)
		case c == 'U' && (s.byte(1) == 'l' || s.byte(1) == 't'):
			s.unnamed()
			s.names = s.names[:len(s.names)-1]
		case isLower(c), c == '_', strings.IndexByte("KVROPGCMUY", c) >= 0 && c != 0:
			s.skip(1)
		default:
			s.fail()
		}
	}
}

// literal reads L, a type, a value and E: Li5E, L5Color2E, L_Z3runvE.
func (s *scopeReader) literal() {
	s.skip(1)
	s.rest = strings.TrimLeft(s.rest, "PKRO")
	switch c := s.byte(0); {
	case c == '_' && s.byte(1) == 'Z':
		s.skip(2)
		s.arguments()
		return
	case isDigit(c):
		s.source()
	case c == 'N':
		s.skip(1)
		s.arguments()
	case c == 'S':
		s.substitution()
	case c == 'D':
		s.skip(2)
	case isLower(c):
		s.skip(1)
	default:
		s.fail()
	}
	s.through('E')
}
