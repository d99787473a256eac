package tool

import (
	"fmt"
	"math"

	"footfall/formats/gocover"
)

// An adder adds counters as Go's tool does: with the mode of the programs so far.
type adder struct {
	mode        gocover.Mode
	granularity gocover.Granularity
	relaxed     bool // programs may have several modes
}

// program takes the mode of the next program.
func (a *adder) program(name string, m *gocover.Meta) error {
	if a.mode == 0 {
		a.mode, a.granularity = m.Mode, m.Granularity
		return nil
	}
	if a.granularity != m.Granularity {
		return fmt.Errorf("counter granularity clash while reading meta-data file %s: previous file had %v, new file has %v", name, a.granularity, m.Granularity)
	}
	if a.mode != m.Mode && !a.relaxed {
		return fmt.Errorf("counter mode clash while reading meta-data file %s: previous file had %v, new file has %v", name, a.mode, m.Mode)
	}
	a.mode = max(a.mode, m.Mode)
	return nil
}

// add adds counters to others.
func (a *adder) add(to, counts []uint32) (over bool, err error) {
	if len(to) != len(counts) {
		return false, fmt.Errorf("merging counters: len(dst)=%d len(src)=%d", len(to), len(counts))
	}
	for i, n := range counts {
		if a.mode == gocover.Set {
			if n != 0 {
				to[i] = 1
			}
			continue
		}
		var o bool
		to[i], o = saturating(to[i], n)
		over = over || o
	}
	return over, nil
}

func saturating(a, b uint32) (sum uint32, over bool) {
	if uint64(a)+uint64(b) > math.MaxUint32 {
		return math.MaxUint32, true
	}
	return a + b, false
}

// added adds the counters of a file to those of the files before.
func (r *run) added(a *adder, all map[functionKey][]uint32, f *gocover.FunctionCounters) error {
	to := all[keyOf(f)]
	if len(to) < len(f.Counts) {
		to = append(to, make([]uint32, len(f.Counts)-len(to))...)
	}
	over, err := a.add(to, f.Counts)
	if err != nil {
		return err
	}
	if over {
		r.warn("uint32 overflow during counter merge")
	}
	all[keyOf(f)] = to
	return nil
}
