package instrument

import "bytes"

// A function may change amd64's r11 at its entry and before a call: no argument
// is passed in it and no call keeps it. Who makes an exception shows it:
//
//   - GCC's -fipa-ra keeps a value in r11 across the call of a function that, with all
//     that it calls, leaves r11 alone. It knows that of functions of the file only.
//   - Clang's preserve_none functions take their eleventh argument in it.
//   - Retpolines jump to what is in r11, -fsplit-stack passes its needs there.
//   - Interrupt handlers keep it for whom they interrupt.
//   - Inline assembly may call with registers of its own choice.
//
// So r11 may hold something where a function mentions it, returns from an interrupt
// or has branches in inline assembly, in functions that inline assembly names, and
// in all that these reach. What a function names it may reach: it may call a
// known one by an address in a register (-mforce-indirect-call, -mcmodel=large).

// A reach is a function with its parts.
type reach struct {
	holds bool // r11 may hold something
	names map[*reach]bool
}

// holding returns the names of the functions of src at whose entry or calls r11 may
// hold something.
func (s *survey) holding(src []byte) map[string]bool {
	h := &holder{survey: s, all: make(map[string]*reach), in: make(map[*section]*body), sections: newSections()}
	h.enter(h.sections.current)
	asm := false
	for rest := src; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		rest = after
		switch was := asm; {
		case inlineAssembly(line, &asm) || was:
			h.assembly(line)
		case dull(line):
		case len(line) > 1 && line[0] == '\t' && line[1] != '.' && line[1] > ' ':
			h.instruction(line)
		default:
			h.other(line)
		}
	}
	return h.spread()
}

// A holder looks at what functions do with r11.
type holder struct {
	*survey
	all      map[string]*reach
	sections *sections
	in       map[*section]*body
	body     *body // of the current section
}

// A body is the code at the end of a section.
type body struct {
	of    *reach
	begun bool // has instructions since its label
	// foreign: it may be inline assembly, though nothing says so
	foreign bool
}

// enter goes to a section.
func (h *holder) enter(sec *section) {
	if h.in[sec] == nil {
		h.in[sec] = &body{of: h.function(""), begun: true, foreign: h.clang} // before any function
	}
	h.body = h.in[sec]
}

// function returns the reach of the one that a symbol stands for.
func (h *holder) function(name string) *reach {
	name, _ = partOf(h.canonical(name))
	r := h.all[name]
	if r == nil {
		r = &reach{names: make(map[*reach]bool)}
		h.all[name] = r
	}
	return r
}

// instruction sees a line of code.
func (h *holder) instruction(line []byte) {
	h.body.begun = true
	if h.body.foreign {
		h.assembly(line)
		return
	}
	r := h.body.of
	r.holds = r.holds || exception(line)
	h.named(line, func(to *reach) { r.names[to] = true })
}

// exception tells whether a line uses r11, of any width, or returns from an interrupt.
func exception(line []byte) bool {
	return bytes.Contains(line, []byte("r11")) || bytes.Contains(line, []byte("iret"))
}

// assembly sees a line of inline assembly.
func (h *holder) assembly(line []byte) {
	h.named(line, func(to *reach) { to.holds = true })
	r := h.body.of
	r.holds = r.holds || exception(line)
	s := scanner{rest: line}
	for st, ok := s.next(); ok; st, ok = s.next() {
		if st.label == nil && x86Branch(st).kind != noBranch {
			r.holds = true
		}
	}
}

// named calls f for each function of the file that a line names.
func (h *holder) named(line []byte, f func(*reach)) {
	for i := 0; i < len(line); {
		name, n := symbol(line[i:])
		if n == 0 {
			i++
			continue
		}
		register := i > 0 && line[i-1] == '%'
		i += n
		if register || name[0] >= '0' && name[0] <= '9' {
			continue
		}
		for _, name := range [2][]byte{name, bytes.TrimPrefix(name, []byte("$"))} {
			if h.functions[string(name)] || h.alias[string(name)] != "" {
				f(h.function(string(name)))
			}
		}
	}
}

// other sees a line that may have labels and directives.
func (h *holder) other(line []byte) {
	s := scanner{rest: line}
	for st, ok := s.next(); ok; st, ok = s.next() {
		switch {
		case st.label != nil:
			if h.functions[string(st.label)] {
				h.label(string(st.label))
			}
		case len(st.word) > 0 && st.word[0] == '.':
			if to := h.sections.target(st); to != nil {
				h.sections.follow(st, to)
				h.enter(h.sections.current)
			}
		default:
			h.instruction(line)
		}
	}
}

// label sees a function begin. Labels without code between them are names of one.
func (h *holder) label(name string) {
	r, before := h.function(name), h.body.of
	if !h.body.begun {
		before.names[r], r.names[before] = true, true
	}
	*h.body = body{of: r, foreign: h.foreign(name)}
}

// spread marks what is reached and returns the names.
func (h *holder) spread() map[string]bool {
	var marked []*reach
	for _, r := range h.all {
		if r.holds {
			marked = append(marked, r)
		}
	}
	for len(marked) > 0 {
		r := marked[len(marked)-1]
		marked = marked[:len(marked)-1]
		for to := range r.names {
			if !to.holds {
				to.holds = true
				marked = append(marked, to)
			}
		}
	}
	names := make(map[string]bool)
	for name, r := range h.all {
		if r.holds {
			names[name] = true
		}
	}
	return names
}
