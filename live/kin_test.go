//go:build linux

package live

import "testing"

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
