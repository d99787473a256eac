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
	"fmt"

	"footfall/formats/cursor"
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
type FormatError = cursor.FormatError

// ErrCut is why a file ends too early.
var ErrCut = cursor.ErrCut

// A reader also takes what the formats of this package consist of.
type reader struct{ cursor.Reader }

// texts reads a table of texts: their number, of each its length and its bytes.
func (r *reader) texts() []string {
	n := r.Uleb()
	if !r.Fits("texts", n, 1) {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, string(r.Bytes(r.Uleb())))
	}
	if r.Err != nil {
		return nil
	}
	return list
}

// text is one of a table.
func (r *reader) text(list []string, i uint64) string {
	if r.Err == nil && i >= uint64(len(list)) {
		r.Fail("text %d of a table of %d", i, len(list))
	}
	if r.Err != nil {
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
