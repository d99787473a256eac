//go:build linux

package live

import (
	"errors"
	"slices"

	"footfall/process"
)

// An Inventory says what counters there are, by who put them there.
type Inventory struct {
	Kinds []Kind
	// Problems are why counters cannot be read that there are.
	Problems []error
}

// A Kind is the counters that one compiler has put into a process.
type Kind struct {
	Compiler string // "GCC 12", "Clang", "source-based (Clang, Rust)"
	Objects  int    // files that were compiled; of source-based ones programs and libraries
	Bytes    int64  // of counters
}

// InventoryOf is that of units.
func InventoryOf(units []Unit) (v Inventory) {
	for _, u := range units {
		k := v.kind(Kind{Compiler: u.Counts.Compiler()})
		k.Objects++
		for i := range u.Counts.Functions {
			for j := range u.Counts.Functions[i].Counters {
				k.Bytes += 8 * int64(u.Counts.Functions[i].Counters[j].Len())
			}
		}
	}
	return v
}

// Inventory is that of the process now. Without counters it is empty.
func (p *CountedProcess) Inventory() Inventory {
	units, err := p.Snapshot()
	v := InventoryOf(units)
	v.problem(err)
	profiles, err := p.Profiles()
	v.problem(err)
	for i := range profiles {
		compiler := "source-based (Clang, Rust)"
		if profiles[i].Meta != nil {
			compiler = "Go"
		}
		k := v.kind(Kind{Compiler: compiler})
		k.Objects++
		k.Bytes += profiles[i].counterBytes()
	}
	return v
}

// kind returns the one of the same compiler.
func (v *Inventory) kind(of Kind) *Kind {
	i := slices.IndexFunc(v.Kinds, func(k Kind) bool { return k.Compiler == of.Compiler })
	if i < 0 {
		i = len(v.Kinds)
		v.Kinds = append(v.Kinds, of)
	}
	return &v.Kinds[i]
}

// problem keeps what is wrong with counters, not that there are none.
func (v *Inventory) problem(err error) {
	if err != nil && !errors.Is(err, ErrNoCounters) && !errors.Is(err, process.ErrExited) && !errors.Is(err, process.ErrReplaced) {
		v.Problems = append(v.Problems, err)
	}
}

// Total is how many objects there are, and bytes of counters.
func (v *Inventory) Total() (objects int, bytes int64) {
	for _, k := range v.Kinds {
		objects, bytes = objects+k.Objects, bytes+k.Bytes
	}
	return objects, bytes
}
