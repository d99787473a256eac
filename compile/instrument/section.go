package instrument

import "bytes"

// A section is where the assembler puts what follows.
type section struct {
	name  string
	group string    // of a COMDAT section, "" for none
	exec  bool      // holds code
	fn    *function // whose code it is at the moment
	kept  bool      // it refers to the table of its functions
}

// sections follows the directives that switch between sections.
type sections struct {
	all               map[string]*section
	current, previous *section
	stack             [][2]*section
}

func newSections() *sections {
	s := &sections{all: make(map[string]*section)}
	s.current = s.get(".text", "", "", "")
	s.previous = s.current
	return s
}

func (s *sections) get(name, flags, group, sub string) *section {
	key := name + "\x00" + group + "\x00" + sub
	sec := s.all[key]
	if sec == nil {
		sec = &section{name: name, group: group, exec: codeSection(name, flags)}
		s.all[key] = sec
	}
	return sec
}

// codeSection tells whether a section holds code. Without flags, its name says.
func codeSection(name, flags string) bool {
	if flags != "" {
		return bytes.IndexByte([]byte(flags), 'x') >= 0
	}
	for _, prefix := range []string{".text", ".init.text", ".exit.text"} {
		if len(name) >= len(prefix) && name[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}

// target returns where a directive leads, nil if it switches nothing. follow
// then goes there.
func (s *sections) target(st statement) *section {
	switch string(st.word) {
	case ".text", ".data", ".bss":
		sub := string(st.operands)
		if sub == "0" {
			sub = ""
		}
		return s.get(string(st.word), "", "", sub)
	case ".section", ".pushsection":
		return s.named(arguments(st.operands))
	case ".popsection":
		if n := len(s.stack); n > 0 {
			return s.stack[n-1][0]
		}
	case ".previous":
		return s.previous
	case ".subsection":
		sub := string(st.operands)
		if sub == "0" {
			sub = ""
		}
		sec := *s.current
		key := sec.name + "\x00" + sec.group + "\x00" + sub
		if s.all[key] == nil {
			s.all[key] = &section{name: sec.name, group: sec.group, exec: sec.exec}
		}
		return s.all[key]
	}
	return nil
}

// named is for .section NAME, "flags", @type, entsize, GROUP, comdat. A COMDAT
// section is mostly, but need not be, named again with all of that.
func (s *sections) named(args [][]byte) *section {
	name, flags, group := string(bytes.Trim(args[0], `"`)), "", ""
	if len(args) > 1 && len(args[1]) > 0 && args[1][0] == '"' {
		flags = string(bytes.Trim(args[1], `"`))
	}
	if bytes.IndexByte([]byte(flags), 'G') >= 0 {
		i := 3
		if bytes.IndexByte([]byte(flags), 'M') >= 0 {
			i++
		}
		if len(args) > i {
			group = string(args[i])
		}
	}
	return s.get(name, flags, group, "")
}

func (s *sections) follow(st statement, to *section) {
	from := s.current
	switch string(st.word) {
	case ".pushsection":
		s.stack = append(s.stack, [2]*section{s.current, s.previous})
	case ".popsection":
		top := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		s.current, s.previous = top[0], top[1]
		return
	}
	s.current, s.previous = to, from
}
