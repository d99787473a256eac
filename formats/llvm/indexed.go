package llvm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"

	"footfall/formats/cursor"
)

// Indexed profiles are written by llvm-profdata, little-endian:
//
//	magic, version u64, 0, kind of hash u64 (0: MD5), offset of the table u64
//	8+   offset of profiles of memory
//	9+   offset of build IDs
//	10+  offset of temporal traces
//	12+  offset of names of vtables
//	4+   summary: entries u64, cutoffs u64, the entries, three words each cutoff (flag 57: a second one)
//	     buckets
//	     table: buckets u64, entries u64, offset u64 of each bucket, 0: it is empty
//	9+   build IDs: bytes u64, then length u64, bytes, padding, each
//	12+  names of vtables: length u64, bytes, padding
//
// A bucket: items u16; each: hash of the name u64, length of key u64, of data u64, key, data.

// indexedParts are what a Profile does not show.
type indexedParts struct {
	summary summaryWords
	vtables []byte
}

// summaryWords are the words of a summary: the entries, then the cutoffs.
type summaryWords []uint64

func readIndexed(b []byte) (*Profile, error) {
	r := &reader{cursor.Reader{B: b, Order: binary.LittleEndian}}
	r.Bytes(8)
	version := r.U64()
	p := &Profile{Format: Indexed, Version: uint32(version &^ flagsOfAnyFormat), Flags: version & flagsOfAnyFormat}
	if r.Err == nil && (p.Version < OldestIndexed || p.Version > NewestIndexed) {
		r.At -= 8
		r.Fail("indexed profile version %d: known are %d to %d (LLVM 3.6 to 23)", p.Version, OldestIndexed, NewestIndexed)
	}
	p.OldBitmaps = p.Version < 12
	r.U64()
	if kind := r.U64(); r.Err == nil && kind != 0 {
		r.Fail("names are hashed by kind %d, expected 0 (MD5)", kind)
	}
	table := r.U64()
	offset := func(since uint32) uint64 {
		if p.Version < since {
			return 0
		}
		return r.U64()
	}
	offset(8)
	ids := offset(9)
	offset(10)
	tables := offset(12)
	p.indexed = new(indexedParts)
	if p.Version >= 4 {
		p.indexed.summary = r.summary()
	}
	if r.Err != nil {
		return nil, r.Err
	}
	if err := p.readTable(r, table); err != nil {
		return p, err
	}
	if ids > 0 {
		if err := p.readIndexedIDs(r, ids); err != nil {
			return p, fmt.Errorf("build IDs: %w", err)
		}
	}
	if tables > 0 && tables <= uint64(len(b)) {
		r.At = int(tables)
		p.indexed.vtables = r.Bytes(r.U64())
	}
	return p, r.Err
}

func (r *reader) summary() summaryWords {
	entries, cutoffs := r.U64(), r.U64()
	if r.Err == nil && (entries > r.Left()/8 || cutoffs > r.Left()/24) {
		r.Fail("a summary of %d entries and %d cutoffs", entries, cutoffs)
	}
	var words summaryWords
	for range entries + 3*cutoffs {
		if r.Err != nil {
			break
		}
		words = append(words, r.U64())
	}
	return words
}

// readTable reads all buckets.
func (p *Profile) readTable(r *reader, table uint64) error {
	if table > uint64(len(r.B)) {
		r.Fail("the table is to be at %#x, of %#x bytes: %w", table, len(r.B), ErrCut)
		return r.Err
	}
	r.At = int(table)
	buckets, entries := r.U64(), r.U64()
	if r.Err == nil && (buckets > r.Left()/8 || bits.OnesCount64(buckets) != 1 || entries > uint64(len(r.B))/26) {
		r.Fail("a table of %d buckets and %d entries", buckets, entries)
	}
	if r.Err != nil {
		return r.Err
	}
	p.Counted = make([]Counted, 0, entries)
	// Buckets that lead to the same place would be read again and again.
	room := uint64(len(r.B))
	for i := range buckets {
		r.At = int(table) + 16 + 8*int(i)
		at := r.U64()
		if at == 0 {
			continue
		}
		if at >= uint64(len(r.B)) {
			r.Fail("bucket %d is to be at %#x, of %#x bytes", i, at, len(r.B))
			return r.Err
		}
		r.At = int(at)
		p.readBucket(r)
		if r.Err != nil {
			return r.Err
		}
		if n := uint64(r.At) - at; n <= room {
			room -= n
		} else {
			r.Fail("buckets overlap")
			return r.Err
		}
	}
	return nil
}

func (p *Profile) readBucket(r *reader) {
	for range r.U16() {
		hash, key, size := r.U64(), r.U64(), r.U64()
		name := string(r.Bytes(key))
		from := r.At
		if r.Bytes(size); r.Err != nil {
			return
		}
		data := &reader{cursor.Reader{B: r.B[:r.At], At: from, Order: r.Order}}
		for data.Left() > 0 {
			c := p.readCounted(data)
			if data.Err != nil {
				r.Err = fmt.Errorf("function %q: %w", name, data.Err)
				return
			}
			c.Name, c.NameHash = name, hash
			p.Counted = append(p.Counted, c)
		}
	}
}

// readCounted reads the counts of a function for one hash:
//
//	hash u64, 2+ number of counters u64, counters
//	11+ number of bytes of bitmaps u64, each as u64; 14+ as bytes, padded to 8, then those of uniformity
//	3+  values
func (p *Profile) readCounted(r *reader) (c Counted) {
	c.Hash = r.U64()
	n := r.Left() / 8
	if p.Version >= 2 {
		n = r.U64()
	}
	if r.Err == nil && n > r.Left()/8 {
		r.Fail("%d counters in %d bytes", n, r.Left())
	}
	if r.Err != nil {
		return c
	}
	words := r.Bytes(8 * n)
	c.Counts = make([]uint64, n)
	for i := range c.Counts {
		c.Counts[i] = r.Order.Uint64(words[8*i:])
	}
	switch {
	case p.Version >= 14:
		c.Bitmap = bytes.Clone(r.padded(r.U64()))
		r.padded(r.U64())
	case p.Version >= 11:
		n := r.U64()
		if r.Err == nil && n > r.Left()/8 {
			r.Fail("%d bytes of bitmaps in %d bytes", n, r.Left())
			return c
		}
		for range n {
			c.Bitmap = append(c.Bitmap, byte(r.U64()))
		}
	}
	if p.Version >= 3 && r.Err == nil {
		c.Values, r.Err = r.values(3, nil)
	}
	return c
}

// padded reads n bytes and their padding to 8.
func (r *reader) padded(n uint64) []byte {
	b := r.Bytes(n)
	r.Bytes(-n & 7)
	return b
}

func (p *Profile) readIndexedIDs(r *reader, at uint64) error {
	if at > uint64(len(r.B)) {
		r.Fail("they are to be at %#x, of %#x bytes", at, len(r.B))
		return r.Err
	}
	r.At = int(at)
	all := r.Bytes(r.U64())
	if r.Err != nil {
		return r.Err
	}
	ids := &reader{cursor.Reader{B: all, Order: r.Order}}
	for ids.Left() > 0 {
		id := ids.padded(ids.U64())
		if ids.Err != nil {
			return ids.Err
		}
		p.BuildIDs = append(p.BuildIDs, hex.EncodeToString(id))
	}
	return nil
}
