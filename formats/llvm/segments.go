package llvm

import (
	"cmp"
	"slices"
)

// A Segment is a place in a file from which on a count holds, up to the next one.
type Segment struct {
	Line, Column    uint32
	Count           uint64
	HasCount, Entry bool // Entry: a region begins here
	Gap             bool
}

// A LineCount is a line with code.
type LineCount struct {
	Number uint32
	Count  uint64
	// Missed is set if a region that never ran begins on the line.
	Missed bool
}

// segments makes one list of regions that nest and follow each other.
func segments(regions []*Region, rules *Rules) []Segment {
	s := new(segmenter)
	return s.segments(regions, rules)
}

// segments is [segments] in the room of the list before, which is gone then.
func (s *segmenter) segments(regions []*Region, rules *Rules) []Segment {
	keys := slices.Grow(s.keys[:0], len(regions))
	for _, r := range regions {
		keys = append(keys, r.key())
	}
	return s.ordered(keys, rules)
}

// ofFunction is segments of regions of one function, which most often are in order.
func (s *segmenter) ofFunction(regions []Region, rules *Rules) []Segment {
	if inOrder(regions) {
		return s.walk(regions)
	}
	return s.segmentsOf(regions, rules)
}

func (s *segmenter) segmentsOf(regions []Region, rules *Rules) []Segment {
	keys := slices.Grow(s.keys[:0], len(regions))
	for i := range regions {
		keys = append(keys, regions[i].key())
	}
	return s.ordered(keys, rules)
}

// ofFile is segments of regions of functions that are ordered by where they begin. Each of those parts that begin when
// all before have ended is put in order by itself, if it is not.
func (s *segmenter) ofFile(regions []Region, rules *Rules) []Segment {
	s.room = slices.Grow(s.room[:0], len(regions))
	for len(regions) > 0 {
		n := 1
		for first := regions[0].key(); n < len(regions); n++ {
			next := regions[n].key()
			if next.start >= first.end && next.start > first.start {
				break
			}
			first.start, first.end = max(first.start, next.start), max(first.end, next.end)
		}
		part := regions[:n]
		if regions = regions[n:]; inOrder(part) {
			s.room = append(s.room, part...)
			continue
		}
		s.keys = s.keys[:0]
		for i := range part {
			s.keys = append(s.keys, part[i].key())
		}
		s.order(s.keys, rules)
	}
	if inOrder(s.room) {
		return s.walk(s.room)
	}
	return s.segmentsOf(slices.Clone(s.room), rules)
}

// inOrder tells whether regions are in the order of regionKeys, and no two cover the same.
func inOrder(regions []Region) bool {
	for i := 1; i < len(regions); i++ {
		a, b := regions[i-1].key(), regions[i].key()
		if a.start > b.start || a.start == b.start && a.end <= b.end {
			return false
		}
	}
	return true
}

func (s *segmenter) ordered(keys []regionKey, rules *Rules) []Segment {
	s.room = s.room[:0]
	s.order(keys, rules)
	s.keys = keys
	return s.walk(s.room)
}

// order appends regions in order, those that cover the same as one.
func (s *segmenter) order(keys []regionKey, rules *Rules) {
	slices.SortFunc(keys, func(a, b regionKey) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		if a.end != b.end {
			return cmp.Compare(b.end, a.end)
		}
		return cmp.Compare(a.region.Kind, b.region.Kind)
	})
	s.room = combined(s.room, keys, rules)
}

// A regionKey is by what regions are ordered: where they begin, the one that ends later first, and their kind.
type regionKey struct {
	start, end uint64
	region     *Region
}

func (r *Region) key() regionKey {
	return regionKey{uint64(r.Line)<<32 | uint64(r.Column), uint64(r.EndLine)<<32 | uint64(r.EndColumn), r}
}

// combined makes one of regions that cover the same: the first kind stays, with the sum of that kind.
func combined(regions []Region, keys []regionKey, rules *Rules) []Region {
	regions = slices.Grow(regions, len(keys))
	for i := range keys {
		r := keys[i].region
		if i == 0 || keys[i-1].start != keys[i].start || keys[i-1].end != keys[i].end {
			regions = append(regions, *r)
			continue
		}
		if active := &regions[len(regions)-1]; active.Kind == r.Kind {
			active.combine(r, rules)
		}
	}
	return regions
}

// combine adds the count of a region that covers the same.
func (r *Region) combine(o *Region, rules *Rules) {
	if rules.Bytes && rules.Version < 20 {
		r.Count = b2u(r.Count|o.Count > 0)
		return
	}
	r.Count += o.Count
}

type segmenter struct {
	keys         []regionKey
	room         []Region
	active, gone []*Region
	list         []Segment
}

// walk goes through regions in order, no two of which cover the same.
func (s *segmenter) walk(regions []Region) []Segment {
	s.active, s.list = s.active[:0], slices.Grow(s.list[:0], 2*len(regions))
	for i := range regions {
		r := &regions[i]
		start := r.start()
		s.complete(start)
		last := i+1 == len(regions)
		if start == r.end() {
			// It never is active. At the very end there is no count.
			skipped := last || r.Kind == Skipped
			from := r
			if n := len(s.active); n > 0 {
				from = s.active[n-1]
			}
			s.add(from, start, r.Kind != Gap, skipped)
			if skipped && len(s.active) > 0 {
				s.add(from, start, false, false)
			}
			continue
		}
		if last || regions[i+1].start() != start {
			s.add(r, start, r.Kind != Gap, false)
		}
		s.active = append(s.active, r)
	}
	if len(s.active) > 0 {
		s.end(nil, 0)
	}
	return s.list
}

// complete ends the active regions that end at or before start.
func (s *segmenter) complete(start place) {
	stay, gone := s.active[:0], s.gone[:0]
	for _, r := range s.active {
		if start.less(r.end()) {
			stay = append(stay, r)
		} else {
			gone = append(gone, r)
		}
	}
	s.active, s.gone = append(stay, gone...), gone
	if len(gone) > 0 {
		s.end(&start, len(stay))
	}
}

// end ends the active regions from number first on; next is where the next region begins, nil if there is none.
func (s *segmenter) end(next *place, first int) {
	gone := s.active[first:]
	slices.SortStableFunc(gone, func(a, b *Region) int {
		return cmp.Or(cmp.Compare(a.EndLine, b.EndLine), cmp.Compare(a.EndColumn, b.EndColumn))
	})
	for i := 1; i < len(gone); i++ {
		at := gone[i-1].end()
		if next != nil && at == *next {
			break
		}
		if at == gone[i].end() {
			continue
		}
		// The count of the last one that ends where this one does.
		with := i
		for j := i + 1; j < len(gone) && gone[j].end() == gone[i].end(); j++ {
			with = j
		}
		s.add(gone[with], at, false, false)
	}
	last := gone[len(gone)-1]
	if at := last.end(); next == nil || at != *next {
		if first > 0 {
			s.add(s.active[first-1], at, false, false)
		} else {
			s.add(last, at, false, true)
		}
	}
	s.active = s.active[:first]
}

// add adds a segment with the count of a region, or without a count.
func (s *segmenter) add(r *Region, at place, entry, skipped bool) {
	hasCount := !skipped && r.Kind != Skipped
	if n := len(s.list); n > 0 && !entry && !skipped {
		if l := &s.list[n-1]; l.HasCount == hasCount && l.Count == r.Count && !l.Entry {
			return
		}
	}
	segment := Segment{Line: at.line, Column: at.column, Entry: entry}
	if hasCount {
		segment.Count, segment.HasCount, segment.Gap = r.Count, true, r.Kind == Gap
	}
	s.list = append(s.list, segment)
}

// starts tells whether code begins at the segment.
func (s *Segment) starts() bool { return s.Entry && s.HasCount && !s.Gap }

// lineCounts gives do the lines that have code, ascending.
func lineCounts(list []Segment, rules *Rules, do func(LineCount)) {
	var wrapped *Segment // the last one before the line
	for i := 0; i < len(list); {
		number := list[i].Line
		end := i
		for end < len(list) && list[end].Line == number {
			end++
		}
		if l, ok := lineOf(list[i:end], wrapped, rules); ok {
			l.Number = number
			do(l)
		}
		wrapped = &list[end-1]
		if end < len(list) && wrapped.HasCount {
			for n := number + 1; n < list[end].Line; n++ {
				do(LineCount{Number: n, Count: wrapped.Count})
			}
		}
		i = end
	}
}

// lineOf is a line on which segments begin.
func lineOf(here []Segment, wrapped *Segment, rules *Rules) (l LineCount, mapped bool) {
	starts := false
	if wrapped != nil {
		l.Count = wrapped.Count
		mapped = wrapped.HasCount
	}
	for i := range here {
		s := &here[i]
		if s.starts() {
			starts = true
			l.Count = max(l.Count, s.Count)
			l.Missed = l.Missed || s.Count == 0
		}
	}
	mapped = mapped || starts
	if first := &here[0]; first.Entry && !first.HasCount {
		mapped = false
	}
	if rules.Version >= 17 {
		// Up to 16 a line that begins with what was skipped has no count.
		mapped = mapped || slices.ContainsFunc(here, func(s Segment) bool { return s.Entry && s.HasCount })
	}
	return l, mapped
}
