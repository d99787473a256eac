package ask

import (
	"context"
	"strings"
	"sync"

	"footfall/coverage"
	"footfall/demangle"
	"footfall/fleet/store"
	"footfall/fleet/units"
)

// A unitFunctions is what functions a unit has.
type unitFunctions struct{ functions []unitFunction }

// A unitFunction is a function of a unit.
type unitFunction struct {
	file  string // its source as it was recorded
	name  string // that is the same in all builds
	line  int32
	lines int32
	// counters are its own, and those of its lines if these have some: what counted once in any of them ran.
	counters []int32
	unknown  int32 // the counter that says that it was not known whether it ran; -1: there is none
}

// unsure is when it was last not known whether the function ran, in a vector of times.
func (f *unitFunction) unsure(v []uint64) uint64 {
	if f.unknown < 0 {
		return 0
	}
	return v[f.unknown]
}

// ran returns the greatest of the function's counters in a vector, such as one of times.
func (f *unitFunction) most(v []uint64) (most uint64) {
	for _, c := range f.counters {
		most = max(most, v[c])
	}
	return most
}

// least returns the least of its counters that is not 0.
func (f *unitFunction) least(v []uint64) (least uint64) {
	for _, c := range f.counters {
		if v[c] != 0 && (least == 0 || v[c] < least) {
			least = v[c]
		}
	}
	return least
}

// catalogue keeps what functions units have: that takes much longer to find out than all else that a
// question is about, and never changes.
type catalogue struct {
	mu    sync.Mutex
	units map[store.Hash]*unitFunctions
	kept  int // counters
}

// mostKept is how many counters of functions are kept, of 4 bytes.
const mostKept = 32 << 20

// functionsOf returns the functions of units.
func (a *Ask) functionsOf(ctx context.Context, hashes []store.Hash) (map[store.Hash]*unitFunctions, error) {
	found := make(map[store.Hash]*unitFunctions, len(hashes))
	var missing []store.Hash
	a.known.mu.Lock()
	for _, hash := range hashes {
		if u := a.known.units[hash]; u != nil {
			found[hash] = u
		} else if _, asked := found[hash]; !asked {
			missing = append(missing, hash)
			found[hash] = nil
		}
	}
	a.known.mu.Unlock()
	if len(missing) == 0 {
		return found, nil
	}
	var list []store.Unit
	var of []store.Hash
	err := a.Store.Programs(ctx, missing, func(hash store.Hash, u store.Unit) error {
		list, of = append(list, u), append(of, hash)
		return nil
	})
	if err != nil {
		return nil, err
	}
	made, failed := make([]*unitFunctions, len(list)), make([]error, len(list))
	coverage.Parallel(len(list), func(i int) { made[i], failed[i] = functionsOf(&list[i]) })
	a.known.mu.Lock()
	defer a.known.mu.Unlock()
	for i, hash := range of {
		if failed[i] != nil {
			return nil, failed[i]
		}
		found[hash] = made[i]
		a.known.keep(hash, made[i])
	}
	return found, nil
}

func (c *catalogue) keep(hash store.Hash, u *unitFunctions) {
	if c.kept > mostKept || c.units == nil {
		c.units, c.kept = make(map[store.Hash]*unitFunctions), 0
	}
	c.units[hash] = u
	for i := range u.functions {
		c.kept += len(u.functions[i].counters) + 32
	}
}

func functionsOf(u *store.Unit) (*unitFunctions, error) {
	list, err := units.Functions(u)
	if err != nil {
		return nil, err
	}
	found := &unitFunctions{functions: make([]unitFunction, 0, len(list))}
	for i := range list {
		fn := &list[i]
		found.functions = append(found.functions, unitFunction{file: fn.File, name: NameOf(fn.File, fn.Function), line: fn.StartLine, lines: int32(fn.Lines), counters: fn.Counters, unknown: fn.Unknown})
	}
	return found, nil
}

// NameOf is the name by which a function of a file is the same in several builds: that of its source. What
// instances of a template there are differs from build to build.
func NameOf(file string, f *coverage.Function) string {
	if strings.HasSuffix(file, ".go") {
		return f.Name // dots are the language's, where those of C are made by the compiler
	}
	if !strings.HasPrefix(f.Name, "_Z") && !strings.HasPrefix(f.Name, "_R") {
		return f.SourceName()
	}
	bare := demangle.Bare(f.Name)
	if bare != demangle.Short(f.Name) {
		return bare
	}
	name, _, _ := strings.Cut(demangle.Full(f.Name), " [clone ")
	return name
}
