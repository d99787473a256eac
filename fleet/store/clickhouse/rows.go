package clickhouse

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
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

func (r *rows) numbers(v []uint64) {
	r.length(len(v))
	for _, x := range v {
		r.b = binary.LittleEndian.AppendUint64(r.b, x)
	}
}

func (r *rows) times(v []uint32) {
	r.length(len(v))
	for _, x := range v {
		r.b = binary.LittleEndian.AppendUint32(r.b, x)
	}
}

// An answer is rows of a query, read column by column. The first thing that fails is kept, and all that
// follows is 0.
type answer struct {
	r   *bufio.Reader
	err error
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

func (a *answer) id() (v id) {
	a.fixed(v[:])
	return v
}

// mostText is how many bytes a string of an answer may have: programs are those of messages of 16 MB.
const mostText = 64 << 20

func (a *answer) bytes() []byte {
	n := a.length(mostText)
	b := make([]byte, 0, min(n, 1<<16))
	for len(b) < n && a.err == nil { // what is there, whatever length it says
		at := len(b)
		b = append(b, make([]byte, min(n-at, 1<<20))...)
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

// array reads an array of n numbers, of so many bytes each.
func (a *answer) array(n, size int, scratch []byte) []byte {
	if got := a.length(1 << 30); got != n && a.err == nil {
		a.err = fmt.Errorf("a vector of %d numbers, where the unit has %d counters", got, n)
	}
	if a.err != nil {
		return nil
	}
	if cap(scratch) < n*size {
		scratch = make([]byte, n*size)
	}
	scratch = scratch[:n*size]
	a.fixed(scratch)
	return scratch
}

// skip reads an array of numbers of so many bytes each, which are not wanted.
func (a *answer) skip(size int) {
	n := a.length(1 << 28)
	if a.err == nil {
		_, a.err = a.r.Discard(n * size)
	}
}

// numbers reads a vector of n counters.
func (a *answer) numbers(n int) []uint64 {
	v := make([]uint64, n)
	for i, b := 0, a.array(n, 8, nil); len(b) > 0; i, b = i+1, b[8:] {
		v[i] = binary.LittleEndian.Uint64(b)
	}
	return v
}

// times reads a vector of times into v. What never was is said as never.
func (a *answer) times(v []uint64, never uint32, scratch *[]byte) {
	*scratch = a.array(len(v), 4, *scratch)
	for i, b := 0, *scratch; len(b) > 0; i, b = i+1, b[4:] {
		if v[i] = uint64(binary.LittleEndian.Uint32(b)); v[i] == uint64(never) {
			v[i] = 0
		}
	}
}
