package gocover

import "fmt"

// A Meta is what there is to count in a program.
type Meta struct {
	Hash        Hash
	Mode        Mode
	Granularity Granularity
	Packages    []Package // counts know them by their number
}

// A Package is one that was compiled to be counted.
type Package struct {
	Name, Path string
	Module     string // "" for none
	Functions  []Function

	bytes []byte // see readPackage
}

// A Function is one of a package, or a literal in one.
type Function struct {
	Name    string // of a method T.name
	File    string // path of the package, and the name in it
	Literal bool   // it has no name of its own
	Units   []Unit // one for each counter
}

// A Unit is statements that run one after the other. The end is behind the last character.
type Unit struct {
	StartLine, StartColumn, EndLine, EndColumn uint32
	Statements                                 uint32
}

var metaMagic, countersMagic = [4]byte{0, 'c', 'v', 'm'}, [4]byte{0, 'c', 'w', 'm'}

const version = 1

// metaHead is its size in bytes.
const metaHead = 4 + 4 + 8 + 8 + 16 + 4 + 4 + 1 + 1 + 6

// ReadMeta reads a covmeta file:
//
//	magic 4, version u32, length u64, packages u64, hash 16, texts: offset u32, bytes u32; mode u8, granularity u8, 0 6
//	offset u64 of each package, length u64 of each
//	texts (of none)
//	packages
func ReadMeta(b []byte) (*Meta, error) {
	r := &reader{b: b}
	if magic := r.bytes(4); r.err == nil && [4]byte(magic) != metaMagic {
		r.at = 0
		r.fail("% x where a covmeta file begins with % x", magic, metaMagic)
	}
	if v := r.u32(); r.err == nil && v != version {
		r.at -= 4
		r.fail("version %d of covmeta files: known is %d (Go 1.20 and later)", v, version)
	}
	r.u64()
	n := r.u64()
	m := new(Meta)
	copy(m.Hash[:], r.bytes(16))
	r.u64()
	m.Mode, m.Granularity = Mode(r.u8()), Granularity(r.u8())
	r.bytes(6)
	if n > r.left()/16 {
		r.fail("%d packages in %d bytes", n, r.left())
	}
	if r.err != nil {
		return nil, r.err
	}
	sizes := &reader{b: b, at: r.at + int(8*n)}
	// Packages do not overlap: else few bytes would become many.
	room := uint64(len(b))
	for i := range n {
		at, size := r.u64(), sizes.u64()
		if at > uint64(len(b)) || size > uint64(len(b))-at || size > room {
			r.fail("package %d of %d bytes at %#x, of %#x bytes", i, size, at, len(b))
			return m, r.err
		}
		room -= size
		p, err := readPackage(b[at:at+size], int64(at))
		if err != nil {
			return m, fmt.Errorf("package %d: %w", i, err)
		}
		m.Packages = append(m.Packages, p)
	}
	return m, nil
}

// packageHead is its size in bytes.
const packageHead = 4*4 + 16 + 4 + 4 + 4

// readPackage reads
//
//	length u32, name u32, path u32, module u32: numbers of texts; hash 16, 0 4, files u32, functions u32
//	offset u32 of each function
//	texts
//	functions: units ULEB, name, file; of each unit start line, column, end line, column, statements; 1 if it is a literal
//
// from is where it is in the file.
func readPackage(b []byte, from int64) (p Package, err error) {
	r := &reader{b: b}
	defer func() {
		if f, ok := r.err.(*FormatError); ok {
			f.Offset += from
		}
		err = r.err
	}()
	r.u32()
	name, path, module := r.u32(), r.u32(), r.u32()
	r.bytes(16 + 4 + 4)
	n := uint64(r.u32())
	if n > r.left()/4 {
		r.fail("%d functions in %d bytes", n, r.left())
	}
	offsets := &reader{b: b, at: r.at}
	r.bytes(4 * n)
	texts := r.strings()
	text := func(i uint32) string {
		if uint64(i) >= uint64(len(texts)) {
			r.fail("text %d of %d", i, len(texts))
			return ""
		}
		return texts[i]
	}
	p.Name, p.Path, p.Module, p.bytes = text(name), text(path), text(module), b
	room := uint64(len(b)) // functions that lead to the same place would be read again and again
	for i := range n {
		if r.err != nil {
			return p, r.err
		}
		at := offsets.u32()
		if uint64(at) > uint64(len(b)) || room == 0 {
			r.fail("function %d is to be at %#x, of %#x bytes", i, at, len(b))
			return p, r.err
		}
		r.at = int(at)
		p.Functions = append(p.Functions, r.function(text))
		room -= min(room, uint64(r.at)-uint64(at)) // a function has a byte at least
	}
	return p, r.err
}

func (r *reader) function(text func(uint32) string) (f Function) {
	n := uint64(r.uleb32())
	if n > r.left()/5 {
		r.fail("%d units in %d bytes", n, r.left())
	}
	f.Name, f.File = text(r.uleb32()), text(r.uleb32())
	if r.err != nil {
		return f
	}
	f.Units = make([]Unit, n)
	for i := range f.Units {
		f.Units[i] = Unit{r.uleb32(), r.uleb32(), r.uleb32(), r.uleb32(), r.uleb32()}
	}
	f.Literal = r.uleb32() != 0
	return f
}
