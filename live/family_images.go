//go:build linux

package live

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"footfall/formats/gcov"
	"footfall/output"
	"footfall/process"
)

// Findings are what was found in a member.
type findings struct {
	mapped   []byte // as in member
	emulates emulation
	around   *surroundings
	whole    bool
	images   []origin
	counted  []*countedImage // their image, and what they are merged into
}

// An emulation tells whether a member runs an emulator, whose guest has its code where it cannot be executed.
type emulation uint8

const (
	unasked emulation = iota
	nothing
	anotherCPU
)

// mappedFiles tells which files are mapped in a member, which is locked, that may have counters: see process.MappedFilesKey.
func (m *member) mappedFiles() ([]byte, error) {
	if m.emulates == unasked {
		m.emulates = nothing
		if m.proc.Emulator() != "" {
			m.emulates = anotherCPU
		}
	}
	return m.proc.MappedFilesKey(m.emulates == nothing)
}

// An origin is what a child of fork knows of an image by its parent.
type origin struct {
	*layout
	at      uint64
	files   *fileSet
	cleared bool
}

// A placed is an image with counters in a member.
type placed struct {
	*layout
	at uint64
	// cleared tells that libgcov's wrapper of fork sets its counters to zero in a child: the image has it, or one that it is
	// joined with, as a module is with the program that has opened it.
	cleared   bool
	inherited *sparse // what is not its own, until counters are set to zero; nil: nothing
	// keeps tells that nobody but the program itself, by __gcov_reset, will set them to zero: what is inherited will be in
	// data files, too.
	keeps bool
	// unsure: of a member that may not be past its fork, inherited is all that was in the counters, which may be its own.
	unsure bool
	// clears: libgcov's wrapper of fork has made the member and will clear the counters, or has; it returns there from fork, by the address at
	// returns. nil: they are the member's own, or it is not known.
	clears  *clearing
	returns uint64
	// silent: it has written its data files before it was seen, or before the fork, and writes none
	// any more.
	silent bool
	files  *fileSet
	// parted: it is not in memory any more, but what was inherited may be in the data files. Nothing is read of it.
	parted bool

	// Counters of which it is not known yet whether they are its own, and how long it had run then; that are.
	waiting, sure words
	sinceRan      time.Duration
	// heldNothing is the last look at the data files, by fileSet.looks, after which their counts were not among its own; 0: there was none.
	heldNothing int
}

// A stage is when a member is looked at. It stands still but for the first.
type stage uint8

const (
	running stage = iota
	forked
	ending
)

// look looks for images with counters in a member, if other files are mapped.
func (f *Family) look(m *member, when stage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	files, err := m.mappedFiles() // before the map: what changes in between is seen at the next look
	if err != nil {
		return
	}
	if m.whole && bytes.Equal(files, m.files) {
		if m.around != nil && !m.around.are(m.proc) && when != forked { // the child of one that was up to date, or will be followed
			f.follow(m, when)
			m.publish()
		}
		return
	}
	maps, _, err := m.proc.Maps()
	if err != nil {
		return
	}
	if when == running && errors.Is(m.proc.Check(), process.ErrReplaced) {
		return // Replaced will be told; until then the family has to know what this one inherited
	}
	past := when != running || m.fromStart || m.waitForFork()
	before := m.images
	m.images = nil
	complete := true
	finder := &CountedProcess{PID: m.pid, proc: m.proc, guest: m.guest}
	mappings, own := finder.files(maps)
	m.guest = finder.guest
	for n, mapped := range mappings {
		i := slices.IndexFunc(before, func(im *placed) bool { return im.at == mapped.Start && im.file == mapped.File() && !im.parted })
		if i >= 0 {
			m.images = append(m.images, before[i])
			continue
		}
		g := m.guest
		if n < own {
			g = nil
		}
		l, final := f.layoutOf(m, mapped, maps, g, when)
		complete = complete && final
		if l == nil {
			continue
		}
		im := &placed{layout: l, at: mapped.Start}
		if l.tellsDumps() {
			if im.files, err = f.filesOf(m, im, when); err != nil {
				f.problem(errFiles(im, err))
				continue
			}
		}
		if (when != running || m.fromStart || f.begin(m, im)) && (when == forked || f.since(m, im)) {
			m.images = append(m.images, im)
		}
	}
	var closed []*placed
	for _, im := range before {
		switch {
		case slices.Contains(m.images, im):
		case im.owes():
			im.parted = true
			m.images = append(m.images, im)
		case im.files != nil && !im.silent:
			closed = append(closed, im)
		}
	}
	m.written(f, closed) // or others would seem to have done it
	if m.around != nil && !m.around.are(m.proc) {
		f.follow(m, when)
	}
	m.findCleared()
	if !past {
		found := len(m.images)
		m.images = slices.DeleteFunc(m.images, func(im *placed) bool { return !slices.Contains(before, im) && !im.doubt(f, m) })
		complete = complete && len(m.images) == found
	}
	complete = f.lookForProfiles(m, maps, when) && complete
	m.files, m.whole = files, complete
	m.publish()
}

// layoutOf finds the counters of a mapped file. final is false if there may be some later.
func (f *Family) layoutOf(m *member, mapped *process.MappedFile, maps process.Maps, g *guest, when stage) (l *layout, final bool) {
	changed := mapped.Changed()
	known, none := f.layouts.of(mapped, changed)
	if none {
		return nil, true
	}
	if l := m.fitting(mapped, known); l != nil {
		return l, true
	}
	starting := when == running && m.isStarting() // its constructors have not run perhaps
	if len(known) > 0 && starting {
		return nil, false
	}
	defer f.layouts.alone(mapped)()
	if now, none := f.layouts.of(mapped, changed); none {
		return nil, true
	} else if l := m.fitting(mapped, now[len(known):]); l != nil { // somebody has found it meanwhile
		return l, true
	}
	l, err := f.layouts.find(f, m.proc, mapped, changed, maps, g, starting)
	if err != nil {
		f.problem(err)
	}
	return l, l != nil
}

// fitting returns the layout by which the counters of a mapped file can be read, nil: none.
func (m *member) fitting(mapped *process.MappedFile, layouts []*layout) *layout {
	for _, l := range layouts {
		w := l.buffer()
		err := l.read(m.proc, mapped.Start, w)
		l.release(w)
		if err == nil {
			return l
		}
	}
	return nil
}

// beginningOf is how long a program may run until it begins to count. On a busy machine that may be long after it was made.
const beginningOf = 20 * time.Millisecond

// isStarting tells whether a process may not have got to its own code so far: it has not run for long, and waits for nothing.
func (m *member) isStarting() bool {
	return isStarting(m.proc)
}

func isStarting(p *process.Process) bool {
	ran, sleeps, err := p.Activity()
	return err == nil && !sleeps && ran < beginningOf
}

func errFiles(im *placed, err error) error {
	return fmt.Errorf("%s: its data files cannot be followed: what is counted there is left out: %w", im.path, err)
}

// publish has those that the member forks know what was found in it, which is locked.
func (m *member) publish() {
	var images []origin
	for _, im := range m.images {
		if !im.parted {
			images = append(images, origin{im.layout, im.at, im.files, im.cleared})
		}
	}
	counted := slices.DeleteFunc(slices.Clone(m.counted), func(c *countedImage) bool { return c.closed })
	m.found.Store(&findings{m.files, m.emulates, m.around, m.whole, images, counted})
}

// findCleared finds out of which images a fork by the wrapper clears the counters in the child. libgcov does so with all whose
// roots are in one list, whichever of them has the wrapper.
func (m *member) findCleared() {
	byRoot := make(map[uint64]*placed)
	var ranges []process.MemoryRange
	for _, im := range m.images {
		im.cleared = im.resetsForks
		if im.tellsDumps() && !im.parted {
			root := im.root + im.at - im.start
			byRoot[root] = im
			ranges = append(ranges, process.MemoryRange{Addr: root, Bytes: make([]byte, im.rootSize())})
		}
	}
	if len(ranges) < 2 || m.proc.ReadRanges(ranges) != nil {
		return
	}
	next := make(map[*placed][]uint64)
	var open []*placed
	for _, r := range ranges {
		im := byRoot[r.Addr]
		next[im] = im.neighbours(r.Bytes)
		if im.cleared {
			open = append(open, im)
		}
	}
	for ; len(open) > 0; open = open[1:] {
		for _, root := range next[open[0]] {
			if im := byRoot[root]; im != nil && !im.cleared {
				im.cleared = true
				open = append(open, im)
			}
		}
	}
}

// begin notes what an image of a process has written already that is seen for the first
// time; false: there is no room for it.
func (f *Family) begin(m *member, im *placed) bool {
	w := im.buffer()
	defer im.release(w)
	if im.read(m.proc, im.at, w) != nil || im.flagsIn(w)&rootDumped == 0 {
		return true
	}
	im.silent = true
	f.problem(fmt.Errorf("process %d (%s): %s: it had written its data files before: its counts are those from now on", m.pid, output.Printable(m.proc.Name), im.path))
	return im.without(f, m, im.sparseOf(w))
}

// since has what was counted before a reset not be counted; false: there is no room for it.
func (f *Family) since(m *member, im *placed) bool {
	if m.base == nil || im.silent {
		return true
	}
	w := im.buffer()
	defer im.release(w)
	clear(w)
	for _, o := range m.base.Objects {
		for _, u := range im.units {
			if o.Name != u.name || o.Image != im.path {
				continue
			}
			if c, err := gcov.ReadCounts(o.Counts); err == nil {
				im.scatter(u, c, w)
			}
		}
	}
	im.keeps = true
	return im.without(f, m, im.sparseOf(w))
}

// inherit notes what is in the counters of an image, s, and the flags of libgcov in it, of a process that has just
// been forked; false: there is no room for it.
func (im *placed) inherit(f *Family, m *member, s *sparse, flags int) bool {
	im.silent = im.keeps && flags&rootDumped != 0
	return im.without(f, m, s)
}

// without has what a member, which is locked, had in the counters of an image not count; false: there is no room for
// that.
func (im *placed) without(f *Family, m *member, s *sparse) bool {
	if len(s.parts) == 0 {
		return true
	}
	if !f.hasRoomFor(m, s.size()) {
		f.problem(fmt.Errorf("%s: %w", im.path, errRoom))
		return false
	}
	im.inherited = s
	return true
}

// owes tells whether what was inherited is in the data files as the process's own, as soon as it has written them.
func (im *placed) owes() bool {
	return im.inherited != nil && im.keeps && !im.silent && im.files != nil
}

// takeInherited takes out of counters what the process has inherited, unless it has set them to zero
// since.
func (im *placed) takeInherited(w words) {
	if im.inherited == nil {
		return
	}
	if im.inherited.in(w) {
		im.inherited.subtractFrom(w)
	} else if !im.silent {
		im.inherited = nil
	}
}
