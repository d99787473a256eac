package binary

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"syscall"
)

// Files are of those whose programs run, and made as they like: a few bytes can claim
// what takes all memory, or name the same again and again. What is far beyond what
// compilers and linkers write is an error here, before debug/elf and debug/dwarf,
// which take counts for true, see it.

const (
	mostSections     = 1 << 18
	mostSectionNames = 1 << 24
	// What is compressed has at most so many times its bytes, where it has many.
	mostUnpacked = 64
	fewBytes     = 1 << 26
	// mostHole is how large a section may be that is not there.
	mostHole = 1 << 22
	// longestDirectory is PATH_MAX.
	longestDirectory = 4096
	longestScope     = 1 << 14 // "a::b::"
	// bytesOfName is how many bytes of a name cost as much as an attribute.
	bytesOfName = 16
)

var errTooMuch = errors.New("its debug information says more than it has bytes for")

// checkHeaders looks at what debug/elf reads of every file: the headers of sections,
// and their names.
func checkHeaders(r io.ReaderAt) error {
	var h [64]byte
	n, err := r.ReadAt(h[:], 0)
	if n < 52 || string(h[:4]) != elf.ELFMAG {
		return nil // debug/elf will tell
	}
	if err != nil && err != io.EOF {
		return err
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if elf.Data(h[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	wide := elf.Class(h[elf.EI_CLASS]) == elf.ELFCLASS64
	if wide && n < 64 {
		return nil
	}
	var at uint64
	var each, count, names, segment uint32
	full, fullSegment := uint32(64), uint32(56)
	if wide {
		at, each, count, names = order.Uint64(h[40:]), uint32(order.Uint16(h[58:])), uint32(order.Uint16(h[60:])), uint32(order.Uint16(h[62:]))
		segment = uint32(order.Uint16(h[54:]))
	} else {
		at, each, count, names = uint64(order.Uint32(h[32:])), uint32(order.Uint16(h[46:])), uint32(order.Uint16(h[48:])), uint32(order.Uint16(h[50:]))
		segment = uint32(order.Uint16(h[42:]))
		full, fullSegment = 40, 32
	}
	if segment > fullSegment {
		return fmt.Errorf("headers of segments claim to have %d bytes each, expected %d", segment, fullSegment)
	}
	if at == 0 {
		return nil
	}
	if each > full {
		return fmt.Errorf("headers of sections claim to have %d bytes each, expected %d", each, full)
	}
	if count == 0 { // more than 16 bits: the first section has the numbers
		first := readSection(r, order, wide, at)
		if first.size > mostSections {
			return fmt.Errorf("it claims to have %d sections, expected at most %d", first.size, mostSections)
		}
		count = uint32(first.size)
		if elf.SectionIndex(names) == elf.SHN_XINDEX {
			names = first.link
		}
	}
	s := readSection(r, order, wide, at+uint64(names)*uint64(each))
	if s.size > mostSectionNames || s.flags&uint64(elf.SHF_COMPRESSED) != 0 {
		return fmt.Errorf("the names of its sections claim to have %d bytes, expected at most %d", s.size, mostSectionNames)
	}
	return checkSectionNames(r, order, s, at, each, count)
}

// checkSectionNames looks at the names that sections have in the table: debug/elf copies
// each, and many may have the same one.
func checkSectionNames(r io.ReaderAt, order binary.ByteOrder, table sectionHeader, at uint64, each, count uint32) error {
	if at >= 1<<62 || table.offset >= 1<<62 || each < 4 {
		return nil // debug/elf will tell
	}
	read := func(at, n uint64) []byte {
		b, _ := io.ReadAll(io.NewSectionReader(r, int64(at), int64(n)))
		return b
	}
	b := read(table.offset, table.size)
	names := &nameTable{b, 1<<20 + 8*len(b)}
	for headers := read(at, uint64(count)*uint64(each)); len(headers) >= int(each); headers = headers[each:] {
		if _, err := names.at(uint64(order.Uint32(headers))); err != nil {
			return errors.New("the names of its sections have far more bytes together than the table of names")
		}
	}
	return nil
}

type sectionHeader struct {
	flags, offset, size uint64
	link                uint32
}

// readSection reads the header of a section, none where there is nothing.
//
//	64 bits:  name u32, type u32, flags u64, addr u64, offset u64, size u64, link u32
//	32 bits:  name u32, type u32, flags u32, addr u32, offset u32, size u32, link u32
func readSection(r io.ReaderAt, order binary.ByteOrder, wide bool, at uint64) (s sectionHeader) {
	var b [64]byte
	if at >= 1<<62 {
		return s
	}
	if n, _ := r.ReadAt(b[:], int64(at)); n < 40 || wide && n < 64 {
		return s
	}
	if wide {
		return sectionHeader{order.Uint64(b[8:]), order.Uint64(b[24:]), order.Uint64(b[32:]), order.Uint32(b[40:])}
	}
	return sectionHeader{uint64(order.Uint32(b[8:])), uint64(order.Uint32(b[16:])), uint64(order.Uint32(b[20:])), order.Uint32(b[24:])}
}

// checkSize returns an error for a section that is not to be read.
func checkSize(s *elf.Section) error {
	size := s.Size
	if len(s.Name) > 7 && s.Name[:8] == ".zdebug_" {
		var b [12]byte
		if n, _ := s.ReaderAt.ReadAt(b[:], 0); n == len(b) && string(b[:4]) == "ZLIB" {
			size = binary.BigEndian.Uint64(b[4:])
		}
	}
	if size > maxSection || size > fewBytes && s.Type != elf.SHT_NOBITS && size/mostUnpacked > s.FileSize {
		return fmt.Errorf("section %s has %d bytes, expected at most %d, and of %d compressed bytes at most %d times as many", s.Name, size, maxSection, s.FileSize, mostUnpacked)
	}
	return checkHoles(s)
}

// checkHoles looks whether what the file has as a section is there: a file of a few bytes
// may have gigabytes of holes, which read as zeros.
func checkHoles(s *elf.Section) error {
	r, ok := s.ReaderAt.(*io.SectionReader)
	if s.Type == elf.SHT_NOBITS || s.FileSize < mostHole || !ok || runtime.GOOS != "linux" {
		return nil
	}
	whole, offset, size := r.Outer()
	f, ok := whole.(io.Seeker)
	if !ok {
		return nil
	}
	const seekData, seekHole = 3, 4
	there, at, end := int64(0), offset, offset+size
	for at < end {
		begin, err := f.Seek(at, seekData)
		if errors.Is(err, syscall.ENXIO) {
			break // no more of them
		}
		if err != nil {
			return nil // not of a file
		}
		if at, err = f.Seek(begin, seekHole); err != nil {
			break
		}
		there += max(0, min(at, end)-begin)
	}
	if there < size/2 {
		return fmt.Errorf("section %s has %d bytes, of which the file has %d: expected that most are there", s.Name, s.FileSize, there)
	}
	return nil
}

// checkOverlaps looks whether sections have their bytes for themselves: thousands can
// claim the same ones.
func checkOverlaps(f *elf.File) error {
	var parts [][2]uint64
	var all, unpacked uint64
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL {
			size := min(s.FileSize, 1<<48)
			parts = append(parts, [2]uint64{s.Offset, s.Offset + size})
			all += size
			unpacked += min(s.Size, 1<<48)
		}
	}
	slices.SortFunc(parts, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	var own, end uint64
	for _, p := range parts {
		own += max(p[1], end) - max(p[0], end)
		end = max(end, p[1])
	}
	if all/2 > own || unpacked > fewBytes && unpacked/mostUnpacked > own {
		return fmt.Errorf("its sections claim to have %d bytes, %d when they are unpacked, expected at most 2 and %d times the %d that the file has", all, unpacked, mostUnpacked, own)
	}
	return nil
}

// checkTables looks at the sections that debug/elf reads as a whole wherever it needs
// something of them.
func checkTables(f *elf.File) error {
	if err := checkOverlaps(f); err != nil {
		return err
	}
	for _, s := range f.Sections {
		switch s.Type {
		case elf.SHT_SYMTAB, elf.SHT_DYNSYM, elf.SHT_STRTAB, elf.SHT_DYNAMIC, elf.SHT_GNU_VERSYM, elf.SHT_GNU_VERNEED, elf.SHT_GNU_VERDEF:
			if err := checkSize(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// dwarf reads the debug information.
func (f *File) dwarf() (*dwarf.Data, error) {
	for _, s := range f.elf.Sections {
		if len(s.Name) < 7 || s.Name[:7] != ".debug_" && s.Name[:7] != ".zdebug" {
			continue
		}
		if err := checkSize(s); err != nil {
			return nil, err
		}
	}
	return f.elf.DWARF()
}

// mostEntries is how much is read of the debug information: many times what there is.
func (f *File) mostEntries() int {
	most := 1 << 22
	for _, s := range f.elf.Sections {
		switch s.Name {
		case ".debug_info", ".zdebug_info", ".debug_types", ".debug_ranges", ".debug_rnglists", ".debug_line":
			most += 8 * int(min(s.Size, maxSection))
		}
	}
	return most
}

// next returns the next entry, and counts what it says. Entries may have thousands of
// attributes without a byte of their own.
func (l *Lines) next(r *dwarf.Reader) (*dwarf.Entry, error) {
	if l.left <= 0 {
		return nil, errTooMuch
	}
	e, err := r.Next()
	l.left--
	if e != nil {
		for _, f := range e.Field {
			name, _ := f.Val.(string)
			l.left -= 1 + len(name)/bytesOfName
		}
	}
	return e, err
}

// debugContents returns the section .debug_NAME, also where it is compressed as GNU
// tools did first, then called .zdebug_NAME.
func (f *File) debugContents(name string) ([]byte, error) {
	if s := f.elf.Section(".zdebug_" + name); s != nil && !f.Has(".debug_"+name) {
		return data(s)
	}
	return f.Contents(".debug_" + name)
}

// lastUnit returns where the last unit begins: debug/dwarf passes all others at once.
//
//	length u32 or 0xffffffff u64, and so many bytes
func (f *File) lastUnit() (last dwarf.Offset) {
	s := f.elf.Section(".debug_info")
	if s == nil || s.Flags&elf.SHF_COMPRESSED != 0 {
		b, err := f.debugContents("info")
		if err != nil {
			return 0
		}
		return f.lastUnitIn(bytes.NewReader(b), uint64(len(b)))
	}
	return f.lastUnitIn(s.ReaderAt, s.Size)
}

func (f *File) lastUnitIn(r io.ReaderAt, size uint64) (last dwarf.Offset) {
	for at := uint64(0); at < size; {
		var b [12]byte
		if n, _ := r.ReadAt(b[:], int64(at)); n < len(b) {
			break
		}
		last = dwarf.Offset(at)
		length := 4 + uint64(f.Order.Uint32(b[:]))
		if length == 4+0xffffffff {
			length = 12 + f.Order.Uint64(b[4:])
		}
		if length > maxSection {
			break
		}
		at += length
	}
	return last
}

// skip passes the children of the entry that was read last, however deep they are.
func (l *Lines) skip(r *dwarf.Reader, e *dwarf.Entry) {
	if !e.Children {
		return
	}
	if next, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset); ok && next > e.Offset {
		r.SkipChildren()
		return
	}
	for depth := 1; depth > 0; {
		child, err := l.next(r)
		switch {
		case err != nil || child == nil:
			return
		case child.Tag == 0:
			depth--
		case child.Children:
			depth++
		}
	}
}

// rangesOf returns the code of an entry, and counts it: many entries may have one long
// list.
func (l *Lines) rangesOf(e *dwarf.Entry) ([][2]uint64, error) {
	if l.left <= 0 {
		return nil, errTooMuch
	}
	ranges, err := l.data.Ranges(e)
	l.left -= len(ranges)
	return ranges, err
}

// checkLines looks at the header of a unit's lines: what it says there are of names
// there must be room for.
//
//	length u32 or 0xffffffff u64, version u16, from 5 on sizes of addresses and segments,
//	length of the header, five numbers (from 4 on six), lengths of opcodes
//	2 to 4: directories, each ended by 0; files, the same with three numbers; 0
//	5: what directories have (number and pairs), their number, they; files as these
func (l *Lines) checkLines(u *unit, section, strings []byte) error {
	at, ok := u.entry.Val(dwarf.AttrStmtList).(int64)
	if !ok {
		return nil
	}
	if at < 0 || at >= int64(len(section)) {
		return errTooMuch
	}
	directory, _ := u.entry.Val(dwarf.AttrCompDir).(string)
	if len(directory) > longestDirectory {
		return errTooMuch
	}
	b := &lineHeader{b: section[at:], order: l.order, strings: strings}
	word := 4
	length := b.number(4)
	if length == 0xffffffff {
		word = 8
		length = b.number(8)
	}
	b.b = b.b[:min(uint64(len(b.b)), length)]
	version := b.number(2)
	if version >= 5 {
		b.skip(2)
	}
	length = min(b.number(word), uint64(len(b.b)))
	b.b, u.program = b.b[:length], b.b[length:]
	b.skip(4)
	if version >= 4 {
		b.skip(1)
	}
	if opcodes := b.number(1); opcodes > 0 {
		b.skip(int(opcodes) - 1)
	}
	size := 0
	if version >= 5 {
		size = b.names5(word)
	} else {
		size = b.names(len(directory))
	}
	l.left -= size / bytesOfName
	if b.bad || l.left < 0 {
		return errTooMuch
	}
	u.longest = b.longest
	return nil
}

// spend counts what a unit's lines make of their bytes, and tells whether there may be so
// much. Each byte may be a row, and a few bytes name one more file, which debug/dwarf puts
// behind its directory.
//
//	0, length uleb, 3, name, three numbers: DW_LNE_define_file
func (l *Lines) spend(u *unit) bool {
	const bytesOfRow, defineFile = 4, 3
	defined := 0
	for i := 2; i < len(u.program); i++ {
		if u.program[i] == defineFile && u.program[i-1] < 0x80 {
			n := i - 2
			for n > 0 && u.program[n] >= 0x80 {
				n--
			}
			if u.program[n] == 0 {
				defined++
			}
		}
	}
	l.left -= bytesOfRow*len(u.program) + defined*u.longest/bytesOfName
	return l.left >= 0
}

// A lineHeader is what is left of one.
type lineHeader struct {
	b       []byte
	order   binary.ByteOrder
	strings []byte // .debug_line_str
	longest int    // name of a directory
	bad     bool
}

func (h *lineHeader) skip(n int) []byte {
	if n < 0 || n > len(h.b) {
		h.b, h.bad = nil, true
		return nil
	}
	b := h.b[:n]
	h.b = h.b[n:]
	return b
}

func (h *lineHeader) number(size int) uint64 {
	b := h.skip(size)
	switch {
	case b == nil:
		return 0
	case size == 1:
		return uint64(b[0])
	case size == 2:
		return uint64(h.order.Uint16(b))
	case size == 4:
		return uint64(h.order.Uint32(b))
	}
	return h.order.Uint64(b)
}

func (h *lineHeader) uleb() (n uint64) {
	for shift := 0; ; shift += 7 {
		c := h.number(1)
		if shift < 64 {
			n |= (c & 0x7f) << shift
		}
		if c < 0x80 || h.bad {
			return n
		}
	}
}

// text passes a string, and returns its length.
func (h *lineHeader) text() int {
	n := bytes.IndexByte(h.b, 0)
	if n < 0 {
		h.b, h.bad = nil, true
		return 0
	}
	h.b = h.b[n+1:]
	return n
}

// names returns how many bytes the names of files may take up to version 4: debug/dwarf
// puts each behind its directory.
func (h *lineHeader) names(compDir int) (size int) {
	longest := compDir
	for {
		n := h.text()
		if n == 0 || h.bad {
			break
		}
		longest = max(longest, compDir+n)
		size += compDir + n
	}
	for !h.bad {
		n := h.text()
		if n == 0 {
			break
		}
		h.uleb()
		h.uleb()
		h.uleb()
		size += longest + n
	}
	h.bad, h.longest = h.bad || longest > longestDirectory, longest
	return size
}

// names5 is names from version 5 on.
func (h *lineHeader) names5(word int) (size int) {
	longest := 0
	for table := range 2 {
		type field struct{ what, form uint64 }
		fields := make([]field, h.number(1))
		for i := range fields {
			fields[i] = field{h.uleb(), h.uleb()}
		}
		count := h.uleb()
		if count > uint64(len(h.b)) || len(fields) == 0 && count > 0 {
			h.bad = true
		}
		for i := uint64(0); i < count && !h.bad; i++ {
			for _, f := range fields {
				n := h.value(f.form, word)
				if table == 0 {
					longest = max(longest, n)
				}
				size += n
			}
			size += longest
		}
	}
	h.bad, h.longest = h.bad || longest > longestDirectory, longest
	return size
}

// value passes a value of a form that names of files may have, and returns how many
// bytes of a name it may be.
func (h *lineHeader) value(form uint64, word int) int {
	const (
		block2, block4, data2, data4, data8, text, block, block1, data1 = 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b
		udata, data16, lineStrp                                         = 0x0f, 0x1e, 0x1f
	)
	switch form {
	case text:
		return h.text()
	case lineStrp:
		at := h.number(word)
		n := -1
		if at < uint64(len(h.strings)) {
			n = bytes.IndexByte(h.strings[at:], 0)
		}
		h.bad = h.bad || n < 0
		return max(n, 0)
	case data1:
		h.skip(1)
	case data2:
		h.skip(2)
	case data4:
		h.skip(4)
	case data8:
		h.skip(8)
	case data16:
		h.skip(16)
	case udata:
		h.uleb()
	case block:
		h.skip(int(min(h.uleb(), 1<<31)))
	case block1:
		h.skip(int(h.number(1)))
	case block2:
		h.skip(int(h.number(2)))
	case block4:
		h.skip(int(h.number(4)))
	default:
		h.bad = true // neither assemblers nor compilers write it here
	}
	return 0
}
