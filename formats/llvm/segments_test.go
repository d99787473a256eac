package llvm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSegmentsOfFile compares segments that are made function by function with those of all regions sorted at once.
func TestSegmentsOfFile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shortcuts := 0
	for range 3000 {
		rules := Rules{Version: 9 + r.IntN(15), Bytes: r.IntN(4) == 0}
		c := &Coverage{byFile: make(map[string][]*Function), rules: rules}
		for i := range 1 + r.IntN(8) {
			line := uint32(1 + 10*r.IntN(4))
			f := &Function{Files: []string{"a.c", "b.h"}[:1+r.IntN(2)]}
			if r.IntN(3) == 0 && i > 0 { // an instance
				of := c.Functions[r.IntN(i)]
				f.Files, f.Regions = of.Files, slices.Clone(of.Regions)
				for k := range f.Regions {
					f.Regions[k].Count = r.Uint64N(3)
				}
			} else {
				for range r.IntN(6) {
					g := Region{Kind: RegionKind(r.IntN(4)), File: r.IntN(len(f.Files)), Line: line + uint32(r.IntN(12)), Column: uint32(1 + r.IntN(4)), Count: r.Uint64N(3)}
					g.EndLine, g.EndColumn = g.Line+uint32(r.IntN(4)), g.Column+uint32(r.IntN(4))
					f.Regions = append(f.Regions, g)
				}
			}
			f.Main = f.mainFile()
			c.add(f)
		}
		for _, name := range c.Files() {
			var all []*Region
			for _, f := range c.byFile[name] {
				for i := range f.Regions {
					if f.Files[f.Regions[i].File] == name {
						all = append(all, &f.Regions[i])
					}
				}
			}
			if got, want := c.Segments(name), segments(all, &rules); !slices.Equal(got, want) {
				t.Fatalf("%+v: %s: %v, of all at once %v", rules, name, got, want)
			}
			if len(c.gather(nil, name)) < len(all) {
				shortcuts++
			}
		}
		for _, f := range c.Functions {
			if f.Main < 0 {
				continue
			}
			var want Ratio
			lineCounts(segments(f.regionsIn(f.Main), &rules), &rules, func(l LineCount) { want.count(l.Count > 0) })
			if got := c.linesOf(f); got != want {
				t.Fatalf("%+v: %v lines, by segments %v of %+v", rules, got, want, f.Regions)
			}
		}
	}
	if shortcuts < 100 {
		t.Errorf("regions of instances were added up before in %d files", shortcuts)
	}
}

// TestBytesOfInstances: instances that ran are one count up to LLVM 19, and added by later ones.
func TestBytesOfInstances(t *testing.T) {
	for version, want := range map[int]uint64{19: 1, 20: 2, 22: 2} {
		c := &Coverage{byFile: make(map[string][]*Function), rules: Rules{Version: version, Bytes: true}}
		for range 2 {
			f := &Function{Files: []string{"a.h"}, Regions: []Region{{Line: 1, Column: 1, EndLine: 3, EndColumn: 2, Count: 1}}}
			f.Main = f.mainFile()
			c.add(f)
		}
		if got := c.Segments("a.h"); len(got) == 0 || got[0].Count != want {
			t.Errorf("LLVM %d: %+v, want a count of %d", version, got, want)
		}
	}
}
