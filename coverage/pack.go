package coverage

import "encoding/binary"

// A packed file is numbers as of encoding/binary.AppendVarint and AppendUvarint, and strings
// behind their lengths, field by field. Numbers of lines are distances from the line before.

// pack returns what [unpack] makes the same file of.
func (f *File) pack() string {
	p := make(packer, 0, 8*len(f.Lines)+64*len(f.Functions)+64)
	p.functions(f.Functions)
	p.functions(f.Told)
	p.count(len(f.Lines))
	last := int32(0)
	for i := range f.Lines {
		p.line(&f.Lines[i], &last)
	}
	p.count(len(f.Tests))
	for i := range f.Tests {
		p.text(f.Tests[i].Name)
		p.text(string(f.Tests[i].Hits))
	}
	p.expansions(f.Expansions)
	return string(p)
}

type packer []byte

func (p *packer) number(n int64) { *p = binary.AppendVarint(*p, n) }
func (p *packer) count(n int)    { *p = binary.AppendUvarint(*p, uint64(n)) }

func (p *packer) text(s string) {
	p.count(len(s))
	*p = append(*p, s...)
}

// flags appends as many bits as one byte has.
func (p *packer) flags(bits ...bool) {
	b := byte(0)
	for i, set := range bits {
		if set {
			b |= 1 << i
		}
	}
	*p = append(*p, b)
}

func (p *packer) functions(list []*Function) {
	p.count(len(list))
	line := int32(0)
	for _, f := range list {
		p.number(int64(f.StartLine - line))
		line = f.StartLine
		p.number(int64(f.StartColumn))
		p.number(int64(f.EndLine - line))
		p.number(int64(f.EndColumn))
		p.text(f.Name)
		p.number(f.Count)
		p.number(int64(f.Blocks))
		p.number(int64(f.BlocksExecuted))
		p.number(int64(f.Regions))
		p.number(int64(f.RegionsRun))
		p.flags(f.Unused)
		p.count(len(f.Instances))
		for i := range f.Instances {
			p.instance(&f.Instances[i], f.Name)
		}
	}
}

// instance appends one of a function. The first mostly has its name.
func (p *packer) instance(in *Instance, function string) {
	p.flags(in.Name == function)
	if in.Name != function {
		p.text(in.Name)
	}
	p.number(in.Count)
	p.number(int64(in.Blocks))
	p.number(int64(in.BlocksExecuted))
	p.text(string(in.Lines))
}

func (p *packer) line(l *Line, last *int32) {
	p.number(int64(l.Number - *last))
	*last = l.Number
	p.flags(l.Unexecuted, l.Exceptional, l.Uncounted, len(l.Branches) > 0, len(l.Calls) > 0, len(l.Conditions) > 0, l.Told != nil)
	p.number(l.Count)
	if len(l.Branches) > 0 {
		p.branches(l.Branches, l.Number)
	}
	if len(l.Calls) > 0 {
		p.count(len(l.Calls))
		for _, c := range l.Calls {
			p.number(c.Count)
			p.number(c.Returned - c.Count)
		}
	}
	if len(l.Conditions) > 0 {
		p.conditions(l.Conditions)
	}
	if l.Told != nil {
		p.branches(*l.Told, l.Number)
	}
}

func (p *packer) branches(list []Branch, line int32) {
	p.count(len(list))
	for i := range list {
		b := &list[i]
		p.number(int64(b.Block))
		p.flags(b.Evaluated, b.Fallthrough, b.Throw, b.List, b.Guessed, b.Exception, b.Column != 0, b.To != 0)
		if b.Column != 0 {
			p.number(int64(b.Column))
		}
		if b.To != 0 {
			p.number(int64(b.To - line))
		}
		p.number(b.Count)
	}
}

func (p *packer) conditions(list []Condition) {
	p.count(len(list))
	for i := range list {
		p.number(int64(list[i].Column))
		p.count(len(list[i].Terms))
		for _, t := range list[i].Terms {
			p.flags(t.True, t.False)
		}
	}
}

// unpack makes a file of what [File.pack] has made. Its texts stay in the packed one.
func unpack(name, packed string) *File {
	u := &unpacker{rest: packed}
	f := &File{Name: name, Functions: u.functions(), Told: u.functions()}
	if n := u.count(); n > 0 {
		f.Lines = make([]Line, n)
	}
	last := int32(0)
	for i := range f.Lines {
		u.line(&f.Lines[i], &last)
	}
	if n := u.count(); n > 0 {
		f.Tests = make([]Test, n)
	}
	for i := range f.Tests {
		f.Tests[i] = Test{Name: u.text(), Hits: u.hits()}
	}
	f.Expansions = u.expansions()
	return f
}

// An unpacker takes off what a packer appended.
type unpacker struct {
	rest string
	// Lists of a few elements are cut off larger ones.
	branchRoom []Branch
	callRoom   []Call
}

func (u *unpacker) count() int {
	n, shift := uint64(0), 0
	for i := 0; ; i++ {
		b := u.rest[i]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			u.rest = u.rest[i+1:]
			return int(n)
		}
		shift += 7
	}
}

func (u *unpacker) number() int64 {
	n := uint64(u.count())
	return int64(n>>1) ^ -int64(n&1)
}

func (u *unpacker) small() int32 { return int32(u.number()) }

func (u *unpacker) text() string {
	n := u.count()
	s := u.rest[:n]
	u.rest = u.rest[n:]
	return s
}

func (u *unpacker) hits() Hits {
	if s := u.text(); s != "" {
		return Hits(s)
	}
	return nil
}

func (u *unpacker) flags() byte {
	b := u.rest[0]
	u.rest = u.rest[1:]
	return b
}

func (u *unpacker) functions() []*Function {
	n := u.count()
	if n == 0 {
		return nil
	}
	all, list := make([]Function, n), make([]*Function, n)
	line := int32(0)
	for i := range all {
		f := &all[i]
		list[i] = f
		line += u.small()
		*f = Function{StartLine: line, StartColumn: u.small(), EndLine: line + u.small(), EndColumn: u.small(),
			Name: u.text(), Count: u.number(), Blocks: u.small(), BlocksExecuted: u.small(), Regions: u.small(), RegionsRun: u.small(), Unused: u.flags()&1 != 0}
		if k := u.count(); k > 0 {
			f.Instances = make([]Instance, k)
		}
		for k := range f.Instances {
			u.instance(&f.Instances[k], f.Name)
		}
	}
	return list
}

func (u *unpacker) instance(in *Instance, function string) {
	in.Name = function
	if u.flags()&1 == 0 {
		in.Name = u.text()
	}
	in.Count, in.Blocks, in.BlocksExecuted, in.Lines = u.number(), u.small(), u.small(), u.hits()
}

func (u *unpacker) line(l *Line, last *int32) {
	*last += u.small()
	l.Number = *last
	flags := u.flags()
	l.Unexecuted, l.Exceptional, l.Uncounted = flags&1 != 0, flags&2 != 0, flags&4 != 0
	l.Count = u.number()
	if flags&8 != 0 {
		l.Branches = u.branches(l.Number)
	}
	if flags&16 != 0 {
		l.Calls = cut(&u.callRoom, u.count())
		for i := range l.Calls {
			l.Calls[i].Count = u.number()
			l.Calls[i].Returned = l.Calls[i].Count + u.number()
		}
	}
	if flags&32 != 0 {
		l.Conditions = u.conditions()
	}
	if flags&64 != 0 {
		told := u.branches(l.Number)
		l.Told = &told
	}
}

func (u *unpacker) branches(line int32) []Branch {
	list := cut(&u.branchRoom, u.count())
	for i := range list {
		b := &list[i]
		b.Block = u.small()
		flags := u.flags()
		b.Evaluated, b.Fallthrough, b.Throw = flags&1 != 0, flags&2 != 0, flags&4 != 0
		b.List, b.Guessed, b.Exception = flags&8 != 0, flags&16 != 0, flags&32 != 0
		if flags&64 != 0 {
			b.Column = u.small()
		}
		if flags&128 != 0 {
			b.To = line + u.small()
		}
		b.Count = u.number()
	}
	return list
}

func (u *unpacker) conditions() []Condition {
	list := make([]Condition, u.count())
	for i := range list {
		list[i].Column = u.small()
		list[i].Terms = make([]Term, u.count())
		for k := range list[i].Terms {
			flags := u.flags()
			list[i].Terms[k] = Term{flags&1 != 0, flags&2 != 0}
		}
	}
	return list
}

// cut returns n elements of room, which gets more if need be.
func cut[T any](room *[]T, n int) []T {
	if len(*room) < n {
		*room = make([]T, max(n, 64))
	}
	list := (*room)[:n:n]
	*room = (*room)[n:]
	return list
}
