package llvm

// Data is what is shown of a file, a function, or what is expanded in one.
type Data struct {
	File       string
	Segments   []Segment
	Expansions []Expanded
	Branches   []Region
	Decisions  []*MCDC
}

// Expanded is a place at which a macro is expanded.
type Expanded struct {
	*Region
	Function *Function
}

// FileData is that of a file, of all functions.
func (c *Coverage) FileData(name string) Data {
	d := Data{File: name}
	for _, f := range c.byFile[name] {
		main := f.Main
		if main >= 0 && f.Files[main] != name {
			main = -1
		}
		for i := range f.Regions {
			g := &f.Regions[i]
			if g.Kind == Expansion && g.File == main {
				d.Expansions = append(d.Expansions, Expanded{g, f})
			}
		}
		for i := range f.Branches {
			// Up to LLVM 19 only those in a function's first file.
			if b := &f.Branches[i]; f.Files[b.File] == name && (b.File == 0 || c.rules.Version >= 20) {
				d.Branches = append(d.Branches, *b)
			}
		}
		for i := range f.Decisions {
			if m := &f.Decisions[i]; f.Files[m.File] == name {
				d.Decisions = append(d.Decisions, m)
			}
		}
	}
	d.Segments = c.Segments(name)
	return d
}

// FunctionData is that of a function, in the file in which it is defined; of none if that is not known.
func (c *Coverage) FunctionData(f *Function) Data {
	if f.Main < 0 {
		return Data{}
	}
	d := c.data(f, f.Main)
	for i := range f.Decisions {
		if m := &f.Decisions[i]; m.File == f.Main {
			d.Decisions = append(d.Decisions, m)
		}
	}
	return d
}

// ExpansionData is that of what is expanded at a place.
func (c *Coverage) ExpansionData(e Expanded) Data { return c.data(e.Function, e.Expanded) }

func (c *Coverage) data(f *Function, file int) Data {
	d := Data{File: f.Files[file]}
	for i := range f.Regions {
		if g := &f.Regions[i]; g.File == file && g.Kind == Expansion {
			d.Expansions = append(d.Expansions, Expanded{g, f})
		}
	}
	for i := range f.Branches {
		if b := &f.Branches[i]; b.File == file {
			d.Branches = append(d.Branches, *b)
		}
	}
	d.Segments = segments(f.regionsIn(file), &c.rules)
	return d
}

// FunctionsOf are those whose first file it is, in the order of the binaries.
func (c *Coverage) FunctionsOf(file string) []*Function {
	var list []*Function
	for _, f := range c.byFile[file] {
		if f.Files[0] == file {
			list = append(list, f)
		}
	}
	return list
}

// A LineView is what is known of a line.
type LineView struct {
	Mapped   bool
	Count    uint64
	Multiple bool // several regions begin here
	Segments []Segment
	Wrapped  *Segment // that of the lines before, nil: there is none
}

// Lines goes through the lines of a file, from the first on.
type Lines struct {
	rules   *Rules
	left    []Segment
	wrapped *Segment
	last    *Segment
	number  uint32
	ended   bool
}

// NewLines returns the lines over segments.
func (c *Coverage) NewLines(list []Segment) *Lines { return &Lines{rules: &c.rules, left: list} }

// Next returns the next line, and false after the last that has segments.
func (l *Lines) Next() (LineView, bool) {
	l.number++
	if len(l.left) == 0 {
		l.ended = true
	}
	if l.ended {
		return LineView{}, false
	}
	if l.last != nil {
		l.wrapped, l.last = l.last, nil
	}
	n := 0
	for n < len(l.left) && l.left[n].Line == l.number {
		n++
	}
	line := LineView{Segments: l.left[:n:n], Wrapped: l.wrapped}
	if n > 0 {
		l.last = &l.left[n-1]
	}
	l.left = l.left[n:]
	starts := 0
	for i := range line.Segments {
		if line.Segments[i].starts() {
			starts++
		}
	}
	line.Multiple = starts > 1
	if n == 0 {
		line.Mapped = l.wrapped != nil && l.wrapped.HasCount
		if line.Mapped {
			line.Count = l.wrapped.Count
		}
		return line, true
	}
	count, mapped := lineOf(line.Segments, l.wrapped, l.rules)
	if line.Mapped = mapped; mapped {
		line.Count = count.Count
	}
	return line, true
}
