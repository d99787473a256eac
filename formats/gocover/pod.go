package gocover

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

const (
	metaPrefix     = "covmeta."
	countersPrefix = "covcounters."
)

// IsMetaName tells whether a program would call a file of meta-data so.
func IsMetaName(name string) bool { return strings.HasPrefix(filepath.Base(name), metaPrefix) }

// IsCountersName tells whether a program would call a file of counters so.
func IsCountersName(name string) bool { return strings.HasPrefix(filepath.Base(name), countersPrefix) }

// MetaName is what a program calls its file of meta-data.
func MetaName(h Hash) string { return metaPrefix + h.String() }

// CountersName is what a process calls its file of counters that it writes at a time, in nanoseconds since 1970.
func CountersName(h Hash, pid int, nanoseconds int64) string {
	return fmt.Sprintf("%s%v.%d.%d", countersPrefix, h, pid, nanoseconds)
}

// A Pod is a program and what its runs have counted together.
type Pod struct {
	*Meta
	// Counts are those of a package's function, nil if it never ran.
	Counts [][][]uint64
	// Overflows tells that a count that Add has made was larger than 32 bits, which it then is at most.
	Overflows bool
}

// NewPod is a program without runs.
func NewPod(m *Meta) *Pod {
	p := &Pod{Meta: m, Counts: make([][][]uint64, len(m.Packages))}
	for i := range m.Packages {
		p.Counts[i] = make([][]uint64, len(m.Packages[i].Functions))
	}
	return p
}

// ErrOtherProgram is why counters do not belong to a program.
var ErrOtherProgram = errors.New("counters of another program")

// Add adds runs. Counters of functions that the program does not have are left out, and told in the error.
func (p *Pod) Add(c *Counters) error {
	if c.Hash != p.Hash {
		return ErrOtherProgram
	}
	bad := 0
	var first error
	for i := range c.Segments {
		for j := range c.Segments[i].Functions {
			f := &c.Segments[i].Functions[j]
			if err := p.check(f); err != nil {
				if bad++; first == nil {
					first = err
				}
				continue
			}
			p.add(f)
		}
	}
	if bad > 0 {
		return fmt.Errorf("counters of %d functions are left out: %w", bad, first)
	}
	return nil
}

func (p *Pod) check(f *FunctionCounters) error {
	if uint64(f.Package) >= uint64(len(p.Packages)) || uint64(f.Function) >= uint64(len(p.Packages[f.Package].Functions)) {
		return fmt.Errorf("%v: the program has no such", f)
	}
	if n := len(p.units(f)); len(f.Counts) != n {
		return fmt.Errorf("%v: %d counters for %d blocks", f, len(f.Counts), n)
	}
	return nil
}

// units are what the counters of a function are of.
func (p *Pod) units(f *FunctionCounters) []CoverableUnit {
	return p.Packages[f.Package].Functions[f.Function].Units
}

func (p *Pod) add(f *FunctionCounters) {
	to := &p.Counts[f.Package][f.Function]
	if *to == nil {
		*to = make([]uint64, len(f.Counts))
	}
	for i, n := range f.Counts {
		sum, over := addCounts(p.Mode, uint32(min((*to)[i], math.MaxUint32)), n)
		(*to)[i] = uint64(sum)
		p.Overflows = p.Overflows || over
	}
}

// addCounts adds counts as their mode wants. A sum that is too large is the largest.
func addCounts(mode Mode, a, b uint32) (sum uint32, over bool) {
	if mode == Set {
		return min(a|b, 1), false
	}
	if uint64(a)+uint64(b) > math.MaxUint32 {
		return math.MaxUint32, true
	}
	return a + b, false
}

// Subtract takes away what was counted until an earlier time of the same run: of counters that only tell whether a block
// ran, and of those that were set to zero since, what is there now stays.
func (c *Counters) Subtract(mode Mode, earlier *Counters) {
	type key struct{ pkg, function uint32 }
	before := make(map[key][]uint32)
	for i := range earlier.Segments {
		for _, f := range earlier.Segments[i].Functions {
			before[key{f.Package, f.Function}] = f.Counts
		}
	}
	for i := range c.Segments {
		for _, f := range c.Segments[i].Functions {
			was := before[key{f.Package, f.Function}]
			if len(was) != len(f.Counts) {
				continue
			}
			for k, n := range was {
				switch {
				case mode == Set && n != 0:
					f.Counts[k] = 0
				case f.Counts[k] >= n:
					f.Counts[k] -= n
				}
			}
		}
	}
}

// Sum is what c and more, of the same program, have counted together, as if it were one run: that of c.
func (c *Counters) Sum(mode Mode, more *Counters) *CounterSegment {
	type key struct{ pkg, function uint32 }
	sum := new(CounterSegment)
	at := make(map[key]int)
	for _, all := range [][]CounterSegment{c.Segments, more.Segments} {
		for i := range all {
			if sum.Arguments == nil {
				sum.Arguments = all[i].Arguments
			}
			for _, f := range all[i].Functions {
				k := key{f.Package, f.Function}
				n, known := at[k]
				if !known || len(sum.Functions[n].Counts) != len(f.Counts) {
					at[k] = len(sum.Functions)
					f.Counts = slices.Clone(f.Counts)
					sum.Functions = append(sum.Functions, f)
					continue
				}
				for j, count := range f.Counts {
					to := &sum.Functions[n].Counts[j]
					*to, _ = addCounts(mode, *to, count)
				}
			}
		}
	}
	return sum
}
