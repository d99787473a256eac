//go:build linux

package live

import (
	"fmt"
	"slices"
	"sync"

	"footfall/process"
)

// layouts are those that are known, by file: of a file several if it was rebuilt, or looked at
// while it was being loaded.
type layouts struct {
	mu     sync.Mutex
	byFile map[string][]*layout
	none   map[string]string // files without counters, and when they were changed last

	searched map[string]*searched // files that somebody searches
}

// A searched is a file that is searched by one at a time.
type searched struct {
	sync.Mutex
	users int
}

func newLayouts() *layouts {
	return &layouts{byFile: make(map[string][]*layout), none: make(map[string]string), searched: make(map[string]*searched)}
}

// alone waits until nobody else searches a file, until what it returns is called: of many processes that begin or end at a
// time one finds what is the same in all.
func (k *layouts) alone(mapped *process.MappedFile) (done func()) {
	file := mapped.File()
	k.mu.Lock()
	s := k.searched[file]
	if s == nil {
		s = new(searched)
		k.searched[file] = s
	}
	s.users++
	k.mu.Unlock()
	s.Lock()
	return func() {
		s.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(k.searched, file)
		}
	}
}

// of returns the layouts of a file that is mapped; none tells that it has no counters, since it was changed
// last.
func (k *layouts) of(mapped *process.MappedFile, changed string) (known []*layout, none bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	file := mapped.File()
	return k.byFile[file], changed != "" && k.none[file] == changed
}

// maxNone is of how many files it is remembered that they have none.
const maxNone = 1 << 14

// hasNone notes that a file has no counters, where that can be told from another file that has its number later.
func (k *layouts) hasNone(mapped *process.MappedFile, changed string) {
	if changed == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.none) >= maxNone {
		clear(k.none)
	}
	k.none[mapped.File()] = changed
}

// find looks for counters in a file that is mapped, of a guest if it is one's. It returns nil
// where there are none, or none yet: of a process that is starting that is not the same.
func (k *layouts) find(f *Family, p *process.Process, mapped *process.MappedFile, changed string, maps process.Maps, g *guest, starting bool) (*layout, error) {
	finder := &CountedProcess{PID: p.PID, Name: p.Name, proc: p}
	im := finder.find(mapped, maps, g, newBudget())
	known, _ := k.of(mapped, changed)
	if len(im.units) == 0 {
		if im.root == 0 && im.problem == nil && len(known) == 0 && !starting { // else this process has not got to them
			k.hasNone(mapped, changed)
		}
		return nil, im.problem
	}
	constructing := im.root == 0 && !im.units[0].clang && im.units[0].version.Major() >= 5
	if constructing || slices.ContainsFunc(known, func(l *layout) bool {
		return len(l.units) >= len(im.units) && slices.ContainsFunc(l.units, func(u *unit) bool { return u.name == im.units[0].name && u.stamp == im.units[0].stamp })
	}) {
		return nil, nil // its constructors have not all run: nothing has been counted that matters
	}
	l, err := newLayout(im, mapped)
	if err != nil {
		k.hasNone(mapped, changed)
		return nil, err
	}
	l.resetsForks = wrapsFork(mapped)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, other := range k.byFile[l.file] { // found meanwhile, in another process
		if other.same(l) {
			return other, im.problem
		}
	}
	if !f.hasRoom(layoutRoom * l.size()) {
		return nil, fmt.Errorf("%s: %w", im.path, errRoom)
	}
	k.byFile[l.file] = append(k.byFile[l.file], l)
	return l, im.problem
}

// layoutRoom is how many buffers are kept for each: its own, two of its sum, one at each look, and what was inherited last.
const layoutRoom = 5
