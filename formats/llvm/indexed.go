package llvm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
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
	r := &reader{b: b, order: binary.LittleEndian}
	r.bytes(8)
	version := r.u64()
	p := &Profile{Format: Indexed, Version: uint32(version &^ flagsOfAnyFormat), Flags: version & flagsOfAnyFormat}
	if r.err == nil && (p.Version < OldestIndexed || p.Version > NewestIndexed) {
		r.at -= 8
		r.fail("indexed profile version %d: known are %d to %d (LLVM 3.6 to 23)", p.Version, OldestIndexed, NewestIndexed)
	}
	p.OldBitmaps = p.Version < 12
	r.u64()
	if kind := r.u64(); r.err == nil && kind != 0 {
		r.fail("names are hashed by kind %d, expected 0 (MD5)", kind)
	}
	table := r.u64()
	offset := func(since uint32) uint64 {
		if p.Version < since {
			return 0
		}
		return r.u64()
	}
	offset(8)
	ids := offset(9)
	offset(10)
	tables := offset(12)
	p.indexed = new(indexedParts)
	if p.Version >= 4 {
		p.indexed.summary = r.summary()
	}
	if r.err != nil {
		return nil, r.err
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
		r.at = int(tables)
		p.indexed.vtables = r.bytes(r.u64())
	}
	return p, r.err
}

func (r *reader) summary() summaryWords {
	entries, cutoffs := r.u64(), r.u64()
	if r.err == nil && (entries > r.left()/8 || cutoffs > r.left()/24) {
		r.fail("a summary of %d entries and %d cutoffs", entries, cutoffs)
	}
	var words summaryWords
	for range entries + 3*cutoffs {
		if r.err != nil {
			break
		}
		words = append(words, r.u64())
	}
	return words
}

// readTable reads all buckets.
func (p *Profile) readTable(r *reader, table uint64) error {
	if table > uint64(len(r.b)) {
		r.fail("the table is to be at %#x, of %#x bytes: %w", table, len(r.b), ErrCut)
		return r.err
	}
	r.at = int(table)
	buckets, entries := r.u64(), r.u64()
	if r.err == nil && (buckets > r.left()/8 || bits.OnesCount64(buckets) != 1 || entries > uint64(len(r.b))/26) {
		r.fail("a table of %d buckets and %d entries", buckets, entries)
	}
	if r.err != nil {
		return r.err
	}
	// Buckets that lead to the same place would be read again and again.
	room := uint64(len(r.b))
	for i := range buckets {
		r.at = int(table) + 16 + 8*int(i)
		at := r.u64()
		if at == 0 {
			continue
		}
		if at >= uint64(len(r.b)) {
			r.fail("bucket %d is to be at %#x, of %#x bytes", i, at, len(r.b))
			return r.err
		}
		r.at = int(at)
		p.readBucket(r)
		if r.err != nil {
			return r.err
		}
		if n := uint64(r.at) - at; n <= room {
			room -= n
		} else {
			r.fail("buckets overlap")
			return r.err
		}
	}
	return nil
}

func (p *Profile) readBucket(r *reader) {
	for range r.u16() {
		hash, key, size := r.u64(), r.u64(), r.u64()
		name := string(r.bytes(key))
		from := r.at
		if r.bytes(size); r.err != nil {
			return
		}
		data := &reader{b: r.b[:r.at], at: from, order: r.order}
		for data.left() > 0 {
			c := p.readCounted(data)
			if data.err != nil {
				r.err = fmt.Errorf("function %q: %w", name, data.err)
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
	c.Hash = r.u64()
	n := r.left() / 8
	if p.Version >= 2 {
		n = r.u64()
	}
	if r.err == nil && n > r.left()/8 {
		r.fail("%d counters in %d bytes", n, r.left())
	}
	if r.err != nil {
		return c
	}
	words := r.bytes(8 * n)
	c.Counts = make([]uint64, n)
	for i := range c.Counts {
		c.Counts[i] = r.order.Uint64(words[8*i:])
	}
	switch {
	case p.Version >= 14:
		c.Bitmap = bytes.Clone(r.padded(r.u64()))
		r.padded(r.u64())
	case p.Version >= 11:
		n := r.u64()
		if r.err == nil && n > r.left()/8 {
			r.fail("%d bytes of bitmaps in %d bytes", n, r.left())
			return c
		}
		for range n {
			c.Bitmap = append(c.Bitmap, byte(r.u64()))
		}
	}
	if p.Version >= 3 && r.err == nil {
		c.Values, r.err = r.values(3, nil)
	}
	return c
}

// padded reads n bytes and their padding to 8.
func (r *reader) padded(n uint64) []byte {
	b := r.bytes(n)
	r.bytes(-n & 7)
	return b
}

func (p *Profile) readIndexedIDs(r *reader, at uint64) error {
	if at > uint64(len(r.b)) {
		r.fail("they are to be at %#x, of %#x bytes", at, len(r.b))
		return r.err
	}
	r.at = int(at)
	all := r.bytes(r.u64())
	if r.err != nil {
		return r.err
	}
	ids := &reader{b: all, order: r.order}
	for ids.left() > 0 {
		id := ids.padded(ids.u64())
		if ids.err != nil {
			return ids.err
		}
		p.BuildIDs = append(p.BuildIDs, hex.EncodeToString(id))
	}
	return nil
}
