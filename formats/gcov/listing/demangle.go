package listing

import (
	"sync"

	"footfall/demangle"
	"footfall/formats/gcov"
)

// A demangler remembers names: most functions of a header are in many objects.
// It may be used by several goroutines.
type demangler struct {
	mu    sync.Mutex
	names map[demangleKey]string
}

type demangleKey struct {
	name string
	gcc  int
}

// mostNames bounds the memory of a demangler.
const mostNames = 1 << 16

func (d *demangler) demangled(name string, v gcov.Version) string {
	key := demangleKey{name, demanglerOf(v)}
	d.mu.Lock()
	plain, ok := d.names[key]
	d.mu.Unlock()
	if ok {
		return plain
	}
	plain = demangle.GNU(name, key.gcc)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil || len(d.names) >= mostNames {
		d.names = make(map[demangleKey]string)
	}
	d.names[key] = plain
	return plain
}

// demanglerOf is the GCC whose demangler gcov has.
func demanglerOf(v gcov.Version) int {
	if v.Number() == 0 {
		return gcov.Newest
	}
	return v.Major()
}
