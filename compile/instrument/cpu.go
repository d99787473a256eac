package instrument

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A cpu is what rewriting must know of an instruction set.
type cpu struct {
	name     string
	none     string       // relocation that changes nothing
	slash    bool         // comments begin with //
	align    int          // of the counters: they need pages of their own
	branches *[256]string // initials of branches and of prefixes, with the letters that may follow; * is any
	pointer  string       // number of the stack pointer in DWARF
	frame    int          // bytes from the stack pointer to a function's frame at its entry
	landing  func(statement) bool
	branch   func(statement) branch

	// count appends the increment of counter k. It changes flags only, and with scratch
	// r11 on amd64.
	count func(b []byte, k int, u ProfileUpdate, scratch bool) []byte

	// indirect appends an indirect call that counts its target at site, the
	// first of nine counters, and returns the statements that must follow the
	// function, if any. ok is false where the call has no room for counting.
	indirect func(b []byte, st statement, br branch, site int, l labels, u ProfileUpdate, scratch bool) (code, after []byte, ok bool)

	// shortJump is the first byte of a jump, of which the second one is the distance; 0: there is none.
	shortJump uint64

	// skipCall appends a conditional jump over the count and jump of a
	// conditional tail call.
	skipCall func(b []byte, st statement, label int) []byte

	// pushes means that increments push.
	pushes bool
	// more means that units have a table of further targets.
	more bool
	// threads means that threads can count apart.
	threads bool
	// alone means that a program with one thread can count without lock.
	alone bool
	// scratch means that increments use a register where that is free, and that
	// there are split ones.
	scratch bool
	// miss is the function that indirect calls use, by update mode but Split, which shares Plain's.
	miss [5]string
}

// cpus are the instruction sets that can be rewritten, by Go's names.
var cpus = map[string]*cpu{"amd64": amd64, "386": i386, "arm64": arm64}

// mayBranch tells whether the instruction of a line may be a branch, or have a
// prefix.
func (c *cpu) mayBranch(line []byte) bool {
	second := c.branches[line[1]]
	return second != "" && (second == "*" || strings.IndexByte(second, line[2]) >= 0)
}

// labels are numbers for the local labels of an indirect call: before the call
// itself, and of the code that follows the function.
type labels struct{ site, miss int }

// A branch is what an instruction does to the flow of control.
type branch struct {
	kind   branchKind
	target []byte // symbol of a direct one, operand of an indirect one
}

type branchKind uint8

const (
	noBranch   branchKind = iota
	directCall            // to a symbol
	directJump
	conditionalJump
	indirectCall
	indirectJump // a tail call, or a switch
	otherCall    // one that must stay as it is
)

// helpers are functions that compilers call behind the language's back, in ways
// that leave no room before the call: with registers or flags that live through
// it, or in a sequence that the linker replaces as a whole.
var helpers = map[string]bool{
	"__tls_get_addr": true, "___tls_get_addr": true, "__fentry__": true, "mcount": true, "_mcount": true,
	"__morestack": true, "__morestack_non_split": true,
}

func helper(name []byte) bool {
	return helpers[string(name)] || bytes.HasPrefix(name, []byte("__x86")) || bytes.HasPrefix(name, []byte("__llvm_retpoline")) ||
		bytes.HasPrefix(name, []byte("__aarch64_")) || bytes.HasPrefix(name, []byte("__footfall"))
}

// calledSymbol returns the symbol that a direct call names: foo, foo@PLT or
// "foo bar"; nil if it names none that could be a function.
func calledSymbol(operand []byte) []byte {
	name, n := symbol(operand)
	rest := operand[n:]
	if len(rest) > 0 && rest[0] == '@' {
		_, m := symbol(rest[1:])
		if rest = rest[1+m:]; len(rest) > 0 && rest[0] == '@' { // a version: foo@@V2
			_, m := symbol(rest[1:])
			rest = rest[1+m:]
		}
	}
	if n == 0 || len(trimLeft(rest)) > 0 || name[0] >= '0' && name[0] <= '9' {
		return nil
	}
	return name
}

// appendNumber appends text and a number: most of what is inserted is that.
func appendNumber(b []byte, text string, n int) []byte {
	return strconv.AppendInt(append(b, text...), int64(n), 10)
}

func appendf(b []byte, format string, args ...any) []byte { return fmt.Appendf(b, format, args...) }
