// Package gocover reads and writes the coverage data of programs that go build -cover, or go test -cover, built: what
// such a program writes into the directory of GOCOVERDIR.
//
// A program has one file of meta-data, which says what there is: packages, their functions, and the blocks of statements
// of these. Each run adds a file of counters, one of 32 bits for each block of the functions that were called. The two
// belong together by a hash, which is also in their names:
//
//	covmeta.HASH                         meta.go     ──> Meta ──────┐
//	covcounters.HASH.PID.NANOSECONDS     counters.go ──> Counters ──┴──> Pod ──> set.go: coverage.Set
//	                                                                      └──> tool/: go tool covdata
//
// The formats are those of Go 1.20 to 1.26 (version 1 of both files), described in Go's internal/coverage/defs.go.
// Blocks are those of the text profiles of go test -coverprofile, too: source.go makes lines and functions of them,
// for package tracefiles as well.
//
// Bytes from outside never panic here, nor do they size an allocation: what is made is at most a small multiple of what
// was read.
package gocover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A Mode is how counters count.
type Mode uint8

// The modes, as files have them. Programs have the first three.
const (
	Set      Mode = 1 + iota // 1: the block ran
	Count                    // how often
	Atomic                   // how often, also with several threads
	regOnly                  // of packages without statements
	testMain                 // of the main package of a test
)

func (m Mode) String() string {
	switch m {
	case Set:
		return "set"
	case Count:
		return "count"
	case Atomic:
		return "atomic"
	case regOnly:
		return "regonly"
	case testMain:
		return "testmain"
	}
	return "<invalid>"
}

// Counts tells whether the mode is one of those that programs have.
func (m Mode) Counts() bool { return m == Set || m == Count || m == Atomic }

// A Granularity is what has a counter.
type Granularity uint8

// The granularities, as files have them.
const (
	PerBlock Granularity = 1 + iota
	PerFunction
)

func (g Granularity) String() string {
	switch g {
	case PerBlock:
		return "perblock"
	case PerFunction:
		return "perfunc"
	}
	return "<invalid>"
}

// A Hash tells programs apart by all of their meta-data.
type Hash [16]byte

func (h Hash) String() string { return fmt.Sprintf("%x", h[:]) }

// A FormatError says what is wrong with a file, and where.
type FormatError struct {
	Offset int64 // in bytes, from the beginning of the file
	Err    error
}

func (e *FormatError) Error() string { return fmt.Sprintf("at offset %#x: %v", e.Offset, e.Err) }
func (e *FormatError) Unwrap() error { return e.Err }

// ErrCut is why a file ends too early.
var ErrCut = errors.New("it ends here, but there should be more: cut, or still being written?")

// A reader takes numbers from bytes. After an error, which stays, it returns zeros.
type reader struct {
	b     []byte
	at    int
	base  int // of b in the file
	order binary.ByteOrder
	err   error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &FormatError{int64(r.base + r.at), fmt.Errorf(format, args...)}
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
		r.fail("%d bytes expected, there are %d: %w", n, r.left(), ErrCut)
	}
	if r.err != nil {
		return nil
	}
	b := r.b[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *reader) u8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
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
	if r.at < len(r.b) && r.b[r.at] < 0x80 { // most are small
		r.at++
		return uint64(r.b[r.at-1])
	}
	n, size := binary.Uvarint(r.b[r.at:])
	switch {
	case size == 0:
		r.fail("%w", ErrCut)
	case size < 0:
		r.fail("a number of more than 64 bits")
	default:
		r.at += size
		return n
	}
	return 0
}

// uleb32 is uleb for what has 32 bits.
func (r *reader) uleb32(what string) uint32 {
	start := r.at
	n := r.uleb()
	if n > math.MaxUint32 {
		r.at = start
		r.fail("%s of %d, more than 32 bits", what, n)
		return 0
	}
	return uint32(n)
}

// fits tells whether n things that take each bytes or more can be in what is left.
func (r *reader) fits(what string, n, each uint64) bool {
	if r.err == nil && n > r.left()/each {
		r.fail("%d %s, in %d bytes", n, what, r.left())
	}
	return r.err == nil
}

// texts reads a table of texts: their number, of each its length and its bytes.
func (r *reader) texts() []string {
	n := r.uleb()
	if !r.fits("texts", n, 1) {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, string(r.bytes(r.uleb())))
	}
	if r.err != nil {
		return nil
	}
	return list
}

// text is one of a table.
func (r *reader) text(list []string, i uint64) string {
	if r.err == nil && i >= uint64(len(list)) {
		r.fail("text %d of a table of %d", i, len(list))
	}
	if r.err != nil {
		return ""
	}
	return list[i]
}

// appendTexts writes a table of texts.
func appendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}
