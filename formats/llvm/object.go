package llvm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	elf "footfall/binary"

	"footfall/formats/cursor"
)

// A Binary is what an object, program or library says of its sources.
type Binary struct {
	Name    string // of the file; lib.a(member.o)
	BuildID string // in hexadecimal, "" if there is none
	// Records are its functions, in the order of the file, each name once.
	Records []*Record
	// Mapped are the versions of the mapping that it has.
	Mapped []int

	names  []Names
	own    Names             // names[0], if they were too many to look through
	hashes map[uint64]uint64 // of functions by that of their names; nil: not made so far
}

// A Record is a function of a binary.
type Record struct {
	NameHash uint64
	Hash     uint64 // of its control flow, 0: also a function that this unit does not use

	mapping []byte
	unit    *unit
	binary  *Binary
	dummy   bool
}

// Name is that of the function, "": the binary does not tell.
func (r *Record) Name() string { return r.binary.name(r.NameHash) }

// A unit is the files of an object file.
type unit struct {
	version int
	files   []string
	dir     string // where the compiler ran, "" if that is not known
}

// ErrNoMapping is why a file has nothing for us.
var ErrNoMapping = errors.New("no coverage mapping in it: compile with -fprofile-instr-generate -fcoverage-mapping (Clang) or -C instrument-coverage (Rust)")

// ErrNotBinary is why a file is nothing that has a mapping.
var ErrNotBinary = errors.New("no ELF file")

// The sections of a mapping, in ELF.
const (
	unitsSection     = "__llvm_covmap"
	functionsSection = "__llvm_covfun"
	namesSection     = "__llvm_prf_names"
	otherNames       = "__llvm_covnames" // if the counters are found by the binary (-profile-correlate)
)

// HasMapping tells whether a file has one.
func HasMapping(f *elf.File) bool { return f.Has(unitsSection) }

// ReadBinaries reads a file of so many bytes: an object, a program or a library, or an archive of objects, of which
// members without mapping are left out. Names of sources are seen from dir, or if that is "" from where the compiler ran.
// What could be read is returned beside the error.
func ReadBinaries(name string, r io.ReaderAt, size int64, dir string) ([]*Binary, error) {
	return NewBinaryReader().Read(name, r, size, dir)
}

// A BinaryReader reads many binaries, of several goroutines too. Names and units that they have in common are read once.
type BinaryReader struct {
	common *common
	room   *binaryRoom // of Each
}

// A binaryRoom is where a binary is while it is looked at, and the next one then; nil: where it may stay.
type binaryRoom struct {
	sections []byte
	list     []*Record
	records  []Record
	index    map[uint64]int32
}

// NewBinaryReader returns one that has read nothing.
func NewBinaryReader() *BinaryReader { return &BinaryReader{common: newCommon()} }

// Read is [ReadBinaries].
func (s *BinaryReader) Read(name string, r io.ReaderAt, size int64, dir string) (list []*Binary, err error) {
	err = s.each(name, r, size, dir, nil, func(b *Binary) { list = append(list, b) })
	return list, err
}

// Each is Read, of one goroutine at a time, of binaries that are gone when do returns.
func (s *BinaryReader) Each(name string, r io.ReaderAt, size int64, dir string, do func(*Binary)) error {
	if s.room == nil {
		s.room = &binaryRoom{index: make(map[uint64]int32)}
	}
	return s.each(name, r, size, dir, s.room, do)
}

func (s *BinaryReader) each(name string, r io.ReaderAt, size int64, dir string, room *binaryRoom, do func(*Binary)) error {
	var head [8]byte
	if _, err := r.ReadAt(head[:], 0); err != nil && err != io.EOF {
		return err
	}
	if string(head[:]) != archiveMagic {
		b, err := s.readBinary(name, r, dir, room)
		if b != nil {
			do(b)
		}
		return err
	}
	var failed []error
	none := true
	err := eachMember(r, size, func(member string, r io.ReaderAt) {
		if n, _ := r.ReadAt(head[:4], 0); n < 4 || string(head[:4]) != "\x7fELF" {
			return // metadata of Rust
		}
		b, err := s.readBinary(name+"("+member+")", r, dir, room)
		if b != nil {
			none = false
			do(b)
		}
		if err != nil && !errors.Is(err, ErrNoMapping) {
			failed = append(failed, fmt.Errorf("%s: %w", member, err))
		}
	})
	if err = errors.Join(append(failed, err)...); err == nil && none {
		err = ErrNoMapping
	}
	return err
}

const archiveMagic = "!<arch>\n"

// eachMember calls do for the files of an archive, each with a head of 60 bytes of text:
//
//	name 16, date 12, owner 6, group 6, mode 8, size 10, "`\n"
//
// Long names are elsewhere: /OFFSET in member //, #1/SIZE before the contents (BSD).
func eachMember(r io.ReaderAt, size int64, do func(name string, r io.ReaderAt)) error {
	var long []byte
	for at := int64(len(archiveMagic)); at+60 <= size; {
		var head [60]byte
		if _, err := r.ReadAt(head[:], at); err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(head[48:58])), 10, 64)
		if err != nil || n < 0 || n > size-at-60 || string(head[58:]) != "`\n" {
			return &FormatError{Offset: at, Err: errors.New("the head of a member of an archive expected")}
		}
		name := strings.TrimRight(string(head[:16]), " ")
		from := at + 60
		at = from + n + n&1
		switch {
		case name == "/" || name == "/SYM64/":
			continue
		case name == "//":
			if n <= 1<<24 {
				long = make([]byte, n) // the file has as many
				if _, err := r.ReadAt(long, from); err != nil {
					return err
				}
			}
			continue
		case strings.HasPrefix(name, "#1/"):
			length, err := strconv.ParseInt(name[3:], 10, 64)
			if err != nil || length < 0 || length > n || length > 1<<16 {
				return &FormatError{Offset: from, Err: errors.New("the length of a name expected")}
			}
			b := make([]byte, length)
			if _, err := r.ReadAt(b, from); err != nil {
				return err
			}
			name, from, n = strings.TrimRight(string(b), "\x00"), from+length, n-length
		case strings.HasPrefix(name, "/"):
			if i, err := strconv.Atoi(name[1:]); err == nil && i >= 0 && i < len(long) {
				name, _, _ = strings.Cut(string(long[i:]), "\n")
			}
		}
		do(strings.TrimSuffix(name, "/"), io.NewSectionReader(r, from, n))
	}
	return nil
}

func (s *BinaryReader) readBinary(name string, r io.ReaderAt, dir string, room *binaryRoom) (*Binary, error) {
	f, err := elf.Open(r)
	if err != nil {
		var magic [4]byte
		if _, e := r.ReadAt(magic[:], 0); e != nil || string(magic[:]) != "\x7fELF" {
			return nil, fmt.Errorf("%w: %w", ErrNotBinary, err)
		}
		return nil, err
	}
	if !HasMapping(f) {
		return nil, ErrNoMapping
	}
	b := &Binary{Name: name, BuildID: f.BuildID()}
	var contents [4][][]byte
	var left []byte
	if room != nil {
		left = room.sections
	}
	for i, section := range []string{unitsSection, functionsSection, namesSection, otherNames} {
		if contents[i], left, err = f.EachContents(section, left); err != nil {
			return nil, fmt.Errorf("section %s: %w", section, err)
		}
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if f.Order == binary.ByteOrder(binary.BigEndian) {
		order = binary.BigEndian
	}
	err = s.read(b, contents[0], contents[1], append(contents[2], contents[3]...), order, dir, room)
	if room != nil {
		room.keep(contents[:])
	}
	return b, err
}

// keep has room for as many bytes as this binary has.
func (m *binaryRoom) keep(contents [][][]byte) {
	n := 0
	for _, sections := range contents {
		for _, b := range sections {
			n += len(b)
		}
	}
	if n > len(m.sections) {
		m.sections = make([]byte, n+n/4)
	}
}

func (s *BinaryReader) read(b *Binary, units, functions, names [][]byte, order binary.ByteOrder, dir string, room *binaryRoom) error {
	for _, section := range names {
		if err := s.common.addNames(b, section); err != nil {
			return fmt.Errorf("section %s: %w", namesSection, err)
		}
	}
	all := records{common: s.common, binary: b, order: order, dir: dir, units: make(map[uint64]*unit)}
	for _, section := range functions {
		all.count += all.countFunctions(section)
	}
	all.begin(room)
	for _, section := range units {
		if err := all.readUnits(section); err != nil {
			return fmt.Errorf("section %s: %w", unitsSection, err)
		}
	}
	for _, section := range functions {
		if err := all.readFunctions(section); err != nil {
			return fmt.Errorf("section %s: %w", functionsSection, err)
		}
	}
	return nil
}

// records are what is known while a binary is read.
type records struct {
	common *common
	binary *Binary
	order  binary.ByteOrder
	dir    string           // from which names of sources are seen, "": from the unit's
	units  map[uint64]*unit // by hash
	count  int              // of functions in a section of their own
	left   []Record         // room for some
	index  map[uint64]int32 // of Records by hash of the name
}

// begin makes room for the functions.
func (s *records) begin(room *binaryRoom) {
	if room == nil {
		s.binary.Records, s.index = make([]*Record, 0, s.count), make(map[uint64]int32, s.count)
		return
	}
	if s.count > len(room.records) {
		room.list, room.records = make([]*Record, s.count+s.count/4), make([]Record, s.count+s.count/4)
	}
	clear(room.index)
	s.binary.Records, s.left, s.index = room.list[:0], room.records, room.index
}

// readUnits reads heads of units, each at a multiple of 8:
//
//	functions u32, bytes of names of files u32, bytes of mappings u32, version - 1 u32
//	up to 3: for each function: name u64, bytes of its mapping u32, hash u64
//	names of files
//	up to 3: mappings
func (s *records) readUnits(section []byte) error {
	r := &reader{cursor.Reader{B: section, Order: s.order}}
	room := mostUnpacked(len(section))
	for r.Left() >= 16 {
		functions, names, mappings, version := r.U32(), r.U32(), r.U32(), int(r.U32())+1
		if version < OldestMapping || version > NewestMapping {
			r.At -= 4
			r.Fail("coverage mapping of version %d: known are %d to %d (LLVM 3.9 to 23)", version, OldestMapping, NewestMapping)
			return r.Err
		}
		if mapped := s.binary.Mapped; len(mapped) == 0 || mapped[len(mapped)-1] != version {
			s.binary.Mapped = append(mapped, version)
		}
		const recordBytes = 20
		var heads []byte
		if version <= 3 {
			heads = r.Bytes(recordBytes * uint64(functions))
		}
		at := r.At
		text := r.Bytes(uint64(names))
		data := r.Bytes(uint64(mappings))
		if r.Err != nil {
			return r.Err
		}
		hash := hashBytes(text)
		u, err := s.common.unit(unitKey{hash, len(text), version, s.dir}, text, &room)
		if err != nil {
			return fmt.Errorf("names of files at %#x: %w", at, err)
		}
		if version > 3 {
			s.units[hash] = u
		}
		for ; len(heads) > 0; heads = heads[recordBytes:] {
			size := s.order.Uint32(heads[8:])
			if uint64(size) > uint64(len(data)) {
				r.Fail("%d bytes of a mapping, there are %d", size, len(data))
				return r.Err
			}
			s.add(s.order.Uint64(heads), s.order.Uint64(heads[12:]), data[:size:size], u)
			data = data[size:]
		}
		r.Bytes(min(uint64(-r.At&7), r.Left()))
	}
	return r.Err
}

// A unitKey is what makes a unit: names of its files, as they are stored, of a mapping of that version, seen from dir.
// Mappings, too, know them by that hash.
type unitKey struct {
	hash    uint64
	size    int
	version int
	dir     string
}

// unit reads the names of the files of a unit, unless they were read before.
func (c *common) unit(key unitKey, text []byte, room *uint64) (*unit, error) {
	c.mu.Lock()
	u := c.units[key]
	c.mu.Unlock()
	if u != nil {
		return u, nil
	}
	u, err := readUnit(text, key.version, key.dir, room)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.units[key] = u
	c.mu.Unlock()
	return u, nil
}

// readUnit reads the names of the files of a unit.
func readUnit(text []byte, version int, dir string, room *uint64) (*unit, error) {
	u := &unit{version: version}
	r := &reader{cursor.Reader{B: text}}
	n := r.Uleb()
	if version >= 4 {
		unpacker := unpackers.Get().(*unpacker)
		defer unpackers.Put(unpacker)
		block, err := r.block(room, unpacker)
		if err != nil {
			return nil, err
		}
		r = &reader{cursor.Reader{B: block}}
	}
	if n > r.Left() {
		r.Fail("%d names in %d bytes", n, r.Left())
	}
	for i := range n {
		name := string(r.Bytes(r.Uleb()))
		if r.Err != nil {
			return nil, r.Err
		}
		if i == 0 && version >= 6 {
			if u.dir = dir; dir == "" {
				u.dir = name
			}
		} else if version >= 6 {
			// Names of no bytes would each become a copy of the directory.
			need := uint64(len(u.dir) + len(name) + 16)
			if need > *room {
				r.Fail("names of files that have far more bytes, seen from their directory, than there are")
				return nil, r.Err
			}
			*room -= need
			name = joined(u.dir, name)
		}
		u.files = append(u.files, name)
	}
	return u, r.Err
}

// joined is a name seen from a directory, without . and ..
func joined(dir, name string) string {
	if strings.HasPrefix(name, "/") || dir == "" {
		return name
	}
	rooted := strings.HasPrefix(dir, "/")
	var parts []string
	for part := range strings.SplitSeq(dir+"/"+name, "/") {
		switch {
		case part == "" || part == ".":
		case part == ".." && len(parts) > 0 && parts[len(parts)-1] != "..":
			parts = parts[:len(parts)-1]
		case part == ".." && rooted:
		default:
			parts = append(parts, part)
		}
	}
	path := strings.Join(parts, "/")
	if rooted {
		path = "/" + path
	}
	return path
}

// readFunctions reads functions, each at a multiple of 8:
//
//	name u64, bytes of its mapping u32, hash u64, hash of the unit's names u64, mapping
func (s *records) readFunctions(section []byte) error {
	r := &reader{cursor.Reader{B: section, Order: s.order}}
	for r.Left() >= functionBytes {
		at := r.At
		name, size, hash, of := r.U64(), r.U32(), r.U64(), r.U64()
		mapping := r.Bytes(uint64(size))
		if r.Err != nil {
			return r.Err
		}
		r.Bytes(min(uint64(-r.At&7), r.Left()))
		u := s.units[of]
		if u == nil {
			return &FormatError{Offset: int64(at), Err: fmt.Errorf("a function of a unit that is not there (%#x)", of)}
		}
		s.add(name, hash, mapping, u)
	}
	return r.Err
}

const functionBytes = 28

// countFunctions is how many functions there are in a section, or more if it is damaged.
func (s *records) countFunctions(section []byte) (n int) {
	for at := 0; len(section)-at >= functionBytes; n++ {
		at += int(min(functionBytes+uint64(s.order.Uint32(section[at+8:])), uint64(len(section)-at)))
		at = align(at, 8)
	}
	return n
}

// add adds a function. The first of a name stays, but for one that its unit did not use.
func (s *records) add(name, hash uint64, mapping []byte, u *unit) {
	b := s.binary
	i, again := s.index[name]
	dummy := hash == 0 && isDummy(mapping)
	if again && (dummy || !b.Records[i].dummy) {
		return
	}
	if len(s.left) == 0 {
		s.left = make([]Record, min(max(s.count-len(b.Records), 1), mostTogether))
	}
	r := &s.left[0]
	s.left = s.left[1:]
	*r = Record{NameHash: name, Hash: hash, mapping: mapping, unit: u, binary: b, dummy: dummy}
	if again {
		b.Records[i] = r
		return
	}
	s.index[name] = int32(len(b.Records))
	b.Records = append(b.Records, r)
}

// mostTogether is how many records are made at a time: one that is in use keeps them all.
const mostTogether = 512

// isDummy tells whether a mapping is that of a function which its unit does not use: one file, no expressions, one
// region that never ran.
func isDummy(mapping []byte) bool {
	r := &reader{cursor.Reader{B: mapping}}
	if r.Uleb() != 1 {
		return false
	}
	r.Uleb()
	return r.Uleb() == 0 && r.Uleb() == 1 && r.Uleb()&3 == 0 && r.Err == nil
}
