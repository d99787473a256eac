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
	"unsafe"

	"footfall/formats/cursor"
)

// A FormatError says what is wrong with a file, and where.
type FormatError = cursor.FormatError

// ErrCut is why a file ends too early.
var ErrCut = cursor.ErrCut

// A reader also takes what the formats of this package consist of.
type reader struct{ cursor.Reader }

// HashOf is how profiles know a name: the first 8 bytes of its MD5.
func HashOf(name string) uint64 {
	return hashBytes(unsafe.Slice(unsafe.StringData(name), len(name))) // a copy of each name costs more than its hash
}

func hashBytes(b []byte) uint64 {
	sum := md5.Sum(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// align rounds up to a multiple.
func align(n, to int) int { return (n + to - 1) / to * to }
