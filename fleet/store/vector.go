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
	if err := UnpackInto(b, v); err != nil {
		return nil, err
	}
	return v, nil
}

// UnpackInto fills v with the numbers of a vector, for which b has to be enough and no more. After an error v has some.
func UnpackInto(b []byte, v []uint64) error {
	clear(v)
	at, n := 0, len(v)
	for i := 0; i < n; i++ {
		if at < len(b) && b[at]-1 < 0x7f { // most numbers are small, and not 0
			v[i] = uint64(b[at])
			at++
			continue
		}
		x, size := binary.Uvarint(b[at:])
		if size <= 0 {
			return fmt.Errorf("offset %d: a number was expected", at)
		}
		at += size
		if x != 0 {
			v[i] = x
			continue
		}
		more, size := binary.Uvarint(b[at:])
		if size <= 0 {
			return fmt.Errorf("offset %d: a number was expected", at)
		}
		at += size
		if more > uint64(n-i-1) {
			return fmt.Errorf("offset %d: %d more zeros, where %d numbers are left", at, more, n-i-1)
		}
		i += int(more)
	}
	if at < len(b) {
		return fmt.Errorf("offset %d: %d bytes after %d numbers", at, len(b)-at, n)
	}
	return nil
}

// Greatest keeps the greater ones of each, and tells whether that changed v.
func Greatest(v, other []uint64) (changed bool) {
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
