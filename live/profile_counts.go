//go:build linux

package live

import (
	"bytes"
	"errors"
	"slices"

	"footfall/formats/gocover"
)

// This file adds and subtracts what profiles have counted.

var errOtherBuild = errors.New("they are of another build")

// counted is a copy of what is counted: of counters and bitmaps, of those of Go of the file.
func (p *SourceProfile) counted() []byte {
	if p.Meta != nil {
		return bytes.Clone(p.Bytes)
	}
	return bytes.Clone(p.Bytes[p.parts.counters:p.parts.rest])
}

// counts is a copy of what is counted in Bytes of a profile of the build.
func (p *SourceProfile) counts(b []byte) []byte { return bytes.Clone(b[p.parts.counters:p.parts.rest]) }

// countedIn is counted of Bytes of another profile, of this build; it is an error if they are of another.
func (p *SourceProfile) countedIn(b []byte) ([]byte, error) {
	if p.Meta != nil {
		return b, nil
	}
	if !p.isOf(b) {
		return nil, errOtherBuild
	}
	return p.counts(b), nil
}

// sameBuild tells whether two profiles are of one build of an image, wherever it was mapped: addresses in them differ then.
func (p *SourceProfile) sameBuild(o *SourceProfile) bool {
	if p.Key() != o.Key() || p.MetaName != o.MetaName || p.parts != o.parts {
		return false
	}
	return p.Meta != nil || p.isOf(o.Bytes)
}

// isOf tells whether a raw profile is of the build of the image: all in its head is the same but addresses, and so are its names.
func (p *SourceProfile) isOf(b []byte) bool {
	at, names := &p.parts, p.parts.rest+p.parts.namesSize
	if len(b) < names || !bytes.Equal(b[at.rest:names], p.Bytes[at.rest:names]) {
		return false
	}
	head := [2][]byte{bytes.Clone(b[:at.records]), bytes.Clone(p.Bytes[:at.records])}
	for _, h := range head {
		for _, address := range at.addresses {
			clear(h[address : address+8])
		}
	}
	return bytes.Equal(head[0], head[1])
}

// with is the profile with other counts, which are made as counted makes them.
func (p *SourceProfile) with(counted []byte) *SourceProfile {
	o := *p
	if p.Meta != nil {
		o.Bytes = counted
		return &o
	}
	o.Bytes = bytes.Clone(p.Bytes)
	copy(o.Bytes[p.parts.counters:], counted)
	return &o
}

// less is the profile without what was counted before. If a count has fallen since, the program began from zero again,
// and nothing is taken away.
func (p *SourceProfile) less(before []byte) *SourceProfile {
	if before == nil {
		return p
	}
	if p.Meta != nil {
		o := *p
		if o.subtractGo(before) != nil {
			return p
		}
		return &o
	}
	return p.with(p.parts.since(p.counted(), before))
}

// since is what was counted later than zero, of a process that may have begun from zero again; nil: all.
func (at *rawParts) since(counted, zero []byte) []byte {
	if zero == nil || !at.single && !at.covers(counted, zero) {
		return counted
	}
	later := bytes.Clone(counted)
	at.combine(later, zero, minusCount, minusSet)
	return later
}

// withoutInherited is the profile as one of a process that has inherited nothing.
func (p *SourceProfile) withoutInherited() *SourceProfile {
	o := *p
	o.Inherited = nil
	return &o
}

// plus is the sum of two profiles of one build.
func (p *SourceProfile) plus(o *SourceProfile) (*SourceProfile, error) {
	all := p.counted()
	if p.Meta == nil {
		p.parts.combine(all, o.counted(), plusCount, plusSet)
		sum := p.with(all)
		switch {
		case o.Inherited == nil:
		case p.Inherited == nil:
			sum.Inherited = p.with(o.counts(o.Inherited)).Bytes
		default:
			both := p.counts(p.Inherited)
			p.parts.combine(both, o.counts(o.Inherited), plusCount, plusSet)
			sum.Inherited = p.with(both).Bytes
		}
		return sum, nil
	}
	to, err := gocover.ReadCounters(all)
	if err != nil {
		return nil, err
	}
	more, err := gocover.ReadCounters(o.Bytes)
	if err != nil {
		return nil, err
	}
	s := to.Sum(p.mode(), more)
	return p.with(s.Encode(to.Hash)), nil
}

func (p *SourceProfile) mode() gocover.Mode {
	if p.Sets {
		return gocover.Set
	}
	return gocover.Count
}

// subtractGo is less for counters of Go.
func (p *SourceProfile) subtractGo(before []byte) error {
	was, err := gocover.ReadCounters(before)
	if err != nil {
		return err
	}
	c, err := gocover.ReadCounters(p.Bytes)
	if err != nil || c.Hash != was.Hash {
		return err
	}
	c.Subtract(p.mode(), was)
	p.Bytes = c.Segments[0].Encode(c.Hash)
	return nil
}

// functions calls visit with where the counters of each function are, in what was counted.
func (p *SourceProfile) functions(visit func(from, to int)) {
	size := 8
	if p.parts.single {
		size = 1
	}
	all := p.parts.countersSize
	for i, records := 0, p.Bytes[p.parts.records:p.parts.counters]; len(records) >= p.records.Size; i, records = i+p.records.Size, records[p.records.Size:] {
		at := p.records.address(records[p.records.Counters:]) - p.records.counters
		if p.records.relative {
			at += uint64(i)
		}
		from, n := p.records.wrap(at), uint64(p.parts.order.Uint32(records[p.records.Number:]))
		if from <= uint64(all) && n <= (uint64(all)-from)/uint64(size) {
			visit(int(from), int(from)+int(n)*size)
		}
	}
}

// inherited is what a process that was forked has of its parent's counts, at most, by what both have now: neither has less than
// there was at the fork. It is made of whole functions, so that what is derived from several counters stays possible. Of a
// function that ran in both since, in different ways, nothing can be said: unsure is how many of these there are.
func (p *SourceProfile) inherited(parent *SourceProfile) (inherited []byte, unsure int) {
	own, theirs := p.counted(), parent.counted()
	inherited = p.parts.nothing()
	p.functions(func(from, to int) {
		switch own, theirs := own[from:to], theirs[from:to]; {
		case p.parts.coversCounters(theirs, own):
			copy(inherited[from:to], own)
		case p.parts.coversCounters(own, theirs):
			copy(inherited[from:to], theirs)
		default:
			unsure++
		}
	})
	return inherited, unsure
}

// WithoutParents takes out of the counters of a process that was forked what they had of its parent's, at most. reset are Bytes of
// when it, or the parent before the fork, was reset: what had been counted then is taken out too; nil: there was no reset. Of unsure
// functions it is not known what the process had.
func (p *SourceProfile) WithoutParents(parent []SourceProfile, reset []byte) (own *SourceProfile, unsure int) {
	i := slices.IndexFunc(parent, func(o SourceProfile) bool { return p.Meta == nil && p.sameBuild(&o) })
	if i < 0 {
		return p, 0
	}
	inherited, unsure := p.inherited(&parent[i])
	before, err := p.countedIn(reset)
	if reset == nil || err != nil {
		own = p.less(inherited)
		own.Inherited = p.with(inherited).Bytes
		return own, unsure
	}
	p.parts.combine(inherited, before, func(a, b uint64) uint64 { return max(a, b) }, plusSet)
	own = p.less(inherited)
	p.parts.combine(before, own.counted(), plusCount, plusSet) // what is taken out for the reset
	return p.with(before), unsure
}

// nothing is what is counted where nothing ran.
func (at *rawParts) nothing() []byte {
	b := make([]byte, at.rest-at.counters)
	if at.single {
		for i := range at.countersSize {
			b[i] = 0xff
		}
	}
	return b
}

// combine makes of what was counted, in place, what is made of it and other: counters by count, those that only tell that
// something ran, bytes and bitmaps, by set, of which a bit tells that.
func (at *rawParts) combine(to, other []byte, count func(a, b uint64) uint64, set func(a, b byte) byte) {
	i := 0
	if at.single {
		for ; i < at.countersSize; i++ {
			to[i] = ^set(^to[i], ^other[i])
		}
	} else {
		for ; i < at.countersSize; i += 8 {
			at.order.PutUint64(to[i:], count(at.order.Uint64(to[i:]), at.order.Uint64(other[i:])))
		}
	}
	for i = at.bits - at.counters; i < len(to); i++ {
		to[i] = set(to[i], other[i])
	}
}

func plusCount(a, b uint64) uint64  { return a + b }
func plusSet(a, b byte) byte        { return a | b }
func minusCount(a, b uint64) uint64 { return a - b }
func minusSet(a, b byte) byte       { return a &^ b }

// covers tells whether no count is less than in other, and all has run that had run there.
func (at *rawParts) covers(counted, other []byte) bool {
	if !at.coversCounters(counted[:at.countersSize], other[:at.countersSize]) {
		return false
	}
	for i := at.bits - at.counters; i < len(counted); i++ {
		if other[i]&^counted[i] != 0 {
			return false
		}
	}
	return true
}

// coversCounters is covers for some counters.
func (at *rawParts) coversCounters(counted, other []byte) bool {
	if at.single {
		for i := range counted {
			if ^other[i]&counted[i] != 0 {
				return false
			}
		}
		return true
	}
	for i := 0; i < len(counted); i += 8 {
		if at.order.Uint64(counted[i:]) < at.order.Uint64(other[i:]) {
			return false
		}
	}
	return true
}
