//go:build linux

package live

import (
	"errors"
	"slices"
	"time"

	"footfall/process"
)

// A sum is what was counted in an image.
type sum struct {
	*layout
	id    int
	ended words  // by processes that have ended, but for what is in files
	total words  // at the last look
	units []Unit // of total, nil: none were made of it so far
}

// A runningSum is what the members that run have counted in an image, at the last look.
type runningSum struct {
	words   words
	members []RunningMember
}

// A RunningMember is a process of a family that runs.
type RunningMember struct {
	PID   int
	Key   string    // which tells it from all others that this system has run since it was started
	Began time.Time // to a hundredth of a second
}

// Running is the part of what was counted in an image that those members had counted which ran at the last Snapshot.
type Running struct {
	Units   []Unit
	Members []RunningMember
}

// Running returns it for each load of the last Snapshot, by its ID, if KeepRunning is set: what a family of later on will
// read in the same processes. Without it that is nil.
func (f *Family) Running() map[int]Running {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[int]Running)
	for l, r := range f.ran {
		s := f.sums[l]
		all[s.id] = Running{s.unitsOf(r.words), r.members}
	}
	return all
}

// Snapshot returns what all members have counted, by object: each has one unit, which is
// not to be changed.
func (f *Family) Snapshot() ([]Unit, error) {
	// The order matters: what a process counts moves from its memory to the files, or to the sum
	// of those that have ended. Read the other way round it is missed until the next look,
	// never seen twice.
	f.mu.Lock()
	f.waitForAside()
	f.moving = false
	left := f.ended + f.replaced
	sets := slices.Clone(f.sets)
	f.mu.Unlock()
	for _, s := range sets {
		s.refresh(f)
	}
	now := make(map[*layout]words)
	f.mu.Lock()
	f.waitForAside() // whoever has written what was read is a member now, or among those that have ended
	for _, s := range sets {
		f.sumOf(s.layout)
	}
	order := slices.Clone(f.order)
	for _, s := range order {
		now[s.layout] = append(s.buffer()[:0], s.ended...)
	}
	var members []*member
	for _, m := range f.members {
		members = append(members, m)
	}
	f.mu.Unlock()
	for _, s := range sets {
		s.mu.Lock()
		s.addSince(now[s.layout], s.now, s.before)
		s.mu.Unlock()
	}
	ran := make(map[*layout]*runningSum)
	for _, m := range members {
		own, err := patiently(m.pid, func() (map[*layout]words, error) {
			own := make(map[*layout]words) // nobody else's, should it take long
			f.addRunning(m, own)
			return own, nil
		}, func(map[*layout]words) {})
		f.problem(err)
		for l, w := range own {
			if f.KeepRunning {
				ran[l] = ran[l].with(l, m, w)
			}
			if now[l] == nil {
				now[l] = w
				continue
			}
			l.add(now[l], w)
			l.release(w)
		}
	}
	f.mu.Lock()
	f.ran = ran
	order = slices.Clone(f.order)
	f.moving = f.moving || left != f.ended+f.replaced
	f.mu.Unlock()
	f.letGo(reachesOf(members))
	var units []Unit
	for _, s := range order {
		if w := now[s.layout]; w != nil {
			s.raise(w, s.total)
			if !slices.Equal(w, s.total) {
				copy(s.total, w)
				s.units = nil
			}
			s.release(w)
		}
		if s.units == nil {
			s.units = s.unitsOf(s.total)
		}
		units = append(units, s.units...)
	}
	return units, nil
}

// with is r, which may be nil, with what one more member has counted.
func (r *runningSum) with(l *layout, m *member, w words) *runningSum {
	if r == nil {
		r = &runningSum{words: make(words, l.size())}
	}
	l.add(r.words, w)
	r.members = append(r.members, runningMember(m))
	return r
}

func runningMember(m *member) RunningMember {
	return RunningMember{m.pid, baselineKey(m.pid, m.proc.Start), m.proc.Began()}
}

// reachesOf are the ways to the data files of members; nil: they are not known now.
func reachesOf(members []*member) map[*reach]bool {
	used := make(map[*reach]bool)
	for _, m := range members {
		if !m.mu.TryLock() {
			return nil
		}
		for _, im := range m.images {
			if im.files != nil {
				im.files.mu.Lock()
				used[im.files.way] = true
				im.files.mu.Unlock()
			}
		}
		m.mu.Unlock()
	}
	return used
}

// sumOf is that of a layout, of a family that is locked.
func (f *Family) sumOf(l *layout) *sum {
	s := f.sums[l]
	if s == nil {
		s = &sum{layout: l, id: len(f.order) + 1, ended: make(words, l.size()), total: make(words, l.size())}
		f.sums[l] = s
		f.order = append(f.order, s)
	}
	return s
}

// unitsOf makes units of counters.
func (s *sum) unitsOf(w words) []Unit {
	load := &Load{ID: s.id, Path: s.path, At: s.start, Program: true, Group: s.id}
	counts, _ := s.counts(w.bytes(), nil)
	var units []Unit
	for i, u := range s.image.units {
		units = append(units, Unit{Name: u.name, Image: s.path, Counts: counts[i], Load: load})
	}
	return units
}

// addRunning adds what a member has counted so far, less what the files have of it already: modulo 2^64.
func (f *Family) addRunning(m *member, now map[*layout]words) {
	f.look(m, running)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.gone && !m.attended && m.proc.Check() != nil {
		f.lost(m)
		return
	}
	for _, im := range m.images {
		to := now[im.layout]
		if to == nil {
			f.mu.Lock()
			f.sumOf(im.layout)
			f.mu.Unlock()
			to = im.buffer()
			clear(to)
			now[im.layout] = to
		}
		w := im.buffer()
		own, moving := false, false
		if !m.gone {
			own, moving = f.readRunning(m, im, w)
		}
		switch {
		case own:
			im.add(to, w)
			if !m.attended || !im.tellsDumps() {
				f.keep(m, im.layout, w)
			}
		case im.owes():
			im.inherited.subtractFrom(to) // the files may have it already
			moving = !im.parted
		}
		im.release(w)
		if moving {
			f.mu.Lock()
			f.moving = true
			f.mu.Unlock()
		}
	}
}

// readRunning reads what a process that runs has counted itself; own is false if that is not known
// now, because it is writing its data files or the image is gone. moving tells that it is writing them, or that more may be its own.
func (f *Family) readRunning(m *member, im *placed, w words) (own, moving bool) {
	if im.unsure && m.isPastFork() { // before its counters are read
		im.believe()
	}
	past := im.inherited != nil && !im.keeps && im.resetsForks && m.isPastFork()
	if im.parted || im.read(m.proc, im.at, w) != nil {
		return false, false
	}
	if known := m.clears.Load(); known != nil && known.layout == im.layout && !known.least.in(w) { // it has set its own to zero
		m.clears.CompareAndSwap(known, nil)
	}
	if im.clears != nil {
		if uncleared, err := im.isUncleared(m, w); uncleared || err != nil {
			clear(w)
			return true, true
		}
		im.clears = nil // it may have been while they were read
		if im.read(m.proc, im.at, w) != nil {
			return false, false
		}
	}
	if im.owes() && errors.Is(m.proc.Check(), process.ErrReplaced) {
		return false, false // these are the counters of what it has become
	}
	if im.inherited != nil && im.beingCleared(im.inherited, w) {
		if !m.proc.Sleeps() {
			clear(w)
			return true, true
		}
		// It is past that.
		if im.read(m.proc, im.at, w) != nil {
			return false, false
		}
	}
	flags := im.flagsIn(w)
	if im.silent && flags&rootDumped == 0 { // the program has set them to zero
		im.silent, im.inherited = false, nil
	}
	switch {
	case im.silent:
	case flags&rootDumped != 0:
		if im.files.wasWritten(m) {
			return false, true
		}
	case im.flagsAt(m.proc, im.at) != flags: // it has just done so, and may have ended
		return false, true
	case im.files != nil && im.mayHold(m, w):
		if !im.wait(m, w) {
			return false, true
		}
	case im.flagsAt(m.proc, im.at) != flags:
		return false, true
	default:
		im.waiting, im.sure = nil, nil
	}
	im.takeInherited(w)
	if past && im.inherited != nil {
		m.keepsInherited()
	}
	return true, im.unsure
}

// wait is for counters that the process has perhaps just been adding the files' to: if it has not ended by the time by which
// it would have written all, it was not. Then these are w. It is the process's own time: on a busy machine it may have got none.
func (im *placed) wait(m *member, w words) (sure bool) {
	ran, _, err := m.proc.Activity()
	if im.waiting != nil && err == nil && ran-im.sinceRan > writePatience {
		im.waiting, im.sure = nil, im.waiting
	}
	if im.waiting == nil {
		im.waiting, im.sinceRan = append(words(nil), w...), ran
	}
	copy(w, im.sure)
	return im.sure != nil
}
