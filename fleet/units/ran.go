package units

import (
	"cmp"
	"slices"

	"footfall/coverage"
	"footfall/fleet/store"
)

// Ran is the kind of units that are functions of programs without counters, of a source or, where it is not known which
// source they are of, of the program's file. The program is as of the kind [Lines], with no lines. Its counters are those that
// it has then, and behind them one for each function, in order: that it was not known whether it ran. The first ones are no
// counts, only different from 0 if it ran.
const Ran = "ran"

// OfRan returns the unit of functions, which stay as they are. unknown tells of each whether it is not known if it ran.
func OfRan(f *coverage.File, unknown []bool) Counted {
	counted := Of(f)
	for _, is := range unknown {
		h := uint64(0)
		if is {
			h = 1
		}
		counted.Hits = append(counted.Hits, h)
	}
	counted.Unit.Kind, counted.Unit.Counters = Ran, len(counted.Hits)
	return counted
}

// unknowns reads what is behind the counters that Lines has, and leaves those functions out of which it is not known whether they
// ran: in no batch they did, and in one it was not known.
func (c *codec) unknowns(f *coverage.File) {
	f.Functions = slices.DeleteFunc(f.Functions, func(fn *coverage.Function) bool {
		return c.hit(0) > 0 && fn.Count == 0
	})
}

// once makes functions that ran have run once: how often is not known, only how many said so.
func once(f *coverage.File) {
	for _, fn := range f.Functions {
		fn.Count = min(fn.Count, 1)
		for i := range fn.Instances {
			fn.Instances[i].Count = min(fn.Instances[i].Count, 1)
		}
	}
}

// functionsOfRan are those of a unit of the kind Ran.
func functionsOfRan(u *store.Unit) ([]CountedFunction, error) {
	list, err := functionsOfLines(u)
	// Their counters are in the order of the functions as they were written.
	slices.SortFunc(list, func(a, b CountedFunction) int { return cmp.Compare(a.Counters[0], b.Counters[0]) })
	for i := range list {
		list[i].Unknown = int32(u.Counters - len(list) + i)
	}
	return list, err
}
