package gcov

import (
	"math/rand/v2"
	"testing"
)

// Data files may list functions in any order, leave out some, and name one twice: the last counts.
func TestDataFunctionsFind(t *testing.T) {
	var d dataFunctions
	for _, n := range []int{0, 1, 2, 3, 64, 65, 1000} {
		d.reset()
		last := make(map[uint32]int32)
		for i := range n {
			ident := rand.Uint32N(uint32(4*n)) << (i % 20)
			d.list = append(d.list, dataFunction{ident: ident, lineChecksum: uint32(i)})
			last[ident] = int32(i)
		}
		for range 4 * n {
			ident := rand.Uint32N(uint32(4*n)) << rand.Uint32N(20)
			d.cursor = n // as if the order did not help
			found := d.find(ident)
			i, known := last[ident]
			if (found != nil) != known || known && found.lineChecksum != uint32(i) {
				t.Fatalf("of %d functions %d: %+v, want number %d, %t", n, ident, found, i, known)
			}
			if known && d.cursor != int(i)+1 {
				t.Fatalf("goes on at %d, want %d", d.cursor, i+1)
			}
		}
	}
}

// Counters of functions are apart, however many they are, and stay where they are.
func TestShardCounters(t *testing.T) {
	var sh shard
	sizes := []int32{3, 0, counterBlock, 5, 3 * counterBlock, 0, 1, counterBlock - 2, 2, 7 * counterBlock, counterBlock + 1}
	for i := range int32(5 * listBlock) {
		d := distinct{line: uint32(i), arcs: sizes[int(i)%len(sizes)], conditions: i % 2 * 2}
		d.counters = sh.room(int(d.arcs + d.conditions))
		if n := sh.add(d); n != i {
			t.Fatalf("function %d is number %d", i, n)
		}
		for k := range sh.countersOf(&d) {
			sh.countersOf(&d)[k] = int64(i)
		}
	}
	for i := range sh.n {
		d := sh.at(i)
		c := sh.countersOf(d)
		if d.line != uint32(i) || len(c) != int(d.arcs+d.conditions) {
			t.Fatalf("function %d: %+v with %d counters", i, d, len(c))
		}
		for _, n := range c {
			if n != int64(i) {
				t.Fatalf("function %d has a counter of %d", i, n)
			}
		}
	}
}
