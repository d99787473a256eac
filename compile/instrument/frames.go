package instrument

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// frameRules are the rules by which unwinders find a function's caller at some
// place, as directives tell them (.cfi_..., see the assembler's manual). Code that is put behind a
// function has the rules of the place that it belongs to, not of the one before it.
type frameRules struct {
	proc  int // where the function's directives begin in the source; 0: there are none
	known bool
	cfa   string            // the operands of .cfi_def_cfa
	saved map[string]string // directive and operands by register

	pointer string // number of the stack pointer
}

// A frameReader follows the rules through the source.
type frameReader struct {
	src   []byte
	cpu   *cpu
	at    int // read so far
	rules frameRules
	saved []frameRules // by .cfi_remember_state
}

// to returns the rules at an offset, which must not be before an earlier one.
func (r *frameReader) to(at int) frameRules {
	if begin := bytes.LastIndex(r.src[r.at:max(r.at, at)], []byte(".cfi_startproc")); begin > 0 {
		r.at += begin
	}
	for r.at < at {
		n := bytes.Index(r.src[r.at:at], []byte(".cfi_"))
		if n < 0 {
			r.at = at
			break
		}
		begin := r.at + n
		line, _, _ := bytes.Cut(r.src[begin:at], []byte("\n"))
		r.at = begin + len(".cfi_")
		before := trimRight(r.src[:begin])
		if len(before) == 0 || before[len(before)-1] == '\n' || before[len(before)-1] == ';' {
			s := scanner{rest: line}
			if st, ok := s.next(); ok {
				r.directive(string(st.word), string(st.operands), begin)
			}
		}
	}
	rules := r.rules
	rules.saved = maps.Clone(rules.saved)
	return rules
}

func (r *frameReader) directive(word, operands string, at int) {
	rules := &r.rules
	register, rest, _ := strings.Cut(operands, ",")
	switch word {
	case ".cfi_startproc":
		cfa := fmt.Sprintf("%s, %d", r.cpu.pointer, r.cpu.frame)
		*rules = frameRules{proc: at, known: operands == "", cfa: cfa, saved: make(map[string]string), pointer: r.cpu.pointer}
		r.saved = r.saved[:0]
	case ".cfi_endproc":
		*rules = frameRules{}
	case ".cfi_def_cfa":
		rules.cfa = register + ", " + strings.TrimSpace(rest)
	case ".cfi_def_cfa_offset":
		register, _, _ := strings.Cut(rules.cfa, ",")
		rules.cfa = register + ", " + operands
	case ".cfi_def_cfa_register":
		_, offset, _ := strings.Cut(rules.cfa, ", ")
		rules.cfa = operands + ", " + offset
	case ".cfi_adjust_cfa_offset":
		register, offset, _ := strings.Cut(rules.cfa, ", ")
		is, err := strconv.Atoi(offset)
		by, err2 := strconv.Atoi(operands)
		rules.cfa, rules.known = register+", "+strconv.Itoa(is+by), rules.known && err == nil && err2 == nil
	case ".cfi_offset":
		rules.save(register, word+"\t"+operands)
	case ".cfi_restore":
		delete(rules.saved, operands)
	case ".cfi_remember_state":
		r.saved = append(r.saved, *rules)
		rules.saved = maps.Clone(rules.saved)
	case ".cfi_restore_state":
		if n := len(r.saved); n > 0 {
			*rules, r.saved = r.saved[n-1], r.saved[:n-1]
		}
	case ".cfi_personality", ".cfi_lsda", ".cfi_signal_frame", ".cfi_sections":
	case ".cfi_escape":
		// DW_CFA_GNU_args_size, for exceptions only
		rules.known = rules.known && strings.HasPrefix(operands, "0x2e")
	default:
		rules.known = false
	}
}

func (f *frameRules) save(register, directive string) {
	if f.saved == nil { // outside of a function
		f.saved = make(map[string]string)
	}
	f.saved[register] = directive
}

// change appends the directives that make other rules hold.
func (f *frameRules) change(b []byte, to *frameRules) []byte {
	if f.cfa != to.cfa {
		b = appendf(b, "\t.cfi_def_cfa\t%s\n", to.cfa)
	}
	for _, register := range slices.Sorted(maps.Keys(f.saved)) {
		if to.saved[register] == "" {
			b = appendf(b, "\t.cfi_restore\t%s\n", register)
		}
	}
	for _, register := range slices.Sorted(maps.Keys(to.saved)) {
		if f.saved[register] != to.saved[register] {
			b = appendf(b, "\t%s\n", to.saved[register])
		}
	}
	return b
}

// dropPopped returns the rules without registers whose places are below the stack pointer: they have
// their values back. Clang does not tell, since nothing overwrites those places before the function is
// left.
func (f *frameRules) dropPopped() frameRules {
	within := *f
	size, ok := f.byStackPointer()
	if !ok {
		return within
	}
	within.saved = maps.Clone(f.saved)
	maps.DeleteFunc(within.saved, func(_, directive string) bool {
		_, text, _ := strings.Cut(directive, ",")
		offset, err := strconv.Atoi(strings.TrimSpace(text))
		return err == nil && size+offset < 0
	})
	return within
}

// byStackPointer returns how far the frame is from the stack pointer, if the rules
// count from that.
func (f *frameRules) byStackPointer() (offset int, ok bool) {
	register, text, _ := strings.Cut(f.cfa, ", ")
	offset, err := strconv.Atoi(text)
	return offset, err == nil && (register == f.pointer || register == "%rsp" || register == "%esp")
}

// moves are the instructions of inserted code that move the stack pointer.
var moves = []struct {
	instruction string
	by          int
}{{"\tpushq\t", 8}, {"\tpopq\t", -8}, {"\tpushl\t", 4}, {"\tpopl\t", -4}, {"\tcall\t7711f", 4},
	{"\tleaq\t-128(%rsp), %rsp", 128}, {"\tleaq\t128(%rsp), %rsp", -128}}

// pushing appends code with a directive behind each instruction that moves the
// stack pointer, which is offset bytes from the frame before it.
func pushing(b, code []byte, offset int) []byte {
	remembered := offset
	for line := range bytes.Lines(code) {
		b = append(b, line...)
		switch string(line) {
		case "\t.cfi_remember_state\n":
			remembered = offset
		case "\t.cfi_restore_state\n":
			offset = remembered
		}
		for _, m := range moves {
			if bytes.Contains(line, []byte(m.instruction)) {
				// LLVM's assembler adjusts wrongly where a state was restored.
				offset += m.by
				b = appendf(b, "\t.cfi_def_cfa_offset\t%d\n", offset)
			}
		}
	}
	return b
}
