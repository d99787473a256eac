package store

import (
	"encoding/binary"
	"fmt"
)

// Times, in seconds since 1970, 0 where there is none, are kept as the distance of each from the one before it and how many
// of the same follow: most of what is in a function was last seen to count in the same window.

// PackTimes returns the bytes of times.
func PackTimes(v []uint64) []byte {
	var b []byte
	before := uint64(0)
	for i := 0; i < len(v); {
		end := i + 1
		for end < len(v) && v[end] == v[i] {
			end++
		}
		b = binary.AppendVarint(b, int64(v[i]-before))
		b = binary.AppendUvarint(b, uint64(end-i-1))
		before = v[i]
		i = end
	}
	return b
}

// UnpackTimes fills v, for which b has to be enough and no more.
func UnpackTimes(b []byte, v []uint64) error {
	at, i, value := 0, 0, uint64(0)
	for i < len(v) {
		distance, size := binary.Varint(b[at:])
		if size <= 0 {
			return fmt.Errorf("offset %d: a distance of times was expected", at)
		}
		at += size
		more, size := binary.Uvarint(b[at:])
		if size <= 0 {
			return fmt.Errorf("offset %d: a number was expected", at)
		}
		at += size
		if more >= uint64(len(v)-i) {
			return fmt.Errorf("offset %d: %d more of the same time, where %d are left", at, more, len(v)-i-1)
		}
		value += uint64(distance)
		same := v[i : i+1+int(more)]
		for k := range same {
			same[k] = value
		}
		i += len(same)
	}
	if at < len(b) {
		return fmt.Errorf("offset %d: %d bytes after %d times", at, len(b)-at, len(v))
	}
	return nil
}

// Note notes in first and last that the counters of v that are not 0 were seen to count at a time.
func Note(first, last, v []uint64, at uint64) (changed bool) {
	for i, x := range v {
		if x == 0 {
			continue
		}
		if first[i] == 0 || at < first[i] {
			first[i] = at
			changed = true
		}
		if at > last[i] {
			last[i] = at
			changed = true
		}
	}
	return changed
}

// Earliest keeps the earlier time of each, of those that there are, and tells whether that changed v.
func Earliest(v, other []uint64) (changed bool) {
	for i, at := range other {
		if at != 0 && (v[i] == 0 || at < v[i]) {
			v[i] = at
			changed = true
		}
	}
	return changed
}
