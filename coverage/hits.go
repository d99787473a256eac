package coverage

import (
	"encoding/binary"
	"iter"
	"slices"
)

// Hits are lines that ran and how often each did, packed: a thousand tests of
// the same hundred thousand lines are a few hundred megabytes at most. For each
// line, ascending, there are two numbers as of encoding/binary.AppendUvarint:
// the distance from the line before (from 0 for the first), and the count. Both
// are more than 0, but for the counts of lines of instances and expansions that did not run.
type Hits []byte

// AppendHits appends the lines that ran to h, which must be empty or end before
// the first of them.
func AppendHits(h Hits, lines []Line) Hits {
	last := h.last()
	for i := range lines {
		if l := &lines[i]; l.Count > 0 && l.Number > last {
			h = h.Add(&last, l.Number, l.Count)
		}
	}
	return h
}

// Add appends a line, which is behind last, the last one so far (0: none), and
// sets last to it.
func (h Hits) Add(last *int32, line int32, count int64) Hits {
	h = binary.AppendUvarint(h, uint64(line-*last))
	*last = line
	return binary.AppendUvarint(h, uint64(count))
}

func (h Hits) last() int32 {
	last := int32(0)
	for line := range h.All() {
		last = line
	}
	return last
}

// All returns the lines and their counts.
func (h Hits) All() iter.Seq2[int32, int64] {
	return func(yield func(int32, int64) bool) {
		c := hitsCursor{rest: h}
		for c.next() {
			if !yield(c.line, c.count) {
				return
			}
		}
	}
}

// Keep returns the hits of lines that keep wants.
func (h Hits) Keep(keep func(line int32) bool) Hits {
	if len(h) == 0 {
		return nil
	}
	kept, last := make(Hits, 0, len(h)), int32(0)
	for line, count := range h.All() {
		if keep(line) {
			kept = kept.Add(&last, line, count)
		}
	}
	return kept
}

// A hitsCursor stands at one line of hits after another.
type hitsCursor struct {
	rest  Hits
	line  int32 // 0 at the end
	count int64
}

func (c *hitsCursor) next() bool {
	distance, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.line = 0
		return false
	}
	count, m := binary.Uvarint(c.rest[n:])
	c.line, c.count = c.line+int32(distance), int64(count)
	c.rest = c.rest[n+m:]
	return true
}

// Merge returns both together.
func (h Hits) Merge(other Hits) Hits {
	switch {
	case len(h) == 0:
		return slices.Clone(other)
	case len(other) == 0:
		return h
	}
	a, b := hitsCursor{rest: h}, hitsCursor{rest: other}
	out := make(Hits, 0, max(len(h), len(other))+16)
	last := int32(0)
	a.next()
	b.next()
	for a.line > 0 || b.line > 0 {
		switch {
		case b.line == 0 || a.line > 0 && a.line < b.line:
			out = out.Add(&last, a.line, a.count)
			a.next()
		case a.line == 0 || b.line < a.line:
			out = out.Add(&last, b.line, b.count)
			b.next()
		default:
			out = out.Add(&last, a.line, addCounts(a.count, b.count))
			a.next()
			b.next()
		}
	}
	return out
}
