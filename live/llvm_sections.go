//go:build linux

package live

import (
	"bytes"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"footfall/binary"
	"footfall/formats/llvm"
	"footfall/process"
)

// llvmSections are where the counters of an image are.
type llvmSections struct {
	order   byteOrder
	pointer int

	data, counters, bits, names section
	notes                       []section
	more                        []string // sections that are not known here
	coverage                    bool     // there is a mapping to source
	compilers                   []int    // major versions of Clang, where the file tells
	// Addresses of variables, 0: there are none, or the file is stripped.
	versionAt, counterBias, bitBias, patternAt uint64
	// Pointers that the runtime sets before it begins to write a profile, and when it has read what it adds to (%m).
	writingAt, writtenAt uint64
	nodes                uint64 // that are there for values before any are needed

	// What never changes, read by prepare.
	raw     llvm.RawVersion
	text    []byte // the names
	ids     []byte
	pattern string // of the name of its file, "": none was given when it was compiled
}

type byteOrder interface {
	encoding.ByteOrder
	encoding.AppendByteOrder
}

type section struct{ addr, size uint64 }

// profileOf takes from an image's file where a profile is, nil if there is
// none. symbols looks symbols up.
func profileOf(f *binary.File, bias uint64, symbols func(name string) ([]uint64, error)) *llvmSections {
	p := &llvmSections{order: encoding.LittleEndian, pointer: f.PointerSize()}
	if f.Order == encoding.ByteOrder(encoding.BigEndian) {
		p.order = encoding.BigEndian
	}
	for name, to := range map[string]*section{
		"__llvm_prf_data": &p.data, "__llvm_prf_cnts": &p.counters, "__llvm_prf_bits": &p.bits, "__llvm_prf_names": &p.names,
	} {
		if addr, size, ok := f.Section(name); ok {
			*to = section{addr + bias, size}
		}
	}
	if p.counters.size == 0 {
		return nil
	}
	for _, name := range []string{"__llvm_prf_vtab", "__llvm_prf_vns", "__llvm_prf_ucnts"} {
		if _, size, ok := f.Section(name); ok && size > 0 {
			p.more = append(p.more, name)
		}
	}
	if _, size, ok := f.Section("__llvm_prf_vnds"); ok {
		p.nodes = size / uint64(16+p.pointer)
	}
	addrs, sizes := f.Notes()
	for i := range addrs {
		p.notes = append(p.notes, section{addrs[i] + bias, sizes[i]})
	}
	for name, to := range map[string]*uint64{
		"__llvm_profile_raw_version": &p.versionAt, "__llvm_profile_counter_bias": &p.counterBias, "__llvm_profile_bitmap_bias": &p.bitBias,
		"__llvm_profile_filename": &p.patternAt,
		"VPMergeHook":             &p.writingAt, "FreeHook": &p.writtenAt,
	} {
		if found, err := symbols(name); err == nil && len(found) == 1 {
			*to = found[0] + bias
		}
	}
	p.coverage = f.Has("__llvm_covmap")
	if p.versionAt == 0 {
		comment, _ := f.Contents(".comment")
		p.compilers = clangMajors(comment)
	}
	return p
}

var clangVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`clang version ([0-9]{1,4})\.`) })

// clangMajors finds the versions of Clang that compiled objects of a file, in
// its .comment. The runtime is among them, also in programs of Rust.
func clangMajors(comment []byte) []int {
	var majors []int
	for _, m := range clangVersion().FindAllSubmatch(comment, 100) {
		if major, err := strconv.Atoi(string(m[1])); err == nil && !slices.Contains(majors, major) {
			majors = append(majors, major)
		}
	}
	return majors
}

// Limits of what is believed of a profile.
const (
	maxRecords = 1 << 23
	maxNotes   = 1 << 16
)

// prepare reads what never changes.
func (p *llvmSections) prepare(w *walker) error {
	if len(p.more) > 0 {
		return fmt.Errorf("it has section %s, which footfall does not know how to write", p.more[0])
	}
	if p.data.size == 0 {
		return errors.New("its records are not in memory (-mllvm -profile-correlate)")
	}
	for _, s := range []section{p.data, p.counters, p.bits, p.names} {
		if !holds(w.maps, s) {
			return fmt.Errorf("a section of %d bytes is to be at %#x, but is not mapped", s.size, s.addr)
		}
	}
	if err := p.findVersion(w); err != nil {
		return err
	}
	size, err := p.recordBytes(p.raw)
	if err != nil {
		return err
	}
	if p.data.size = size; !holds(w.maps, p.data) || size > maxRecords*uint64(p.raw.Record(p.pointer).Size) {
		return errTooMany
	}
	if err := p.findBitmaps(w); err != nil {
		return err
	}
	p.text = make([]byte, p.names.size)
	if _, err := w.mem.ReadAt(p.text, int64(p.names.addr)); err != nil && len(p.text) > 0 {
		return fmt.Errorf("names: %w", err)
	}
	if p.patternAt != 0 {
		p.pattern, _ = w.text(p.patternAt)
	}
	if p.raw.Number() >= 7 {
		if err := p.readIDs(w); err != nil {
			return err
		}
	}
	return nil
}

// holds tells whether all of a section is mapped.
func holds(maps process.Maps, s section) bool {
	end := s.addr + s.size
	if end < s.addr || s.size > maxRead {
		return false
	}
	for addr := s.addr; addr < end; {
		m := maps.At(addr)
		if m == nil {
			return false
		}
		addr = m.End
	}
	return true
}

// findVersion finds the version and its flags: in the variable that has it; in
// a stripped program by what records look like, and by the compilers that the
// file names.
func (p *llvmSections) findVersion(w *walker) error {
	if p.versionAt != 0 {
		b, err := w.read(p.versionAt, 8)
		if err != nil {
			return fmt.Errorf("__llvm_profile_raw_version: %w", err)
		}
		if p.raw = llvm.RawVersion(p.order.Uint64(b)); !p.raw.Known() {
			return fmt.Errorf("raw profiles of version %d: known are 4, 5 and 7 to 11 (Clang 9 to 23); their layout is not guessed", p.raw.Number())
		}
		return nil
	}
	data := make([]byte, p.data.size)
	if _, err := w.mem.ReadAt(data, int64(p.data.addr)); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	var fits []llvm.RawVersion
	for _, major := range p.compilers {
		if v := llvm.RawVersionOf(major); v != 0 && !slices.Contains(fits, v) && p.fits(data, v) {
			fits = append(fits, v)
		}
	}
	const stripped = "it is stripped of __llvm_profile_raw_version, which tells the version of its counters"
	switch {
	case len(fits) != 1:
		return fmt.Errorf("%s, and its section .comment does not tell it (Clang %v); keep that symbol (strip -K __llvm_profile_raw_version)", stripped, p.compilers)
	case !p.coverage:
		return fmt.Errorf("%s and its kind, and it has no coverage mapping (-fcoverage-mapping): built with -fprofile-generate?", stripped)
	}
	p.raw = fits[0]
	return nil
}

// findBitmaps finds where the bitmaps would be of a program that was built for
// them, but has none: strip removes the empty section, the head of the profile
// tells its address still, and records lead there.
func (p *llvmSections) findBitmaps(w *walker) error {
	l := p.raw.Record(p.pointer)
	if l.Bitmaps == 0 || p.bits.addr != 0 {
		return nil
	}
	b, err := w.read(p.data.addr, l.Size)
	if err != nil {
		return fmt.Errorf("records: %w", err)
	}
	if distance := p.address(b[l.Bitmaps:]); distance != 0 {
		p.bits.addr = p.wrap(p.data.addr + distance)
	}
	return nil
}

// recordBytes is the size of all records. The section may lack the padding of
// the last one.
func (p *llvmSections) recordBytes(v llvm.RawVersion) (uint64, error) {
	size := uint64(v.Record(p.pointer).Size)
	all := (p.data.size + size - 1) / size * size
	if all-p.data.size >= 8 {
		return 0, fmt.Errorf("records of raw profiles of version %d have %d bytes, there are %d bytes of them", v.Number(), size, p.data.size)
	}
	return all, nil
}

// fits tells whether the records, as that version has them, lead to all
// counters of 64 bits, one record after the other.
func (p *llvmSections) fits(data []byte, v llvm.RawVersion) bool {
	l := v.Record(p.pointer)
	all, err := p.recordBytes(v)
	if err != nil {
		return false
	}
	data = append(slices.Clip(data), make([]byte, all-uint64(len(data)))...)
	var sum uint64
	for at := 0; at < len(data); at += l.Size {
		record := data[at:]
		addr, n := p.address(record[l.Counters:]), uint64(p.order.Uint32(record[l.Number:]))
		if v.Number() >= 8 {
			addr = p.wrap(addr + p.data.addr + uint64(at))
		}
		if sum += n; addr < p.counters.addr || addr-p.counters.addr+8*n > p.counters.size {
			return false
		}
	}
	return 8*sum == p.counters.size
}

// readIDs reads the build IDs out of the notes, in the form of the profile.
func (p *llvmSections) readIDs(w *walker) error {
	for _, s := range p.notes {
		if s.size > maxNotes {
			return fmt.Errorf("%d bytes of notes: %w", s.size, errTooMany)
		}
		if !holds(w.maps, s) {
			continue
		}
		b, err := w.read(s.addr, int(s.size))
		if err != nil {
			return fmt.Errorf("notes: %w", err)
		}
		p.ids = p.appendIDs(p.ids, b)
	}
	return nil
}

// appendIDs appends the build IDs of a segment of notes:
//
//	size of name u32, size of description u32, type u32, name, description,
//	both padded to 4 bytes
func (p *llvmSections) appendIDs(ids, notes []byte) []byte {
	const buildID = 3
	for len(notes) >= 12 {
		name, description := uint64(p.order.Uint32(notes)), uint64(p.order.Uint32(notes[4:]))
		kind := p.order.Uint32(notes[8:])
		start := 12 + (name+3)&^3
		end := start + description
		if end > uint64(len(notes)) {
			break
		}
		if kind == buildID && bytes.Equal(notes[12:12+name], []byte("GNU\x00")) {
			ids = p.order.AppendUint64(ids, description)
			ids = append(ids, notes[start:end]...)
			if p.raw.Number() >= 8 {
				ids = append(ids, padding(int(description))...)
			}
		}
		notes = notes[min(uint64(len(notes)), (end+3)&^3):]
	}
	return ids
}

func (p *llvmSections) address(b []byte) uint64 {
	if p.pointer == 4 {
		return uint64(p.order.Uint32(b))
	}
	return p.order.Uint64(b)
}

// wrap is arithmetic on addresses of the program.
func (p *llvmSections) wrap(x uint64) uint64 {
	if p.pointer == 4 {
		return uint64(uint32(x))
	}
	return x
}
