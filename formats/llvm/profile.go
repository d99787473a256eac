package llvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A Format is one of those that profiles have.
type Format int

// The formats.
const (
	Raw Format = iota
	Indexed
	Text
)

// A Profile is what one file, or program, counted.
type Profile struct {
	Format  Format
	Version uint32 // of the format; Text: 0
	Flags   uint64 // Flag constants
	// BuildIDs are those of the binaries that counted, in hexadecimal; none if the version does not tell.
	BuildIDs []string
	// Counted are the functions, in the order of the file. Of an indexed one a function may be there with
	// several hashes, of a raw one a name and hash twice.
	Counted []Counted
	// OldBitmaps is set where bits of bitmaps are numbered as LLVM 18 did.
	OldBitmaps bool

	targets Names         // of functions that are called, if only text tells them
	indexed *indexedParts // of what is not shown here, to be written again
}

// Counted are the counts of a function.
type Counted struct {
	Name     string // "": not known
	NameHash uint64
	Hash     uint64 // of its control flow
	Counts   []uint64
	Bitmap   []byte
	Values   Values
	// Whole is Counts with what forked processes had of their parents' counts; nil: the same. A process that is forked in the midst
	// of a function begins there: what is derived from its own counts alone, as that of the code behind an if whose branch it
	// leaves by exit, is below zero, and hides that the parent ran it. What is above zero by Whole did run.
	Whole []uint64
}

// Values are what was seen at the sites of a function, by kind: the functions that a call called, the sizes of
// copies, the tables of virtual functions.
type Values [][]ValueSite

// A ValueSite is a place at which values are counted, by ascending value.
type ValueSite []ValueCount

// A ValueCount is how often a value was seen: a number, or the hash of a name.
type ValueCount struct{ Value, Count uint64 }

// SingleBytes tells whether counts only say that something ran.
func (p *Profile) SingleBytes() bool { return p.Flags&FlagSingleBytes != 0 }

// ErrNotProfile is why a file is none.
var ErrNotProfile = errors.New("not a profile of LLVM (.profraw, .profdata)")

var indexedMagic = []byte("\xfflprofi\x81")

// rawMagics of 64 and 32 bits, as written big-endian.
var rawMagics = map[uint64]int{0xff6c70726f667281: 8, 0xff6c70726f665281: 4}

// Kind tells by the beginning of a file whether it may be a profile, and which. Text is not recognised.
func Kind(head []byte) (f Format, ok bool) {
	head = bytes.TrimLeft(head, "\x00") // between profiles
	if bytes.HasPrefix(head, indexedMagic) {
		return Indexed, true
	}
	if len(head) < 8 {
		return 0, false
	}
	_, little := rawMagics[binary.LittleEndian.Uint64(head)]
	_, big := rawMagics[binary.BigEndian.Uint64(head)]
	return Raw, little || big
}

// Read reads the profiles of a file: one, or several raw ones. Those before what is wrong are returned beside
// the error. A file of no bytes, as a program that is killed leaves it, has none.
func Read(b []byte) ([]*Profile, error) { return new(Reader).Read(b) }

// A Reader reads many files, of one goroutine. What those of one program have in common is read once.
type Reader struct {
	section []byte // of names, read last
	names   Names  // not changed any more
	last    []Counted
}

// nameOf is the name of function i of a profile. Those of one program come in the same order.
func (s *Reader) nameOf(i int, hash uint64, names Names) string {
	if i < len(s.last) && s.last[i].NameHash == hash {
		return s.last[i].Name
	}
	return names[hash]
}

// Read is [Read].
func (s *Reader) Read(b []byte) ([]*Profile, error) {
	f, ok := Kind(b)
	switch {
	case len(b) == 0:
		return nil, nil
	case !ok && isText(b):
		p, err := readText(b)
		return some(p), err
	case !ok:
		return nil, ErrNotProfile
	case f == Indexed:
		p, err := readIndexed(b)
		return some(p), err
	}
	return s.readRaws(b)
}

// namesOf reads a section of names.
func (s *Reader) namesOf(section []byte) (Names, error) {
	if s.names != nil && bytes.Equal(section, s.section) {
		return s.names, nil
	}
	names := make(Names)
	if err := names.add(section); err != nil {
		return nil, err
	}
	s.section, s.names, s.last = bytes.Clone(section), names, nil
	return names, nil
}

func some(p *Profile) []*Profile {
	if p == nil {
		return nil
	}
	return []*Profile{p}
}

func (p *Profile) String() string {
	switch p.Format {
	case Raw:
		return fmt.Sprintf("raw profile of version %d (%s)", p.Version, RawVersion(p.Version).toolsOf())
	case Indexed:
		return fmt.Sprintf("indexed profile of version %d", p.Version)
	}
	return "profile in text"
}
