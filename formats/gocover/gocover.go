// Package gocover reads and writes what programs write that were built with go build -cover: in the directory that
// GOCOVERDIR names, what there is to count (covmeta.HASH, one for each program) and counts (covcounters.HASH.PID.TIME,
// one for each process).
//
//	meta.go counters.go   ──> Meta, Counters ──> Pod: both together, counts added
//	                                              │ format.go: as go tool covdata prints them
//	                                              └ write.go: as one again
//
// The formats are those of Go 1.20 and later, described in internal/coverage/defs.go of Go's own library. Bytes from
// outside never panic here, nor do they size an allocation.
package gocover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// A Mode is what counters count. A mode that is more is larger.
type Mode uint8

// The modes.
const (
	Set    Mode = iota + 1 // whether a unit ran
	Count                  // how often
	Atomic                 // how often, also if threads run it at a time
)

func (m Mode) String() string {
	switch m {
	case Set:
		return "set"
	case Count:
		return "count"
	case Atomic:
		return "atomic"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// A Granularity is for what there is a counter: a block of statements, or a function.
type Granularity uint8

// The granularities.
const (
	PerBlock Granularity = iota + 1
	PerFunction
)

func (g Granularity) String() string {
	switch g {
	case PerBlock:
		return "perblock"
	case PerFunction:
		return "perfunc"
	}
	return fmt.Sprintf("granularity %d", uint8(g))
}

// A Hash is that of a program's packages, by which its files belong together.
type Hash [16]byte

// A FormatError says what is wrong with a file, and where.
type FormatError struct {
	Offset int64 // in bytes, from the beginning of the file
	Err    error
}

func (e *FormatError) Error() string { return fmt.Sprintf("at offset %#x: %v", e.Offset, e.Err) }
func (e *FormatError) Unwrap() error { return e.Err }

// ErrCut is why a file ends too early.
var ErrCut = errors.New("it ends here, but there should be more: cut, or still being written?")

// The beginnings of names.
const (
	metaPrefix     = "covmeta."
	countersPrefix = "covcounters."
)

var countersName = regexp.MustCompile(`^covcounters\.(\S+)\.(\d+)\.(\d+)$`)

// IsMeta tells by the name of a file whether it says what there is to count.
func IsMeta(name string) bool { return strings.HasPrefix(filepath.Base(name), metaPrefix) }

// IsCounters tells by the name of a file whether it has counts.
func IsCounters(name string) bool { return countersName.MatchString(filepath.Base(name)) }

// IsMerged tells by the name of a file with counts whether it was made of others: by go tool covdata merge, which writes 0
// for the process.
func IsMerged(name string) bool {
	m := countersName.FindStringSubmatch(filepath.Base(name))
	return m != nil && strings.Trim(m[2], "0") == ""
}

// Tag is the hash in the name of a file, by which files belong together; "" if it is none of ours.
func Tag(name string) string {
	base := filepath.Base(name)
	if m := countersName.FindStringSubmatch(base); m != nil {
		return m[1]
	}
	tag, ok := strings.CutPrefix(base, metaPrefix)
	if !ok {
		return ""
	}
	return tag
}

// A reader takes numbers from bytes, little-endian. After an error, which stays, it returns zeros.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &FormatError{int64(r.at), fmt.Errorf(format, args...)}
	}
}

func (r *reader) left() uint64 {
	if r.err != nil {
		return 0
	}
	return uint64(len(r.b) - r.at)
}

// bytes returns the next n bytes, nil if there are not so many.
func (r *reader) bytes(n uint64) []byte {
	if n > r.left() {
		r.fail("%d bytes expected, there are %d: %w", n, r.left(), ErrCut)
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
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
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
		r.fail("%w", ErrCut)
	case size < 0:
		r.fail("a number of more than 64 bits")
	default:
		r.at += size
		return n
	}
	return 0
}

// uleb32 reads a number of 32 bits.
func (r *reader) uleb32() uint32 {
	n := r.uleb()
	if n > 1<<32-1 {
		r.fail("the number %d, of more than 32 bits", n)
		return 0
	}
	return uint32(n)
}

// strings reads a table of texts: their number, then length and bytes of each.
func (r *reader) strings() []string {
	n := r.uleb()
	if n > r.left() {
		r.fail("%d texts in %d bytes", n, r.left())
	}
	var list []string
	for range n {
		if r.err != nil {
			return nil
		}
		list = append(list, string(r.bytes(r.uleb())))
	}
	return list
}
