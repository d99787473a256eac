package clickhouse

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"footfall/fleet/store"
)

// Rows travel as RowBinary: numbers are little-endian, strings and arrays have their length before them as a varint.
// https://clickhouse.com/docs/en/interfaces/formats#rowbinary

// A rows is rows to be inserted.
type rows struct {
	b []byte
	n int // of them
}

func (r *rows) u8(v uint8)     { r.b = append(r.b, v) }
func (r *rows) u32(v uint32)   { r.b = binary.LittleEndian.AppendUint32(r.b, v) }
func (r *rows) u64(v uint64)   { r.b = binary.LittleEndian.AppendUint64(r.b, v) }
func (r *rows) fixed(v []byte) { r.b = append(r.b, v...) }
func (r *rows) text(v string)  { r.length(len(v)); r.b = append(r.b, v...) }
func (r *rows) length(n int)   { r.b = binary.AppendUvarint(r.b, uint64(n)) }
func (r *rows) bytes(v []byte) { r.length(len(v)); r.b = append(r.b, v...) }
func (r *rows) end()           { r.n++ }
func (r *rows) texts(v []string) {
	r.length(len(v))
	for _, s := range v {
		r.text(s)
	}
}

// An answer is rows of a query, read column by column. The first thing that fails is kept, and all that
// follows is 0.
type answer struct {
	r       *bufio.Reader
	err     error
	scratch []byte
}

// more tells whether there is another row.
func (a *answer) more() bool {
	if a.err != nil {
		return false
	}
	_, err := a.r.Peek(1)
	if err != nil && err != io.EOF {
		a.err = err
	}
	return err == nil
}

func (a *answer) fixed(b []byte) {
	if a.err != nil {
		return
	}
	if _, err := io.ReadFull(a.r, b); err != nil {
		a.err = fmt.Errorf("the answer ends in the middle of a row: %w", err)
	}
}

func (a *answer) u8() uint8 {
	var b [1]byte
	a.fixed(b[:])
	return b[0]
}

func (a *answer) u32() uint32 {
	var b [4]byte
	a.fixed(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

func (a *answer) u64() uint64 {
	var b [8]byte
	a.fixed(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// counters reads how many counters a unit has, which memory is sized by.
func (a *answer) counters() (int, error) {
	n := a.u32()
	if n > store.MostCounters {
		return 0, fmt.Errorf("table unit: a unit has %d counters, where %d is the most; restore it from a backup", n, store.MostCounters)
	}
	return int(n), nil
}

func (a *answer) id() (v id) {
	a.fixed(v[:])
	return v
}

// mostText is how many bytes a string of an answer may have: programs are those of messages of 16 MB.
const mostText = 64 << 20

func (a *answer) bytes() []byte { return a.into(nil) }

// into reads a string into b, which grows with what is there, whatever length the string says it has.
func (a *answer) into(b []byte) []byte {
	n := a.length(mostText)
	b = slices.Grow(b[:0], min(n, 1<<16))
	for len(b) < n && a.err == nil {
		at := len(b)
		more := min(n-at, 1<<20)
		b = slices.Grow(b, more)[:at+more]
		a.fixed(b[at:])
	}
	return b
}

func (a *answer) text() string { return string(a.bytes()) }

// length reads that of a string or an array.
func (a *answer) length(most int) int {
	if a.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(a.r)
	if err == nil && n > uint64(most) {
		err = fmt.Errorf("a length of %d, where %d is the most", n, most)
	}
	if err != nil {
		a.err = err
		return 0
	}
	return int(n)
}

func (a *answer) texts() (list []string) {
	for range a.length(1 << 16) {
		if a.err != nil {
			return nil
		}
		list = append(list, a.text())
	}
	return list
}

// array reads an array of numbers of so many bytes each, 4 or 8.
func (a *answer) array(size int) []uint64 {
	n := a.length(store.MostCounters)
	a.scratch = slices.Grow(a.scratch[:0], n*size)[:n*size]
	a.fixed(a.scratch)
	v := make([]uint64, n)
	for i := range v {
		if b := a.scratch[i*size:]; size == 4 {
			v[i] = uint64(binary.LittleEndian.Uint32(b))
		} else {
			v[i] = binary.LittleEndian.Uint64(b)
		}
	}
	return v
}

// each calls use with each string of an array, for the call only, until one is an error.
func (a *answer) each(use func([]byte) error) error {
	for n := a.length(math.MaxInt32); n > 0 && a.err == nil; n-- {
		a.scratch = a.into(a.scratch)
		if a.err != nil {
			break
		}
		if err := use(a.scratch); err != nil {
			return err
		}
	}
	return nil
}

// skip reads an array of strings that are not wanted.
func (a *answer) skip() { _ = a.each(func([]byte) error { return nil }) }
