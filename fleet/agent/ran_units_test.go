//go:build linux

package agent

import (
	"fmt"
	"slices"
	"testing"

	"footfall/coverage"
	"footfall/fleet/units"
)

// TestRanCounters has counters that are set one by one be those of the file with these counts.
func TestRanCounters(t *testing.T) {
	file := func(count func(fn, instance int) int64) *coverage.File {
		f := &coverage.File{Name: "a.cc"}
		for i := range 40 {
			fn := &coverage.Function{Name: fmt.Sprint("f", i), StartLine: int32(i + 1), Count: count(i, -1)}
			for k := range 1 + i%3 {
				fn.Instances = append(fn.Instances, coverage.Instance{Name: fmt.Sprint("f", i, k), Count: count(i, k)})
			}
			f.Functions = append(f.Functions, fn)
		}
		return f
	}
	ran := func(fn, instance int) int64 {
		if fn%4 == 1 && instance <= fn%2 {
			return 1
		}
		return 0
	}
	unknown := make([]bool, 40)
	counted := units.OfRan(file(ran), unknown)
	want := counted.Hits
	unit, at, counters := ranUnitOf(file(ran))
	zero := units.OfRan(file(func(int, int) int64 { return 0 }), unknown).Unit
	if unit.Hash() != counted.Unit.Hash() || unit.Hash() != zero.Hash() {
		t.Error("the unit is another one")
	}
	if counters+len(unknown) != len(want) {
		t.Fatalf("%d counters, want %d", counters+len(unknown), len(want))
	}
	got := make([]uint64, len(want))
	for i := range unknown {
		for k := -1; k < 1+i%3; k++ {
			got[at[0]] = uint64(ran(i, k))
			at = at[1:]
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}
