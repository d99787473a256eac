//go:build linux

package agent

import (
	"slices"

	"footfall/collect"
	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/fleet/units"
)

// This file is which counters the functions of a program without counters are.

// ranUnits are the units of a program whose functions are watched.
type ranUnits struct {
	units  []ranUnit
	places []ranPlace // of the program's functions, by number
}

// A ranUnit is one of them.
type ranUnit struct {
	hash      store.Hash
	counters  int
	functions int      // behind whose counters there is one for each: that it is not known whether it ran
	seen      []uint64 // a bit for each counter that is on its way
}

// A ranPlace is which counters of a unit, which is 1 + its number, say that a function ran: its own, and that of the function of the
// file that it is part of, or all of it; and the number of that.
type ranPlace struct{ unit, own, whole, function uint32 }

func newRanUnits(p *collect.RanProgram) *ranUnits {
	return &ranUnits{places: make([]ranPlace, len(p.Functions))}
}

// add adds a unit, which is that of functions of a file, which has these counters.
func (u *ranUnits) add(p *collect.RanProgram, hash store.Hash, f *collect.RanFile, at []uint32, counters int) {
	u.units = append(u.units, ranUnit{hash: hash, counters: counters + len(f.Functions), functions: len(f.Functions), seen: make([]uint64, (counters+63)/64)})
	for i, members := range f.Members {
		instances := f.Functions[i].Instances
		whole := at[0]
		for _, n := range members {
			k := 0
			if len(instances) > 1 {
				name := p.Functions[n].InstanceName()
				k = slices.IndexFunc(instances, func(in coverage.Instance) bool { return in.Name == name })
			}
			u.places[n] = ranPlace{uint32(len(u.units)), at[1+k], whole, uint32(i)}
		}
		at = at[1+len(instances):]
	}
}

// ranUnitOf returns the unit of a file, and which counters the functions of the file have, each followed by those of its instances;
// they are the first ones of the unit. It finds them by what is counted: no two of these count the same.
func ranUnitOf(f *coverage.File) (unit store.Unit, at []uint32, counters int) {
	label := int64(0)
	next := func() int64 { label++; return label }
	for _, fn := range f.Functions {
		fn.Count = next()
		for k := range fn.Instances {
			fn.Instances[k].Count = next()
		}
	}
	at = make([]uint32, label)
	counted := units.OfRan(f, make([]bool, len(f.Functions)))
	counters = len(counted.Hits) - len(f.Functions)
	for i, h := range counted.Hits[:counters] {
		at[h-1] = uint32(i)
	}
	return counted.Unit, at, counters
}

// A ranCounter is a counter of a unit, by the number of that.
type ranCounter struct{ unit, counter uint32 }

// usage is what is known of the functions: that they ran, unless that is on its way, and that it is not known; and the latter alone.
// What ran is fresh.
func (u *ranUnits) usage(p *collect.RanProgram) (usage []store.Usage, unknown []packedVector, fresh []ranCounter) {
	for i, hits := range u.vectors(p) {
		if hits == nil {
			continue
		}
		unit := &u.units[i]
		counters := unit.counters - unit.functions
		if slices.ContainsFunc(hits[counters:], isHit) {
			only := slices.Concat(make([]uint64, counters), hits[counters:])
			unknown = append(unknown, packedVector{unit.hash, unit.counters, store.PackVector(only)})
		}
		for k, h := range hits[:counters] {
			switch {
			case h == 0:
			case unit.seen[k/64]&(1<<(k%64)) != 0:
				hits[k] = 0
			default:
				fresh = append(fresh, ranCounter{uint32(i), uint32(k)})
			}
		}
		if slices.ContainsFunc(hits, isHit) {
			usage = append(usage, store.Usage{Unit: unit.hash, Hits: hits})
		}
	}
	return usage, unknown, fresh
}

// vectors are the counters of each unit; nil: they are all 0.
func (u *ranUnits) vectors(p *collect.RanProgram) [][]uint64 {
	vectors := make([][]uint64, len(u.units))
	for n, fn := range p.Functions {
		at := u.places[n]
		if at.unit == 0 || !fn.Ran && fn.Unknown == 0 {
			continue
		}
		unit := &u.units[at.unit-1]
		hits := vectors[at.unit-1]
		if hits == nil {
			hits = make([]uint64, unit.counters)
			vectors[at.unit-1] = hits
		}
		if fn.Ran {
			hits[at.own], hits[at.whole] = 1, 1
		} else {
			hits[unit.counters-unit.functions+int(at.function)] = 1
		}
	}
	for _, at := range u.places { // where another part ran that is known
		if at.unit > 0 && vectors[at.unit-1] != nil && vectors[at.unit-1][at.whole] > 0 {
			unit := &u.units[at.unit-1]
			vectors[at.unit-1][unit.counters-unit.functions+int(at.function)] = 0
		}
	}
	return vectors
}

func isHit(h uint64) bool { return h > 0 }

// note notes what is on its way.
func (u *ranUnits) note(fresh []ranCounter) {
	for _, c := range fresh {
		u.units[c.unit].seen[c.counter/64] |= 1 << (c.counter % 64)
	}
}

// forget has all be sent again.
func (u *ranUnits) forget() {
	for i := range u.units {
		clear(u.units[i].seen)
	}
}

// A packedVector is the counters of a unit.
type packedVector struct {
	unit     store.Hash
	counters int
	packed   []byte
}

// unpackAll are the vectors.
func unpackAll(list []packedVector) []store.Usage {
	usage := make([]store.Usage, len(list))
	for i, v := range list {
		hits, err := store.UnpackVector(v.packed, v.counters)
		if err != nil {
			panic(err) // it was packed by us
		}
		usage[i] = store.Usage{Unit: v.unit, Hits: hits}
	}
	return usage
}
