//go:build linux

package live

import (
	"slices"
	"testing"

	"footfall/process"
)

// TestRegionsOfRanges: counters that follow each other in the buffer, but not in memory, are where the ranges are.
func TestRegionsOfRanges(t *testing.T) {
	l := &layout{plan: &plan{ranges: []process.MemoryRange{
		{Addr: 0x1000, Bytes: make([]byte, 8*10)},
		{Addr: 0x9000, Bytes: make([]byte, 8*4)},
		{Addr: 0xf000, Bytes: make([]byte, 8*6)},
	}}}
	sums := []mark{{2, 4, false}, {6, 16, false}, {17, 20, false}}
	l.regions = l.regionsOf(sums)
	want := []uint64{2: 0x1010, 3: 0x1018, 6: 0x1030, 9: 0x1048, 10: 0x9000, 13: 0x9018, 14: 0xf000, 15: 0xf008, 17: 0xf018, 19: 0xf028}
	for word, addr := range want {
		if got, _ := l.addressOf(word); addr != 0 && got != addr {
			t.Errorf("word %d is at %#x, want %#x", word, got, addr)
		}
	}
	for _, r := range l.regions {
		if r.sums[0].from != r.from || r.sums[len(r.sums)-1].to != r.to {
			t.Errorf("region of words %d to %d: counters in %v", r.from, r.to, r.sums)
		}
	}
	if !slices.Equal(sums, []mark{{2, 4, false}, {6, 16, false}, {17, 20, false}}) {
		t.Errorf("the counters are %v now", sums)
	}
}
