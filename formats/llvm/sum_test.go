package llvm

import (
	"errors"
	"fmt"
	"testing"
)

// TestManyHashes adds a function with many hashes, twice.
func TestManyHashes(t *testing.T) {
	profile := func() *Profile {
		p := &Profile{Format: Indexed, Version: 12}
		for hash := range uint64(5000) {
			p.Counted = append(p.Counted, Counted{Name: "f", NameHash: HashOf("f"), Hash: hash, Counts: []uint64{hash}})
		}
		return p
	}
	x := new(Indexer)
	for range 2 {
		if others, err := x.Add(profile()); err != nil || others != nil {
			t.Fatal(others, err)
		}
	}
	counted := x.Profile().Counted
	if len(counted) != 5000 || counted[4000].Counts[0] != 8000 {
		t.Errorf("%d hashes, %v", len(counted), counted[min(4000, len(counted)-1)])
	}
}

// TestOldBitmaps mixes bitmaps of LLVM 18 and others: their bits mean other things, and are never added.
func TestOldBitmaps(t *testing.T) {
	profile := func(old bool, bits byte) *Profile {
		c := Counted{Name: "f", NameHash: HashOf("f"), Hash: 1, Counts: []uint64{1}, Bitmap: []byte{bits}}
		return &Profile{Format: Raw, OldBitmaps: old, Counted: []Counted{c}}
	}
	x := new(Indexer)
	_, _ = x.Add(profile(true, 1))
	if _, err := x.Add(profile(false, 2)); !errors.Is(err, ErrOldBitmaps) {
		t.Errorf("an indexed profile of both: %v", err)
	}
	for _, order := range [][]bool{{true, false}, {false, true}} {
		f := new(distinct)
		for _, old := range order {
			s := NewSum()
			if _, err := s.Add(profile(old, 1+byte(b2u(old)))); err != nil {
				t.Fatal(err)
			}
			f.take(s, &Record{NameHash: HashOf("f"), Hash: 1})
		}
		if got := fmt.Sprint(f.counts, f.bitmap, f.old, f.mixed); got != "[2] [1] false true" {
			t.Errorf("old %v: %s", order, got)
		}
	}
}
