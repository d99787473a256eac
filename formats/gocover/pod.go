package gocover

import (
	"errors"
	"fmt"
	"math"
)

// A Pod is a program, and what its processes counted together.
type Pod struct {
	*Meta
	// Overflown is set if a count was too large: it stays at the largest.
	Overflown bool

	counts map[place][]uint32
}

// A place is a function of a program.
type place struct{ pkg, function uint32 }

// NewPod returns a program in which nothing ran.
func NewPod(m *Meta) *Pod { return &Pod{Meta: m, counts: make(map[place][]uint32)} }

// ErrOtherProgram is why counts cannot be added.
var ErrOtherProgram = errors.New("its counts are of another program than the covmeta file of that name")

// Add adds counts, which are the pod's from then on. The errors are of what does not fit the program, and is left out.
func (p *Pod) Add(c *Counters) (failed []error) {
	if c.Hash != p.Hash {
		return []error{ErrOtherProgram}
	}
	for i := range c.Segments {
		for _, f := range c.Segments[i].Counted {
			if err := p.add(f); err != nil {
				failed = append(failed, err)
			}
		}
	}
	return failed
}

func (p *Pod) add(c Counted) error {
	if uint64(c.Package) >= uint64(len(p.Packages)) || uint64(c.Function) >= uint64(len(p.Packages[c.Package].Functions)) {
		return fmt.Errorf("counts of function %d of package %d, which are not there", c.Function, c.Package)
	}
	f := &p.Packages[c.Package].Functions[c.Function]
	want := len(f.Units)
	if p.Granularity == PerFunction {
		want = min(want, 1)
	}
	if len(c.Counts) != want {
		return fmt.Errorf("function %s has %d counts, expected %d", f.Name, len(c.Counts), want)
	}
	at := place{c.Package, c.Function}
	have := p.counts[at]
	if have == nil {
		p.counts[at] = c.Counts
		return nil
	}
	for i, n := range c.Counts {
		sum, overflown := added(have[i], n, p.Mode)
		have[i], p.Overflown = sum, p.Overflown || overflown
	}
	return nil
}

// added adds counts of a mode.
func added(a, b uint32, mode Mode) (sum uint32, overflown bool) {
	switch {
	case mode == Set:
		return min(max(a, b), 1), false
	case a > math.MaxUint32-b:
		return math.MaxUint32, true
	}
	return a + b, false
}

// Each gives do each function, with the count of unit i.
func (p *Pod) Each(do func(pkg *Package, f *Function, count func(i int) uint32)) {
	for i := range p.Packages {
		pkg := &p.Packages[i]
		for k := range pkg.Functions {
			counts := p.counts[place{uint32(i), uint32(k)}]
			do(pkg, &pkg.Functions[k], func(i int) uint32 {
				switch {
				case counts == nil:
					return 0
				case p.Granularity == PerFunction:
					return counts[0]
				}
				return counts[i]
			})
		}
	}
}
