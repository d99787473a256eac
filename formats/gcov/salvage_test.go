package gcov

import (
	"encoding/binary"
	"slices"
	"testing"
)

// endlessLists are notes of a function with so many lists of lines, none of which has an
// end: each goes on to the end of the file.
func endlessLists(lists int) []byte {
	words := func(b []byte, words ...uint32) []byte {
		for _, w := range words {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	const a, name = 'a', 1
	b := words([]byte("oncg*21B"), 0, name, a, 0)
	b = words(b, TagFunction, 12, 1, 2, 3, name, a, 0, name, a, 1, 1, 1, 1)
	b = words(b, TagBlocks, 1, 3)
	for range lists {
		b = words(b, TagLines, 3, 2, 7, 7)
	}
	return b
}

// TestEndlessLists: lists of lines that go on over all others are not read again and again.
func TestEndlessLists(t *testing.T) {
	for lists, whole := range map[int]bool{3: true, 20000: false} {
		b := endlessLists(lists)
		n, damage := SalvageNotes(b)
		if len(n.Functions) != 1 || n.Functions[0].Blocks != 3 {
			t.Fatalf("%d lists: %+v, %v", lists, n, damage)
		}
		lines := 0
		for _, l := range n.Functions[0].Locations {
			lines += len(l.Lines)
		}
		if lines < 2*lists || 4*lines > MostBeyond(b)+len(b) {
			t.Errorf("%d lists: %d lines", lists, lines)
		}
		if cut := slices.ContainsFunc(damage, func(d Damage) bool { return d.Message == ":corrupted" }); cut == whole {
			t.Errorf("%d lists: %v", lists, damage)
		}
	}
}
