// Package llvm reads source-based coverage, of Clang (-fprofile-instr-generate -fcoverage-mapping), Rust (-C
// instrument-coverage) and others that write it: profiles with counters, and what binaries say of their sources.
//
// A program has counters. They become a raw profile (.profraw) when it ends, and raw profiles an indexed one
// (.profdata, llvm-profdata merge). Which code a counter counts is in the binary: its coverage mapping. All versions
// of both are read: raw 4 to 11, indexed 1 to 14, text, mappings 2 to 7; both byte orders, 32 and 64 bits.
//
//	raw.go indexed.go text.go   ──> Profile ──┐
//	names.go                                  ├──> Load ──> Coverage: functions, their regions with counts
//	object.go mapping.go        ──> Binary  ──┘               │ segments.go lines, summary.go totals, mcdc.go
//	                                                          └──> set.go: coverage.Set
//
// The formats are described in LLVM's docs/CoverageMappingFormat.rst, docs/InstrProfileFormat.rst and
// llvm/ProfileData/InstrProfData.inc.
//
// Bytes from outside never panic here, nor do they size an allocation: what is made is at most a small multiple
// of what was read.
package llvm

import (
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
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

// HashOf is how profiles know a name: the first 8 bytes of its MD5.
func HashOf(name string) uint64 {
	sum := md5.Sum([]byte(name))
	return binary.LittleEndian.Uint64(sum[:])
}

// A reader takes numbers from bytes. After an error, which stays, it returns zeros.
type reader struct {
	b     []byte
	at    int
	order binary.ByteOrder
	err   error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &FormatError{int64(r.at), fmt.Errorf(format, args...)}
	}
}

// left is the number of bytes that are left.
func (r *reader) left() uint64 {
	if r.err != nil {
		return 0
	}
	return uint64(len(r.b) - r.at)
}

// bytes returns the next n bytes, nil if there are not so many.
func (r *reader) bytes(n uint64) []byte {
	if r.err == nil && n > r.left() {
		r.err = &FormatError{int64(r.at), fmt.Errorf("%d bytes expected, there are %d: %w", n, r.left(), ErrCut)}
	}
	if r.err != nil {
		return nil
	}
	b := r.b[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *reader) u16() uint16 {
	if b := r.bytes(2); b != nil {
		return r.order.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return r.order.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return r.order.Uint64(b)
	}
	return 0
}

// uleb reads a number of 7 bits a byte, the lowest first.
func (r *reader) uleb() uint64 {
	if r.err != nil {
		return 0
	}
	n, size := binary.Uvarint(r.b[r.at:])
	switch {
	case size == 0:
		r.err = &FormatError{int64(r.at), ErrCut}
	case size < 0:
		r.fail("a number of more than 64 bits")
	default:
		r.at += size
		return n
	}
	return 0
}

// count reads how many things there are that take each bytes or more.
func (r *reader) count(what string, each uint64) uint64 {
	start := r.at
	n := r.uleb()
	if r.err == nil && n > r.left()/each {
		r.at = start
		r.fail("%d %s, in %d bytes", n, what, r.left())
		return 0
	}
	return n
}

// align rounds up to a multiple.
func align(n, to int) int { return (n + to - 1) / to * to }
