package binary

import (
	"bytes"
	"debug/elf"
	"io"
	"sync/atomic"
)

// Pieces are the bytes of sections, by address. Files have hundreds of megabytes of code and tables, of which a moment needs a
// few: they are read a piece at a time, and a few pieces stay in memory. Pieces are for one goroutine.
type pieces struct {
	sections []pieceSection // of two that have an address it is the first one's
	size     uint64         // of a piece, but for the last one of a section
	read     []piece        // each is where the remainder of its number says, the last one that was wanted there
	joined   []byte         // what is in several pieces
	failed   *atomic.Bool   // something could not be read; of all that are for the same file
}

// A pieceSection is a section.
type pieceSection struct {
	addr, size uint64
	from       io.ReaderAt // nil: it cannot be read
}

// A piece is a part of a section that has been read.
type piece struct {
	section int
	number  uint64
	bytes   []byte // none: there is no such piece
}

// What is read of code, which is looked at in the order of addresses, but for the parts that the compiler has moved apart; and of
// tables, which are anywhere.
const (
	codePiece   = 1 << 14
	codePieces  = 16
	tablePiece  = 1 << 12
	tablePieces = 256
)

func newPieces(size uint64, number int) *pieces {
	return &pieces{size: size, read: make([]piece, number), failed: new(atomic.Bool)}
}

// another has the same sections, for another goroutine.
func (p *pieces) another() *pieces {
	other := newPieces(p.size, len(p.read))
	other.sections, other.failed = p.sections, p.failed
	return other
}

// add adds a section. If it cannot be read that is an error, and it has addresses only.
func (p *pieces) add(s *elf.Section) error {
	from, size, err := wholeSection(s)
	p.sections = append(p.sections, pieceSection{s.Addr, size, from})
	return err
}

// wholeSection returns what reads a section that has bytes in the file, of which all are there.
func wholeSection(s *elf.Section) (from io.ReaderAt, size uint64, err error) {
	if s.Flags&elf.SHF_COMPRESSED != 0 {
		b, err := data(s)
		if err != nil {
			return nil, s.Size, err
		}
		return bytes.NewReader(b), uint64(len(b)), nil
	}
	if err := checkSize(s); err != nil {
		return nil, s.Size, err
	}
	if s.Size > 0 {
		if _, err := s.ReadAt(make([]byte, 1), int64(s.Size-1)); err != nil {
			return nil, s.Size, err
		}
	}
	return s, s.Size, nil
}

// find returns the number of the section that has an address, and how far into it that is.
func (p *pieces) find(addr uint64) (section int, at uint64, ok bool) {
	for n := range p.sections {
		if s := &p.sections[n]; s.addr <= addr && addr-s.addr < s.size {
			return n, addr - s.addr, true
		}
	}
	return 0, 0, false
}

// rest is how many bytes there are from an address on to the end of its section; 0: it is in none.
func (p *pieces) rest(addr uint64) uint64 {
	n, at, ok := p.find(addr)
	if !ok {
		return 0
	}
	return p.sections[n].size - at
}

// has tells whether an address is in a section.
func (p *pieces) has(addr uint64) bool {
	_, _, ok := p.find(addr)
	return ok
}

// at returns the bytes from an address on, at most so many: fewer at the end of the section, none where there is no section,
// and none if they cannot be read any more, which is noted. They are valid until the next call.
func (p *pieces) at(addr uint64, most int) []byte {
	n, at, ok := p.find(addr)
	if !ok {
		return nil
	}
	s := &p.sections[n]
	size := min(uint64(most), s.size-at)
	b := p.piece(n, at/p.size)
	if from := at % p.size; from+size <= uint64(len(b)) {
		return b[from : from+size : from+size]
	}
	if uint64(cap(p.joined)) < size || uint64(cap(p.joined)) > size+mostJoined {
		p.joined = make([]byte, size)
	}
	p.joined = p.joined[:size]
	if !p.fill(s, p.joined, at) {
		return nil
	}
	return p.joined
}

// mostJoined is how many more bytes may stay in memory than are needed.
const mostJoined = 1 << 18

// piece returns one of a section; none if it cannot be read.
func (p *pieces) piece(section int, number uint64) []byte {
	have := &p.read[number%uint64(len(p.read))]
	if have.section == section && have.number == number && len(have.bytes) > 0 {
		return have.bytes
	}
	s := &p.sections[section]
	size := min(p.size, s.size-number*p.size)
	if have.bytes = have.bytes[:0]; uint64(cap(have.bytes)) < size {
		have.bytes = make([]byte, 0, p.size)
	}
	have.section, have.number = section, number
	if !p.fill(s, have.bytes[:size], number*p.size) {
		return nil
	}
	have.bytes = have.bytes[:size]
	return have.bytes
}

// fill reads bytes of a section, all that are wanted or none.
func (p *pieces) fill(s *pieceSection, b []byte, at uint64) bool {
	if s.from == nil {
		return false
	}
	n, _ := s.from.ReadAt(b, int64(at))
	if n < len(b) {
		p.failed.Store(true)
	}
	return n == len(b)
}
