package live

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"

	"footfall/exe"
	"footfall/proc"
)

// Programs that Clang (-fprofile-instr-generate) or Rust (-C
// instrument-coverage) compiled have their counters in sections whose names
// survive strip, each linked object its own. A raw profile is a head and copies
// of these sections. Words are of 64 bits in the byte order of the program;
// what does not say since when is in all versions.
//
//	magic                            "\xfflprofr\x81", R in place of r: 32 bits
//	version                          its upper 8 bits are flags of the build
//	7+   size of build IDs
//	     records
//	5+   padding before counters     0
//	     counters
//	5+   padding after counters
//	9+   bytes of bitmaps, padding after them
//	11+  uniform counters, padding, their distance (GPUs have them)
//	     size of names
//	     address of the counters     8+: their distance from the records
//	9+   distance of the bitmaps from the records
//	     address of names
//	10+  vtables, size of their names
//	     last kind of values         1, 10+: 2
//
//	7+   build IDs: size u64, bytes  8+: padded to 8 bytes
//	     __llvm_prf_data             records as they are in memory
//	     __llvm_prf_cnts             padded, as all that follows
//	9+   __llvm_prf_bits             MC/DC
//	     __llvm_prf_names
//	     values of each record that has sites for them
//
// A record:
//
//	name u64, hash u64, counters, [11+ uniform counters], [9+ bitmaps],
//	function, values: pointers; number of counters u32, number of sites u16 of
//	each kind of values (2, 10+: 3), [11+ u16], [9+ bytes of bitmap u32]
//
// Versions: 4 Clang 9, 5 Clang 11, 7 Clang 13, 8 Clang 14 to 17, 9 Clang 18, 10
// Clang 19 to 22, 11 Clang 23.

// A Profile is the source-based counters of a program or library, at one time.
type Profile struct {
	Image string // the program or library
	Name  string // a file name, without directories, that no other profile of the process has
	Bytes []byte // of the .profraw file that it would write now

	counters int64
}

// counterBytes is the size of the counters.
func (p *Profile) counterBytes() int64 { return p.counters }

// A profile is where the counters of an image are.
type profile struct {
	order   byteOrder
	pointer int

	data, counters, bits, names section
	notes                       []section
	more                        []string // sections that are not known here
	coverage                    bool     // there is a mapping to source
	compilers                   []int    // major versions of Clang, where the file tells
	// Addresses of variables, 0: there are none, or the file is stripped.
	versionAt, counterBias, bitBias uint64

	// What never changes, read by prepare.
	raw  rawVersion
	text []byte // the names
	ids  []byte
}

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

type section struct{ addr, size uint64 }

// profileOf takes from an image's file where a profile is, nil if there is
// none. symbols looks symbols up.
func profileOf(f *exe.File, bias uint64, symbols func(name string) ([]uint64, error)) *profile {
	p := &profile{order: binary.LittleEndian, pointer: f.PointerSize()}
	if f.Order == binary.ByteOrder(binary.BigEndian) {
		p.order = binary.BigEndian
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
	addrs, sizes := f.Notes()
	for i := range addrs {
		p.notes = append(p.notes, section{addrs[i] + bias, sizes[i]})
	}
	for name, to := range map[string]*uint64{
		"__llvm_profile_raw_version": &p.versionAt, "__llvm_profile_counter_bias": &p.counterBias, "__llvm_profile_bitmap_bias": &p.bitBias,
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

var clangVersion = regexp.MustCompile(`clang version ([0-9]{1,4})\.`)

// clangMajors finds the versions of Clang that compiled objects of a file, in
// its .comment. The runtime is among them, also in programs of Rust.
func clangMajors(comment []byte) []int {
	var majors []int
	for _, m := range clangVersion.FindAllSubmatch(comment, 100) {
		if major, err := strconv.Atoi(string(m[1])); err == nil && !slices.Contains(majors, major) {
			majors = append(majors, major)
		}
	}
	return majors
}

// A rawVersion is the version of a raw profile, with its flags.
type rawVersion uint64

// flagSingleBytes says that counters are bytes: 0xff, and 0 once it ran.
const flagSingleBytes = 1 << 60

func (v rawVersion) number() uint32 { return uint32(v) }

// known tells whether the layout is.
func (v rawVersion) known() bool {
	n := v.number()
	return n >= 4 && n <= 11 && n != 6
}

// rawVersionOf is the version that a Clang writes, 0 for those of which it is
// not known.
func rawVersionOf(clang int) rawVersion {
	switch {
	case clang == 9:
		return 4
	case clang == 11:
		return 5
	case clang == 13:
		return 7
	case clang >= 14 && clang <= 17:
		return 8
	case clang == 18:
		return 9
	case clang >= 19 && clang <= 22:
		return 10
	case clang == 23:
		return 11
	}
	return 0
}

// A recordLayout says where the fields of a record are that we look at.
type recordLayout struct{ size, counters, bitmaps, values, number, sites, kinds int }

func (v rawVersion) record(pointer int) recordLayout {
	l := recordLayout{counters: 16, kinds: 2}
	at := l.counters + pointer
	if v.number() >= 11 {
		at += pointer // uniform counters
	}
	if v.number() >= 9 {
		l.bitmaps = at
		at += pointer
	}
	if v.number() >= 10 {
		l.kinds = 3
	}
	l.values = at + pointer // function
	l.number = l.values + pointer
	l.sites = l.number + 4
	at = l.sites + 2*l.kinds
	if v.number() >= 11 {
		at += 2
	}
	if v.number() >= 9 {
		at = align(at, 4) + 4
	}
	l.size = align(at, 8)
	return l
}

func align(n, to int) int { return (n + to - 1) / to * to }

// Limits of what is believed of a profile.
const (
	maxRecords = 1 << 23
	maxNotes   = 1 << 16
)

// prepare reads what never changes.
func (p *profile) prepare(w *walker) error {
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
	if p.data.size = size; !holds(w.maps, p.data) || size > maxRecords*uint64(p.raw.record(p.pointer).size) {
		return errTooMany
	}
	if err := p.findBitmaps(w); err != nil {
		return err
	}
	p.text = make([]byte, p.names.size)
	if _, err := w.mem.ReadAt(p.text, int64(p.names.addr)); err != nil && len(p.text) > 0 {
		return fmt.Errorf("names: %w", err)
	}
	if p.raw.number() >= 7 {
		if err := p.readIDs(w); err != nil {
			return err
		}
	}
	return nil
}

// holds tells whether all of a section is mapped.
func holds(maps proc.Maps, s section) bool {
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
func (p *profile) findVersion(w *walker) error {
	if p.versionAt != 0 {
		b, err := w.read(p.versionAt, 8)
		if err != nil {
			return fmt.Errorf("__llvm_profile_raw_version: %w", err)
		}
		if p.raw = rawVersion(p.order.Uint64(b)); !p.raw.known() {
			return fmt.Errorf("raw profiles of version %d: known are 4, 5 and 7 to 11 (Clang 9 to 23); their layout is not guessed", p.raw.number())
		}
		return nil
	}
	data := make([]byte, p.data.size)
	if _, err := w.mem.ReadAt(data, int64(p.data.addr)); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	var fits []rawVersion
	for _, major := range p.compilers {
		if v := rawVersionOf(major); v != 0 && !slices.Contains(fits, v) && p.fits(data, v) {
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
func (p *profile) findBitmaps(w *walker) error {
	l := p.raw.record(p.pointer)
	if l.bitmaps == 0 || p.bits.addr != 0 {
		return nil
	}
	b, err := w.read(p.data.addr, l.size)
	if err != nil {
		return fmt.Errorf("records: %w", err)
	}
	if distance := p.address(b[l.bitmaps:]); distance != 0 {
		p.bits.addr = p.wrap(p.data.addr + distance)
	}
	return nil
}

// recordBytes is the size of all records. The section may lack the padding of
// the last one.
func (p *profile) recordBytes(v rawVersion) (uint64, error) {
	size := uint64(v.record(p.pointer).size)
	all := (p.data.size + size - 1) / size * size
	if all-p.data.size >= 8 {
		return 0, fmt.Errorf("records of raw profiles of version %d have %d bytes, there are %d bytes of them", v.number(), size, p.data.size)
	}
	return all, nil
}

// fits tells whether the records, as that version has them, lead to all
// counters of 64 bits, one record after the other.
func (p *profile) fits(data []byte, v rawVersion) bool {
	l := v.record(p.pointer)
	all, err := p.recordBytes(v)
	if err != nil {
		return false
	}
	data = append(slices.Clip(data), make([]byte, all-uint64(len(data)))...)
	var sum uint64
	for at := 0; at < len(data); at += l.size {
		record := data[at:]
		addr, n := p.address(record[l.counters:]), uint64(p.order.Uint32(record[l.number:]))
		if v.number() >= 8 {
			addr = p.wrap(addr + p.data.addr + uint64(at))
		}
		if sum += n; addr < p.counters.addr || addr-p.counters.addr+8*n > p.counters.size {
			return false
		}
	}
	return 8*sum == p.counters.size
}

// readIDs reads the build IDs out of the notes, in the form of the profile.
func (p *profile) readIDs(w *walker) error {
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
func (p *profile) appendIDs(ids, notes []byte) []byte {
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
			if p.raw.number() >= 8 {
				ids = append(ids, padding(int(description))...)
			}
		}
		notes = notes[min(uint64(len(notes)), (end+3)&^3):]
	}
	return ids
}

// padding is what makes n bytes a multiple of 8.
func padding(n int) []byte { return make([]byte, -n&7) }

func (p *profile) address(b []byte) uint64 {
	if p.pointer == 4 {
		return uint64(p.order.Uint32(b))
	}
	return p.order.Uint64(b)
}

// wrap is arithmetic on addresses of the program.
func (p *profile) wrap(x uint64) uint64 {
	if p.pointer == 4 {
		return uint64(uint32(x))
	}
	return x
}

// encode makes the bytes of the file of what was read.
func (p *profile) encode(data, counters, bits, values []byte) []byte {
	v, l := p.raw.number(), p.raw.record(p.pointer)
	b := make([]byte, 0, 256+len(p.ids)+len(data)+len(counters)+len(bits)+len(p.text)+len(values))
	word := func(since uint32, x uint64) {
		if v >= since {
			b = p.order.AppendUint64(b, x)
		}
	}
	entry := 8
	if p.raw&flagSingleBytes != 0 {
		entry = 1
	}
	word(0, rawMagic(p.pointer))
	word(0, uint64(p.raw))
	word(7, uint64(len(p.ids)))
	word(0, uint64(len(data)/l.size))
	word(5, 0)
	word(0, uint64(len(counters)/entry))
	word(5, uint64(-len(counters)&7))
	word(9, uint64(len(bits)))
	word(9, uint64(-len(bits)&7))
	for range 3 {
		word(11, 0)
	}
	word(0, uint64(len(p.text)))
	if v < 8 {
		word(0, p.counters.addr)
	}
	word(8, p.wrap(p.counters.addr-p.data.addr))
	word(9, p.wrap(p.bits.addr-p.data.addr))
	word(0, p.names.addr)
	word(10, 0)
	word(10, 0)
	word(0, uint64(l.kinds-1))
	b = append(append(b, p.ids...), data...)
	for _, part := range [][]byte{counters, bits, p.text} {
		b = append(append(b, part...), padding(len(part))...)
	}
	return append(b, values...)
}

func rawMagic(pointer int) uint64 {
	magic := []byte("\xfflprofr\x81")
	if pointer == 4 {
		magic[6] = 'R'
	}
	return binary.BigEndian.Uint64(magic)
}

// Profiles reads all source-based counters as they are now. Images that cannot
// be used are told in the error, beside those that can; without any the error
// is why there are none: ErrNoCounters, proc.ErrExited.
func (p *Process) Profiles() ([]Profile, error) {
	var err error
	for try := range 3 {
		if err = p.proc.Check(); err != nil {
			break
		}
		if err = p.refresh(try > 0); err != nil {
			return nil, err
		}
		var profiles []Profile
		var problems []error
		if profiles, problems, err = p.profiles(); err == nil {
			if len(profiles)+len(problems) == 0 {
				problems = append(problems, ErrNoCounters)
			}
			err = errors.Join(problems...)
			if len(profiles) > 0 || err == nil {
				return profiles, err
			}
			break
		}
	}
	if exited := p.proc.Check(); exited != nil {
		err = exited
	}
	return nil, fmt.Errorf("process %d (%s): %w", p.PID, p.Name, err)
}

// hasProfiles tells whether some image has counters that Profiles gives.
func (p *Process) hasProfiles() bool {
	return slices.ContainsFunc(p.images, func(im *image) bool { return im.profile != nil && im.profErr == nil })
}

// profiles reads those of the images that are known. Problems are of single
// images; an error says that images have changed meanwhile, perhaps.
func (p *Process) profiles() (profiles []Profile, problems []error, err error) {
	var images []*image
	for _, im := range p.images {
		if im.profile == nil {
			continue
		}
		if im.profErr == nil {
			images = append(images, im)
		} else {
			problems = append(problems, fmt.Errorf("%s: source-based counters: %w", im.path, im.profErr))
		}
	}
	maps, _, err := p.proc.Maps()
	if err != nil {
		return nil, nil, err
	}
	reads := make([]profileRead, len(images))
	var ranges []proc.Range
	for i, im := range images {
		if ranges, err = reads[i].plan(im.profile, p.proc, maps, ranges); err != nil {
			return nil, nil, err
		}
	}
	if err := p.proc.ReadRanges(ranges); err != nil {
		return nil, nil, err
	}
	taken := make(map[string]bool)
	for i, im := range images {
		r := &reads[i]
		values, err := im.profile.values(r.data, p.proc)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: values of source-based counters: %w", im.path, err))
			continue
		}
		profiles = append(profiles, Profile{
			Image: im.path, Name: profileName(im.path, taken), Bytes: im.profile.encode(r.data, r.counters, r.bits, values),
			counters: int64(len(r.counters)),
		})
	}
	return profiles, problems, nil
}

// profileName makes a file name of an image's.
func profileName(image string, taken map[string]bool) string {
	base := path.Base(path.Clean("/" + image))
	if base == "/" {
		base = "program"
	}
	name := base + ".profraw"
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d.profraw", base, n)
	}
	taken[name] = true
	return name
}

// A profileRead is memory of a profile.
type profileRead struct{ data, counters, bits []byte }

// plan adds what is to be read. Counters are elsewhere when the program maps
// its file on them (continuous mode).
func (r *profileRead) plan(p *profile, mem memory, maps proc.Maps, ranges []proc.Range) ([]proc.Range, error) {
	counters, bits := p.counters, p.bits
	if file := p.mappedFile(mem, maps); file != 0 {
		counters.addr, bits.addr, _ = p.inFile(file)
	} else {
		var err error
		if counters.addr, err = p.moved(counters.addr, p.counterBias, mem); err != nil {
			return nil, err
		}
		if bits.addr, err = p.moved(bits.addr, p.bitBias, mem); err != nil {
			return nil, err
		}
	}
	for _, part := range []struct {
		section
		to *[]byte
	}{{p.data, &r.data}, {counters, &r.counters}, {bits, &r.bits}} {
		*part.to = make([]byte, part.size)
		if part.size > 0 {
			ranges = append(ranges, proc.Range{Addr: part.addr, Bytes: *part.to})
		}
	}
	return ranges, nil
}

// mappedFile finds the file that a stripped program has mapped in place of its
// counters, 0 if there is none: one with the same names. Others have a variable
// that tells.
func (p *profile) mappedFile(mem memory, maps proc.Maps) uint64 {
	if p.versionAt != 0 || len(p.text) == 0 {
		return 0
	}
	magic := p.order.AppendUint64(nil, rawMagic(p.pointer))
	for _, m := range maps {
		if !m.Write || m.Offset != 0 || m.Inode == 0 {
			continue
		}
		_, _, names := p.inFile(m.Start)
		head, text := make([]byte, len(magic)), make([]byte, len(p.text))
		if names+uint64(len(text)) > m.End {
			continue
		}
		if _, err := mem.ReadAt(head, int64(m.Start)); err != nil || !bytes.Equal(head, magic) {
			continue
		}
		if _, err := mem.ReadAt(text, int64(names)); err == nil && bytes.Equal(text, p.text) {
			return m.Start
		}
	}
	return 0
}

// inFile says where counters, bitmaps and names are in a file at that address.
func (p *profile) inFile(start uint64) (counters, bits, names uint64) {
	head := len(p.encode(nil, nil, nil, nil)) - len(p.text) - len(padding(len(p.text)))
	counters = start + uint64(head) + p.data.size
	bits = counters + (p.counters.size+7)&^7
	return counters, bits, bits + (p.bits.size+7)&^7
}

// moved adds the distance that the variable has, if there is one.
func (p *profile) moved(addr, variable uint64, mem memory) (uint64, error) {
	if variable == 0 {
		return addr, nil
	}
	b := make([]byte, p.pointer)
	if _, err := mem.ReadAt(b, int64(variable)); err != nil {
		return 0, err
	}
	if bias := p.address(b); bias != p.wrap(^uint64(0)) { // not set so far
		addr = p.wrap(addr + bias)
	}
	return addr, nil
}
