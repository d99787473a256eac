package gcov

import (
	"encoding/binary"
	"fmt"
)

// A function in the pool is packed: a few bytes an arc and a line instead of
// the many of the notes, most of which are the names of sources, block after
// block. All numbers are varints; lines are differences to the line before.
//
//	version (twice, plus 1 for Clang) file name start-line start-column end-line end-column blocks
//	locations:  n, then n times block (difference), file, m, m lines
//	arcs:       n, then n times source (difference), target, flags
//	conditions: n, then n times block, terms

// A packer packs functions, in one goroutine.
type packer struct {
	names *sourceCache
	dec   decoder
	fn    FunctionGraph
	file  int32 // of the function packed last
	home  int32 // the first source that it names and that is not dropped
	buf   []byte
}

// pack packs the skimmer's function. The bytes are good until the next call.
func (p *packer) pack(s *skimmer) ([]byte, *FormatError) {
	r := *s.r
	r.b, r.pos, r.base, r.err = s.raw, 0, s.base, nil
	p.dec.version = s.version
	fn := &p.fn
	if err := p.dec.function(fn, r); err != nil {
		return nil, err
	}
	for i := range fn.Locations {
		for _, n := range fn.Locations[i].Lines {
			if n >= LineLimit {
				return nil, &FormatError{s.base, fmt.Sprintf("%q has code on line %d, more than any source has", fn.Name, n)}
			}
		}
	}
	p.file, _ = p.names.id([]byte(fn.Source))
	p.home = p.file
	p.buf = p.buf[:0]
	compiler := uint64(s.version) << 1
	if s.clang {
		compiler++
	}
	p.add(compiler)
	p.signed(int64(p.file))
	p.add(uint64(len(fn.Name)))
	p.buf = append(p.buf, fn.Name...)
	for _, n := range [...]uint32{fn.StartLine, fn.StartColumn, fn.EndLine, fn.EndColumn, uint32(fn.Blocks)} {
		p.add(uint64(n))
	}
	p.locations()
	p.arcs()
	p.add(uint64(len(fn.Conditions)))
	for _, c := range fn.Conditions {
		p.add(uint64(c.Block))
		p.add(uint64(c.Terms))
	}
	return p.buf, nil
}

func (p *packer) arcs() {
	p.add(uint64(len(p.fn.Arcs)))
	src := uint32(0)
	for _, a := range p.fn.Arcs {
		p.add(uint64(a.Src - src))
		p.add(uint64(a.Dst))
		p.add(uint64(a.Flags))
		src = a.Src
	}
}

func (p *packer) locations() {
	p.add(uint64(len(p.fn.Locations)))
	block, line := uint32(0), uint32(0)
	for i := range p.fn.Locations {
		l := &p.fn.Locations[i]
		file := p.file
		if l.Source != "" && l.Source != p.fn.Source {
			file, _ = p.names.id([]byte(l.Source))
			p.visit(file)
		}
		p.signed(int64(l.Block) - int64(block))
		p.signed(int64(file))
		p.add(uint64(len(l.Lines)))
		for _, n := range l.Lines {
			p.signed(int64(n) - int64(line))
			line = n
		}
		block = l.Block
	}
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

func (p *packer) add(x uint64)   { p.buf = binary.AppendUvarint(p.buf, x) }
func (p *packer) signed(x int64) { p.buf = binary.AppendVarint(p.buf, x) }

// An unpacked is a function out of the pool.
type unpacked struct {
	version Version
	clang   bool
	file    int32
	name    []byte
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
	if b := *u; b[0] < 0x80 { // nearly always
		*u = b[1:]
		return uint64(b[0])
	}
	x, n := binary.Uvarint(*u)
	*u = (*u)[n:]
	return x
}

func (u *unpacker) signed() int64 {
	x := u.next()
	return int64(x>>1) ^ -int64(x&1)
}

// unpack sets f from packed bytes, its slices being used again.
func (f *unpacked) unpack(b []byte) {
	u := f.unpackLines(b)
	fn := &f.fn
	fn.Name = string(f.name)
	fn.Arcs = fn.Arcs[:0]
	src := uint32(0)
	for range u.next() {
		src += uint32(u.next())
		fn.Arcs = append(fn.Arcs, Arc{src, uint32(u.next()), uint32(u.next())})
	}
	fn.Conditions = fn.Conditions[:0]
	for range u.next() {
		fn.Conditions = append(fn.Conditions, Decision{uint32(u.next()), uint32(u.next())})
	}
}

// unpackLines sets all of f but the name, the arcs and the conditions, and returns the
// bytes behind.
func (f *unpacked) unpackLines(b []byte) unpacker {
	u := unpacker(b)
	fn := &f.fn
	compiler := u.next()
	f.version, f.clang = Version(compiler>>1), compiler&1 != 0
	f.file = int32(u.signed())
	n := u.next()
	f.name, u = u[:n], u[n:]
	fn.StartLine, fn.StartColumn = uint32(u.next()), uint32(u.next())
	fn.EndLine, fn.EndColumn = uint32(u.next()), uint32(u.next())
	fn.Blocks = int(u.next())
	f.places, f.lines = f.places[:0], f.lines[:0]
	block, line := int64(0), int64(0)
	for range u.next() {
		block += u.signed()
		p := place{block: uint32(block), file: int32(u.signed()), line: int32(len(f.lines))}
		for range u.next() {
			line += u.signed()
			f.lines = append(f.lines, uint32(line))
		}
		p.last = int32(len(f.lines))
		f.places = append(f.places, p)
	}
	return u
}
