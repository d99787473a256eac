//go:build linux

package live

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"

	"footfall/formats/gcov"
	"footfall/process"
)

// Known is what was found out about the files that processes have mapped, and about their data files: where
// many processes run the same program, each file is searched for counters once. Its methods may be
// called at the same time; those of nil know nothing.
type Known struct {
	mu     sync.Mutex
	images map[string]*image // as they were found first, by file; not to be changed
	funcs  int               // in all of them
	runs   map[string]knownRuns
}

// NewKnown returns one that knows nothing so far.
func NewKnown() *Known {
	return &Known{images: make(map[string]*image), runs: make(map[string]knownRuns)}
}

// OpenPatiently is [OpenPatiently] for one of many processes that run the same programs.
func (k *Known) OpenPatiently(pid int) (*CountedProcess, error) {
	return patiently(pid, func() (*CountedProcess, error) { return open(pid, k) }, func(p *CountedProcess) { p.Close() })
}

// Of what is known there is a limit; what is above is found out anew.
const (
	maxKnown      = 1 << 12 // images, and sets of data files
	maxKnownFuncs = maxFuncs
)

// keyOf tells the file of an image, as it is now and as it is mapped, from any other; "": it cannot be told.
func (k *Known) keyOf(mapped *process.MappedFile) string {
	changed := mapped.Changed()
	if changed == "" {
		return ""
	}
	return strings.Join([]string{mapped.File(), changed, mapped.Path, partsAt(mapped, mapped.Start)}, " ")
}

// find is [CountedProcess.find], for files that are known at once. Whether the counters are where they
// are in another process is seen as soon as they are read: if not, find is called anew.
func (k *Known) find(p *CountedProcess, mapped *process.MappedFile, maps process.Maps, budget *budget, anew bool) *image {
	if k == nil {
		return p.find(mapped, maps, nil, budget)
	}
	key := k.keyOf(mapped)
	k.mu.Lock()
	known := k.images[key]
	k.mu.Unlock()
	if known != nil && key != "" && !anew && budget.takes(known) {
		im := known.copyTo(mapped.Start)
		im.key, im.parts = mapped.Key(), partsOf(mapped)
		im.program = len(im.units) > 0 && mapped.IsProgram()
		return im
	}
	im := p.find(mapped, maps, nil, budget)
	if key == "" || !im.isSame() {
		return im
	}
	funcs := im.countFuncs()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.images) >= maxKnown || k.funcs+funcs > maxKnownFuncs {
		clear(k.images)
		k.funcs = 0
	}
	if before := k.images[key]; before != nil {
		k.funcs -= before.countFuncs()
	}
	k.images[key] = im.copyTo(im.start)
	k.funcs += funcs
	return im
}

// isSame tells whether an image that was found is the same in all processes: all that it has was found, by its symbols where it
// has nothing.
func (im *image) isSame() bool {
	switch {
	case im.problem != nil, im.profile != nil, im.golang != nil, im.unopened != nil, im.broken:
		return false
	case len(im.units) == 0:
		return im.root == 0 && im.symbols
	}
	return im.root != 0 && !slices.ContainsFunc(im.units, func(u *unit) bool { return u.clang })
}

func (im *image) countFuncs() (n int) {
	for _, u := range im.units {
		n += len(u.funcs)
	}
	return n
}

// takes takes an image out of the budget, if there is enough.
func (b *budget) takes(im *image) bool {
	units, funcs := len(im.units), im.countFuncs()
	if b.units < units || b.funcs < funcs || b.work < units*unitWork+funcs {
		return false
	}
	b.units, b.funcs, b.work = b.units-units, b.funcs-funcs, b.work-units*unitWork-funcs
	return true
}

// copyTo returns an image as it is where its file is mapped at start.
func (im *image) copyTo(start uint64) *image {
	to := &image{
		path: im.path, start: start, order: im.order, pointer: im.pointer, code: im.code, symbols: im.symbols, first: bytes.Clone(im.first),
	}
	delta := start - im.start
	if im.root != 0 {
		to.root = im.root + delta
		im.move(to.first, []int{0}, delta)
	}
	arrays := 0
	for _, u := range im.units {
		for i := range u.funcs {
			arrays += len(u.funcs[i].arrays)
		}
	}
	units, funcs, room := make([]unit, len(im.units)), make([]function, im.countFuncs()), make([]array, arrays)
	for n, u := range im.units {
		v := &units[n]
		*v = *u
		v.image, v.addr, v.head = to, u.addr+delta, bytes.Clone(u.head)
		im.move(v.head, u.pointers(im.pointer), delta)
		if u.next != 0 {
			v.next += delta
		}
		v.funcs = take(&funcs, len(u.funcs))
		for i, f := range u.funcs {
			v.funcs[i] = f
			v.funcs[i].arrays = take(&room, len(f.arrays))
			for j, a := range f.arrays {
				a.addr += delta
				v.funcs[i].arrays[j] = a
			}
		}
		to.units = append(to.units, v)
	}
	return to
}

// move adds to the pointers in a structure that lead somewhere.
func (im *image) move(b []byte, pointers []int, delta uint64) {
	for _, i := range pointers {
		if im.pointer == 8 {
			if x := im.order.Uint64(b[i:]); x != 0 {
				im.order.PutUint64(b[i:], x+delta)
			}
		} else if x := im.order.Uint32(b[i:]); x != 0 {
			im.order.PutUint32(b[i:], x+uint32(delta))
		}
	}
}

// KnownRuns are data files as they were read a while ago.
type knownRuns struct {
	*earlierRuns
	by   int // for which process
	read time.Time
}

// runsPatience is for how long data files that were read for one process are taken as they were, for others that write
// the same: those of a server with a process for each connection are written all the time.
const runsPatience = time.Second

// earlier returns what read reads of the data files that a key stands for, unless that is known.
func (k *Known) earlier(key string, by int, stamp fileStamp, read func() map[string]*gcov.Counts) *earlierRuns {
	if k != nil {
		k.mu.Lock()
		known, is := k.runs[key]
		k.mu.Unlock()
		if is && (known.first == stamp || known.by != by && time.Since(known.read) < runsPatience) {
			return known.earlierRuns
		}
	}
	r := &earlierRuns{stamp, read()}
	if k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.runs) >= maxKnown {
			clear(k.runs)
		}
		k.runs[key] = knownRuns{r, by, time.Now()}
	}
	return r
}
