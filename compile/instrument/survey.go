package instrument

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A survey is the first pass: what the file defines, and for which CPU.
type survey struct {
	cpu       string
	unit      string              // the source's name
	functions map[string]bool     // symbols of type function
	global    map[string]bool     // symbols that other files see
	weak      map[string]bool     // those that another file may replace
	plain     map[string]bool     // labels in the file that are not functions
	chosen    map[string]bool     // indirect functions, which are chosen when the program starts
	ended     map[string]bool     // functions with the label that Clang puts behind each of its own
	clang     bool                // Clang made the file
	comments  bool                // and wrote comments
	alias     map[string]string   // names set to another
	aliases   map[string][]string // the names of a function besides its label
	files     map[string]string   // sources, by their numbers in .loc
	dotted    bool                // some name of a function begins with a dot
}

func newSurvey() *survey {
	return &survey{
		functions: make(map[string]bool), global: make(map[string]bool), weak: make(map[string]bool), plain: make(map[string]bool),
		chosen: make(map[string]bool), ended: make(map[string]bool), files: make(map[string]string), alias: make(map[string]string), aliases: make(map[string][]string),
	}
}

// look is the survey of src. Its error says why src cannot be rewritten.
func look(src []byte, name string) (*survey, error) {
	s := newSurvey()
	if name == "" {
		name = guessCPU(src)
	}
	c := cpus[name]
	if c == nil {
		return s, fmt.Errorf("%q is no CPU whose assembly can be rewritten: amd64, 386 and arm64 are", name)
	}
	s.cpu = name
	compiled := looksCompiled(src)
	s.clang = bytes.HasPrefix(src, []byte("\t.text"))
	asm := false
	for r := (reader{src: src}); r.next(); {
		if r.kind() != anyLine || inlineAssembly(r.line(), &asm) || asm {
			continue
		}
		sc := scanner{rest: r.line(), slash: c.slash}
		for st, ok := sc.next(); ok; st, ok = sc.next() {
			if err := s.see(st, &compiled); err != nil {
				return s, err
			}
		}
	}
	if !compiled {
		return s, ErrForeign
	}
	s.comments = bytes.Contains(src, []byte("-- Begin function ")) || bytes.Contains(src, []byte("TAILCALL"))
	for name := range s.alias {
		f := s.canonical(name)
		if f == name || !s.functions[f] {
			continue
		}
		s.dotted = s.dotted || strings.HasPrefix(name, ".")
		if !strings.HasPrefix(name, ".L") {
			s.aliases[f] = append(s.aliases[f], name)
		}
	}
	for _, names := range s.aliases {
		slices.Sort(names)
	}
	return s, nil
}

func (s *survey) see(st statement, compiled *bool) error {
	if st.label != nil {
		if !bytes.HasPrefix(st.label, []byte(".L")) {
			s.plain[string(st.label)] = true
		}
		return nil
	}
	if len(st.operands) > 0 && st.operands[0] == '=' {
		s.assign(st.word, trimLeft(st.operands[1:]))
		return nil
	}
	switch string(st.word) {
	case ".type":
		switch name, kind := symbolAnd(st.operands); string(kind) {
		case "function":
			s.functions[string(name)] = true
			s.dotted = s.dotted || len(name) > 0 && name[0] == '.'
		case "gnu_indirect_function":
			s.chosen[string(name)] = true
		}
	case ".globl", ".global", ".weak":
		for _, arg := range arguments(st.operands) {
			name, _ := symbol(arg)
			s.global[string(name)] = true
			s.weak[string(name)] = s.weak[string(name)] || string(st.word) == ".weak"
		}
	case ".set", ".equ", ".weakref":
		if args := arguments(st.operands); len(args) == 2 {
			name, _ := symbol(args[0])
			s.assign(name, args[1])
		}
	case ".file":
		if name := arguments(st.operands)[0]; s.unit == "" && len(name) > 2 && name[0] == '"' {
			s.unit = string(name[1 : len(name)-1])
		} else if number, names, ok := bytes.Cut(st.operands, []byte(" ")); ok {
			s.files[string(number)] = sourceName(names)
		}
	case ".size":
		if args := arguments(st.operands); len(args) == 2 && (bytes.HasPrefix(args[1], []byte(".Lfunc_end")) || bytes.HasPrefix(args[1], []byte(".LBB_END"))) {
			name, _ := symbol(args[0])
			s.ended[string(name)], s.clang = true, true
		}
	case ".ident":
		clang := bytes.Contains(st.operands, []byte("clang version"))
		s.clang = s.clang || clang
		*compiled = *compiled || clang || bytes.Contains(st.operands, []byte("GCC: "))
	case ".intel_syntax":
		return fmt.Errorf("assembly in Intel's syntax cannot be rewritten; compile without -masm=intel")
	case ".section":
		if bytes.HasPrefix(st.operands, []byte(tableSection)) {
			return ErrInstrumented
		}
		s.clang = s.clang || bytes.HasPrefix(st.operands, []byte(`".note.GNU-stack"`)) // GCC does without quotes
	}
	return nil
}

// foreign tells whether a function may be assembly that stands in the source outside of
// functions. GCC puts #APP before that, always, Clang a comment if it writes comments. But the
// end of its own functions Clang marks by a label:
//
//	.Lfunc_end0:
//		.size	f, .Lfunc_end0-f
func (s *survey) foreign(name string) bool { return s.clang && !s.ended[name] }

// sourceName returns the path that .file gives a source, behind its number: "name",
// or "directory" "name", and more.
func sourceName(operands []byte) string {
	var names []string
	for rest := string(operands); len(names) < 2; {
		rest = strings.TrimLeft(rest, " \t")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		rest = rest[len(quoted):]
		names = append(names, strings.Trim(quoted, `"`))
	}
	return path.Join(names...)
}

// sourceOf returns the source of the function whose label is at the beginning of code,
// by its debug information; "" if there is none.
func (s *survey) sourceOf(code []byte) string {
	for line := range bytes.Lines(code) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch string(fields[0]) {
		case ".loc":
			return s.files[string(fields[1])]
		case ".size", ".cfi_endproc":
			return ""
		}
	}
	return ""
}

// symbolAnd splits the operands of .type: NAME, @function. The kind may also be
// written %function, "function" or STT_FUNC, with or without a comma.
func symbolAnd(operands []byte) (name, kind []byte) {
	name, n := symbol(operands)
	kind = bytes.Trim(operands[n:], " \t,@%\"")
	if string(kind) == "STT_FUNC" {
		kind = []byte("function")
	}
	return name, kind
}

// assign notes that name is another name of the symbol in value.
func (s *survey) assign(name, value []byte) {
	target, n := symbol(value)
	if n > 0 && n == len(trimRight(value)) && (target[0] < '0' || target[0] > '9') {
		s.alias[string(name)] = string(target)
	}
}

// canonical returns the label that a name stands for.
func (s *survey) canonical(name string) string {
	for range 8 { // however they are chained
		to, ok := s.alias[name]
		if !ok || s.chosen[name] {
			return name
		}
		name = to
	}
	return name
}

// looksCompiled tells whether src begins as compilers begin. Assembly by hand
// that went through the preprocessor begins with a line marker.
func looksCompiled(src []byte) bool {
	for range 3 {
		line, after, _ := bytes.Cut(src, []byte("\n"))
		src = after
		switch {
		case bytes.HasPrefix(line, []byte("\t.file\t\"")):
			return true
		case bytes.HasPrefix(line, []byte("\t.text")), bytes.HasPrefix(line, []byte("\t.arch ")):
		default:
			return false
		}
	}
	return false
}

// guessCPU looks at the registers and directives that src uses.
func guessCPU(src []byte) string {
	for rest := src; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		rest = after
		s := scanner{rest: line}
		st, ok := s.next()
		for ok && st.label != nil {
			st, ok = s.next()
		}
		switch word := string(st.word); {
		case !ok:
		case word == "endbr64" || word == "retq" || word == "callq" || word == "pushq":
			return "amd64"
		case word == "endbr32" || word == "retl" || word == "calll" || word == "pushl":
			return "386"
		case word == ".arch" && bytes.HasPrefix(st.operands, []byte("armv")), word == "adrp" || word == "stp" || word == "bl":
			return "arm64"
		case bytes.HasPrefix(st.word, []byte(".")):
		case bytes.Contains(st.operands, []byte("%r")):
			return "amd64"
		case bytes.Contains(st.operands, []byte("(%e")):
			return "386"
		case bytes.Contains(st.operands, []byte("w0")) || bytes.Contains(st.operands, []byte("x0")):
			return "arm64"
		}
	}
	return "amd64"
}
