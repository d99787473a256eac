// Package cursor takes numbers from bytes, one after another. The formats of LLVM and of Go are read by it.
//
// Bytes from outside never panic here: what is not there is an error with the offset, which stays, and zeros.
package cursor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A FormatError says what is wrong with a file, and where.
type FormatError struct {
	Offset int64 // in bytes, from the beginning of the file; of a section in a binary: of the section
	Err    error
}

func (e *FormatError) Error() string { return fmt.Sprintf("at offset %#x: %v", e.Offset, e.Err) }
func (e *FormatError) Unwrap() error { return e.Err }

// ErrCut is why a file ends too early.
var ErrCut = errors.New("it ends here, but there should be more: cut, or still being written?")

// A Reader takes numbers from B, from At on. After an error, which stays, it returns zeros.
type Reader struct {
	B     []byte
	At    int              // of the next byte, in B
	Base  int              // of B in the file
	Order binary.ByteOrder // of U16, U32 and U64
	Err   error            // the first; a *FormatError if it is one of the methods here that found it
}

// Fail sets the error, if there is none yet, to what is wrong at At.
func (r *Reader) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = &FormatError{int64(r.Base + r.At), fmt.Errorf(format, args...)}
	}
}

// Left is the number of bytes that are left, 0 after an error.
func (r *Reader) Left() uint64 {
	if r.Err != nil {
		return 0
	}
	return uint64(len(r.B) - r.At)
}

// Bytes returns the next n bytes, nil if there are not so many. They are those of B, not a copy.
func (r *Reader) Bytes(n uint64) []byte {
	if r.Err == nil && n > r.Left() {
		r.Fail("%d bytes expected, there are %d: %w", n, r.Left(), ErrCut)
	}
	if r.Err != nil {
		return nil
	}
	b := r.B[r.At : r.At+int(n) : r.At+int(n)]
	r.At += int(n)
	return b
}

// U8 reads a byte.
func (r *Reader) U8() uint8 {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// U16 reads 2 bytes in the reader's order.
func (r *Reader) U16() uint16 {
	if b := r.Bytes(2); b != nil {
		return r.Order.Uint16(b)
	}
	return 0
}

// U32 reads 4 bytes in the reader's order.
func (r *Reader) U32() uint32 {
	if b := r.Bytes(4); b != nil {
		return r.Order.Uint32(b)
	}
	return 0
}

// U64 reads 8 bytes in the reader's order.
func (r *Reader) U64() uint64 {
	if b := r.Bytes(8); b != nil {
		return r.Order.Uint64(b)
	}
	return 0
}

// Uleb reads a number of 7 bits a byte, the lowest first: DWARF's ULEB128.
func (r *Reader) Uleb() uint64 {
	if r.Err != nil {
		return 0
	}
	if r.At < len(r.B) && r.B[r.At] < 0x80 { // most are small
		r.At++
		return uint64(r.B[r.At-1])
	}
	n, size := binary.Uvarint(r.B[r.At:])
	switch {
	case size == 0:
		r.Fail("%w", ErrCut)
	case size < 0:
		r.Fail("a number of more than 64 bits")
	default:
		r.At += size
		return n
	}
	return 0
}

// Uleb32 is Uleb for what has 32 bits.
func (r *Reader) Uleb32(what string) uint32 {
	start := r.At
	n := r.Uleb()
	if n > math.MaxUint32 {
		r.At = start
		r.Fail("%s of %d, more than 32 bits", what, n)
		return 0
	}
	return uint32(n)
}

// Count reads how many things there are that take each bytes or more: never more than can be in what is left.
func (r *Reader) Count(what string, each uint64) uint64 {
	start := r.At
	n := r.Uleb()
	if r.Err == nil && n > r.Left()/each {
		r.At = start
		r.Fail("%d %s, in %d bytes", n, what, r.Left())
		return 0
	}
	return n
}

// Fits tells whether n things that take each bytes or more can be in what is left; if not, it is an error.
func (r *Reader) Fits(what string, n, each uint64) bool {
	if r.Err == nil && n > r.Left()/each {
		r.Fail("%d %s, in %d bytes", n, what, r.Left())
	}
	return r.Err == nil
}
