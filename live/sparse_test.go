//go:build linux

package live

import (
	"slices"
	"testing"
)

// TestBeingCleared has counters in all states between those that a child has inherited and those
// that it has counted itself.
func TestBeingCleared(t *testing.T) {
	l := &layout{sums: []mark{{from: 1, to: 4}, {from: 5, to: 7}}}
	inherited := l.sparseOf(words{9, 3, 0, 1, 9, 0, 2})
	for _, c := range []struct {
		w    words
		want bool
	}{
		{words{0, 3, 0, 1, 0, 0, 2}, false}, // not begun
		{words{7, 0, 0, 1, 7, 0, 2}, true},
		{words{0, 0, 0, 0, 0, 0, 2}, true},
		{words{0, 3, 0, 1, 0, 0, 0}, true},  // in whatever order
		{words{0, 0, 0, 0, 0, 0, 0}, false}, // done
		{words{0, 0, 1, 0, 0, 0, 2}, false}, // counted since
		{words{0, 0, 0, 1, 0, 0, 1}, false},
		{words{0, 4, 0, 1, 0, 0, 2}, false},
	} {
		if got := l.beingCleared(inherited, c.w); got != c.want {
			t.Errorf("%v: %v", c.w, got)
		}
	}
}

// TestPartOf: a page that is the same in the next child is kept once, and what an earlier child has inherited does not change.
func TestPartOf(t *testing.T) {
	r := &region{addr: 0x1000, from: 10, to: 14, sums: []mark{{from: 10, to: 12}, {from: 13, to: 14}}}
	l := new(layout)
	first := l.partOf(r, r.addr, words{5, 0, 9, 7}.bytes())
	if again := l.partOf(r, r.addr, words{5, 0, 9, 7}.bytes()); again != first {
		t.Error("kept twice")
	}
	second := l.partOf(r, r.addr, words{6, 0, 9, 7}.bytes())
	for _, c := range []struct {
		part *sparsePart
		want words
	}{{first, words{5, 0, 0, 7}}, {second, words{6, 0, 0, 7}}} {
		w := make(words, 14)
		for i, at := range c.part.at {
			w[at] = c.part.value[i]
		}
		if !slices.Equal(w[10:], c.want) {
			t.Errorf("%v, want %v", w[10:], c.want)
		}
	}
}
