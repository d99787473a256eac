package gocover

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	"footfall/formats/cursor"
)

// A file of meta-data is, all numbers little-endian on every machine:
//
//	magic        "\x00cvm"
//	version      u32
//	length       u64, of the file
//	packages     u64
//	hash         16 bytes
//	texts        offset u32, length u32: a table, whose only text is empty
//	mode         u8
//	granularity  u8
//	             6 bytes
//	             offset u64 of each package, then the length u64 of each
//	             the table of texts, the packages
//
// A package is as the compiler has put it into the program's read-only data:
//
//	length       u32
//	name, path, module path   u32 each, numbers of texts
//	hash         16 bytes
//	             4 bytes
//	files        u32
//	functions    u32
//	             offset u32 of each function in the package
//	             a table of texts
//
// and a function, in ULEB128 numbers: blocks, name, file (of the texts); of each block its first line and column, those
// behind its end, and statements; whether it is a function literal.
const (
	metaMagic     = "\x00cvm"
	metaVersion   = 1
	metaHeader    = 56
	packageHeader = 44
	smallestBlock = 5 // bytes
)

// A Meta is what a program says about its code: it is the same for all of its runs.
type Meta struct {
	Hash        Hash
	Mode        Mode
	Granularity Granularity
	Packages    []Package
}

// A Package is one that was built for coverage.
type Package struct {
	Path, Name, Module string // example.com/shop/cmd/app, main, example.com/shop
	Functions          []FuncDesc
	// Bytes are the package as the compiler wrote it.
	Bytes []byte
}

// A FuncDesc is a declared one, or a function literal outside of these: blocks of literals within functions are
// those of the function.
type FuncDesc struct {
	// Name is as in *server.handle and Num.Double, of generic types without the type: Push. Literals are
	// func.L28.C12 by their place.
	Name    string
	File    string // example.com/shop/calc/calc.go, or the path of a file
	Literal bool
	Units   []CoverableUnit
}

// A CoverableUnit is a block of statements that run one after the other. End is behind its last character.
type CoverableUnit struct {
	Line, Column, EndLine, EndColumn uint32
	Statements                       uint32
}

// IsMeta tells by the beginning of a file whether it is one of meta-data.
func IsMeta(head []byte) bool { return bytes.HasPrefix(head, []byte(metaMagic)) }

// ReadMeta reads a file of meta-data. Errors are FormatErrors.
func ReadMeta(b []byte) (*Meta, error) {
	r := &reader{cursor.Reader{B: b, Order: binary.LittleEndian}}
	if magic := r.Bytes(4); r.Err == nil && string(magic) != metaMagic {
		r.At = 0
		r.Fail("%q, but the meta-data of go build -cover begins with %q", magic, metaMagic)
	}
	if v := r.U32(); r.Err == nil && v != metaVersion {
		r.At -= 4
		r.Fail("version %d of meta-data: known is %d (Go 1.20 to 1.26)", v, metaVersion)
	}
	length, n := r.U64(), r.U64()
	m := new(Meta)
	copy(m.Hash[:], r.Bytes(16))
	r.Bytes(8)
	m.Mode, m.Granularity = Mode(r.U8()), Granularity(r.U8())
	r.Bytes(6)
	if r.Err == nil && length > uint64(len(b)) {
		r.At = len(b)
		r.Fail("%d bytes, but it was written with %d: %w", len(b), length, ErrCut)
	}
	if !r.Fits("packages", n, 16) {
		return nil, r.Err
	}
	table := r.Bytes(16 * n)
	var sum uint64
	m.Packages = make([]Package, 0, n)
	for i := range int(n) {
		offset, size := r.Order.Uint64(table[8*i:]), r.Order.Uint64(table[8*(int(n)+i):])
		sum += size
		if offset > uint64(len(b)) || size > uint64(len(b))-offset || sum > uint64(len(b)) {
			return nil, &FormatError{Offset: metaHeader + 8*int64(i), Err: fmt.Errorf("package %d of %d bytes at %#x, in a file of %d", i, size, offset, len(b))}
		}
		p, err := readPackage(b[offset:offset+size:offset+size], int(offset))
		if err != nil {
			return nil, fmt.Errorf("package %d of %d: %w", i+1, n, err)
		}
		m.Packages = append(m.Packages, *p)
	}
	return m, r.Err
}

// ReadPackage reads a package that a program has in its memory.
func ReadPackage(b []byte) (*Package, error) { return readPackage(b, 0) }

func readPackage(b []byte, base int) (*Package, error) {
	r := &reader{cursor.Reader{B: b, Base: base, Order: binary.LittleEndian}}
	r.U32()
	name, path, module := r.U32(), r.U32(), r.U32()
	r.Bytes(24)
	n := uint64(r.U32())
	if !r.Fits("functions", n, 4) {
		return nil, r.Err
	}
	offsets := r.Bytes(4 * n)
	texts := r.texts()
	p := &Package{Bytes: b, Name: r.text(texts, uint64(name)), Path: r.text(texts, uint64(path)), Module: r.text(texts, uint64(module))}
	if r.Err != nil {
		return nil, r.Err
	}
	p.Functions = make([]FuncDesc, n)
	units := len(b) / smallestBlock // that there can be at most: functions do not overlap
	for i := range p.Functions {
		at := r.Order.Uint32(offsets[4*i:])
		if at < packageHeader || uint64(at) > uint64(len(b)) {
			r.At = packageHeader + 4*i
			r.Fail("function %d at %#x, in a package of %d bytes", i, at, len(b))
			return nil, r.Err
		}
		r.At = int(at)
		if r.function(&p.Functions[i], texts, units); r.Err != nil {
			return nil, r.Err
		}
		units -= len(p.Functions[i].Units)
	}
	return p, nil
}

func (r *reader) function(f *FuncDesc, texts []string, most int) {
	start := r.At
	n := r.Uleb()
	if n > uint64(most) {
		r.At = start
		r.Fail("a function of %d blocks, more than are left for it", n)
	}
	f.Name, f.File = r.text(texts, r.Uleb()), r.text(texts, r.Uleb())
	if !r.Fits("blocks", n, smallestBlock) {
		return
	}
	f.Units = make([]CoverableUnit, n)
	for i := range f.Units {
		f.Units[i] = CoverableUnit{r.Uleb32("a line"), r.Uleb32("a column"), r.Uleb32("a line"), r.Uleb32("a column"), r.Uleb32("a number of statements")}
	}
	f.Literal = r.Uleb() != 0
}

// NewMeta makes the meta-data of a program of packages in the order in which these were initialised, which are as the
// program has them in its memory.
func NewMeta(mode Mode, granularity Granularity, packages []Package) *Meta {
	h := fnv.New128a()
	if len(packages) > 0 && packages[0].isOlder() {
		h = md5.New()
	}
	for _, p := range packages {
		h.Write(p.Bytes[offsetHash : offsetHash+16])
	}
	h.Write([]byte(mode.String()))
	h.Write([]byte(granularity.String()))
	return &Meta{Hash(h.Sum(nil)), mode, granularity, packages}
}

// offsetHash is where a package has its hash.
const offsetHash = 16

// Encode makes the file.
func (m *Meta) Encode() []byte {
	texts := appendTexts(nil, []string{""})
	offset := metaHeader + 16*len(m.Packages) + len(texts)
	length := offset
	for i := range m.Packages {
		length += len(m.Packages[i].Bytes)
	}
	le := binary.LittleEndian
	b := le.AppendUint32(append(make([]byte, 0, length), metaMagic...), metaVersion)
	b = le.AppendUint64(le.AppendUint64(b, uint64(length)), uint64(len(m.Packages)))
	b = append(b, m.Hash[:]...)
	b = le.AppendUint32(le.AppendUint32(b, uint32(metaHeader+16*len(m.Packages))), uint32(len(texts)))
	b = append(b, byte(m.Mode), byte(m.Granularity), 0, 0, 0, 0, 0, 0)
	for i := range m.Packages {
		b = le.AppendUint64(b, uint64(offset))
		offset += len(m.Packages[i].Bytes)
	}
	for i := range m.Packages {
		b = le.AppendUint64(b, uint64(len(m.Packages[i].Bytes)))
	}
	b = append(b, texts...)
	for i := range m.Packages {
		b = append(b, m.Packages[i].Bytes...)
	}
	return b
}

// errUnknownMode is why counters of a mode are not used.
var errUnknownMode = errors.New("an unknown mode of counters: known are set, count and atomic")

// Check returns an error if the modes are none that programs have.
func (m *Meta) Check() error {
	if !m.Mode.Counts() {
		return fmt.Errorf("%w: %d", errUnknownMode, m.Mode)
	}
	return nil
}

// hash adds what there is of a function to a hash.
func (f *FuncDesc) hash(h io.Writer) {
	_, _ = io.WriteString(h, f.Name)
	_, _ = io.WriteString(h, f.File)
	var b []byte
	for _, u := range f.Units {
		for _, n := range [5]uint32{u.Line, u.Column, u.EndLine, u.EndColumn, u.Statements} {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
	}
	b = binary.LittleEndian.AppendUint32(b, f.isLiteral())
	_, _ = h.Write(b)
}

func (f *FuncDesc) isLiteral() uint32 {
	if f.Literal {
		return 1
	}
	return 0
}

// Hash tells functions apart.
func (f *FuncDesc) Hash() Hash {
	h := fnv.New128a()
	f.hash(h)
	return Hash(h.Sum(nil))
}

// isOlder tells of a package of a program whether a Go before 1.24 has compiled it, which made all hashes by MD5.
func (p *Package) isOlder() bool {
	h := md5.New()
	p.hash(h)
	return bytes.Equal(h.Sum(nil), p.Bytes[offsetHash:offsetHash+16])
}

// hash adds what there is of a package to a hash.
func (p *Package) hash(h io.Writer) {
	for _, s := range []string{p.Path, p.Name, p.Module} {
		_, _ = io.WriteString(h, s)
	}
	for i := range p.Functions {
		p.Functions[i].hash(h)
	}
}

// Encode makes the bytes of a package, as the compiler would.
func (p *Package) Encode() []byte {
	index := make(map[string]uint64)
	var texts []string
	number := func(s string) uint64 {
		i, known := index[s]
		if !known {
			i = uint64(len(texts))
			index[s] = i
			texts = append(texts, s)
		}
		return i
	}
	number("")
	path, name, module := number(p.Path), number(p.Name), number(p.Module)
	h := fnv.New128a()
	p.hash(h)
	var functions []byte
	var at []int
	for i := range p.Functions {
		f := &p.Functions[i]
		at = append(at, len(functions))
		functions = binary.AppendUvarint(functions, uint64(len(f.Units)))
		functions = binary.AppendUvarint(functions, number(f.Name))
		functions = binary.AppendUvarint(functions, number(f.File))
		for _, u := range f.Units {
			for _, n := range [5]uint32{u.Line, u.Column, u.EndLine, u.EndColumn, u.Statements} {
				functions = binary.AppendUvarint(functions, uint64(n))
			}
		}
		functions = append(functions, byte(f.isLiteral()))
	}
	table := appendTexts(nil, texts)
	start := packageHeader + 4*len(p.Functions) + len(table)
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, start+len(functions)), uint32(start+len(functions)))
	for _, n := range [3]uint64{name, path, module} {
		b = le.AppendUint32(b, uint32(n))
	}
	b = append(h.Sum(b), 0, 0, 0, 0)
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(texts))), uint32(len(p.Functions)))
	for _, a := range at {
		b = le.AppendUint32(b, uint32(start+a))
	}
	return append(append(b, table...), functions...)
}
