package instrument

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Rewrite returns the assembly src with counting inserted. Where it cannot treat
// the whole, it returns src and an error; what it leaves out is in the report.
func Rewrite(src []byte, o Options) ([]byte, RewriteReport, error) {
	s, err := look(src, o.CPU)
	if err != nil {
		return src, RewriteReport{Unit: s.unit}, err
	}
	if o.Unit != nil {
		s.unit = o.Unit(s.unit)
	}
	if !cpus[s.cpu].threads && (o.Update == Thread || o.Update == Locked && !cpus[s.cpu].alone) {
		o.Update = Atomic
	}
	scratch := cpus[s.cpu].scratch && !o.KeepR11
	if o.Update == Split && !scratch {
		o.Update = Plain
	}
	var holding map[string]bool
	var waits waiting
	if scratch && o.Update != Atomic {
		waits = s.waiting(src)
		if o.Update == Split || waits.any() {
			holding = s.holding(src)
		}
	}
	w := &rewriter{
		survey: s, cpu: cpus[s.cpu], o: o, holding: holding, waits: waits, src: src, sections: newSections(),
		out: make([]byte, 0, len(src)+len(src)/2+4096), frames: frameReader{src: src, cpu: cpus[s.cpu]},
	}
	w.report.CPU, w.report.Unit = s.cpu, s.unit
	w.run()
	if len(w.done) == 0 {
		return src, w.report, nil
	}
	w.table()
	return w.out, w.report, nil
}

// A rewriter is the second pass: it copies lines and inserts between them.
type rewriter struct {
	*survey
	cpu      *cpu
	o        Options
	holding  map[string]bool // functions where r11 is not free
	waits    waiting         // where increments take the counter's address
	src, out []byte
	copied   int // of src
	line     int
	sections *sections
	asm      bool      // within inline assembly
	pending  *function // whose entry count is due before its first instruction
	done     []*function
	counters int // words
	labels   int
	misses   bool // some indirect call needs the cpu's function
	frames   frameReader
	kept     bool            // some section refers to the table
	taken    map[string]bool // of takenLabels, nil: not known yet
	report   RewriteReport
}

// A function is one, or a part of one that lies elsewhere.
type function struct {
	name    string
	aliases []string // further names of the same address
	part    bool     // code that is not entered by calls
	at      int      // its label in the source
	label   int      // of its start
	section *section
	first   int // counter
	end     bool
	data    int // bytes at its entry that are jumped over and are still to come
	calls   []call
	after   []outOfLine // code to put behind it
}

// outOfLine is code that belongs to a place within a function.
type outOfLine struct {
	code  []byte
	rules frameRules // there
}

type call struct {
	kind    callKind
	counter int
	label   int
	callee  string // "" if indirect
	local   bool   // a static function of this file
}

func (w *rewriter) run() {
	for r := (reader{src: w.src}); r.next(); {
		w.line++
		if power := w.waits.apart[r.start]; power > 0 {
			w.copy(r.start)
			w.out = appendf(w.out, "\t.p2align\t%d", power)
			w.copied = r.end
		}
		if w.asm || w.pending != nil || !w.idle(&r) {
			w.oneLine(r.start, r.end)
		}
	}
	w.copy(len(w.src))
	if len(w.out) > 0 && w.out[len(w.out)-1] != '\n' {
		w.out = append(w.out, '\n')
	}
}

// idle tells quickly of most lines that they change nothing: data, labels within
// functions, and instructions that go on to the next, or jump to such a label.
func (w *rewriter) idle(r *reader) bool {
	line := r.line()
	switch r.kind() {
	case dataLine:
		return true
	case localLine:
		return !w.dotted && !endLabel(line)
	case instruction:
		if !w.sections.current.exec {
			return true
		}
		if w.cpu.mayBranch(line) && (w.dotted || !localOperand(line)) {
			return false
		}
		if w.o.Strip {
			w.strip(r)
		}
		return true
	}
	return false
}

// localOperand tells whether the operand of an instruction begins with .L.
func localOperand(line []byte) bool {
	operand := trimLeft(line[1+wordEnd(line[1:]):])
	return len(operand) > 2 && operand[0] == '.' && operand[1] == 'L'
}

// strip leaves out the comment of an instruction.
func (w *rewriter) strip(r *reader) {
	line := r.line()
	n := bytes.IndexByte(line, '#')
	if n < 0 || w.cpu.slash || bytes.IndexByte(line[:n], '"') >= 0 {
		return
	}
	w.copy(r.start + len(trimRight(line[:n])))
	w.copied = r.end
}

// copy copies src up to an offset.
func (w *rewriter) copy(to int) {
	if to > w.copied {
		w.out = append(w.out, w.src[w.copied:to]...)
		w.copied = to
	}
}

// insertAt is copy, and a new line unless it is at the start of one.
func (w *rewriter) insertAt(to int) {
	w.copy(to)
	if n := len(w.out); n > 0 && w.out[n-1] != '\n' {
		w.out = append(w.out, '\n')
	}
}

func (w *rewriter) problem(format string, args ...any) {
	w.report.Problems = append(w.report.Problems, SkippedPlace{w.line, fmt.Sprintf(format, args...)})
}

func (w *rewriter) oneLine(start, end int) {
	line := w.src[start:end]
	if was := w.asm; inlineAssembly(line, &w.asm) || was {
		if w.asm && !was && w.pending != nil && w.sections.current == w.pending.section {
			if w.naked(start) {
				w.problem("%s: a naked function, left alone", w.pending.name)
				w.drop()
			} else {
				w.enter(start)
			}
		}
		return
	}
	s := scanner{rest: line, slash: w.cpu.slash}
	first := true
	prefix := -1 // where a prefix stands that is a statement of its own
	for {
		s.rest = trimLeft(s.rest)
		at := start + len(line) - len(s.rest)
		if first {
			at, first = start, false // before the white space
		}
		st, ok := s.next()
		if !ok {
			return
		}
		if st.label == nil && len(st.operands) == 0 && st.prefix == nil && prefixes[string(st.word)] && string(st.word) != "rep" {
			prefix = at
			continue
		}
		if prefix >= 0 {
			at, prefix = prefix, -1
		}
		stop := start + len(line) - len(s.rest) // of the statement
		switch {
		case st.label != nil:
			w.labelled(st.label, at)
		case len(st.word) > 0 && st.word[0] == '.':
			w.directive(st, at)
		case w.sections.current.exec && len(st.operands) > 0 && st.operands[0] == '=':
			// an assignment
		case w.sections.current.exec:
			w.instruction(st, at, stop)
		}
	}
}

// inlineAssembly tells whether a line begins or ends inline assembly.
func inlineAssembly(line []byte, inside *bool) bool {
	line = trimLeft(line)
	if len(line) == 0 || line[0] != '#' && line[0] != '/' {
		return false
	}
	text := strings.TrimLeft(string(trimRight(line)), "#/ \t")
	switch {
	case text == "APP" || strings.HasPrefix(text, "Start of file scope inline assembly"):
		*inside = true
	case text == "NO_APP" || strings.HasPrefix(text, "End of file scope inline assembly"):
		*inside = false
	default:
		return false
	}
	return true
}

// naked tells whether a function is inline assembly only, from offset at.
func (w *rewriter) naked(at int) bool {
	asm := false
	for rest := w.src[at:]; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		rest = after
		if inlineAssembly(line, &asm) || asm {
			continue
		}
		s := scanner{rest: line, slash: w.cpu.slash}
		for st, ok := s.next(); ok; st, ok = s.next() {
			switch word := string(st.word); {
			case word == ".size":
				return true
			case st.label != nil || strings.HasPrefix(word, ".") || word == "nop" || word == "ud2" || word == "brk":
			default:
				return false
			}
		}
	}
	return true
}

// labelled sees a label at offset at.
func (w *rewriter) labelled(label []byte, at int) {
	sec := w.sections.current
	if !sec.exec {
		return
	}
	if w.functions[string(label)] {
		w.begin(string(label), at)
		return
	}
	if w.pending != nil && w.pending.section == sec && !entryLabel(string(label)) {
		w.enter(at)
	}
	if sec.fn != nil && endLabel(label) {
		w.flush(sec.fn, at)
	}
}

// endLabel tells whether a label stands behind a function's code.
func endLabel(name []byte) bool {
	return bytes.HasPrefix(name, []byte(".LFE")) || bytes.HasPrefix(name, []byte(".Lfunc_end"))
}

// entryLabel tells whether a label may stand between that of a function and its
// first instruction: of debug information, not of a loop.
func entryLabel(name string) bool {
	for _, prefix := range []string{".LFB", ".LFSB", ".Lfunc_begin", ".LVL", ".LPFE", ".LHOTB", ".LCOLDB", ".LM", ".LSM"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasPrefix(name, ".LBB") && !strings.Contains(name, "_")
}

// begin starts the function name at its label.
func (w *rewriter) begin(name string, at int) {
	sec := w.sections.current
	if p := w.pending; p != nil && p.section == sec {
		p.aliases = append(p.aliases, name)
		return
	}
	if f := sec.fn; f != nil && len(f.after) > 0 { // it had no end
		w.insertAt(at)
		w.out = appendf(w.out, "\t%s\t.Lff%d\n", map[bool]string{true: "b", false: "jmp"}[w.cpu.slash], w.labels)
		for i := range f.after {
			f.after[i].rules.known = false // the rules stay those of what follows
		}
		w.flush(f, at)
	}
	sec.fn = nil
	whole, part := partOf(name)
	if helper([]byte(name)) || w.foreign(name) || w.o.Select != nil && !w.o.Select(w.unitOf(at), whole) {
		return
	}
	f := &function{name: whole, part: part, at: at, label: w.labels, section: sec, first: w.counters}
	if !part {
		f.aliases = w.aliases[name]
	}
	w.labels++
	w.insertAt(at)
	w.out = append(appendNumber(w.out, ".Lff", f.label), ":\n"...)
	if !sec.kept && tableHead(f) == commonTable {
		// With --gc-sections ld.lld keeps of the table only what something refers to.
		w.out = appendf(w.out, "\t.reloc\t.Lff%d, %s, .Lft\n", f.label, w.cpu.none)
		sec.kept, w.kept = true, true
	}
	sec.fn = f
	w.done = append(w.done, f)
	if !part {
		w.counters++
		w.pending = f
	}
}

// unitOf returns the source of the function at an offset. What is compiled when a program
// is linked has functions of several.
func (w *rewriter) unitOf(at int) string {
	if !Merged(w.unit) {
		return w.unit
	}
	source := w.sourceOf(w.src[at:])
	if source == "" {
		return w.unit
	}
	if w.o.Unit != nil {
		source = w.o.Unit(source)
	}
	return source
}

// Merged tells whether a unit's name is the one that compilers give to several
// sources which they compile as one: GCC and LLVM with -flto.
func Merged(unit string) bool { return unit == "<artificial>" || unit == "ld-temp.o" }

// partOf tells of which function a cold or split part is.
func partOf(name string) (whole string, part bool) {
	for _, mark := range []string{".cold", ".__part."} {
		if i := strings.Index(name, mark); i > 0 {
			return name[:i], true
		}
	}
	return name, false
}

// update returns the mode of a function's increments.
func (w *rewriter) update(f *function) ProfileUpdate {
	if w.holding[f.name] {
		return w.o.Update.outOfLine()
	}
	return w.o.Update
}

// scratch tells whether an increment of f takes r11, where it waits for its last one.
func (w *rewriter) scratch(f *function, waits bool) bool {
	return (w.o.Update == Split || waits) && !w.holding[f.name]
}

// waitsAt tells whether the call of a symbol (nil: indirect) in the line at an offset waits.
func (w *rewriter) waitsAt(at int, target []byte) bool {
	if !w.waits.calls[at] {
		return false
	}
	callee := w.canonical(string(target))
	return !w.functions[callee] || w.waits.entries[callee]
}

// enter inserts the count of the pending function's entry.
func (w *rewriter) enter(at int) {
	w.insertAt(at)
	w.count(w.pending, w.pending.first, at, w.scratch(w.pending, w.waits.entries[w.pending.name]))
	w.report.Functions++
	w.pending = nil
}

// count inserts an increment of a counter into f.
func (w *rewriter) count(f *function, counter, at int, scratch bool) {
	if w.cpu.pushes {
		w.inline(w.cpu.count(nil, counter, w.update(f), scratch), at)
		return
	}
	w.out = w.cpu.count(w.out, counter, w.update(f), scratch)
}

// inline inserts code. Where it pushes, unwinders are told.
func (w *rewriter) inline(code []byte, at int) {
	if w.cpu.pushes {
		rules := w.frames.to(at)
		if offset, ok := rules.byStackPointer(); ok && rules.known {
			within := rules.dropPopped()
			w.out = pushing(rules.change(w.out, &within), code, offset)
			w.out = within.change(w.out, &rules)
			return
		}
	}
	w.out = append(w.out, code...)
}

// drop leaves the pending function alone.
func (w *rewriter) drop() {
	w.pending.section.fn = nil
	w.done = w.done[:len(w.done)-1]
	w.counters--
	w.pending = nil
}

// flush puts what belongs behind a function there.
func (w *rewriter) flush(f *function, at int) {
	if len(f.after) == 0 {
		return
	}
	w.insertAt(at)
	now := w.frames.to(at)
	for _, a := range f.after {
		if !now.known || !a.rules.known || now.proc != a.rules.proc {
			w.out = append(w.out, a.code...)
			continue
		}
		w.out = now.change(w.out, &a.rules)
		if offset, ok := a.rules.byStackPointer(); ok {
			w.out = pushing(w.out, a.code, offset)
		} else {
			w.out = append(w.out, a.code...)
		}
		now = a.rules
	}
	f.after = nil
}

func (w *rewriter) directive(st statement, at int) {
	word := string(st.word)
	if to := w.sections.target(st); to != nil {
		if w.pending != nil && w.sections.current == w.pending.section && to != w.pending.section &&
			!strings.HasPrefix(to.name, "__patchable_function_entries") {
			w.enter(at)
		}
		w.sections.follow(st, to)
		return
	}
	sec := w.sections.current
	if p := w.pending; p != nil && p.section == sec {
		switch word {
		case ".long":
			if w.jumpedOver(p, st.operands) {
				return
			}
			w.problem("%s: data at its entry, left alone", p.name)
			w.drop()
		case ".byte", ".word", ".value", ".2byte", ".4byte", ".8byte", ".quad", ".short", ".ascii", ".string", ".inst":
			w.problem("%s: data at its entry, left alone", p.name)
			w.drop()
		case ".p2align", ".align", ".balign", ".size", ".cfi_endproc":
			w.enter(at)
		}
	}
	f := sec.fn
	if f == nil {
		return
	}
	switch word {
	case ".cfi_endproc":
		w.flush(f, at)
	case ".size":
		name, _ := symbol(st.operands)
		if whole, part := partOf(string(name)); whole != f.name || part != f.part {
			return
		}
		w.flush(f, at)
		w.insertAt(at)
		w.out = append(appendNumber(w.out, ".Lfe", f.label), ":\n"...)
		f.end, sec.fn = true, nil
	}
}

// jumpedOver tells whether a .long is of what clang before 17 puts at a function's entry for
// -fsanitize=function, where a caller looks for it. It is code that jumps over all of it:
//
//	.long  846595819       eb 06 27 32     jmp .+8, and two bytes
//	.long  .L__llvm_rtti_proxy-main
func (w *rewriter) jumpedOver(f *function, operands []byte) bool {
	const jumpSize, size = 2, 4
	if f.data >= size {
		f.data -= size
		return true
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(operands)), 0, 32)
	if err != nil || w.cpu.shortJump == 0 || n&0xff != w.cpu.shortJump || f.data > 0 {
		return false
	}
	f.data = jumpSize + int(n>>8&0xff) - size
	return f.data >= 0
}

func (w *rewriter) instruction(st statement, at, stop int) {
	f := w.sections.current.fn
	if f == nil {
		return
	}
	if w.pending == f {
		if w.cpu.landing(st) {
			return
		}
		w.enter(at)
	}
	br := w.cpu.branch(st)
	switch br.kind {
	case directCall:
		if br.target[0] != '.' || w.functions[w.canonical(string(br.target))] { // else a jump that pushes
			w.direct(f, callDirect, br, at)
		}
	case directJump:
		if w.tailCallee(f, br.target) {
			w.direct(f, callTail, br, at)
		}
	case conditionalJump:
		if w.tailCallee(f, br.target) {
			w.conditional(f, st, br, at, stop)
		}
	case indirectCall:
		if !largeTLS(w.src[:at]) {
			w.indirect(f, callIndirect, st, br, at, stop)
		}
	case indirectJump:
		if w.leaves(f, br.target, st.comment) {
			w.indirect(f, callIndirectTail, st, br, at, stop)
		}
	}
}

// largeTLS tells whether a call behind before ends a sequence for a thread-local
// variable that the linker replaces as a whole, of GCC's -mcmodel=large -fPIC:
//
//	movabsq	$__tls_get_addr@PLTOFF, %rax
//	addq	%rbx, %rax
//	call	*%rax
func largeTLS(before []byte) bool {
	start := len(before)
	for range 2 {
		start = 1 + bytes.LastIndexByte(before[:max(start-1, 0)], '\n')
	}
	return bytes.Contains(before[start:], []byte("$__tls_get_addr@"))
}

// tailCallee tells whether a jump from f to name leaves for a function.
func (w *rewriter) tailCallee(f *function, name []byte) bool {
	if name == nil || helper(name) {
		return false
	}
	if _, part := partOf(string(name)); part {
		return false
	}
	if w.functions[w.canonical(string(name))] {
		return true
	}
	return name[0] != '.' && !w.plain[string(name)]
}

// call adds a call of name to f and returns it.
func (w *rewriter) call(f *function, kind callKind, target []byte, words int) call {
	c := call{kind: kind, counter: w.counters, label: w.labels}
	if target != nil {
		c.callee = string(target)
		if !w.weak[c.callee] { // else the linker may know another function of that name
			c.callee = w.canonical(c.callee)
		}
		c.local = w.functions[c.callee] && !w.global[c.callee]
	}
	w.counters += words
	w.labels++
	f.calls = append(f.calls, c)
	return c
}

func (w *rewriter) direct(f *function, kind callKind, br branch, at int) {
	c := w.call(f, kind, br.target, 1)
	w.insertAt(at)
	w.count(f, c.counter, at, w.scratch(f, w.waitsAt(at, br.target)))
	w.out = append(appendNumber(w.out, ".Lfs", c.label), ":\n"...)
	w.report.Calls++
}

// conditional turns a conditional tail call around: jump over the count and an
// unconditional one if the condition is not met. The flags are dead only where
// it is.
func (w *rewriter) conditional(f *function, st statement, br branch, at, stop int) {
	c := w.call(f, callTail, br.target, 1)
	w.insertAt(at)
	w.out = w.cpu.skipCall(w.out, st, c.label)
	w.count(f, c.counter, at, w.scratch(f, w.waitsAt(at, br.target)))
	jump := "jmp"
	if w.cpu.slash {
		jump = "b"
	}
	w.out = appendf(w.out, ".Lfs%d:\n\t%s\t%s\n.Lfj%d:", c.label, jump, st.operands, c.label)
	w.copied = stop
	w.report.Calls++
}

// indirectWords is the size of an indirect site: four pairs and a count.
const indirectWords = 9

func (w *rewriter) indirect(f *function, kind callKind, st statement, br branch, at, stop int) {
	l := labels{site: w.labels, miss: w.labels}
	code, after, ok := w.cpu.indirect(nil, st, br, w.counters, l, w.update(f), w.scratch(f, w.waitsAt(at, nil)))
	if !ok {
		w.problem("%s: no register is free to count the call of %s", f.name, br.target)
		return
	}
	w.call(f, kind, nil, indirectWords)
	w.insertAt(at)
	w.inline(code, at)
	w.out = w.out[:len(w.out)-1] // the line goes on
	w.copied = stop
	if len(after) > 0 {
		rules := w.frames.to(at)
		f.after = append(f.after, outOfLine{after, rules.dropPopped()})
	}
	w.misses = true
	w.report.Indirect++
}
