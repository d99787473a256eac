package llvm

import (
	"fmt"
	"math"
	"slices"
)

// mostCount is the largest count: the two above it say other things to LLVM.
const mostCount = math.MaxUint64 - 2

// add adds counts, which stay at the largest one there is.
func add(a, b uint64) uint64 {
	if a > mostCount-min(b, mostCount) {
		return mostCount
	}
	return a + b
}

// A Sum is the counts of several profiles, by name and hash.
type Sum struct {
	counted map[functionKey]*Counted
	known   map[uint64]bool // hashes of names
	flags   uint64
	old     bool // of bitmaps
	bitmaps bool // there are any
	none    bool // there is no profile so far
}

type functionKey struct{ name, hash uint64 }

// NewSum returns a sum of nothing.
func NewSum() *Sum {
	return &Sum{counted: make(map[functionKey]*Counted), known: make(map[uint64]bool), none: true}
}

// kindFlags are those that tell counts which cannot be added.
const kindFlags = FlagIR | FlagSingleBytes | FlagDebugInfo

// Add adds a profile, whose counts become the sum's if it has none of a function. It returns the functions that
// cannot be added, as their number of counters is another one; an error says that nothing can.
func (s *Sum) Add(p *Profile) (others []*Counted, err error) {
	if !s.none && (p.Flags^s.flags)&kindFlags != 0 {
		return nil, fmt.Errorf("its counts are of another kind (%s) than those before (%s)", kindOf(p.Flags), kindOf(s.flags))
	}
	bitmaps := p.hasBitmaps()
	if s.bitmaps && bitmaps && p.OldBitmaps != s.old {
		return nil, fmt.Errorf("its bitmaps (MC/DC) are numbered as LLVM 18 did, and others are not")
	}
	s.none, s.flags = false, p.Flags
	if bitmaps {
		s.bitmaps, s.old = true, p.OldBitmaps
	}
	for i := range p.Counted {
		c := &p.Counted[i]
		key := functionKey{c.NameHash, c.Hash}
		have := s.counted[key]
		if have == nil {
			s.counted[key] = c
			s.known[c.NameHash] = true
			continue
		}
		if len(have.Counts) != len(c.Counts) || len(have.Bitmap) != len(c.Bitmap) {
			others = append(others, c)
			continue
		}
		have.add(c)
	}
	return others, nil
}

func (p *Profile) hasBitmaps() bool {
	for i := range p.Counted {
		if len(p.Counted[i].Bitmap) > 0 {
			return true
		}
	}
	return false
}

// Inherits adds what forked processes had of their parents' counts, a profile of the same build, to Whole.
func (p *Profile) Inherits(parents *Profile) {
	for i := range p.Counted {
		c := &p.Counted[i]
		if i >= len(parents.Counted) || parents.Counted[i].NameHash != c.NameHash || len(parents.Counted[i].Counts) != len(c.Counts) {
			return
		}
		if from := parents.Counted[i].Counts; slices.ContainsFunc(from, func(n uint64) bool { return n != 0 }) {
			c.Whole = slices.Clone(c.Counts)
			(&Counted{Counts: c.Whole}).add(&Counted{Counts: from})
		}
	}
}

// whole is Whole or, without, Counts.
func (c *Counted) whole() []uint64 {
	if c.Whole != nil {
		return c.Whole
	}
	return c.Counts
}

// add tells whether a sum is larger than counts can be.
func (c *Counted) add(o *Counted) (overflow bool) {
	if c.Whole != nil || o.Whole != nil {
		whole := Counted{Counts: slices.Clone(c.whole())}
		whole.add(&Counted{Counts: o.whole()})
		c.Whole = whole.Counts
	}
	to := c.Counts[:len(o.Counts)]
	for i, n := range o.Counts {
		sum := to[i] + n
		if sum < n || sum > mostCount {
			overflow, sum = true, mostCount
		}
		to[i] = sum
	}
	for i, b := range o.Bitmap {
		c.Bitmap[i] |= b
	}
	return overflow
}

func kindOf(flags uint64) string {
	switch {
	case flags&FlagIR != 0:
		return "-fprofile-generate"
	case flags&FlagSingleBytes != 0:
		return "single bytes"
	}
	return "-fprofile-instr-generate"
}

// IsIR tells whether the profiles were made for the optimiser (-fprofile-generate): no mapping belongs to them.
func (s *Sum) IsIR() bool { return s.flags&FlagIR != 0 }

// find is a lookup.
func (s *Sum) find(r *Record) (c *Counted, known bool) {
	if s == nil {
		return nil, false
	}
	c = s.counted[functionKey{r.NameHash, r.Hash}]
	return c, c != nil || s.known[r.NameHash]
}

// Knows tells whether the sum has counts of a function of a binary.
func (s *Sum) Knows(b *Binary) bool {
	for _, r := range b.Records {
		if s.counted[functionKey{r.NameHash, r.Hash}] != nil && r.Hash != 0 {
			return true
		}
	}
	return false
}

// Includes tells whether all counts of p are at least those of earlier, a profile of the same functions in which
// something ran: those of a program that wrote them and went on, or of a child that began with its parent's.
func (p *Profile) Includes(earlier *Profile) bool {
	if len(p.Counted) != len(earlier.Counted) || p.SingleBytes() {
		return false
	}
	ran := false
	for i := range p.Counted {
		a, b := &earlier.Counted[i], &p.Counted[i]
		if a.NameHash != b.NameHash || len(a.Counts) != len(b.Counts) {
			return false
		}
		for k, n := range a.Counts {
			if b.Counts[k] < n {
				return false
			}
			ran = ran || n > 0
		}
	}
	return ran
}

// Subtract takes away the counts of earlier, a profile of the same program: what is left was counted since. It returns
// false, and takes nothing, if some count has fallen: the program began from zero again.
func (p *Profile) Subtract(earlier *Profile) bool {
	// Local functions of two files of one name have the same name and hash: each is taken from itself.
	before := make(map[functionKey][]*Counted, len(earlier.Counted))
	for i := range earlier.Counted {
		c := &earlier.Counted[i]
		key := functionKey{c.NameHash, c.Hash}
		before[key] = append(before[key], c)
	}
	of := make([]*Counted, len(p.Counted))
	for i := range p.Counted {
		c := &p.Counted[i]
		key := functionKey{c.NameHash, c.Hash}
		if list := before[key]; len(list) > 0 {
			if of[i], before[key] = list[0], list[1:]; c.fellFrom(of[i]) {
				return false
			}
		}
	}
	for i := range p.Counted {
		c, b := &p.Counted[i], of[i]
		if b == nil {
			continue
		}
		for k := range c.Counts {
			c.Counts[k] -= b.Counts[k]
		}
		for k := range c.Bitmap {
			c.Bitmap[k] &^= b.Bitmap[k]
		}
	}
	return true
}

func (c *Counted) fellFrom(b *Counted) bool {
	if len(c.Counts) != len(b.Counts) || len(c.Bitmap) != len(b.Bitmap) {
		return true
	}
	for k, n := range c.Counts {
		if n < b.Counts[k] {
			return true
		}
	}
	return false
}

// Clone returns a copy that shares nothing that is added to.
func (p *Profile) Clone() *Profile {
	c := *p
	c.Counted = slices.Clone(p.Counted)
	for i := range c.Counted {
		c.Counted[i].Counts, c.Counted[i].Bitmap = slices.Clone(c.Counted[i].Counts), slices.Clone(c.Counted[i].Bitmap)
	}
	return &c
}
