//go:build linux

package live

import "slices"

// An Inventory says what counters there are.
type Inventory struct {
	Compilers []string // "GCC 12", "Clang", "Clang or Rust, source-based"
	Objects   int      // files that were compiled; of source-based ones programs and libraries
	Bytes     int64    // of counters
}

// InventoryOf is that of units.
func InventoryOf(units []Unit) Inventory {
	v := Inventory{Objects: len(units)}
	for _, u := range units {
		v.compiler(u.Counts.Compiler())
		for i := range u.Counts.Functions {
			for j := range u.Counts.Functions[i].Counters {
				v.Bytes += 8 * int64(u.Counts.Functions[i].Counters[j].Len())
			}
		}
	}
	return v
}

// Inventory is that of the process now. Without counters it is empty.
func (p *CountedProcess) Inventory() Inventory {
	units, _ := p.Snapshot()
	v := InventoryOf(units)
	profiles, _ := p.Profiles()
	for i := range profiles {
		v.compiler("source-based (Clang, Rust)")
		v.Objects++
		v.Bytes += profiles[i].counterBytes()
	}
	return v
}

func (v *Inventory) compiler(name string) {
	if !slices.Contains(v.Compilers, name) {
		v.Compilers = append(v.Compilers, name)
	}
}
