package llvm

import (
	"encoding/binary"
	"fmt"
	"slices"

	"footfall/formats/cursor"
)

// This file is what binaries say of their sources in parts that do without the binary: for who keeps, or sends, that for some of
// its functions. A part is
//
//	units: number, of each its version and the number of its files, of each file its name
//	functions: number, of each its unit, name, hash u64, mapping
//
// where numbers are ULEB128 and u64 is little-endian; names and mappings have their length before them.

// Wanted tells whether some source of the function is kept. dir is where names are seen from if the compiler did not say where it
// ran, source as in [CollectOptions].
func (r *Record) Wanted(dir string, source func(dir, name string) (path string, keep bool)) bool {
	d := &reader{cursor.Reader{B: r.mapping}}
	for _, i := range d.fileIndices(nil, r.unit) {
		if _, keep := source(r.unit.from(dir), r.unit.files[i]); keep {
			return true
		}
	}
	return false
}

// from is the directory that names of the unit's files are seen from.
func (u *unit) from(dir string) string {
	if u.dir != "" {
		return u.dir
	}
	return dir
}

// EncodePart makes the part of some functions of a binary. Sources are called as source calls them; those that it does not keep have
// no name in it.
func EncodePart(records []*Record, dir string, source func(dir, name string) (path string, keep bool)) []byte {
	numbers := make(map[*unit]uint64)
	var units []byte
	for _, r := range records {
		if _, known := numbers[r.unit]; known {
			continue
		}
		numbers[r.unit] = uint64(len(numbers))
		units = binary.AppendUvarint(units, uint64(r.unit.version))
		units = binary.AppendUvarint(units, uint64(len(r.unit.files)))
		for _, name := range r.unit.files {
			path, keep := source(r.unit.from(dir), name)
			if !keep {
				path = ""
			}
			units = appendText(units, path)
		}
	}
	b := append(binary.AppendUvarint(nil, uint64(len(numbers))), units...)
	b = binary.AppendUvarint(b, uint64(len(records)))
	for _, r := range records {
		b = appendText(binary.AppendUvarint(b, numbers[r.unit]), r.Name())
		b = binary.LittleEndian.AppendUint64(b, r.Hash)
		if r.Name() == "" { // only its hash is known
			b = binary.LittleEndian.AppendUint64(b, r.NameHash)
		}
		b = appendText(b, string(r.mapping))
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// ReadPart reads a part. Files without a name are those that are not kept, see [KeptOfPart]. Errors are FormatErrors.
func ReadPart(b []byte) (*Binary, error) {
	r := &reader{cursor.Reader{B: b, Order: binary.LittleEndian}}
	part := &Binary{names: []Names{make(Names)}}
	var units []*unit
	for range r.Count("units", 2) {
		u := &unit{version: int(min(r.Uleb(), 1<<16))}
		for range r.Count("files", 1) {
			u.files = append(u.files, string(r.Bytes(r.Uleb())))
		}
		units = append(units, u)
	}
	for range r.Count("functions", 11) {
		of := r.Uleb()
		if r.Err == nil && of >= uint64(len(units)) {
			r.Fail("unit %d of %d", of, len(units))
		}
		name := string(r.Bytes(r.Uleb()))
		f := &Record{Hash: r.U64(), binary: part, NameHash: HashOf(name)}
		if name == "" {
			f.NameHash = r.U64()
		}
		f.mapping = r.Bytes(r.Uleb())
		if r.Err != nil {
			return nil, r.Err
		}
		f.unit, f.dummy = units[of], f.Hash == 0 && isDummy(f.mapping)
		if name != "" {
			part.names[0][f.NameHash] = name
		}
		part.Records = append(part.Records, f)
	}
	if r.Err == nil && r.Left() > 0 {
		r.Fail("%d more bytes than there should be", r.Left())
	}
	return part, r.Err
}

// KeptOfPart is [CollectOptions.Source] for parts.
func KeptOfPart(_, name string) (path string, keep bool) { return name, name != "" }

// Files calls use with the name of each file of the binary's units, as it is recorded, with some of them again. The first
// of version 6 and later is no source, but the directory in which the compiler ran.
func (b *Binary) Files(use func(name string)) {
	var last *unit
	for _, r := range b.Records {
		if r.unit == last {
			continue
		}
		last = r.unit
		for i, name := range r.unit.files {
			if i > 0 || r.unit.version < 6 {
				use(name)
			}
		}
	}
}

// Check returns an error if the mapping of some function cannot be read.
func (b *Binary) Check() error {
	var m mapping
	for _, r := range b.Records {
		if err := r.decodeInto(&m); err != nil {
			return fmt.Errorf("mapping of function %s: %w", r.Name(), err)
		}
	}
	return nil
}

// A Placed function is where one of a coverage.Set comes from, which has it by its file, first line and column, and the name of
// one of its instances.
type Placed struct {
	File         string
	Line, Column int32
	Symbol       string
	Record       *Record
}

// Place finds where the functions of an image, and with them those that these are made of, begin.
func Place(im Image, source func(dir, name string) (path string, keep bool)) (list []Placed) {
	c := newCollector(CollectOptions{Source: source})
	c.image(im)
	for _, f := range c.evaluate() {
		first := f.first(f.Main)
		if at := f.paths[f.Main]; at >= 0 && first != nil {
			list = append(list, Placed{c.names[at], int32(first.Line), column(first.Column), f.symbol, f.record})
		}
	}
	return list
}

// With returns the binary with those functions only for which is is true.
func (b *Binary) With(is func(*Record) bool) *Binary {
	o := *b
	o.Records = slices.DeleteFunc(slices.Clone(b.Records), func(r *Record) bool { return !is(r) })
	return &o
}

// Size is how many bytes of mapping the function has.
func (r *Record) Size() int { return len(r.mapping) }
