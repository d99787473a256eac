package llvm

import (
	"bytes"
	"slices"
)

// A Pairing is whose counts a profile has.
type Pairing int

// Ways in which a profile belongs to a binary.
const (
	Unpaired    Pairing = iota // to none: what fits by name and hash counts
	ByBuildID                  // they have the same build ID
	ByFunctions                // the binary knows all its functions, with the same hashes
)

// Pair finds the binary that a raw profile is of, among binaries. An indexed profile is of several, and belongs to
// none.
func Pair(p *Profile, binaries []*Binary) (index int, how Pairing) {
	if p.Format != Raw {
		return -1, Unpaired
	}
	for _, id := range p.BuildIDs {
		for i, b := range binaries {
			if b.BuildID == id {
				return i, ByBuildID
			}
		}
	}
	if len(p.Counted) == 0 {
		return -1, Unpaired
	}
	// Of several that know all, as of a program and one that has more functions, the smallest.
	index = -1
	twice := false
	for i, b := range binaries {
		if b.BuildID != "" && len(p.BuildIDs) > 0 {
			continue // it is another one
		}
		switch {
		case !b.knows(p):
		case index < 0 || b.nameCount() < binaries[index].nameCount():
			index, how, twice = i, ByFunctions, false
		case b.nameCount() == binaries[index].nameCount() && !b.same(binaries[index]):
			twice = true // as main of two tests: it may be of either
		}
	}
	if twice {
		return -1, Unpaired
	}
	return index, how
}

// same tells whether two binaries have the same functions of the same sources: copies, one perhaps stripped.
func (b *Binary) same(o *Binary) bool {
	return slices.EqualFunc(b.Records, o.Records, func(r, s *Record) bool {
		return r.NameHash == s.NameHash && r.Hash == s.Hash && r.unit.dir == s.unit.dir &&
			slices.Equal(r.unit.files, s.unit.files) && bytes.Equal(r.mapping, s.mapping)
	})
}

// knows tells whether all functions of a profile are those of the binary, and some have a mapping.
func (b *Binary) knows(p *Profile) bool {
	if b.hashes == nil {
		b.hashes = make(map[uint64]uint64, len(b.Records))
		for _, r := range b.Records {
			b.hashes[r.NameHash] = r.Hash
		}
	}
	mapped := false
	for i := range p.Counted {
		c := &p.Counted[i]
		hash, ok := b.hashes[c.NameHash]
		switch {
		case ok && hash == c.Hash:
			mapped = true
		case ok:
			return false
		case b.name(c.NameHash) == "":
			return false
		}
	}
	return mapped
}
