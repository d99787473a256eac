package report

import (
	"footfall/coverage"
	"footfall/report/source"
)

// Again keeps what was printed of files, for who prints what becomes of one set again and
// again: of a file that is the same in the next one, see [coverage.Set.Keeps], the text is, too. The
// zero Again keeps nothing yet.
type Again struct {
	texts map[dialect]*keptOf[[]byte]
	names *keptOf[[]source.Problem]
}

// keptOf is what was made of each file of a set, by name.
type keptOf[T any] struct {
	set   *coverage.Set
	made  map[string]T
	sizes map[string]int // bytes of each
	size  int            // of all
}

// mostKept is how many bytes of a tracefile are kept; of a larger one nothing is.
const mostKept = 32 << 20

// textsOf returns those of tracefiles, nil if nothing is kept.
func (a *Again) textsOf(d dialect) *keptOf[[]byte] {
	if a == nil {
		return nil
	}
	if a.texts == nil {
		a.texts = make(map[dialect]*keptOf[[]byte])
	}
	if a.texts[d] == nil {
		a.texts[d] = new(keptOf[[]byte])
	}
	return a.texts[d]
}

func (a *Again) escapes() *keptOf[[]source.Problem] {
	if a == nil {
		return nil
	}
	if a.names == nil {
		a.names = new(keptOf[[]source.Problem])
	}
	return a.names
}

// of returns what was made of file i, if that is the same.
func (k *keptOf[T]) of(set *coverage.Set, i int) (made T, ok bool) {
	if k == nil || !set.Keeps(k.set, i) {
		return made, false
	}
	made, ok = k.made[set.Name(i)]
	return made, ok
}

// keep keeps what was made of file i, so many bytes.
func (k *keptOf[T]) keep(set *coverage.Set, i int, made func() T, size int) {
	if k == nil || k.size > mostKept {
		return
	}
	if k.made == nil {
		k.made, k.sizes = make(map[string]T), make(map[string]int)
	}
	name := set.Name(i)
	k.size += size - k.sizes[name]
	k.made[name], k.sizes[name] = made(), size
}

// end is called when all files of a set have been printed: what was kept is of that one.
func (k *keptOf[T]) end(set *coverage.Set) {
	if k == nil {
		return
	}
	k.set = set
	if k.size > mostKept {
		k.made = nil
	}
}
