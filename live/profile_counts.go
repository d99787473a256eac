//go:build linux

package live

import (
	"bytes"
	"errors"

	"footfall/formats/gocover"
)

// This file adds and subtracts what profiles have counted.

var errOtherBuild = errors.New("they are of another build")

// counted is a copy of what is counted: of counters and bitmaps, of those of Go of the file.
func (p *RawProfile) counted() []byte {
	if p.Meta != nil {
		return bytes.Clone(p.Bytes)
	}
	return bytes.Clone(p.Bytes[p.parts.counters:p.parts.rest])
}

// countedIn is counted of Bytes of another profile, of this build; it is an error if they are of another.
func (p *RawProfile) countedIn(b []byte) ([]byte, error) {
	if p.Meta != nil {
		return b, nil
	}
	if !p.isOf(b) {
		return nil, errOtherBuild
	}
	return bytes.Clone(b[p.parts.counters:p.parts.rest]), nil
}

// sameBuild tells whether two profiles are of one build of an image, wherever it was mapped: addresses in them differ then.
func (p *RawProfile) sameBuild(o *RawProfile) bool {
	if p.Key() != o.Key() || p.MetaName != o.MetaName || p.parts != o.parts {
		return false
	}
	return p.Meta != nil || p.isOf(o.Bytes)
}

// isOf tells whether a raw profile is of the build of the image: all in its head is the same but addresses, and so are its names.
func (p *RawProfile) isOf(b []byte) bool {
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
func (p *RawProfile) with(counted []byte) *RawProfile {
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
func (p *RawProfile) less(before []byte) *RawProfile {
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
	all := p.counted()
	if !p.parts.single && !p.parts.covers(all, before) {
		return p
	}
	p.parts.combine(all, before, minusCount, minusSet)
	return p.with(all)
}

// plus is the sum of two profiles of one build.
func (p *RawProfile) plus(o *RawProfile) (*RawProfile, error) {
	all := p.counted()
	if p.Meta == nil {
		p.parts.combine(all, o.counted(), plusCount, plusSet)
		return p.with(all), nil
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

func (p *RawProfile) mode() gocover.Mode {
	if p.Sets {
		return gocover.Set
	}
	return gocover.Count
}

// subtractGo is less for counters of Go.
func (p *RawProfile) subtractGo(before []byte) error {
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
	i := 0
	if at.single {
		for ; i < at.countersSize; i++ {
			if ^other[i]&counted[i] != 0 {
				return false
			}
		}
	} else {
		for ; i < at.countersSize; i += 8 {
			if at.order.Uint64(counted[i:]) < at.order.Uint64(other[i:]) {
				return false
			}
		}
	}
	for i = at.bits - at.counters; i < len(counted); i++ {
		if other[i]&^counted[i] != 0 {
			return false
		}
	}
	return true
}
