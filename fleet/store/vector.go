package store

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A vector is kept as numbers of encoding/binary.AppendUvarint, and where there are zeros one 0 and how
// many more follow: most counters of most windows are 0.

// PackVector returns the bytes of a vector.
func PackVector(v []uint64) []byte {
	b := make([]byte, 0, len(v))
	for i := 0; i < len(v); {
		b = binary.AppendUvarint(b, v[i])
		zeros := i
		for i++; v[zeros] == 0 && i < len(v) && v[i] == 0; i++ {
		}
		if v[zeros] == 0 {
			b = binary.AppendUvarint(b, uint64(i-zeros-1))
		}
	}
	return b
}

// UnpackVector reads the n numbers of a vector, which are all that b may have.
func UnpackVector(b []byte, n int) ([]uint64, error) {
	v := make([]uint64, n)
	at := 0
	for i := 0; i < n; i++ {
		if at < len(b) && b[at]-1 < 0x7f { // most numbers are small, and not 0
			v[i] = uint64(b[at])
			at++
			continue
		}
		x, size := binary.Uvarint(b[at:])
		if size <= 0 {
			return nil, fmt.Errorf("offset %d: a number was expected", at)
		}
		at += size
		if x != 0 {
			v[i] = x
			continue
		}
		more, size := binary.Uvarint(b[at:])
		if size <= 0 {
			return nil, fmt.Errorf("offset %d: a number was expected", at)
		}
		at += size
		if more > uint64(n-i-1) {
			return nil, fmt.Errorf("offset %d: %d more zeros, where %d numbers are left", at, more, n-i-1)
		}
		i += int(more)
	}
	if at < len(b) {
		return nil, fmt.Errorf("offset %d: %d bytes after %d numbers", at, len(b)-at, n)
	}
	return v, nil
}

// Times are kept as the distance of each from the one before it and how many of the same follow: most of what is
// in a function was last seen to count in the same window.

func packTimes(v []uint64) []byte {
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

// unpackTimes fills v, for which b has to be enough and no more.
func unpackTimes(b []byte, v []uint64) error {
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
		for end := i + 1 + int(more); i < end; i++ {
			v[i] = value
		}
	}
	if at < len(b) {
		return fmt.Errorf("offset %d: %d bytes after %d times", at, len(b)-at, len(v))
	}
	return nil
}

// greatest keeps the greater ones of each, and tells whether that changed v.
func greatest(v, other []uint64) (changed bool) {
	for i, x := range other {
		if x > v[i] {
			v[i] = x
			changed = true
		}
	}
	return changed
}

// Add adds other to v, up to what a number can hold.
func Add(v, other []uint64) {
	for i, x := range other {
		if v[i] > math.MaxUint64-x {
			v[i] = math.MaxUint64
		} else {
			v[i] += x
		}
	}
}

// note notes in first and last that the counters of v that are not 0 were seen to count at a time.
func note(first, last, v []uint64, at uint64) (changed bool) {
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
