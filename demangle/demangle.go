// Package demangle makes names of C++, as people write them, of the symbols that
// compilers give to linkers: by the Itanium C++ ABI, which all compilers for
// Unix follow.
//
// GNU prints what gcov of a certain GCC prints, also where that is wrong; shown.go has
// the names that footfall shows anywhere else. Symbols of Rust are read by another module.
package demangle

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	other "github.com/ianlancetaylor/demangle"
)

// A form says what a name leaves out.
type form uint8

const (
	noParameters        form = 1 << iota // of the function itself, and what it returns
	noTemplateArguments                  // anywhere
	noClones                             // " [clone .part.0]", which noParameters leaves out too

	whole form = 0
)

// longestGNU is the longest symbol that GNU's demangler takes.
const longestGNU = 1024

// lenient stands for a GCC that reads what none does, oldLLVM for one that prints
// operands as LLVM did before 15.
const (
	lenient = 1000
	oldLLVM = 1001
)

// GNU returns the name that the C++ demangler of that GCC prints, with parameters
// and what a template returns; the symbol itself where it gives up. Releases
// before 9 are taken for 9.
func GNU(symbol string, gcc int) string {
	if legacyRust(symbol, gcc) || gcc >= 11 && strings.HasPrefix(symbol, "_R") {
		if name, ok := byOther(symbol); ok {
			return name
		}
		return symbol
	}
	if len(symbol) > longestGNU {
		return symbol
	}
	if name, ok := demangle(symbol, gcc, whole); ok {
		return name
	}
	return symbol
}

// inForm returns the name of a C++ or Rust symbol: as the newest GCC prints it, and
// where that gives up, as another demangler does. What is no such symbol is
// returned as it is.
func inForm(symbol string, leaveOut form) string {
	if !strings.HasPrefix(symbol, "_") {
		return symbol
	}
	if !legacyRust(symbol, lenient) {
		if name, ok := demangle(symbol, lenient, leaveOut); ok {
			return name
		}
	}
	var options []other.Option
	if leaveOut&noParameters != 0 {
		options = append(options, other.NoParams)
	}
	if leaveOut&noTemplateArguments != 0 {
		options = append(options, other.NoTemplateParams)
	}
	if leaveOut&noClones != 0 {
		options = append(options, other.NoClones)
	}
	name, ok := byOther(symbol, options...)
	if !ok {
		return symbol
	}
	return strings.ReplaceAll(name, ", >", ">") // an empty pack
}

// What the other module reads of a symbol, and prints, is limited: parts of it refer to
// parts before, so that a few hundred bytes can be a name of any length.
const (
	longestOther = 1 << 14
	mostPrinted  = 16 // as a power of two
)

// byOther returns the name of a symbol that the other module knows.
func byOther(symbol string, options ...other.Option) (name string, ok bool) {
	if len(symbol) > longestOther {
		return "", false
	}
	name, err := other.ToString(symbol, append(options, other.MaxLength(mostPrinted))...)
	return name, err == nil && len(name) < 1<<mostPrinted
}

// legacyRust tells whether a symbol is one that Rust made from C++'s grammar: its
// last part is a hash. What LLVM appends GCC understands since 12.
func legacyRust(symbol string, gcc int) bool {
	const hash = "17h0123456789abcdefE"
	i := strings.LastIndex(symbol, hash[:3])
	if i < 0 || len(symbol) < i+len(hash) || !strings.HasPrefix(symbol, "_ZN") {
		return false
	}
	for _, c := range []byte(symbol[i+3 : i+len(hash)-1]) {
		if !isDigit(c) && (c < 'a' || c > 'f') {
			return false
		}
	}
	rest := symbol[i+len(hash)-1:]
	return rest == "E" || gcc >= 12 && strings.HasPrefix(rest, "E.")
}

// A machine is a parser and a printer, whose memory is used again.
type machine struct {
	parser
	printer
}

var machines = sync.Pool{New: func() any { return new(machine) }}

func demangle(symbol string, gcc int, leaveOut form) (string, bool) {
	if !strings.HasPrefix(symbol, "_Z") && globals(symbol) == kName {
		return "", false
	}
	m := machines.Get().(*machine)
	defer machines.Put(m)
	n := m.parse(symbol, gcc)
	if n == nil {
		return "", false
	}
	if leaveOut&(noParameters|noClones) != 0 {
		for n.kind == kClone {
			n = n.left
		}
	}
	if leaveOut&noParameters != 0 && n.kind == kTyped {
		n = functionName(n.left)
	}
	w := &m.printer
	*w = printer{gcc: gcc, leaveOut: leaveOut, out: w.out[:0], path: w.path[:0], scopes: w.scopes[:0]}
	w.node(n)
	return string(w.out), !w.failed
}

// functionName is the name of a function without qualifiers of this.
func functionName(n *node) *node {
	for kindInfo[n.kind].flags&ofFunction != 0 {
		n = n.left
	}
	if n.kind == kLocal {
		local := *n
		if local.right.kind != kDefaultArg {
			local.right = functionName(local.right)
			return &local
		}
		arg := *local.right
		arg.left = functionName(arg.left)
		local.right = &arg
		return &local
	}
	return n
}

// parse reads a symbol.
func (p *parser) parse(symbol string, gcc int) *node {
	again := parser{s: symbol, gcc: gcc, subs: p.subs[:0], nodes: p.nodes}
	*p = again
	if gcc >= 11 {
		p.qualifiers = 1
	}
	n := p.symbol()
	if n == nil && p.qualifiers < 0 {
		again.nodes = p.nodes
		*p = again
		n = p.symbol()
	}
	return n
}

// LLVM returns the name that LLVM's demangler of that release prints, as near as
// it is known: docs/gcov.md says what differs.
func LLVM(symbol string, release int) string {
	if !strings.HasPrefix(symbol, "_Z") || strings.HasPrefix(symbol, "_ZGT") {
		return symbol
	}
	symbol, suffix, cut := strings.Cut(symbol, ".")
	name, ok := byOther(symbol, other.LLVMStyle)
	if !ok {
		name = symbol
	} else if unresolvedByName(symbol) {
		// The other demangler counts the substitutions behind it wrong.
		likeGCC := 12 // !std::is_same_v<A, B>, which GCC 13 puts in parentheses
		if release < 15 {
			likeGCC = oldLLVM // !(std::is_same<A, B>::value)
		}
		if gnu, ok := demangle(symbol, likeGCC, whole); ok {
			name = parameters().ReplaceAllStringFunc(strings.ReplaceAll(gnu, "decltype (", "decltype("), parameterOfLLVM)
		}
	}
	name = brackets.Replace(brackets.Replace(name))
	if release < 15 {
		name = spaced(name)
	}
	switch {
	case !cut:
	case !ok:
		name += "." + suffix
	default:
		name += " (." + suffix + ")"
	}
	return name
}

// parameters are those of a function in its own type. GCC numbers them from 1; to LLVM
// they are fp, fp0, fp1.
var parameters = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{parm#\d+\}`) })

func parameterOfLLVM(gnu string) string {
	n, err := strconv.Atoi(gnu[len("{parm#") : len(gnu)-1])
	switch {
	case err != nil:
		return gnu
	case n == 1:
		return "fp"
	}
	return "fp" + strconv.Itoa(n-2)
}

// brackets closes those of template arguments as LLVM does, without what an empty
// pack leaves; twice, as three are.
var brackets = strings.NewReplacer(", >", ">", "> >", ">>", "operator<< <", "operator<<<", "operator< <", "operator<<")

// spaced puts a space between two angle brackets that close.
func spaced(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if before := name[:i]; name[i] == '>' && strings.HasSuffix(before, ">") &&
			!strings.HasSuffix(before, "operator>") && !strings.HasSuffix(before, "->") && !strings.HasSuffix(before, " >") {
			b.WriteByte(' ')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

// unresolvedByName tells whether there is an sr before a name in a symbol.
func unresolvedByName(symbol string) bool {
	for i := 0; i+2 < len(symbol); i++ {
		if symbol[i] == 's' && symbol[i+1] == 'r' && isDigit(symbol[i+2]) {
			return true
		}
	}
	return false
}
