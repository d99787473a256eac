//go:build linux

package live

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"footfall/formats/gcov"
	"footfall/process"
)

// GCC makes one gcov_info of each object file, and one gcov_fn_info of each
// function; a constructor puts the gcov_info on the list of the linked object,
// which begins at __gcov_root. Pointers are as wide as the program's; in those
// of 64 bits the fields are aligned to 8.
//
//	gcov_info                           gcov_fn_info
//	  version      u32                    key              pointer to the gcov_info that owns it
//	  next         pointer                ident            u32
//	  stamp        u32                    lineno_checksum  u32
//	  checksum     u32, 12+               cfg_checksum     u32
//	  filename     pointer                for each kind that has a merge function:
//	  merge        N pointers               num            u32
//	  n_functions  u32                      values         pointer to num counters of 64 bits
//	  functions    pointer to pointers
//
// Only N, the number of kinds, and the checksum differ between versions; they
// are in gcov/version.go.

// Limits of what is believed. The largest programs known have some 10^6
// functions; whoever names more has damaged pointers, or wants us to run out
// of memory.
const (
	maxUnits        = 1 << 17 // in a process
	maxUnitFuncs    = 1 << 20
	maxFuncs        = 1 << 22 // in a process
	maxFuncCounters = 1 << 24
	maxCounters     = 1 << 25 // in a process: 256 MB
	maxName         = 4096
	maxWork         = 1 << 24 // functions that are looked at, in a process
	unitWork        = 64      // what looking at a unit counts for
)

// A unit is where the counters of one object file are.
type unit struct {
	image   *image
	addr    uint64 // of its gcov_info
	head    []byte // the gcov_info, to notice when it goes
	headAt  int    // of the gcov_info in a snapshot
	version gcov.Version
	stamp   uint32
	check   uint32
	name    string
	next    uint64
	funcs   []function
	clang   bool // addr and head are of the function that writes the data file
}

type function struct {
	absent           bool // the linker took the copy of another unit
	ident, line, cfg uint32
	name             string // Clang until 9
	arrays           []array
}

// An array is where the counters of one kind of a function are.
type array struct {
	kind   int
	length int // in counters
	addr   uint64
	at     int // in a snapshot
}

// A walker decodes the structures of one image.
type walker struct {
	*pages
	image   *image
	order   binary.ByteOrder
	pointer int          // bytes of a pointer
	maps    process.Maps // pointers must lead into them; nil: they are not checked
	budget  *budget
}

// A budget is what is left of the limits for a process. work is not given back
// for structures that turn out to be none: a hostile program may have many that
// nearly are.
type budget struct{ units, funcs, counters, work int }

func newBudget() *budget { return &budget{maxUnits, maxFuncs, maxCounters, maxWork} }

var errTooMany = errors.New("more counters than footfall believes: its pointers are damaged")

// An UnknownVersionError tells of counters that are laid out in an unknown way.
type UnknownVersionError struct {
	Image   string
	Version gcov.Version
}

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("%s: counters of compiler version %q (GCC %d): known are GCC 4.7 to 16; their layout is not guessed", e.Image, e.Version, e.Version.Major())
}

// list walks the list of units from the first.
func (w *walker) list(first uint64) ([]*unit, error) {
	var units []*unit
	seen := make(map[uint64]bool)
	for addr := first; addr != 0; {
		if seen[addr] {
			return units, fmt.Errorf("%s: the list of objects goes in a circle at %#x", w.image.path, addr)
		}
		seen[addr] = true
		u, err := w.unit(addr)
		if err != nil {
			return units, fmt.Errorf("%s: object %d at %#x: %w", w.image.path, len(units), addr, err)
		}
		units = append(units, u)
		addr = u.next
	}
	return units, nil
}

// unit decodes the gcov_info at addr and all that it leads to.
func (w *walker) unit(addr uint64) (*unit, error) {
	b, err := w.read(addr, 4)
	if err != nil {
		return nil, err
	}
	version := gcov.Version(w.order.Uint32(b))
	kinds := version.CounterKinds()
	if kinds == 0 {
		return nil, &UnknownVersionError{w.image.path, version}
	}
	return w.unitOf(addr, version, kinds)
}

func (w *walker) unitOf(addr uint64, version gcov.Version, kinds int) (*unit, error) {
	w.budget.work -= unitWork
	if w.budget.units--; w.budget.units < 0 || w.budget.work < 0 {
		return nil, errTooMany
	}
	u := &unit{image: w.image, addr: addr, version: version}
	next, stamp, name := uint64(w.pointer), 2*w.pointer, 3*w.pointer
	if w.pointer == 4 && version.HasObjectChecksum() {
		name += 4
	}
	merge := name + w.pointer
	functions := merge + (kinds+1)*w.pointer
	size := functions + w.pointer
	b, err := w.read(addr, size)
	if err != nil {
		return nil, err
	}
	u.head = bytes.Clone(b)
	b = u.head
	u.next = w.address(b[next:])
	u.stamp = w.order.Uint32(b[stamp:])
	if padding := w.order.Uint32(b[stamp+4:]); version.HasObjectChecksum() {
		u.check = padding
	} else if w.pointer == 8 && padding != 0 {
		return nil, fmt.Errorf("%#x where there is nothing, expected 0", padding)
	}
	var present []int // kinds
	for k := range kinds {
		switch f := w.address(b[merge+k*w.pointer:]); {
		case f == 0:
		case !w.isMapped(f, true):
			return nil, fmt.Errorf("merge function at %#x is no code", f)
		default:
			present = append(present, k)
		}
	}
	if len(present) == 0 || u.next != 0 && !w.isMapped(u.next, false) {
		return nil, errors.New("no structure of counters")
	}
	if u.name, err = w.text(w.address(b[name:])); err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	if !strings.HasSuffix(u.name, ".gcda") {
		return nil, fmt.Errorf("name %.100q does not end in .gcda", u.name)
	}
	n := int64(w.order.Uint32(b[merge+kinds*w.pointer:]))
	if u.funcs, err = w.functions(addr, w.address(b[functions:]), n, version, present); err != nil {
		return nil, fmt.Errorf("%s: %w", u.name, err)
	}
	return u, nil
}

// functions decodes n functions of the unit at owner.
func (w *walker) functions(owner, table uint64, n int64, version gcov.Version, kinds []int) ([]function, error) {
	if w.budget.funcs -= int(min(n, maxFuncs+1)); n > maxUnitFuncs || w.budget.funcs < 0 {
		return nil, fmt.Errorf("%d functions: %w", n, errTooMany)
	}
	if n > 0 && !w.isMapped(table+uint64(int(n)*w.pointer-1), false) {
		return nil, fmt.Errorf("table of %d functions at %#x, where there is no memory", n, table)
	}
	pointers := make([]byte, int(n)*w.pointer)
	if _, err := w.mem.ReadAt(pointers, int64(table)); err != nil && n > 0 {
		return nil, fmt.Errorf("table of %d functions at %#x: %w", n, table, err)
	}
	funcs := make([]function, n)
	for i := range funcs {
		if w.budget.work--; w.budget.work < 0 {
			return nil, errTooMany
		}
		addr := w.address(pointers[i*w.pointer:])
		if addr == 0 {
			funcs[i].absent = true
			continue
		}
		if err := w.function(&funcs[i], owner, addr, version, kinds); err != nil {
			return nil, fmt.Errorf("function %d at %#x: %w", i, addr, err)
		}
	}
	return funcs, nil
}

func (w *walker) function(f *function, owner, addr uint64, version gcov.Version, kinds []int) error {
	words := w.pointer
	arrays := words + 12
	if w.pointer == 8 {
		arrays += 4 // padding
	}
	b, err := w.read(addr, w.pointer)
	if err != nil {
		return err
	}
	if w.address(b) != owner {
		f.absent = true
		return nil
	}
	if b, err = w.read(addr, arrays+2*w.pointer*len(kinds)); err != nil {
		return err
	}
	f.ident, f.line, f.cfg = w.order.Uint32(b[words:]), w.order.Uint32(b[words+4:]), w.order.Uint32(b[words+8:])
	f.arrays = make([]array, len(kinds))
	for i, kind := range kinds {
		entry := b[arrays+2*w.pointer*i:]
		a := array{kind: kind, length: int(w.order.Uint32(entry)), addr: w.address(entry[w.pointer:])}
		if w.budget.counters -= min(a.length, maxFuncCounters+1); a.length > maxFuncCounters || w.budget.counters < 0 {
			return fmt.Errorf("%d counters: %w", a.length, errTooMany)
		}
		if a.length > 0 && (!w.isMapped(a.addr, false) || !w.isMapped(a.addr+uint64(8*a.length-1), false)) {
			return fmt.Errorf("counters at %#x, where there is no memory", a.addr)
		}
		if isList(version, kind) && a.length%siteWords != 0 {
			return fmt.Errorf("%d words of values, expected a multiple of %d", a.length, siteWords)
		}
		f.arrays[i] = a
	}
	return nil
}

// isList tells whether counters are lists of values in memory.
func isList(v gcov.Version, kind int) bool {
	return v.ListsValues() && (kind == gcov.KindTopN || kind == gcov.KindIndirect)
}

func (w *walker) address(b []byte) uint64 { return w.image.here(word(w.order, b, w.pointer)) }

func (w *walker) isMapped(addr uint64, code bool) bool {
	if w.maps == nil {
		return true
	}
	m := w.maps.At(addr)
	return m != nil && (m.Exec || !code || w.image.guest != nil)
}

// text reads a string.
func (w *walker) text(addr uint64) (string, error) {
	var text []byte
	for len(text) < maxName {
		part, err := w.read(addr, pageSize-int(addr%pageSize))
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(part, 0); i >= 0 {
			return string(append(text, part[:i]...)), nil
		}
		text = append(text, part...)
		addr += uint64(len(part))
	}
	return "", fmt.Errorf("text at %#x has no end", addr)
}

// pages reads memory in large pieces and keeps them: the structures of a
// program lie together.
type pages struct {
	mem  io.ReaderAt
	kept map[uint64][]byte // by address, whole pages
}

const (
	pageSize  = 4096
	readAhead = 16   // pages
	maxPages  = 8192 // 32 MB
)

func newPages(mem io.ReaderAt) *pages { return &pages{mem, make(map[uint64][]byte)} }

// read returns n bytes, which are not to be changed.
func (p *pages) read(addr uint64, n int) ([]byte, error) {
	if addr >= 1<<63-1<<32 {
		return nil, fmt.Errorf("%#x is no address of a program", addr)
	}
	in := int(addr % pageSize)
	if in+n <= pageSize {
		if page := p.page(addr - uint64(in)); page != nil {
			return page[in : in+n], nil
		}
	}
	b := make([]byte, n)
	if _, err := p.mem.ReadAt(b, int64(addr)); err != nil {
		return nil, fmt.Errorf("%d bytes at %#x cannot be read: %w", n, addr, err)
	}
	return b, nil
}

// page returns a page, nil if it cannot be read.
func (p *pages) page(addr uint64) []byte {
	if page, ok := p.kept[addr]; ok {
		return page
	}
	if len(p.kept) > maxPages {
		clear(p.kept)
	}
	b := make([]byte, readAhead*pageSize)
	n, _ := p.mem.ReadAt(b, int64(addr))
	p.kept[addr] = nil
	for i := 0; i+pageSize <= n; i += pageSize {
		p.kept[addr+uint64(i)] = b[i : i+pageSize]
	}
	return p.kept[addr]
}
