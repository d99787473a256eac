package instrument

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A CountsFile is what a counts file holds: the counts of each image (executable
// or library) of a process at the moment when the file was read. The process may
// run on.
type CountsFile struct {
	Images []*CountedImage
}

// A CountedImage is an executable or shared library in a process.
type CountedImage struct {
	Path     string // "" if not known
	BuildID  string // hexadecimal, "" if the image has none
	PID      int
	Parent   int    // the process that forked this one while counting, 0: none
	Process  uint64 // with PID tells programs that one process ran one after the other
	Started  time.Time
	WordSize int    // of addresses: 4 or 8
	Bias     uint64 // addresses here less those in the image's file
	// Unmapped means that counts are not live: they are zero until the process exits.
	Unmapped  bool
	Maps      []CodeMapping // code of the process when the image was started
	Functions []*CountedFunction
}

// A CodeMapping is code of a file, mapped to memory.
type CodeMapping struct {
	Start, End, Offset uint64
	Path               string
}

// A CountedFunction is one that counts its calls. Addresses are those in memory; less
// the image's Bias they are those in its file.
type CountedFunction struct {
	Image   *CountedImage
	Name    string // the symbol
	Aliases []Alias
	Unit    string // the source file, as the compiler recorded it
	Local   bool   // static: other units may have one of the same name
	Update  ProfileUpdate
	Code    []CodeRange // the first begins with the entry
	Calls   uint64
	Sites   []CallSite

	weak  bool   // the linker prefers one that is not
	names uint64 // address of the unit's names: units of several directories may have one name
}

// An Alias is a further symbol at a function's address.
type Alias struct {
	Name  string
	Local bool // as of a function, which need not be the same

	weak bool
}

// A CodeRange is code from Start up to End.
type CodeRange struct{ Start, End uint64 }

// A CallSite is a place in a function that calls.
type CallSite struct {
	Address  uint64 // of the call instruction
	Tail     bool   // a jump in place of call and return
	Indirect bool
	Callee   string // symbol of the callee of a direct call
	Local    bool   // the callee is a static function of the same unit
	Count    uint64 // of a direct call
	Targets  []Callee
	Further  uint64 // calls of an indirect site to targets for which there was no room
}

// A Callee is what an indirect call called.
type Callee struct {
	Address uint64
	Count   uint64
}

// A FormatError tells what is wrong with the bytes of a counts file, and where.
type FormatError struct {
	Offset int64
	Msg    string
}

func (e *FormatError) Error() string { return fmt.Sprintf("at offset %#x: %s", e.Offset, e.Msg) }

// ErrNotCounts is the error for a file that is no counts file.
var ErrNotCounts = errors.New("no counts file: those begin with FOOTFALL")

// A counts file is a sequence of parts, one for each image of the process. Each
// begins with a head; offsets in it count from there.
//
//	  0  "FOOTFALL"
//	  8  version, 1                    12  0x01020304, in the byte order of all
//	 16  bytes of the part (8)         24  bytes of an address   28  1: unmapped, 2: copy
//	 32  PID                           36  PID of the parent
//	 40  program of that process (8)   48  start, ns since 1970 (8)   56  bias (8)
//	 64  table: address, bytes, offset (8 each)
//	 88  names: address, bytes, offset
//	112  counters: address, bytes, offset
//	136  maps: bytes, offset           of the text of /proc/PID/maps
//	152  bytes of the build id         156 bytes of the path
//	160  build id (64 bytes)           224 path (1024 bytes)
//	1248 table, names, maps
//	     counters, at a multiple of the page size; the rest of the page is zero
//
// Table and names are as in memory, and refer to each other and to the counters
// by address; table.go draws them. A head of zeros belongs to a part that is being made.
//
// A copy is of the counters at the same address of another part: it has what one
// thread has counted, and a count is the sum of all. It has no table.
const (
	partMagic   = "FOOTFALL"
	partVersion = 1
	partHead    = 1248
	partOrder   = 0x01020304

	partUnmapped = 1
	partCopy     = 2
)

// ReadCounts reads a counts file; b may be the file of a running process. What
// could be read is returned with the error.
func ReadCounts(b []byte) (*CountsFile, error) {
	if len(b) == 0 || bytes.Count(b[:min(len(b), partHead)], []byte{0}) == min(len(b), partHead) {
		return nil, errors.New("an empty counts file: its program is starting, or was killed when it started")
	}
	if !bytes.HasPrefix(b, []byte(partMagic)) {
		return nil, ErrNotCounts
	}
	parts, partErr := readParts(b)
	c := &CountsFile{}
	for _, p := range parts {
		im, err := p.image()
		c.Images = append(c.Images, im)
		if err != nil {
			return c, err
		}
	}
	return c, partErr
}

// readParts reads all parts. Copies are added to the counters that they are of.
func readParts(b []byte) ([]*part, error) {
	type owner struct {
		pid              uint32
		process, address uint64
	}
	var list []*part
	byOwner := make(map[owner]*part)
	for at := 0; at < len(b); {
		p, err := readPart(b, at)
		if err != nil {
			return list, err
		}
		if p == nil {
			break // being made
		}
		o := owner{p.word(32), p.long(40), p.area[countsArea].address}
		if p.word(28)&partCopy == 0 {
			list = append(list, p)
			byOwner[o] = p
		} else if err := p.addTo(byOwner[o]); err != nil {
			return list, err
		}
		at += len(p.b)
	}
	return list, nil
}

// addTo adds the counters of the copy p to those of the part to.
func (p *part) addTo(to *part) error {
	copied := p.area[countsArea].b
	if to == nil || len(copied) != len(to.area[countsArea].b) {
		return p.fail(112, "a copy of %d bytes of counters that are not in the file", len(copied))
	}
	if !to.own {
		to.own = true
		to.area[countsArea].b = bytes.Clone(to.area[countsArea].b)
	}
	sum := to.area[countsArea].b
	for i := 0; i+8 <= len(sum); i += 8 {
		if n := binary.LittleEndian.Uint64(copied[i:]); n != 0 {
			binary.LittleEndian.PutUint64(sum[i:], binary.LittleEndian.Uint64(sum[i:])+n)
		}
	}
	return nil
}

// A part is the bytes of one.
type part struct {
	b    []byte
	base int // of b in the file
	area [3]area
	maps []byte
	more map[uint64]map[uint64][]Callee // by address of a unit's table and of the site
	own  bool                           // the counters are no longer those of the file
}

// An area is a stretch of memory that is in the part.
type area struct {
	address uint64
	b       []byte
	offset  int
}

const (
	tableArea = iota
	namesArea
	countsArea
)

func (p *part) fail(at int, format string, args ...any) error {
	return &FormatError{int64(p.base + at), fmt.Sprintf(format, args...)}
}

// readPart finds the areas of the part at offset at, nil if it is being made.
func readPart(b []byte, at int) (*part, error) {
	p := &part{b: b[at:], base: at}
	switch {
	case len(p.b) < partHead:
		return nil, p.fail(0, "a part's head is %d bytes, but only %d are left: the file is cut off", partHead, len(p.b))
	case bytes.Count(p.b[:partHead], []byte{0}) == partHead:
		return nil, nil
	case !bytes.HasPrefix(p.b, []byte(partMagic)):
		return nil, p.fail(0, "no part begins here")
	case p.word(12) != partOrder:
		return nil, p.fail(12, "byte order mark %#x, only little-endian is known", p.word(12))
	case p.word(8) != partVersion:
		return nil, p.fail(8, "version %d, this footfall knows %d: instrument and read with the same", p.word(8), partVersion)
	}
	size := p.long(16)
	if size < partHead || size > uint64(len(p.b)) {
		return nil, p.fail(16, "a part of %d bytes, but %d are left: the file is cut off", size, len(p.b))
	}
	p.b = p.b[:size]
	var err error
	for i := range p.area {
		head := 64 + 24*i
		p.area[i].address = p.long(head)
		p.area[i].b, err = p.piece(head+8, head+16)
		p.area[i].offset = int(p.long(head + 16))
		if err != nil {
			return nil, err
		}
	}
	p.maps, err = p.piece(136, 144)
	return p, err
}

func (p *part) word(at int) uint32 { return binary.LittleEndian.Uint32(p.b[at:]) }
func (p *part) long(at int) uint64 { return binary.LittleEndian.Uint64(p.b[at:]) }

// piece returns the bytes whose length and offset are at these places.
func (p *part) piece(length, offset int) ([]byte, error) {
	n, at := p.long(length), p.long(offset)
	if n > uint64(len(p.b)) || at > uint64(len(p.b))-n {
		return nil, p.fail(length, "%d bytes at %d do not fit into the part", n, at)
	}
	return p.b[at : at+n], nil
}

func (p *part) image() (*CountedImage, error) {
	im := &CountedImage{
		PID: int(p.word(32)), Parent: int(p.word(36)), Process: p.long(40), Started: time.Unix(0, int64(p.long(48))),
		WordSize: int(p.word(24)), Unmapped: p.word(28)&partUnmapped != 0, Bias: p.long(56),
	}
	idSize, pathSize := p.word(152), p.word(156)
	if idSize > 64 || pathSize > 1024 {
		return im, p.fail(152, "build id of %d bytes and path of %d do not fit", idSize, pathSize)
	}
	im.BuildID = hex.EncodeToString(p.b[160 : 160+idSize])
	im.Path = string(p.b[224 : 224+pathSize])
	im.Maps = readMaps(string(p.maps))

	type key struct {
		names uint64
		name  string
		local bool
	}
	whole := make(map[key]*CountedFunction)
	var parts []*CountedFunction
	var partKeys []key
	table := p.area[tableArea].b
	for at := 0; at < len(table); {
		f, size, names, isPart, err := p.block(at)
		if err != nil {
			return im, err
		}
		f.Image, f.names = im, names
		k := key{names, f.Name, f.Local}
		if isPart {
			parts, partKeys = append(parts, f), append(partKeys, k)
		} else {
			whole[k] = f
			im.Functions = append(im.Functions, f)
		}
		at += size
	}
	for i, f := range parts {
		to := whole[partKeys[i]]
		if to == nil { // the function itself is left out
			whole[partKeys[i]] = f
			im.Functions = append(im.Functions, f)
			continue
		}
		to.Code = append(to.Code, f.Code...)
		to.Sites = append(to.Sites, f.Sites...)
	}
	return im, nil
}

// block reads the block at offset at of the table.
func (p *part) block(at int) (f *CountedFunction, size int, names uint64, isPart bool, err error) {
	table := p.area[tableArea]
	base := table.offset + at
	if len(table.b)-at < blockHead {
		return nil, 0, 0, false, p.fail(base, "%d bytes are left of the table, a function takes %d", len(table.b)-at, blockHead)
	}
	if v := p.word(base+4) >> 16; v != tableVersion {
		return nil, 0, 0, false, p.fail(base+4, "table version %d, this footfall knows %d: build the program anew", v, tableVersion)
	}
	size = int(p.word(base))
	aliases, calls := int64(p.word(base+28)), int64(p.word(base+32))
	if size%4 != 0 || size > len(table.b)-at || int64(size) != blockHead+4*aliases+blockCall*calls {
		return nil, 0, 0, false, p.fail(base, "a function of %d bytes with %d aliases and %d calls", size, aliases, calls)
	}
	near := func(field int) uint64 { // an address, less that of the field
		a := table.address + uint64(at+field) + uint64(int64(int32(p.word(base+field))))
		if p.word(24) == 4 {
			a = uint64(uint32(a))
		}
		return a
	}
	flags := p.word(base + 4)
	counter, code := near(8), near(12)
	names = near(16)
	r := blockReader{p: p, names: names, counter: counter}
	if n := p.word(base + 40); n > 0 {
		r.readMore(near(36), n, base+36)
	}
	f = &CountedFunction{
		Name: r.name(base + 24), Unit: r.text(0, base+16), Local: flags&flagLocal != 0, Update: ProfileUpdate(flags & 15), weak: flags&flagWeak != 0,
		Code: []CodeRange{{code, code + uint64(p.word(base+20))}},
	}
	isPart = flags&flagPart != 0
	if !isPart {
		f.Calls = r.count(0, base+8)
	}
	field := base + blockHead
	for range aliases {
		name := p.word(field)
		f.Aliases = append(f.Aliases, Alias{r.text(name&^(aliasLocal|aliasWeak), field), name&aliasLocal != 0, name&aliasWeak != 0})
		field += 4
	}
	for range calls {
		f.Sites = append(f.Sites, r.site(field, code))
		field += blockCall
	}
	return f, size, names, isPart, r.err
}

// A blockReader follows the references of a block and keeps the first error.
type blockReader struct {
	p              *part
	names, counter uint64
	more           map[uint64][]Callee // by address of the site
	err            error
}

func (r *blockReader) name(field int) string { return r.text(r.p.word(field), field) }

// text returns the name at an offset of the unit's names, which the field refers to.
func (r *blockReader) text(offset uint32, field int) string {
	a := r.p.area[namesArea]
	at := r.names + uint64(offset) - a.address
	if at >= uint64(len(a.b)) {
		r.fail(field, "a name outside of the names")
		return ""
	}
	s, _, ok := bytes.Cut(a.b[at:], []byte{0})
	if !ok {
		r.fail(field, "a name without end")
	}
	return string(s)
}

// count returns the block's counter number i, which the field refers to.
func (r *blockReader) count(i uint32, field int) uint64 {
	a := r.p.area[countsArea]
	at := r.counter + 8*uint64(i) - a.address
	if len(a.b) < 8 || at > uint64(len(a.b)-8) {
		r.fail(field, "a counter outside of the counters")
		return 0
	}
	return binary.LittleEndian.Uint64(a.b[at:])
}

// readMore reads the unit's table of further targets, n pairs at an address,
// which the field refers to.
func (r *blockReader) readMore(address uint64, n uint32, field int) {
	p := r.p
	if r.more = p.more[address]; r.more != nil {
		return
	}
	a := p.area[countsArea]
	at := address - a.address
	if at > uint64(len(a.b)) || uint64(n)*16 > uint64(len(a.b))-at {
		r.fail(field, "further targets outside of the counters")
		return
	}
	r.more = make(map[uint64][]Callee)
	for b := a.b[at : at+16*uint64(n)]; len(b) > 0; b = b[16:] {
		if key := binary.LittleEndian.Uint64(b); key != 0 {
			site := address + key>>48*8
			r.more[site] = append(r.more[site], Callee{key & (1<<48 - 1), binary.LittleEndian.Uint64(b[8:])})
		}
	}
	if p.more == nil {
		p.more = make(map[uint64]map[uint64][]Callee)
	}
	p.more[address] = r.more
}

func (r *blockReader) fail(field int, msg string) {
	if r.err == nil {
		r.err = r.p.fail(field, "%s", msg)
	}
}

func (r *blockReader) site(field int, code uint64) CallSite {
	kind, counter := r.p.word(field), r.p.word(field+4)
	s := CallSite{Address: code + uint64(int64(int32(r.p.word(field+8)))), Local: kind&callLocal != 0}
	switch k := callKind(kind & 0xff); k {
	case callDirect, callTail:
		s.Tail = k == callTail
		s.Callee = r.name(field + 12)
		s.Count = r.count(counter, field+4)
	case callIndirect, callIndirectTail:
		s.Indirect, s.Tail = true, k == callIndirectTail
		for i := uint32(0); i < indirectWords-1; i += 2 {
			if t := (Callee{r.count(counter+i, field+4), r.count(counter+i+1, field+4)}); t.Address != 0 {
				s.Targets = append(s.Targets, t)
			}
		}
		s.Targets = append(s.Targets, r.more[r.counter+8*uint64(counter)]...)
		s.Further = r.count(counter+indirectWords-1, field+4)
	default:
		r.fail(field, fmt.Sprintf("a call of kind %d", k))
	}
	return s
}

// readMaps takes the code out of the text of /proc/PID/maps.
func readMaps(text string) []CodeMapping {
	var list []CodeMapping
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.Contains(f[1], "x") {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		var m CodeMapping
		var errs [3]error
		m.Start, errs[0] = strconv.ParseUint(from, 16, 64)
		m.End, errs[1] = strconv.ParseUint(to, 16, 64)
		m.Offset, errs[2] = strconv.ParseUint(f[2], 16, 64)
		if errors.Join(errs[:]...) == nil {
			m.Path = strings.Join(f[5:], " ")
			list = append(list, m)
		}
	}
	return list
}
