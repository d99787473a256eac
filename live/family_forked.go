//go:build linux

package live

import "time"

// This file is about members that were forked before anybody attended them. Until libgcov's wrapper of fork has set
// their counters to zero, which on a busy machine may be long after they were seen first, they have what their parent had
// counted: nobody has told of that.

// pastFork is how long a process may run until libgcov's wrapper of fork has cleared its counters: nothing in there waits.
const pastFork = beginningOf

// isPastFork tells whether a member, which is locked, is past the clearing of its counters, if that was to be: it has called exec, or has
// been seen to wait for something, or has run for long enough. Who is past that stays so.
func (m *member) isPastFork() bool {
	if !m.past {
		ran, sleeps, err := m.proc.Activity()
		m.past = err == nil && (sleeps || ran > pastFork) || !m.proc.ForkedOnly()
	}
	return m.past
}

// waitForFork waits until a member, which is locked, is past that, but not for long: one that gets no processor is not.
func (m *member) waitForFork() (past bool) {
	for end := time.Now().Add(4 * moment); !m.isPastFork() && time.Now().Before(end); {
		time.Sleep(moment / 8)
	}
	return m.past
}

// doubt takes what is in the counters of an image, of a member that may not be past its fork, for inherited until it is; false: they
// cannot be read now, or there is no room for it.
func (im *placed) doubt(f *Family, m *member) bool {
	if !im.cleared || im.inherited != nil || im.silent {
		return true // who keeps what it has inherited has it for good
	}
	w := im.buffer()
	defer im.release(w)
	if im.read(m.proc, im.at, w) != nil || !im.without(f, m, im.sparseOf(w)) {
		return false
	}
	im.unsure = im.inherited != nil
	return true
}

// believe has all be counted that is in the counters of an image of a member, which is locked, that is past its fork.
func (im *placed) believe() {
	im.inherited, im.unsure = nil, false
}

// keepsInherited notes that a member, which is locked, is past its fork and has what it had inherited: the C library, or another one, has
// forked it (daemon), not the program, whose fork libgcov wraps. Its data files will have that, too.
func (m *member) keepsInherited() {
	for _, im := range m.images {
		im.keeps = im.keeps || im.inherited != nil
	}
}

// believeAtEnd is believe for one that has ended, with w in its counters: it was past its fork if they are not what they were, or
// about to be cleared.
func (im *placed) believeAtEnd(w words) {
	if im.unsure && !im.inherited.is(im.layout, w) && !im.beingCleared(im.inherited, w) {
		im.believe()
	}
}
