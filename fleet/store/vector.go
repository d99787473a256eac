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
	v := make([]uint64, 0, n)
	at := 0
	next := func() (uint64, error) {
		x, size := binary.Uvarint(b[at:])
		if size <= 0 {
			return 0, fmt.Errorf("offset %d: a number was expected", at)
		}
		at += size
		return x, nil
	}
	for len(v) < n {
		x, err := next()
		if err != nil {
			return nil, err
		}
		v = append(v, x)
		if x != 0 {
			continue
		}
		more, err := next()
		if err != nil {
			return nil, err
		}
		if more > uint64(n-len(v)) {
			return nil, fmt.Errorf("offset %d: %d more zeros, where %d numbers are left", at, more, n-len(v))
		}
		v = v[:len(v)+int(more)] // of the room that was made, which is zero
	}
	if at < len(b) {
		return nil, fmt.Errorf("offset %d: %d bytes after %d numbers", at, len(b)-at, n)
	}
	return v, nil
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
