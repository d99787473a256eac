//go:build linux

package live

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"footfall/output"
	"footfall/process"
)

// lifetimes are the events of a family, in the thread that traces. All processes of the family that
// fork or end wait for that: so it does what can be done at once, for processes of which
// everything is known already. What may take long, or for ever, is for others to do.
type lifetimes struct{ *Family }

// Forked makes the child of a member one, and notes what it inherits.
func (f lifetimes) Forked(pid, parent int, by process.Fork, goOn func(watch bool)) {
	m, err := newAttended(pid)
	if err != nil { // killed already
		goOn(false)
		return
	}
	counts := false // Exec discards what is in source-based counters.
	f.mu.Lock()
	from := f.members[parent]
	f.mu.Unlock()
	var known *findings
	if from != nil {
		known = from.found.Load()
	}
	if known != nil {
		m.files, m.emulates, m.whole, m.around = known.mapped, known.emulates, known.whole, known.around
		for _, im := range known.images {
			m.images = append(m.images, &placed{layout: im.layout, at: im.at, files: im.files, cleared: im.cleared, keeps: !im.cleared || !by.ByLibrary})
		}
		for _, c := range known.counted {
			m.counted = append(m.counted, c.copyFor())
		}
		if files, err := m.mappedFiles(); err == nil && bytes.Equal(files, m.files) && len(m.counted) == 0 && f.inheritsAtOnce(m, from, by, func() { goOn(false) }) {
			return
		}
	}
	f.meanwhile(m.proc, "what it counts is not known", func() { goOn(counts) }, func() (then func()) {
		f.look(m, forked)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.images = slices.DeleteFunc(m.images, func(im *placed) bool {
			im.keeps, im.clears = !im.cleared || !by.ByLibrary, nil
			w := im.buffer()
			defer im.release(w)
			if im.read(m.proc, im.at, w) != nil {
				m.whole = false // look again
				return true
			}
			return !im.inherit(f.Family, m, im.sparseOf(w), im.flagsIn(w))
		})
		f.inheritProfiles(m)
		m.publish()
		if from != nil && m.whole { // its parent has what it has
			from.found.CompareAndSwap(known, m.found.Load())
		}
		has := len(m.counted) > 0
		return func() {
			counts = has
			if !f.join(m) {
				m.proc.Close()
			}
		}
	})
}

// inheritsAtOnce notes what a process inherits, in images that are known, if all of it can be read
// at once. What will be cleared, for certain, is not read.
func (f *Family) inheritsAtOnce(m, parent *member, by process.Fork, goOn func()) bool {
	read, flags := make([]*sparse, len(m.images)), make([]int, len(m.images))
	known := parent.clears.Load()
	if known != nil && (!bytes.Equal(known.mapped, m.files) || !known.isBy(m.proc, by)) {
		known = nil
	}
	for i, im := range m.images {
		if im.clearedBy(known, by) {
			read[i] = new(sparse)
			continue
		}
		var err error
		if read[i], flags[i], err = im.sparseAtOnce(m.proc, im.at); err != nil {
			return false
		}
	}
	learn := f.learning(m, parent, by, read)
	f.mu.Lock()
	f.aside++
	f.mu.Unlock()
	goOn()
	learn()
	images, kept := m.images, m.images[:0:0]
	for i, im := range images {
		if im.inherit(f, m, read[i], flags[i]) {
			kept = append(kept, im)
		}
	}
	m.images = kept
	m.publish()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.joins(m) {
		m.proc.Close()
	}
	f.back()
	return true
}

// Execs reads source-based counters: nobody writes them before they are gone.
func (f lifetimes) Execs(pid int, goOn func()) {
	m := f.member(pid)
	if m == nil {
		goOn()
		return
	}
	f.meanwhile(m.proc, "what it counted since the last look, before exec, is not known", goOn, func() func() {
		f.lookAtProfiles(m)
		return func() {}
	})
}

// Replaced: what the process had counted was written before exec, into the data files, or was read then (told), or is known from
// the last look.
func (f lifetimes) Replaced(pid int, told bool, goOn func(keep bool)) {
	m := f.member(pid)
	if m != nil && !told {
		f.mu.Lock()
		lost := len(m.own) > 0 || len(f.shared) == 0 // else they are in a file
		f.mu.Unlock()
		if known := m.found.Load(); lost && known != nil && len(known.counted) > 0 {
			f.problem(fmt.Errorf("%s has become another program by exec: what it counted in source-based counters since the last look is not known", output.Printable(m.proc.Name)))
		}
	}
	next := func() {
		if m != nil {
			f.drop(m, &f.replaced)
		}
		if !f.selects(pid) {
			goOn(false)
			return
		}
		if m, err := newAttended(pid); err == nil && !f.join(m) {
			m.proc.Close()
		}
		goOn(true)
	}
	if m == nil {
		next()
		return
	}
	var kept []*placed
	if free := m.mu.TryLock(); free { // nobody reads it, who might be stuck
		kept = m.keptToExec()
		m.mu.Unlock()
		if len(kept) == 0 {
			next()
			return
		}
	}
	f.meanwhile(m.proc, "it has become another program, and what it had inherited may be counted twice", next, func() func() {
		if kept == nil {
			m.mu.Lock()
			kept = m.keptToExec()
			m.mu.Unlock()
		}
		written := m.written(f.Family, kept)
		return func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.dropped(m, &f.replaced, func() { // at the same moment, or somebody sees the files with what it had inherited
				for _, im := range written {
					im.inherited.subtractFrom(f.sumOf(im.layout).ended)
				}
			})
		}
	})
}

// keptToExec has a member, which is locked, be none any more, since it has become another program. It returns the
// images whose data files have what it had inherited, if it has written them before.
func (m *member) keptToExec() (kept []*placed) {
	m.leaves()
	for _, im := range m.images {
		if im.owes() {
			kept = append(kept, im)
		}
	}
	return kept
}

// Ending reads the counters of a process that runs no more.
func (f lifetimes) Ending(pid int, goOn func()) {
	m := f.member(pid)
	if m == nil {
		goOn()
		return
	}
	if f.endsAtOnce(m, goOn) {
		return
	}
	const lost = "what it counted since the last look, before it ended, is not known"
	f.meanwhile(m.proc, lost, func() {
		f.drop(m, &f.ended)
		goOn()
	}, func() func() {
		f.look(m, ending)
		m.mu.Lock()
		defer m.mu.Unlock()
		var counted []func()
		for _, im := range m.images {
			add, _ := f.last(m, im, false)
			counted = append(counted, add)
		}
		own := f.ownProfiles(m, ending)
		counted = append(counted, func() { m.own = own })
		m.leaves()
		return func() {
			m.mu.Lock() // before the family's, as everywhere
			defer m.mu.Unlock()
			f.mu.Lock()
			defer f.mu.Unlock()
			f.dropped(m, &f.ended, counted...)
		}
	})
}

// endsAtOnce is Ending where all can be read at once.
func (f *Family) endsAtOnce(m *member, goOn func()) bool {
	if !m.mu.TryLock() { // somebody reads it
		return false
	}
	defer m.mu.Unlock()
	files, err := m.mappedFiles()
	if err != nil || !m.whole || len(m.counted) > 0 || !bytes.Equal(files, m.files) || m.around != nil && !m.around.are(m.proc) {
		return false
	}
	counted := make([]func(), 0, len(m.images))
	for _, im := range m.images {
		add, ok := f.last(m, im, true)
		if !ok {
			return false
		}
		counted = append(counted, add)
	}
	// Whoever adds up sees it either as a member or in the sum of those that have ended.
	f.mu.Lock()
	f.aside++
	is := f.dropped(m, &f.ended)
	f.mu.Unlock()
	goOn()
	m.leaves()
	f.mu.Lock()
	defer f.mu.Unlock()
	if is {
		for _, add := range counted {
			add()
		}
	}
	f.back()
	return true
}

// Vanished: a process was killed when it was about to be looked at.
func (f lifetimes) Vanished(pid int) {
	m := f.member(pid)
	if m == nil {
		return
	}
	f.drop(m, &f.ended)
	go func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.leaves()
	}()
	f.problem(fmt.Errorf("process %d (%s) was killed a second time while it ended: what it counted since the last look is not known", pid, output.Printable(m.proc.Name)))
}

// standstill is how long a process may be made to stand still, should its memory not be there to be
// read: a program may handle its own page faults, or a file system may not answer.
const standstill = Patience

// meanwhile has somebody else look into a process that stands still, and lets it go on then: when it was
// looked at, and what is returned was done, or it has stood still for long enough.
func (f *Family) meanwhile(p *process.Process, lost string, goOn func(), look func() (then func())) {
	tell := func() {
		f.problem(fmt.Errorf("process %d (%s): its memory cannot be read in time: %s", p.PID, output.Printable(p.Name), lost))
		goOn()
	}
	go func() {
		timer := time.NewTimer(Patience)
		defer timer.Stop()
		select {
		case f.looking <- struct{}{}:
		case <-timer.C:
			tell()
			return
		}
		timer.Reset(standstill)
		looked, late := make(chan func()), make(chan struct{})
		go func() {
			then := look()
			<-f.looking
			select {
			case looked <- then:
			case <-late:
			}
		}()
		select {
		case then := <-looked:
			then()
			goOn()
		case <-timer.C:
			close(late)
			tell()
		}
	}()
}

// back tells that a process that was let go has been dealt with, of a family that is locked.
func (f *Family) back() {
	if f.aside--; f.aside == 0 {
		f.settled.Broadcast()
	}
}

// waitForAside waits until no process is aside, of a family that is locked.
func (f *Family) waitForAside() {
	for f.aside > 0 {
		f.settled.Wait()
	}
}

// drop takes a member out, and counts it; false: it is none any more.
func (f *Family) drop(m *member, counted *int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped(m, counted)
}

// dropped is drop of a family that is locked. What the member has counted is added at the same moment.
func (f *Family) dropped(m *member, counted *int, last ...func()) bool {
	if f.members[m.pid] != m {
		return false
	}
	delete(f.members, m.pid)
	f.room -= m.room
	*counted++
	if counted == &f.ended {
		if len(f.left) > maxLeft {
			clear(f.left)
		}
		f.left[m.pid] = m.proc.Start.Ticks
	}
	for _, add := range last {
		add()
	}
	for _, r := range m.own {
		f.profiles = addProfile(f.profiles, r)
	}
	return true
}

// leaves lets go of a member, which is locked and none any more.
func (m *member) leaves() {
	m.gone = true
	m.proc.Close()
}

const maxLeft = 1 << 14

func (f *Family) hasLeft(m *member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left[m.pid] == m.proc.Start.Ticks
}
