package gcov

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// A function in the pool is packed: a few bytes an arc and a line instead of
// the many of the notes, most of which are the names of sources, block after
// block. All numbers are varints; lines are differences to the line before.
//
//	name
//	version (twice, plus 1 for Clang) file start-line start-column end-line end-column blocks
//	locations:  n, then n times block (difference), file, m, m lines
//	arcs:       n, then until there were n: source (difference), m, m times target, flags
//	conditions: n, then n times block, terms
//
// All but the name is the shape of the function: many instances of a template have the same.

// A packer packs functions, in one goroutine. It reads the records of notes as decoder
// does, but keeps nothing that is not packed; what it does not understand decoder
// knows a reason for.
type packer struct {
	names *sourceCache
	dec   decoder
	fn    FunctionGraph

	// Where pool keeps what was packed.
	block int32
	room  []byte
	taken int // of room

	// The function packed last.
	buf                                 []byte
	file                                int32 // number of its source, or dropped
	home                                int32 // the first source that it names and that is not dropped
	name                                []byte
	startLine, startColumn              uint32
	endLine, endColumn                  uint32
	blocks                              uint32
	hasBlocks                           bool
	places, arcs, decisions             []byte // packed, without their number
	placeCount, arcCount, decisionCount int
	counters                            int // arcs off the tree

	// What the next difference is taken to.
	placeBlock, line, arcSrc uint32
	nextSrc                  uint32 // records of arcs are of this block or a later one

	lastName []byte // of a source in this function, as it stands there
	lastFile int32
}

// pack packs the skimmer's function. The bytes are good until the next call.
func (p *packer) pack(s *skimmer) ([]byte, *FormatError) {
	if ok := p.records(s); !ok || int(p.blocks) > p.arcCount+2 {
		if err := p.amiss(s); err != nil {
			return nil, err
		}
		if !ok {
			return nil, &FormatError{s.base, fmt.Sprintf("the records of %q are of no known form", p.name)}
		}
	}
	compiler := uint64(s.version) << 1
	if s.clang {
		compiler++
	}
	b := append(pushed(p.buf[:0], uint64(len(p.name))), p.name...)
	b = binary.AppendVarint(pushed(b, compiler), int64(p.file))
	for _, n := range [...]uint32{p.startLine, p.startColumn, p.endLine, p.endColumn, p.blocks} {
		b = pushed(b, uint64(n))
	}
	b = append(pushed(b, uint64(p.placeCount)), p.places...)
	b = append(pushed(b, uint64(p.arcCount)), p.arcs...)
	p.buf = append(pushed(b, uint64(p.decisionCount)), p.decisions...)
	return p.buf, nil
}

// amiss says what is wrong with the skimmer's function, nil if nothing is.
func (p *packer) amiss(s *skimmer) *FormatError {
	r := *s.r
	r.b, r.pos, r.base, r.err = s.raw, 0, s.base, nil
	p.dec.version = s.version
	if err := p.dec.function(&p.fn, r); err != nil {
		return err
	}
	for i := range p.fn.Locations {
		for _, n := range p.fn.Locations[i].Lines {
			if n >= LineLimit {
				return &FormatError{s.base, fmt.Sprintf("%q has code on line %d, more than any source has", p.fn.Name, n)}
			}
		}
	}
	return nil
}

// records reads the records of a function. It returns false where one is not as it
// should be.
func (p *packer) records(s *skimmer) bool {
	p.places, p.arcs, p.decisions, p.placeCount, p.arcCount, p.decisionCount = p.places[:0], p.arcs[:0], p.decisions[:0], 0, 0, 0
	p.name, p.startLine, p.startColumn, p.endLine, p.endColumn = nil, 0, 0, 0, 0
	p.blocks, p.hasBlocks, p.counters = 0, false, 0
	p.placeBlock, p.line, p.arcSrc, p.nextSrc, p.lastName = 0, 0, 0, 0, nil
	if len(s.raw) < 4 || s.wordAt(s.raw) != TagFunction {
		p.source(nil)
	}
	for raw := s.raw; len(raw) > 0; {
		tag, n := s.wordAt(raw), s.r.size(s.wordAt(raw[4:])) // the skimmer has seen that it fits
		data := raw[8 : 8+n]
		raw = raw[8+n:]
		ok := true
		switch tag {
		case TagFunction:
			ok = p.head(s, data)
		case TagBlocks:
			ok = p.blockCount(s, data)
		case TagArcs:
			ok = p.arcsOf(s, data)
		case TagLines:
			ok = p.linesOf(s, data)
		case TagConditions:
			ok = p.conditions(s, data)
		case TagPaths:
			ok = len(data) == 4
		}
		if !ok {
			return false
		}
	}
	return true
}

func (p *packer) head(s *skimmer, data []byte) bool {
	r := *s.r
	r.b, r.pos, r.err = data, 0, nil
	r.word() // ident
	r.word() // checksum of lines
	if s.version.HasCfgChecksum() {
		r.word()
	}
	p.name = r.text()
	if s.version.HasColumns() {
		r.word() // artificial
	}
	source := r.source()
	p.startLine = r.word()
	if s.version.HasColumns() {
		p.startColumn = r.word()
		p.endLine = r.word()
	}
	if s.version.HasEndColumn() {
		p.endColumn = r.word()
	}
	p.source(source)
	return r.err == nil && r.pos == len(r.b)
}

// source sets the source of the function.
func (p *packer) source(name []byte) {
	p.file, _ = p.names.id(name)
	p.home = p.file
}

func (p *packer) blockCount(s *skimmer, data []byte) bool {
	if p.hasBlocks || len(data)%4 != 0 {
		return false
	}
	p.hasBlocks, p.blocks = true, uint32(len(data)/4)
	if s.version.HasColumns() {
		if len(data) != 4 {
			return false
		}
		p.blocks = s.wordAt(data)
	}
	return true
}

func (p *packer) arcsOf(s *skimmer, data []byte) bool {
	if len(data)%8 != 4 {
		return false
	}
	src, n := s.wordAt(data), len(data)/8
	if src >= p.blocks || src < p.nextSrc {
		return false
	}
	p.nextSrc = src + 1
	if n == 0 {
		return true
	}
	b := pushed(pushed(p.arcs, uint64(src-p.arcSrc)), uint64(n))
	for data = data[4:]; len(data) >= 8; data = data[8:] {
		dst, flags := s.wordAt(data), s.wordAt(data[4:])
		if dst >= p.blocks {
			return false
		}
		b = pushed(pushed(b, uint64(dst)), uint64(flags))
		if flags&ArcTree == 0 {
			p.counters++
		}
	}
	p.arcs, p.arcSrc, p.arcCount = b, src, p.arcCount+n
	return true
}

// linesOf packs locations: runs of lines of one source, each behind a zero and its
// name, until there is no name.
func (p *packer) linesOf(s *skimmer, data []byte) bool {
	if len(data) < 4 {
		return false
	}
	block := s.wordAt(data)
	if block >= p.blocks {
		return false
	}
	file, some := p.file, false
	for pos := 4; ; {
		if len(data)-pos < 8 { // a line and the end behind it have as much
			return false
		}
		if s.wordAt(data[pos:]) == 0 {
			n := s.r.size(s.wordAt(data[pos+4:]))
			if pos += 8; n > len(data)-pos {
				return false
			}
			if n == 0 {
				if !some {
					p.location(block, file, 0)
				}
				return pos == len(data)
			}
			file = p.named(data[pos : pos+n])
			pos += n
		}
		some = true
		end := pos
		for len(data)-end >= 4 && s.wordAt(data[end:]) != 0 {
			end += 4
		}
		p.location(block, file, (end-pos)/4)
		b, line := p.places, p.line
		for ; pos < end; pos += 4 {
			n := s.wordAt(data[pos:])
			if n >= LineLimit {
				return false
			}
			b = pushed(b, zigzag(int64(n)-int64(line)))
			line = n
		}
		p.places, p.line = b, line
	}
}

// named is the source of that name, with the NULs behind it, which the function names.
func (p *packer) named(text []byte) int32 {
	if bytes.Equal(text, p.lastName) { // mostly that of the location before
		return p.lastFile
	}
	name, _, _ := bytes.Cut(text, []byte{0})
	if len(name) == 0 {
		name = []byte(EmptyName)
	}
	file, _ := p.names.id(name)
	p.visit(file)
	p.lastName, p.lastFile = text, file
	return file
}

// location begins a location of n lines.
func (p *packer) location(block uint32, file int32, n int) {
	b := pushed(p.places, zigzag(int64(block)-int64(p.placeBlock)))
	p.places = pushed(pushed(b, zigzag(int64(file))), uint64(n))
	p.placeBlock = block
	p.placeCount++
}

func (p *packer) conditions(s *skimmer, data []byte) bool {
	if len(data)%8 != 0 {
		return false
	}
	for ; len(data) > 0; data = data[8:] {
		block, terms := s.wordAt(data), s.wordAt(data[4:])
		if block >= p.blocks {
			return false
		}
		p.decisions = pushed(pushed(p.decisions, uint64(block)), uint64(terms))
		p.decisionCount++
	}
	return true
}

// visit notes a source that the function names beside its own.
func (p *packer) visit(file int32) {
	switch {
	case file == dropped || file == p.home:
	case p.home == dropped:
		p.home = file
	default:
		p.names.join(p.home, file)
	}
}

// pushed appends a varint, of mostly one byte.
func pushed(b []byte, x uint64) []byte {
	if x < 0x80 {
		return append(b, byte(x))
	}
	return binary.AppendUvarint(b, x)
}

// zigzag is x as a number that is small for small negative ones, too.
func zigzag(x int64) uint64 { return uint64(x)<<1 ^ uint64(x>>63) }

// An unpacked is a function out of the pool.
type unpacked struct {
	shape   []byte // packed, if its graph was laid out; else nil
	version Version
	clang   bool
	file    int32
	fn      FunctionGraph // Locations are in places
	places  []place
	lines   []uint32 // of all places
}

// A place is a Location with the number of its source.
type place struct {
	block      uint32
	file       int32
	line, last int32 // range of unpacked.lines
}

// An unpacker takes numbers off packed bytes, which only packer makes.
type unpacker []byte

func (u *unpacker) next() uint64 {
	b := *u
	x := b[0]
	if x < 0x80 { // nearly always, and small enough to be inlined
		*u = b[1:]
		return uint64(x)
	}
	return u.long()
}

func (u *unpacker) long() uint64 {
	x, n := binary.Uvarint(*u)
	*u = (*u)[n:]
	return x
}

func (u *unpacker) signed() int64 {
	x := u.next()
	return int64(x>>1) ^ -int64(x&1)
}

// unpack sets f from packed bytes, its slices being used again, and lays out its graph,
// which has no counts. again tells that the function before had the same shape, so that only
// the name had to be set.
func (f *unpacked) unpack(b []byte, g *Flow) (again bool) {
	name, shape := cutName(b)
	if again = len(f.shape) > 0 && bytes.Equal(shape, f.shape); again {
		f.fn.Name = string(name)
		g.unsolve()
		return true
	}
	u := f.unpackLines(b)
	fn := &f.fn
	fn.Name, f.shape = string(name), shape
	g.begin(fn, f.version, int(u.next()))
	for i, src := 0, uint32(0); i < len(g.Arcs); {
		src += uint32(u.next())
		for range u.next() {
			var dst, flags uint64
			if u[0]|u[1] < 0x80 { // nearly always
				dst, flags, u = uint64(u[0]), uint64(u[1]), u[2:]
			} else {
				dst, flags = u.next(), u.next()
			}
			g.arc(i, src, uint32(dst), uint32(flags))
			i++
		}
	}
	g.finish()
	fn.Conditions = fn.Conditions[:0]
	for range u.next() {
		fn.Conditions = append(fn.Conditions, Decision{uint32(u.next()), uint32(u.next())})
	}
	return false
}

// cutName divides packed bytes into the name and the shape.
func cutName(b []byte) (name []byte, shape unpacker) {
	u := unpacker(b)
	n := u.next()
	return u[:n], u[n:]
}

// unpackLines sets all of f but the name, the arcs and the conditions, and returns the
// bytes behind.
func (f *unpacked) unpackLines(b []byte) unpacker {
	_, u := cutName(b)
	fn := &f.fn
	f.shape = nil
	compiler := u.next()
	f.version, f.clang = Version(compiler>>1), compiler&1 != 0
	f.file = int32(u.signed())
	fn.StartLine, fn.StartColumn = uint32(u.next()), uint32(u.next())
	fn.EndLine, fn.EndColumn = uint32(u.next()), uint32(u.next())
	fn.Blocks = int(u.next())
	f.places, f.lines = f.places[:0], f.lines[:0]
	block, line := int64(0), int64(0)
	for range u.next() {
		block += u.signed()
		p := place{block: uint32(block), file: int32(u.signed()), line: int32(len(f.lines))}
		for range u.next() {
			if x := int64(u[0]); x < 0x80 { // nearly always
				line += x>>1 ^ -(x & 1)
				u = u[1:]
			} else {
				line += u.signed()
			}
			f.lines = append(f.lines, uint32(line))
		}
		p.last = int32(len(f.lines))
		f.places = append(f.places, p)
	}
	return u
}
