package llvm

import "fmt"

// Version words have the number below and flags of the build above.
const (
	FlagLoopEntries  = 1 << 55
	FlagIR           = 1 << 56 // -fprofile-generate: there is no mapping
	FlagContext      = 1 << 57
	FlagEntry        = 1 << 58
	FlagDebugInfo    = 1 << 59 // records are in the debug information
	FlagSingleBytes  = 1 << 60 // counters are bytes: 0xff, and 0 once it ran
	FlagEntryOnly    = 1 << 61
	FlagMemory       = 1 << 62
	FlagTemporal     = 1 << 63 // a time stamp comes before the counters of a function
	flags            = 0xff << 56
	flagsOfAnyFormat = flags | FlagLoopEntries
)

// The oldest and the newest versions that are read.
const (
	OldestRaw, NewestRaw         = 4, 11
	OldestIndexed, NewestIndexed = 1, 14
	OldestMapping, NewestMapping = 2, 7
)

// A RawVersion is the version of a raw profile, with its flags.
//
//	 4  Clang 9
//	 5  Clang 11       padding
//	 7  Clang 13       build IDs
//	 8  Clang 14 to 17 distances of the counters in place of addresses
//	 9  Clang 18       bitmaps
//	10  Clang 19 to 22 vtables
//	11  Clang 23       uniform counters
type RawVersion uint64

// Number is the version without flags.
func (v RawVersion) Number() uint32 { return uint32(v &^ flagsOfAnyFormat) }

// Known tells whether the layout is.
func (v RawVersion) Known() bool {
	n := v.Number()
	return n >= OldestRaw && n <= NewestRaw && n != 6
}

// RawVersionOf is the version that a Clang writes, 0 for those of which it is not known.
func RawVersionOf(clang int) RawVersion {
	switch {
	case clang == 9:
		return 4
	case clang == 11:
		return 5
	case clang == 13:
		return 7
	case clang >= 14 && clang <= 17:
		return 8
	case clang == 18:
		return 9
	case clang >= 19 && clang <= 22:
		return 10
	case clang == 23:
		return 11
	}
	return 0
}

// toolsOf names the tools that write a version, for messages.
func (v RawVersion) toolsOf() string {
	switch v.Number() {
	case 4:
		return "LLVM 9"
	case 5:
		return "LLVM 11"
	case 7:
		return "LLVM 13"
	case 8:
		return "LLVM 14 to 17"
	case 9:
		return "LLVM 18"
	case 10:
		return "LLVM 19 to 22"
	case 11:
		return "LLVM 23"
	}
	return fmt.Sprintf("raw version %d", v.Number())
}

// A RecordLayout says where the fields of a record are, from its beginning:
//
//	name u64, hash u64, counters, [11+ uniform counters], [9+ bitmaps],
//	function, values: pointers; number of counters u32, number of sites u16 of
//	each kind of values (2, 10+: 3), [11+ u16], [9+ bytes of bitmap u32]
type RecordLayout struct {
	Size                               int
	Counters, Bitmaps, Function        int // Bitmaps 0: there are none
	Values, Number, Sites, BitmapBytes int // BitmapBytes 0: there are none
	Kinds                              int // of values
}

// Record is the layout for pointers of so many bytes.
func (v RawVersion) Record(pointer int) RecordLayout {
	l := RecordLayout{Counters: 16, Kinds: 2}
	at := l.Counters + pointer
	if v.Number() >= 11 {
		at += pointer // uniform counters
	}
	if v.Number() >= 9 {
		l.Bitmaps = at
		at += pointer
	}
	if v.Number() >= 10 {
		l.Kinds = 3
	}
	l.Function = at
	l.Values = at + pointer
	l.Number = l.Values + pointer
	l.Sites = l.Number + 4
	at = l.Sites + 2*l.Kinds
	if v.Number() >= 11 {
		at += 2
	}
	if v.Number() >= 9 {
		l.BitmapBytes = align(at, 4)
		at = l.BitmapBytes + 4
	}
	l.Size = align(at, 8)
	return l
}

// The oldest and the newest LLVM whose data and tools are known.
const OldestLLVM, NewestLLVM = 9, 23
