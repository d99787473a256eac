package instrument

import "bytes"

// An indirect jump is a tail call, or goes on within its function: to a case of a switch, or to
// a label whose address was taken. What the compiler says of it stands in a comment: GCC's
// with -dp, Clang's unless it writes none (-fno-verbose-asm, and most linkers with -flto).

// tailCall tells whether the compiler says in a comment that an indirect jump is
// a call.
func tailCall(comment []byte) bool {
	return bytes.Contains(comment, []byte("TAILCALL")) || bytes.Contains(comment, []byte(" *sibcall"))
}

// leaves tells whether an indirect jump of f is a tail call. Without comments it
// is one if there is nothing else in f to which it could go.
func (w *rewriter) leaves(f *function, operand, comment []byte) bool {
	switch {
	case w.cpu.slash:
		return false
	case tailCall(comment):
		return true
	case !w.clang || w.comments || bytes.Contains(operand, []byte(".LJTI")):
		return false
	}
	if w.taken == nil {
		w.taken = w.takenLabels()
	}
	for line := range bytes.Lines(w.src[f.at:]) {
		line = trimRight(bytes.TrimSuffix(line, []byte("\n")))
		switch label, isLabel := bytes.CutSuffix(line, []byte(":")); {
		case bytes.HasPrefix(line, []byte("\t.size\t")):
			return true
		case bytes.Contains(line, []byte(".LJTI")), // a table of cases
			isLabel && w.taken[string(label)],
			bytes.HasPrefix(line, []byte("\tmov")) && bytes.Contains(line, []byte("(")) && bytes.HasSuffix(line, []byte("sp")): // longjmp
			w.problem("%s: a jump that may be a call is not counted: the assembly has no comments", f.name)
			return false
		}
	}
	return false
}

// takenLabels returns the labels of blocks that code or data name, besides the
// tables for debuggers and for exceptions.
func (w *rewriter) takenLabels() map[string]bool {
	taken := make(map[string]bool)
	debug := false
	for line := range bytes.Lines(w.src) {
		if bytes.HasPrefix(line, []byte("\t.section\t")) {
			debug = bytes.HasPrefix(line[10:], []byte(".debug"))
		}
		if debug || len(line) < 2 || line[0] != '\t' || bytes.HasPrefix(line, []byte("\t.uleb128")) {
			continue
		}
		for {
			_, after, ok := bytes.Cut(line, []byte(".Ltmp"))
			if !ok {
				break
			}
			name, _ := symbol(after)
			taken[".Ltmp"+string(name)] = true
			line = after
		}
	}
	return taken
}
