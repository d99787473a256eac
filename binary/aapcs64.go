package binary

import "debug/dwarf"

// How arguments are passed on arm64, by the Procedure Call Standard for the Arm 64-bit
// Architecture (AAPCS64), section 6.8.2, which these names and numbers are from. An
// address of the result has a register of its own.

const registersARM64 = 8 // x0 to x7, v0 to v7

// allocate is stage C: it returns the number of the register, for integers also that of
// the word on the stack after all registers.
func (p *passing) allocate(how class) (place int, stacked bool) {
	words := max(int(how.size+7)/8, how.integers)
	switch {
	case how.floats > 0: // C.1 to C.6
		if p.floats+how.floats <= registersARM64 {
			p.floats += how.floats
			return p.floats - how.floats, false
		}
		p.floats = registersARM64
		words = max(words, 1)
	case how.integers > 0: // C.7 to C.11
		if how.aligned {
			p.integers += p.integers & 1
		}
		if p.integers+how.integers <= registersARM64 {
			p.integers += how.integers
			return p.integers - how.integers, false
		}
		p.integers = registersARM64
	}
	if how.aligned { // C.12
		p.stack += p.stack & 1
	}
	p.stack += words
	return registersARM64 + p.stack - words, true
}

// structureARM64 is stage B, for a structure that may be copied as it is.
func structureARM64(t *dwarf.StructType) (class, error) {
	var h homogeneous
	err := h.add(t, 0)
	switch {
	case err != nil:
		return class{}, err
	case h.floats() && h.members <= 4 && int64(h.members)*h.size == t.ByteSize:
		return class{floats: h.members, aligned: h.size == 16, size: t.ByteSize}, nil
	case t.ByteSize > 16:
		return class{integers: 1, size: 8}, nil // the address of a copy
	}
	return class{integers: int(t.ByteSize+7) / 8, aligned: h.aligned, size: t.ByteSize}, nil
}

// homogeneous finds out whether all that a structure consists of is floating point of one
// size.
type homogeneous struct {
	size    int64 // of each
	members int
	other   bool // there is something else
	aligned bool // and something of 16 bytes
	steps   int  // that were taken
}

func (h *homogeneous) floats() bool { return !h.other && h.members > 0 }

// add adds what a type consists of.
func (h *homogeneous) add(t dwarf.Type, depth int) error {
	const mostDepth, mostSteps, mostCount = 16, 1000, 16
	if h.steps++; depth > mostDepth || h.steps > mostSteps {
		return unknownPassing(t)
	}
	switch t := bare(t).(type) {
	case *dwarf.StructType:
		if t.Kind == "union" {
			return h.addUnion(t, depth)
		}
		for _, f := range t.Field {
			if err := h.add(f.Type, depth+1); err != nil {
				return err
			}
		}
	case *dwarf.ArrayType:
		one := homogeneous{steps: h.steps}
		if err := one.add(t.Type, depth+1); err != nil {
			return err
		}
		h.steps = one.steps
		h.other, h.aligned = h.other || one.other, h.aligned || one.aligned
		if one.members > 0 && t.Count > 0 {
			h.addFloats(one.size, one.members*int(min(t.Count, mostCount)))
		}
	case *dwarf.FloatType:
		h.addFloats(t.ByteSize, 1)
	case *dwarf.ComplexType:
		h.addFloats(t.ByteSize/2, 2)
	default:
		h.other = true
		h.aligned = h.aligned || t != nil && t.Size() == 16
	}
	return nil
}

func (h *homogeneous) addFloats(size int64, n int) {
	h.other = h.other || h.members > 0 && size != h.size
	h.aligned = h.aligned || size == 16
	h.size = size
	h.members += n
}

// addUnion adds the member that has most.
func (h *homogeneous) addUnion(t *dwarf.StructType, depth int) error {
	before := *h
	for _, f := range t.Field {
		one := before
		one.steps = h.steps
		if err := one.add(f.Type, depth+1); err != nil {
			return err
		}
		one.other = one.other || h.other || h.members > before.members && one.size != h.size
		one.aligned = one.aligned || h.aligned
		if one.members < h.members {
			one.members, one.size = h.members, h.size
		}
		*h = one
	}
	return nil
}
