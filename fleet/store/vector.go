package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// A vector is kept as numbers of encoding/binary.AppendUvarint, and where there are zeros one 0 and how
// many more follow: most counters of most windows are 0.

// PackVector returns the bytes of a vector.
func PackVector(v []uint64) []byte {
	var some [2048]byte // as most have; what is returned has no more room than it needs
	b := some[:0]
	for i := 0; i < len(v); {
		b = binary.AppendUvarint(b, v[i])
		zeros := i
		for i++; v[zeros] == 0 && i < len(v) && v[i] == 0; i++ {
		}
		if v[zeros] == 0 {
			b = binary.AppendUvarint(b, uint64(i-zeros-1))
		}
	}
	return append(make([]byte, 0, len(b)), b...)
}

// A Vector is a packed one that has as many numbers as it says, and nothing else.
type Vector struct {
	counters int
	packed   []byte
	counted  []uint64 // a bit for each that is not 0
}

// VectorOf packs numbers.
func VectorOf(v []uint64) Vector {
	packed := Vector{len(v), PackVector(v), make([]uint64, (len(v)+63)/64)}
	for i, x := range v {
		if x != 0 {
			packed.counted[i/64] |= 1 << (i % 64)
		}
	}
	return packed
}

// CheckVector returns the n numbers that are packed in b, which nobody may change from then on.
func CheckVector(b []byte, n int) (Vector, error) {
	at, counted := 0, make([]uint64, (n+63)/64)
	for i := 0; i < n; i++ {
		if at < len(b) && b[at]-1 < 0x7f { // most numbers are small, and not 0
			counted[i/64] |= 1 << (i % 64)
			at++
			continue
		}
		x, zeros, size, err := number(b, at, n-i)
		if err != nil {
			return Vector{}, err
		}
		if x != 0 {
			counted[i/64] |= 1 << (i % 64)
		}
		at += size
		i += zeros
	}
	if at < len(b) {
		return Vector{}, fmt.Errorf("offset %d: %d bytes after %d numbers", at, len(b)-at, n)
	}
	return Vector{n, b, counted}, nil
}

// Counters is how many numbers v has.
func (v Vector) Counters() int { return v.counters }

// Bytes are those of [PackVector], which are not to be changed.
func (v Vector) Bytes() []byte { return v.packed }

// Into returns the numbers, in the memory of into if there is enough.
func (v Vector) Into(into []uint64) []uint64 {
	into = slices.Grow(into[:0], v.counters)[:v.counters]
	if err := UnpackInto(v.packed, into); err != nil {
		panic(err) // it has been packed or checked
	}
	return into
}

// Within tells whether all numbers that are not 0 are some of a set, which has a bit for each.
func (v Vector) Within(set []uint64) bool {
	for i, bits := range v.counted {
		if bits&^set[i] != 0 {
			return false
		}
	}
	return true
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
		x, zeros, size, err := number(b, at, n-i)
		if err != nil {
			return err
		}
		at += size
		v[i] = x
		i += zeros
	}
	if at < len(b) {
		return fmt.Errorf("offset %d: %d bytes after %d numbers", at, len(b)-at, n)
	}
	return nil
}

// number reads a number at an offset, of which so many are left, and how many more zeros follow if it is one.
func number(b []byte, at, left int) (x uint64, zeros, size int, err error) {
	if len(b)-at >= 2 { // most of those that are not one byte are two
		switch low, high := b[at], b[at+1]; {
		case low >= 0x80 && high-1 < 0x7f:
			return uint64(low&0x7f) | uint64(high)<<7, 0, 2, nil
		case low == 0 && high < 0x80 && int(high) < left:
			return 0, int(high), 2, nil
		}
	}
	x, size = binary.Uvarint(b[at:])
	if size <= 0 {
		return 0, 0, 0, fmt.Errorf("offset %d: a number was expected", at)
	}
	if x != 0 {
		return x, 0, size, nil
	}
	more, length := binary.Uvarint(b[at+size:])
	if length <= 0 {
		return 0, 0, 0, fmt.Errorf("offset %d: a number was expected", at+size)
	}
	if more > uint64(left-1) {
		return 0, 0, 0, fmt.Errorf("offset %d: %d more zeros, where %d numbers are left", at+size+length, more, left-1)
	}
	return 0, int(more), size + length, nil
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
