package binary

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"sort"
)

// Lines finds the source of code, by the debug information. It reads the
// parts of the information that are asked for. It may not be used by several
// goroutines at the same time.
type Lines struct {
	data   *dwarf.Data
	arm64  bool
	ranges []unitRange // by ascending address
	units  []*unit     // by ascending offset
	names  map[dwarf.Offset]*origin
	within map[dwarf.Offset]string // the namespaces and classes of functions, "a::b::"
	order  binary.ByteOrder
	left   int // what may still be read, see next

	types     map[dwarf.Offset]bool // that have been looked through
	typeError error                 // of one of them
	typeUnits uint64                // bytes of .debug_types
}

// A Frame is a function and a place in it. Code that was inlined has several
// at one address.
type Frame struct {
	Function string // as the linker knows it, or as the source has it
	File     string
	Line     int
	DeclFile string // where the function begins; "" if that is not known
	Start    int    // the line there
	Inlined  bool
}

type unitRange struct {
	low, high uint64
	unit      *unit
}

type unit struct {
	entry  *dwarf.Entry
	loaded bool
	bad    bool // its lines are not to be read
	// program is what makes its lines of the header, and longest the longest name of a directory there.
	program []byte
	longest int
	files   []*dwarf.LineFile
	rows    []row
	scopes  []*scope // of functions
}

// A row says which line the code from addr on belongs to.
type row struct {
	addr uint64
	file string
	line int // 0 and no file: to none
}

// A scope is a function, or one that was inlined into it.
type scope struct {
	at       dwarf.Offset
	ranges   [][2]uint64
	origin   *origin
	callFile string
	callLine int
	inlined  []*scope
}

// An origin is what is known of a function wherever its code went.
type origin struct {
	name string
	file string
	line int
}

// ErrNoLines is returned for a file without debug information.
var ErrNoLines = errors.New("no debug information")

// Lines opens the debug information.
func (f *File) Lines() (*Lines, error) {
	if !f.HasLines() {
		return nil, ErrNoLines
	}
	data, err := f.dwarf()
	if err != nil {
		return nil, err
	}
	lines, err1 := f.debugContents("line")
	strings, err2 := f.debugContents("line_str")
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	l := &Lines{
		data: data, arm64: f.Machine == elf.EM_AARCH64, names: make(map[dwarf.Offset]*origin), within: make(map[dwarf.Offset]string),
		order: f.Order, left: f.mostEntries(), types: make(map[dwarf.Offset]bool),
	}
	if s := f.elf.Section(".debug_types"); s != nil {
		l.typeUnits = s.Size
	}
	r, last := data.Reader(), f.lastUnit()
	for {
		e, err := l.next(r)
		if err != nil {
			return nil, err
		}
		if e == nil {
			break
		}
		if e.Tag == dwarf.TagCompileUnit {
			u := &unit{entry: e}
			u.bad = l.checkLines(u, lines, strings) != nil
			l.units = append(l.units, u)
			ranges, err := l.rangesOf(e)
			if err != nil {
				continue
			}
			for _, a := range ranges {
				if a[0] < a[1] && a[0] != 0 { // at 0: thrown away by the linker
					l.ranges = append(l.ranges, unitRange{a[0], a[1], u})
				}
			}
		}
		if e.Tag != dwarf.TagCompileUnit && e.Tag != dwarf.TagPartialUnit {
			l.skip(r, e)
			continue
		}
		if e.Offset >= last {
			break
		}
		r.SkipChildren() // to the next unit
	}
	slices.SortFunc(l.ranges, func(a, b unitRange) int { return cmp.Compare(a.low, b.low) })
	return l, nil
}

// Frames returns the places in the source of the code at addr, the innermost
// inlined function first; nil if there is no information.
func (l *Lines) Frames(addr uint64) []Frame {
	i := sort.Search(len(l.ranges), func(i int) bool { return l.ranges[i].low > addr })
	if i == 0 || addr >= l.ranges[i-1].high {
		return nil
	}
	u := l.ranges[i-1].unit
	l.load(u)
	return u.frames(addr)
}

func (u *unit) frames(addr uint64) []Frame {
	i := sort.Search(len(u.rows), func(i int) bool { return u.rows[i].addr > addr })
	if i == 0 || u.rows[i-1].file == "" {
		return nil
	}
	at := u.rows[i-1]
	file, line := at.file, at.line
	frame := func(s *scope, inlined bool) Frame {
		return Frame{Function: s.origin.name, File: file, Line: line, DeclFile: s.origin.file, Start: s.origin.line, Inlined: inlined}
	}
	var path []*scope // from the function to the innermost inlined one
	for scopes := u.scopes; ; {
		s := innermost(scopes, addr)
		if s == nil {
			break
		}
		path = append(path, s)
		scopes = s.inlined
	}
	if len(path) == 0 {
		return []Frame{{File: file, Line: line}}
	}
	var frames []Frame
	for i := len(path) - 1; i >= 0; i-- {
		frames = append(frames, frame(path[i], i > 0))
		file, line = path[i].callFile, path[i].callLine
	}
	return frames
}

func innermost(scopes []*scope, addr uint64) *scope {
	for _, s := range scopes {
		for _, r := range s.ranges {
			if r[0] <= addr && addr < r[1] {
				return s
			}
		}
	}
	return nil
}

// load reads the lines and functions of a unit. What is damaged is left out.
func (l *Lines) load(u *unit) {
	if u.loaded {
		return
	}
	u.loaded = true
	l.loadRows(u)
	r := l.data.Reader()
	r.Seek(u.entry.Offset)
	e, err := l.next(r)
	if err != nil || e == nil || !e.Children {
		return
	}
	var found []scopeEntry
	u.scopes = l.scopes(r, u, &found, "", 0)
	for _, f := range found { // now that all namespaces are known
		f.scope.origin = l.origin(f.entry, u, 0)
	}
}

func (l *Lines) loadRows(u *unit) {
	if u.bad || !l.spend(u) {
		return
	}
	lr, err := l.data.LineReader(u.entry)
	if err != nil || lr == nil {
		return
	}
	u.files = lr.Files()
	var e dwarf.LineEntry
	for lr.Next(&e) == nil {
		switch {
		case e.EndSequence:
			u.rows = append(u.rows, row{addr: e.Address})
		case e.File == nil || e.Line == 0 && len(u.rows) > 0:
			// Line 0 is code that belongs to no line: the one before it is closest.
		default:
			if n := len(u.rows); n > 0 && u.rows[n-1].addr == e.Address {
				u.rows[n-1] = row{e.Address, e.File.Name, e.Line}
				continue
			}
			u.rows = append(u.rows, row{e.Address, e.File.Name, e.Line})
		}
	}
	if len(lr.Files()) > len(u.files) {
		u.files = lr.Files()
	}
	// Sequences may come in any order; the end of one is the begin of the next.
	slices.SortStableFunc(u.rows, func(a, b row) int { return cmp.Compare(a.addr, b.addr) })
	n := 0
	for _, r := range u.rows {
		if n > 0 && u.rows[n-1].addr == r.addr {
			if r.file == "" {
				continue
			}
			n--
		}
		u.rows[n] = r
		n++
	}
	u.rows = u.rows[:n]
}

// A scopeEntry is a scope whose names are to be looked up.
type scopeEntry struct {
	scope *scope
	entry *dwarf.Entry
}

const maxNesting = 256

// scopes returns the functions with code among the entries up to the end of
// their list, and those below entries that only group others.
// Those it finds are added to found.
func (l *Lines) scopes(r *dwarf.Reader, u *unit, found *[]scopeEntry, within string, depth int) []*scope {
	var all []*scope
	for {
		e, err := l.next(r)
		if err != nil || e == nil || e.Tag == 0 {
			return all
		}
		switch e.Tag {
		case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine:
			if within != "" {
				l.within[e.Offset] = within
			}
			ranges, _ := l.rangesOf(e)
			if len(ranges) == 0 || depth > maxNesting {
				l.skip(r, e)
				continue
			}
			s := &scope{at: e.Offset, ranges: ranges}
			*found = append(*found, scopeEntry{s, e})
			if e.Tag == dwarf.TagInlinedSubroutine {
				s.callFile = u.file(e.Val(dwarf.AttrCallFile))
				s.callLine = integer(e.Val(dwarf.AttrCallLine))
			}
			if e.Children {
				s.inlined = l.scopes(r, u, found, "", depth+1)
			}
			all = append(all, s)
		case dwarf.TagLexDwarfBlock, dwarf.TagNamespace, dwarf.TagClassType, dwarf.TagStructType, dwarf.TagModule, dwarf.TagTryDwarfBlock, dwarf.TagCatchDwarfBlock:
			if !e.Children {
				continue
			}
			if depth > maxNesting {
				l.skip(r, e)
				continue
			}
			inner := within
			if name, _ := e.Val(dwarf.AttrName).(string); name != "" && len(within)+len(name) < longestScope {
				inner += name + "::"
			}
			all = append(all, l.scopes(r, u, found, inner, depth+1)...)
		default:
			l.skip(r, e)
		}
	}
}

// origin returns the names of a function: its own, or those of the entries
// that it refers to, which may lie in another unit.
func (l *Lines) origin(e *dwarf.Entry, u *unit, depth int) *origin {
	if o := l.names[e.Offset]; o != nil {
		return o
	}
	o := &origin{file: u.file(e.Val(dwarf.AttrDeclFile)), line: integer(e.Val(dwarf.AttrDeclLine))}
	l.names[e.Offset] = o
	o.name, _ = e.Val(dwarf.AttrLinkageName).(string)
	for _, attr := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		at, ok := e.Val(attr).(dwarf.Offset)
		if !ok || depth > 8 {
			continue
		}
		r := l.data.Reader()
		r.Seek(at)
		other, err := l.next(r)
		if err != nil || other == nil {
			continue
		}
		from := l.origin(other, l.unitOf(at), depth+1)
		o.name = cmp.Or(o.name, from.name)
		o.file = cmp.Or(o.file, from.file)
		o.line = cmp.Or(o.line, from.line)
	}
	if name, _ := e.Val(dwarf.AttrName).(string); o.name == "" && name != "" {
		o.name = l.within[e.Offset] + name
	}
	return o
}

// unitOf returns the unit that has the entry at an offset: link-time optimization
// refers to others. It has been loaded as far as names need it.
func (l *Lines) unitOf(at dwarf.Offset) *unit {
	i := sort.Search(len(l.units), func(i int) bool { return l.units[i].entry.Offset > at })
	if i == 0 {
		return &unit{}
	}
	l.load(l.units[i-1])
	return l.units[i-1]
}

func (u *unit) file(v any) string {
	if i := integer(v); v != nil && i >= 0 && i < len(u.files) && u.files[i] != nil {
		return u.files[i].Name
	}
	return ""
}

func integer(v any) int {
	switch v := v.(type) {
	case int64:
		return int(v)
	case uint64:
		return int(v)
	}
	return 0
}
