package llvm

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"footfall/formats/cursor"
)

// Raw profiles are what programs write: a head and copies of sections of memory, see live/profraw.go for the
// layout. Words are of 64 bits in the byte order of the program.

// A rawHead is the head of a raw profile.
type rawHead struct {
	version                           RawVersion
	pointer                           int // bytes
	ids, records                      uint64
	before, counters, after           uint64 // counters: a number; paddings
	bitmaps, bitmapsAfter             uint64
	uniform, uniformAfter             uint64
	names                             uint64
	countersDelta, bitmapsDelta       uint64
	vtables, vtableNames, lastKindSet uint64
}

// readRaws reads raw profiles, one after the other.
func (s *Reader) readRaws(b []byte) ([]*Profile, error) {
	var list []*Profile
	r := &reader{cursor.Reader{B: b}}
	for {
		for r.Left() > 0 && b[r.At] == 0 {
			r.At++
		}
		if r.Left() == 0 {
			return list, nil
		}
		p, err := r.raw(s)
		if err != nil {
			return list, err
		}
		list = append(list, p)
	}
}

func (r *reader) raw(reader *Reader) (*Profile, error) {
	start := r.At
	magic := r.Bytes(8)
	if r.Err != nil {
		return nil, r.Err
	}
	var h rawHead
	if pointer, ok := rawMagics[binary.LittleEndian.Uint64(magic)]; ok {
		h.pointer, r.Order = pointer, binary.LittleEndian
	} else if pointer, ok := rawMagics[binary.BigEndian.Uint64(magic)]; ok {
		h.pointer, r.Order = pointer, binary.BigEndian
	} else {
		r.At = start
		r.Fail("the beginning of a raw profile expected, found % x", magic)
		return nil, r.Err
	}
	r.head(&h)
	if r.Err != nil {
		return nil, r.Err
	}
	p := &Profile{Format: Raw, Version: h.version.Number(), Flags: uint64(h.version) & flagsOfAnyFormat, OldBitmaps: h.version.Number() < 10}
	s := r.rawSections(&h, start)
	if r.Err != nil {
		return nil, r.Err
	}
	names, err := reader.namesOf(s.names)
	if err != nil {
		return nil, err
	}
	if p.BuildIDs, err = rawIDs(s.ids, r.Order, h.version.Number() >= 8); err != nil {
		return nil, fmt.Errorf("build IDs: %w", err)
	}
	if err := s.functions(p, &h, reader, names, r); err != nil {
		return nil, err
	}
	reader.last = p.Counted
	return p, nil
}

// head reads what comes after the magic number.
func (r *reader) head(h *rawHead) {
	h.version = RawVersion(r.U64())
	if r.Err == nil && !h.version.Known() {
		r.At -= 8
		r.Fail("raw profile version %d: known are 4, 5 and 7 to %d (LLVM 9 to 23)", h.version.Number(), NewestRaw)
		return
	}
	word := func(since uint32, to *uint64) {
		if h.version.Number() >= since {
			*to = r.U64()
		}
	}
	var ignored uint64
	word(7, &h.ids)
	word(0, &h.records)
	word(5, &h.before)
	word(0, &h.counters)
	word(5, &h.after)
	word(9, &h.bitmaps)
	word(9, &h.bitmapsAfter)
	word(11, &h.uniform)
	word(11, &h.uniformAfter)
	word(11, &ignored)
	word(0, &h.names)
	word(0, &h.countersDelta)
	word(9, &h.bitmapsDelta)
	word(0, &ignored) // the address of names
	word(10, &h.vtables)
	word(10, &h.vtableNames)
	word(0, &h.lastKindSet)
}

// rawSections are the parts of a raw profile.
type rawSections struct {
	ids, records, counters, bitmaps, names, vtables []byte

	recordsAt int
}

// rawSections cuts what follows the head, up to the values. start is where the profile begins, from which padding
// counts.
func (r *reader) rawSections(h *rawHead, start int) *rawSections {
	s := new(rawSections)
	times := func(n, size uint64) uint64 {
		if size > 0 && n > r.Left()/size {
			return 1 << 62 // more than there is
		}
		return n * size
	}
	padded := func(n uint64) []byte {
		b := r.Bytes(n)
		r.Bytes(min(uint64(-(r.At-start)&7), r.Left())) // the last padding of a file may lack
		return b
	}
	entry := uint64(8)
	if h.version&FlagSingleBytes != 0 {
		entry = 1
	}
	s.ids = r.Bytes(h.ids)
	s.recordsAt = r.At
	s.records = r.Bytes(times(h.records, uint64(h.version.Record(h.pointer).Size)))
	r.Bytes(h.before)
	s.counters = r.Bytes(times(h.counters, entry))
	r.Bytes(h.after)
	s.bitmaps = r.Bytes(h.bitmaps)
	r.Bytes(h.bitmapsAfter)
	r.Bytes(times(h.uniform, entry))
	r.Bytes(h.uniformAfter)
	s.names = padded(h.names)
	if h.version.Number() >= 10 {
		size := uint64(24)
		if h.pointer == 4 {
			size = 16
		}
		s.vtables = padded(times(h.vtables, size))
		padded(h.vtableNames)
	}
	return s
}

// rawIDs reads build IDs: size u64, bytes, padded to 8 since version 8.
func rawIDs(b []byte, order binary.ByteOrder, padded bool) ([]string, error) {
	var ids []string
	r := &reader{cursor.Reader{B: b, Order: order}}
	for r.Left() > 0 {
		n := r.U64()
		id := r.Bytes(n)
		if padded {
			r.Bytes(-n & 7)
		}
		if r.Err != nil {
			return ids, r.Err
		}
		ids = append(ids, hex.EncodeToString(id))
	}
	return ids, nil
}

func (s *rawSections) functions(p *Profile, h *rawHead, reader *Reader, names Names, r *reader) error {
	l := h.version.Record(h.pointer)
	n := len(s.records) / l.Size
	p.Counted = make([]Counted, n)
	counters := make([]uint64, 0, h.counters) // the sections are there
	bitmaps := make([]byte, 0, len(s.bitmaps))
	var values *rawValues
	for i := range p.Counted {
		record := s.records[i*l.Size : (i+1)*l.Size]
		fail := func(format string, args ...any) error {
			return &FormatError{Offset: int64(s.recordsAt + i*l.Size), Err: fmt.Errorf("record %d: "+format, append([]any{i}, args...)...)}
		}
		f := &p.Counted[i]
		f.NameHash, f.Hash = r.Order.Uint64(record), r.Order.Uint64(record[8:])
		f.Name = reader.nameOf(i, f.NameHash, names)
		at, number := h.offset(record[l.Counters:], h.countersDelta, i*l.Size, r.Order), r.Order.Uint32(record[l.Number:])
		all, err := s.count(counters, at, number, h.version, r.Order)
		if err != nil {
			return fail("%w", err)
		}
		f.Counts, counters = all[len(counters):len(all):len(all)], all
		if l.BitmapBytes > 0 {
			if size := r.Order.Uint32(record[l.BitmapBytes:]); size > 0 {
				at := h.offset(record[l.Bitmaps:], h.bitmapsDelta, i*l.Size, r.Order)
				if at > uint64(len(s.bitmaps)) || uint64(size) > uint64(len(s.bitmaps))-at || int(size) > cap(bitmaps)-len(bitmaps) {
					return fail("%d bytes of bitmaps at %d, of %d", size, at, len(s.bitmaps))
				}
				from := len(bitmaps)
				bitmaps = append(bitmaps, s.bitmaps[at:at+uint64(size)]...)
				f.Bitmap = bitmaps[from:len(bitmaps):len(bitmaps)]
			}
		}
		if hasSites(record[l.Sites:], l.Kinds, r.Order) {
			if values == nil {
				values = newRawValues(s, h, l, r.Order)
			}
			if f.Values, err = values.read(r, record[l.Sites:], l.Kinds); err != nil {
				return fail("values: %w", err)
			}
		}
	}
	return nil
}

// offset is where what a pointer in a record leads to begins in its section. delta is, since version 8, its
// distance from the first record, and pointers count from their record; before it is the section's address.
func (h *rawHead) offset(pointer []byte, delta uint64, record int, order binary.ByteOrder) uint64 {
	if h.version.Number() >= 8 {
		delta -= uint64(record)
	}
	if h.pointer == 4 {
		return uint64(order.Uint32(pointer) - uint32(delta))
	}
	return order.Uint64(pointer) - delta
}

// count appends the counts of a record. Those of all records are no more than there are counters.
func (s *rawSections) count(to []uint64, at uint64, number uint32, v RawVersion, order binary.ByteOrder) ([]uint64, error) {
	section := s.counters
	if v&FlagTemporal != 0 && at <= uint64(len(section)) && uint64(len(section))-at >= 8 {
		at += 8 // when it was first called
	}
	size := uint64(8)
	if v&FlagSingleBytes != 0 {
		size = 1
	}
	if at > uint64(len(section)) || uint64(number) > (uint64(len(section))-at)/size {
		return nil, fmt.Errorf("%d counters at %d of %d bytes of counters", number, at, len(section))
	}
	if int(number) > cap(to)-len(to) {
		return nil, fmt.Errorf("%d counters: the records have more than there are", number)
	}
	section = section[at:][:uint64(number)*size]
	switch little := order == binary.ByteOrder(binary.LittleEndian); {
	case size == 1:
		for _, b := range section {
			to = append(to, b2u(b == 0))
		}
	case little:
		for ; len(section) >= 8; section = section[8:] {
			to = append(to, binary.LittleEndian.Uint64(section))
		}
	default:
		for ; len(section) >= 8; section = section[8:] {
			to = append(to, order.Uint64(section))
		}
	}
	return to, nil
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
