// Package binary reads ELF files: where their parts go in memory, the addresses
// of symbols, and the build ID by which separate debug files are found.
//
// It knows nothing about processes: a file is an [io.ReaderAt], be it on disk
// or mapped in a process.
package binary

import (
	"bytes"
	"debug/elf"
	encoding "encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A File is an ELF file. It reads from what it was opened on as long as it is
// used.
type File struct {
	Class   elf.Class
	Order   encoding.ByteOrder
	Type    elf.Type
	Machine elf.Machine

	elf *elf.File
}

// Open reads the headers of a file.
func Open(r io.ReaderAt) (*File, error) {
	if err := checkHeaders(r); err != nil {
		return nil, err
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	if err := checkTables(f); err != nil {
		return nil, err
	}
	return &File{Class: f.Class, Order: f.ByteOrder, Type: f.Type, Machine: f.Machine, elf: f}, nil
}

// PointerSize is the number of bytes of an address in programs of this class.
func (f *File) PointerSize() int {
	if f.Class == elf.ELFCLASS32 {
		return 4
	}
	return 8
}

// Bias is what to add to addresses of the file for those in a process which
// has the file's beginning at start. Programs that are not position
// independent have none.
func (f *File) Bias(start uint64) uint64 {
	if f.Type != elf.ET_DYN {
		return 0
	}
	return start - f.LoadAddress()
}

// LoadAddress is the address of the file's beginning, as the file has it: the loader
// maps whole pages, from that on.
func (f *File) LoadAddress() uint64 {
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_LOAD {
			return (p.Vaddr - p.Off) &^ 0xfff
		}
	}
	return 0
}

// maxSection is the largest section that is read: that of a browser has 200 MB.
const maxSection = 1 << 30

// ErrNoSymbols is returned for a file without a symbol table: a stripped one.
var ErrNoSymbols = errors.New("no symbol table")

// Symbols returns the addresses, as the file has them, of all defined symbols
// of that name in .symtab, or ErrNoSymbols if there is none. It reads the names
// of no others: tables are large.
func (f *File) Symbols(name string) ([]uint64, error) {
	return f.symbolsIn(elf.SHT_SYMTAB, name)
}

// DynamicSymbols is Symbols for .dynsym, which stripped files have, too.
func (f *File) DynamicSymbols(name string) ([]uint64, error) {
	return f.symbolsIn(elf.SHT_DYNSYM, name)
}

func (f *File) symbolsIn(kind elf.SectionType, name string) ([]uint64, error) {
	table := f.elf.SectionByType(kind)
	if table == nil || table.Type == elf.SHT_NOBITS {
		return nil, ErrNoSymbols
	}
	if int(table.Link) >= len(f.elf.Sections) {
		return nil, fmt.Errorf("symbol table: section %d of names does not exist", table.Link)
	}
	names, err := data(f.elf.Sections[table.Link])
	if err != nil {
		return nil, fmt.Errorf("names of symbols: %w", err)
	}
	offsets := find(names, name)
	if len(offsets) == 0 {
		return nil, nil
	}
	symbols, err := data(table)
	if err != nil {
		return nil, fmt.Errorf("symbol table: %w", err)
	}
	return f.lookup(symbols, offsets), nil
}

// find returns where in a table of names the name stands; it may be the end of
// a longer one.
func find(names []byte, name string) map[uint32]bool {
	offsets := make(map[uint32]bool)
	text := []byte(name + "\x00")
	for at := 0; ; at++ {
		i := bytes.Index(names[at:], text)
		if i < 0 {
			return offsets
		}
		at += i
		offsets[uint32(at)] = true
	}
}

// lookup returns the values of symbols whose names stand at the offsets.
//
//	64 bits:  name u32, info u8, other u8, section u16, value u64, size u64
//	32 bits:  name u32, value u32, size u32, info u8, other u8, section u16
func (f *File) lookup(symbols []byte, offsets map[uint32]bool) []uint64 {
	var found []uint64
	size, section := 24, 6
	if f.Class == elf.ELFCLASS32 {
		size, section = 16, 14
	}
	for ; len(symbols) >= size; symbols = symbols[size:] {
		if !offsets[f.Order.Uint32(symbols)] || f.Order.Uint16(symbols[section:]) == uint16(elf.SHN_UNDEF) {
			continue
		}
		if f.Class == elf.ELFCLASS32 {
			found = append(found, uint64(f.Order.Uint32(symbols[4:])))
		} else {
			found = append(found, f.Order.Uint64(symbols[8:]))
		}
	}
	return found
}

// BuildID is the GNU build ID in hexadecimal, "" if there is none.
func (f *File) BuildID() string {
	s := f.elf.Section(".note.gnu.build-id")
	if s == nil || s.Size > 1<<12 {
		return ""
	}
	// name size, description size, type, "GNU\0", description
	b, err := data(s)
	if err != nil || len(b) < 16 || string(b[12:16]) != "GNU\x00" {
		return ""
	}
	if n := f.Order.Uint32(b[4:]); uint64(n) <= uint64(len(b)-16) {
		return hex.EncodeToString(b[16 : 16+n])
	}
	return ""
}

// OpenDebug opens the separate debug file of the file, which lies at path, with open; nil
// if there is none of this build. The reader is to be closed.
func (f *File) OpenDebug(path string, open func(name string) (*os.File, error)) (*File, io.Closer) {
	for _, place := range f.debugPaths(path) {
		r, err := open(place)
		if err != nil {
			continue
		}
		debug, err := Open(r)
		if err == nil && debug.BuildID() == f.BuildID() {
			return debug, r
		}
		r.Close() // of another build
	}
	return nil, nil
}

// debugPaths are where the separate debug file of the file, which lies at path, may
// be: by its build ID, and by the name that it gives for it. What is there may be of
// another build.
func (f *File) debugPaths(path string) []string {
	var places []string
	if p := debugPath(f.BuildID()); p != "" {
		places = append(places, p)
	}
	if link := f.DebugLink(); link != "" && link == filepath.Base(link) {
		dir := filepath.Dir(path)
		places = append(places, filepath.Join(dir, link), filepath.Join(dir, ".debug", link), filepath.Join("/usr/lib/debug", dir, link))
	}
	return places
}

// debugPath is where distributions install the separate debug file of a build
// ID, "" for none.
func debugPath(buildID string) string {
	if len(buildID) < 4 {
		return ""
	}
	return "/usr/lib/debug/.build-id/" + buildID[:2] + "/" + buildID[2:] + ".debug"
}

func data(s *elf.Section) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	if err := checkSize(s); err != nil {
		return nil, err
	}
	return s.Data()
}
