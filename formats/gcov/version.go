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

// number is ten times the major plus the minor version: 34 for 3.4, 162 for
// 16.2, 0 for a word that is no version.
func (v Version) number() int {
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
func (v Version) Major() int { return v.number() / 10 }

// Known tells whether files of that version can be read: GCC 3.4 to 16. A
// newer one is read as the newest known.
func (v Version) Known() bool { return v.number() >= 34 && v.Major() <= newest }

// newest is the last major version of GCC that was seen and tested.
const newest = 16

// The layout, by version. Each question is asked in one place only, with the
// first version that has the feature.

func (v Version) hasCfgChecksum() bool    { return v.number() >= 47 }
func (v Version) exitIsSecond() bool      { return v.number() >= 48 } // the exit block is block 1, before: the last one
func (v Version) hasColumns() bool        { return v.number() >= 80 } // artificial, start column, end line; blocks as a count
func (v Version) hasUnexecuted() bool     { return v.number() >= 80 }
func (v Version) hasCwd() bool            { return v.number() >= 90 }
func (v Version) hasEndColumn() bool      { return v.number() >= 90 }
func (v Version) objectRuns() bool        { return v.number() >= 90 } // the object summary tells the runs
func (v Version) byteLengths() bool       { return v.number() >= 120 }
func (v Version) hasObjectChecksum() bool { return v.number() >= 120 }

// CounterKinds is the number of kinds of counters for which programs of that
// version have room in memory, 0 when that is not known: before GCC 4.7, and for
// versions newer than all known.
func (v Version) CounterKinds() int {
	switch n := v.number(); {
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

// HasObjectChecksum tells whether the notes, the data and the structures in
// memory have a checksum behind the stamp.
func (v Version) HasObjectChecksum() bool { return v.hasObjectChecksum() }

// ListsValues tells whether counters of KindTopN and KindIndirect are linked
// lists in memory; before they are arrays of a fixed size.
func (v Version) ListsValues() bool { return v.number() >= 110 }

// OmitsZeros tells whether of counters that are all zero only the number is
// written.
func (v Version) OmitsZeros() bool { return v.omitsZeros() }

func (v Version) omitsZeros() bool { return v.number() >= 110 } // counters that are all 0 are not written

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
	if v.number() < 70 {
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
	case kind == KindConditions && v.number() < 100: // most frequent callees, in those days
		return opOther
	case kind >= KindConditions:
		return opOr
	}
	return opAdd
}

// What gcov of that version does, as far as versions differ. Zero, no version,
// stands for the newest.

func (v Version) atLeast(number int) bool { return v.number() == 0 || v.number() >= number }

func (v Version) hasGroups() bool           { return v.atLeast(80) }                   // functions that start on one line are listed apart
func (v Version) countsEntries() bool       { return v.atLeast(80) }                   // a line counts how often it was entered, before: without -a the sum of its blocks
func (v Version) propagatesLines() bool     { return !v.atLeast(80) }                  // a block without lines belongs to the line mentioned last; before 8
func (v Version) marksUnexecuted() bool     { return v.atLeast(80) }                   // a count with a star
func (v Version) floatPercent() bool        { return v.atLeast(90) }                   // before: integers, 0 and 100 only when exact
func (v Version) refusesPercent() bool      { return v.atLeast(60) && !v.atLeast(90) } // of more than the whole
func (v Version) padsMissingSource() bool   { return !v.atLeast(80) }                  // lines past the end of the source are listed as /*EOF*/
func (v Version) swapsBlockMarks() bool     { return !v.atLeast(80) }                  // %%%%% for exceptional blocks, $$$$$ for others
func (v Version) exceptionalLines() bool    { return v.atLeast(47) }                   // ===== for lines that only exceptions reach
func (v Version) separatesSummaries() bool  { return !v.atLeast(49) }                  // by an empty line also with -n
func (v Version) dropsUncounted() bool      { return !v.atLeast(80) }                  // functions that the data do not have are left out
func (v Version) listsPrograms() bool       { return !v.atLeast(90) }
func (v Version) hasJSON() bool             { return v.atLeast(90) }                   // before: -i writes text
func (v Version) joinsText() bool           { return !v.atLeast(60) || v.atLeast(80) } // -i: all sources of an operand in one file, in 6 and 7 a file each
func (v Version) intermediateVersion() bool { return v.atLeast(80) }                   // the text begins with the version, has end lines and unexecuted blocks
func (v Version) jsonFloats() bool          { return !v.atLeast(100) }
func (v Version) jsonIsHashed() bool        { return !v.atLeast(130) } // keys in the order of a hash table
func (v Version) jsonFormat2() bool         { return v.atLeast(140) }  // block ids, calls, conditions
func (v Version) jsonPaths() bool           { return v.atLeast(150) }
func (v Version) jsonNameIsStem() bool      { return v.atLeast(110) }
func (v Version) jsonFunctionStack() bool   { return v.atLeast(110) } // a line's function is the innermost open one, before: the last begun
func (v Version) announcesJSON() bool       { return v.atLeast(110) }
func (v Version) alwaysTotals() bool        { return v.atLeast(110) }
func (v Version) noticesCuts() bool         { return v.atLeast(130) } // a read behind the end is told, and the end of it
func (v Version) hasStatus() bool           { return v.atLeast(120) } // an exit status that tells of bad files
func (v Version) countsInstances() bool     { return v.atLeast(130) } // totals count the lines of each instance
func (v Version) suffixOnNever() bool       { return v.atLeast(130) } // (fallthrough) behind "never executed" too
func (v Version) blockIDs() bool            { return v.atLeast(140) } // -a tells the number of the block, before: counts on the line
func (v Version) functionBranches() bool    { return v.atLeast(150) } // -f tells of branches and calls; before GCC 8 with -b
func (v Version) extendsToFunctionEnd() bool {
	return v.atLeast(150) // a file's lines reach to the end of its last function
}

// text is the version as gcov prints it, X.Y.Z.
func (v Version) text() string {
	n := v.number()
	return strconv.Itoa(n/10) + "." + strconv.Itoa(n%10) + ".0"
}
