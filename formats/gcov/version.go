package gcov

import "strconv"

// Version is the version word of a notes or data file: four characters, the
// first one in the high byte.
//
//	3.4 to 6     major digit, two digits of minor, status    "304*" "409*" "603*"
//	7 and later  letter 'A'+tens, ones digit of major,
//	             minor digit, status                         "A93*" "B44*" (14.4)
//
// The status is '*' for a release, 'e' for experimental, 'p' for a prerelease,
// or a vendor's letter. Clang writes the word of the GCC whose layout it
// follows.
type Version uint32

// MakeVersion returns the word that a release of GCC major.minor writes.
func MakeVersion(major, minor int) Version {
	c := [4]byte{'0' + byte(major%10), '0' + byte(minor/10%10), '0' + byte(minor%10), '*'}
	if major >= 7 {
		c = [4]byte{'A' + byte(major/10), '0' + byte(major%10), '0' + byte(minor%10), '*'}
	}
	return Version(uint32(c[0])<<24 | uint32(c[1])<<16 | uint32(c[2])<<8 | uint32(c[3]))
}

func (v Version) String() string {
	return string([]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

// Number is ten times the major plus the minor version: 34 for 3.4, 162 for
// 16.2, 0 for a word that is no version.
func (v Version) Number() int {
	c0, c1, c2 := byte(v>>24), byte(v>>16)-'0', byte(v>>8)-'0'
	switch {
	case c1 > 9 || c2 > 9:
		return 0
	case c0 >= '0' && c0 <= '9':
		return int(c0-'0'+c1)*10 + int(c2)
	case c0 >= 'A' && c0 <= 'Z':
		return int(c0-'A')*100 + int(c1)*10 + int(c2)
	}
	return 0
}

// Major is the major version of the GCC whose layout the file has, 0 when the
// word is no version.
func (v Version) Major() int { return v.Number() / 10 }

// Known tells whether files of that version can be read: GCC 3.4 to 16. A
// newer one is read as the newest known.
func (v Version) Known() bool { return v.Number() >= 34 && v.Major() <= Newest }

// Newest is the last major version of GCC that was seen and tested.
const Newest = 16

// The layout, by version. Each question is asked in one place only, with the
// first version that has the feature.

// HasCfgChecksum: functions have a checksum of their flow graph.
func (v Version) HasCfgChecksum() bool { return v.Number() >= 47 }

// exitIsSecond: the exit block is block 1, before: the last one.
func (v Version) exitIsSecond() bool { return v.Number() >= 48 }

// HasColumns: functions are artificial or not, and have a start column and an end line; of
// blocks there is only the number.
func (v Version) HasColumns() bool { return v.Number() >= 80 }

// HasUnexecuted: notes tell whether the compiler marked unexecuted blocks.
func (v Version) HasUnexecuted() bool { return v.Number() >= 80 }

// HasCwd: notes have the directory of the compiler.
func (v Version) HasCwd() bool { return v.Number() >= 90 }

// HasEndColumn: functions have an end column.
func (v Version) HasEndColumn() bool { return v.Number() >= 90 }

// ObjectRuns: the object summary tells the runs.
func (v Version) ObjectRuns() bool { return v.Number() >= 90 }

// ByteLengths: lengths of records and strings are in bytes, before: in words.
func (v Version) ByteLengths() bool { return v.Number() >= 120 }

// HasObjectChecksum: the notes, the data and the structures in memory have a checksum behind
// the stamp.
func (v Version) HasObjectChecksum() bool { return v.Number() >= 120 }

// CounterKinds is the number of kinds of counters for which programs of that
// version have room in memory, 0 when that is not known: before GCC 4.7, and for
// versions newer than all known.
func (v Version) CounterKinds() int {
	switch n := v.Number(); {
	case !v.Known() || n < 47:
		return 0
	case n < 49:
		return 8
	case n < 50: // + order of first execution
		return 9
	case n < 70: // + most frequent callees
		return 10
	case n < 100: // - differences
		return 9
	case n < 140: // - most frequent callees
		return 8
	case n < 150: // + conditions
		return 9
	}
	return 10 // + paths
}

// ListsValues tells whether counters of KindTopN and KindIndirect are linked
// lists in memory; before they are arrays of a fixed size.
func (v Version) ListsValues() bool { return v.Number() >= 110 }

// OmitsZeros: of counters that are all zero only the number is written.
func (v Version) OmitsZeros() bool { return v.Number() >= 110 }

// An operation is what becomes of a counter when runs are added up.
type operation int

const (
	opAdd    operation = iota
	opOr               // bits: what was seen
	opFirst            // a time: the earlier one
	opValues           // lists of values with counts, as in files since GCC 11
	opOther            // value profiles of earlier versions: say nothing of coverage
)

// operation is that of a kind of counters. Before GCC 7 there were differences
// as kind 4, and those behind them had higher numbers.
func (v Version) operation(kind int) operation {
	if v.Number() < 70 {
		switch {
		case kind == 3 || kind == 4 || kind == 5 || kind == 9:
			return opOther
		case kind > 5:
			kind--
		}
	}
	switch {
	case kind == KindTopN || kind == KindIndirect:
		if v.ListsValues() {
			return opValues
		}
		return opOther
	case kind == KindIor:
		return opOr
	case kind == KindTime:
		return opFirst
	case kind == KindConditions && v.Number() < 100: // most frequent callees, in those days
		return opOther
	case kind >= KindConditions:
		return opOr
	}
	return opAdd
}

// What gcov of that version does, as far as versions differ. Zero, no version,
// stands for the newest.

// AtLeast tells whether v is that version, ten times the major plus the minor one, or later.
func (v Version) AtLeast(number int) bool { return v.Number() == 0 || v.Number() >= number }

func (v Version) CountsEntries() bool { return v.AtLeast(80) }  // a line counts how often it was entered, before: without -a the sum of its blocks
func (v Version) NoticesCuts() bool   { return v.AtLeast(130) } // a read behind the end is told, and the end of it

// Text is the version as gcov prints it, X.Y.Z.
func (v Version) Text() string {
	n := v.Number()
	return strconv.Itoa(n/10) + "." + strconv.Itoa(n%10) + ".0"
}

// AddsUp tells how counters of a kind are those of several runs: their sum, or all bits of
// them; neither: it takes more than the two numbers.
func (v Version) AddsUp(kind int) (sum, bits bool) {
	o := v.operation(kind)
	return o == opAdd, o == opOr
}
