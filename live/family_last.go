//go:build linux

package live

import (
	"errors"
	"fmt"
	"slices"

	"footfall/output"
)

// last reads what an ending process, which is locked, has counted in an image. What it returns adds
// that to the sum, of a family that is locked. If it is to be done at once and cannot be, it is not
// done.
func (f *Family) last(m *member, im *placed, atOnce bool) (add func(), ok bool) {
	nothing := func() {}
	if im.parted {
		if atOnce {
			return nil, false
		}
		if len(m.written(f, []*placed{im})) == 0 {
			return nothing, true
		}
		return func() { im.inherited.subtractFrom(f.sumOf(im.layout).ended) }, true
	}
	if !im.tellsDumps() {
		f.problem(fmt.Errorf("%s: its counters (of Clang, or of GCC before 5) do not tell whether those of data files have been added to them: of processes that end, counts are those of the last look", im.path))
		w := m.last[im.layout]
		if w == nil {
			return nothing, true
		}
		return func() { im.add(f.sumOf(im.layout).ended, w) }, true
	}
	if atOnce && im.files != nil && !im.files.prompt {
		return nil, false
	}
	flags, err := im.flagsOf(m.proc, im.at, atOnce)
	if err != nil && atOnce {
		return nil, false
	}
	if !im.silent && err == nil && flags&rootDumped != 0 && im.files.wasWritten(m) {
		return func() {
			im.files.dumps++
			if im.inherited != nil && im.keeps {
				im.inherited.subtractFrom(f.sumOf(im.layout).ended) // the files have it as its own
			}
		}, true
	}
	if !im.silent && im.files != nil {
		finder := m.finder(im)
		switch opened := finder.opened(); {
		case opened != nil && atOnce:
			return nil, false
		case opened != nil:
			f.problem(fmt.Errorf("%s: a process was killed while it wrote its data files, whose counts are among its own then: what it counted since the last look is not known", im.path))
			return nothing, true
		}
	}
	w := im.buffer()
	if atOnce {
		err = im.readAtOnce(m.proc, im.at, w)
	} else {
		err = im.read(m.proc, im.at, w)
	}
	if err != nil {
		im.release(w)
		if atOnce {
			return nil, false
		}
		if !errors.Is(err, errMoved) { // else the program has not begun, or is closing it
			f.problem(fmt.Errorf("process %d (%s): %s: it cannot be read at the end: %w", m.pid, output.Printable(m.proc.Name), im.path, err))
		}
		return nothing, true
	}
	if im.clears != nil {
		uncleared, err := im.endsUncleared(m.proc, w)
		switch {
		case err != nil && atOnce:
			im.release(w)
			return nil, false
		case uncleared:
			clear(w)
		}
	}
	im.believeAtEnd(w)
	return func() {
		if im.inherited == nil || !im.beingCleared(im.inherited, w) { // else it has counted nothing yet
			im.takeInherited(w)
			im.add(f.sumOf(im.layout).ended, w)
		}
		im.release(w)
	}, true
}

// keep keeps what a member had counted at a look that may be the last one.
func (f *Family) keep(m *member, l *layout, w words) {
	if m.last == nil {
		m.last = make(map[*layout]words)
	}
	if m.last[l] == nil && !f.hasRoomFor(m, l.size()) {
		f.problem(fmt.Errorf("%s: %w when processes have ended", l.path, errRoom))
		return
	}
	m.last[l] = append(m.last[l][:0], w...)
}

// lost is for a process, which is locked, that was not attended and has ended: what was read last is kept, but of what it has written into
// data files.
func (f *Family) lost(m *member) {
	m.leaves()
	if f.member(m.pid) != m {
		return
	}
	written := m.written(f, slices.DeleteFunc(slices.Clone(m.images), func(im *placed) bool { return im.files == nil || im.silent }))
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.dropped(m, &f.ended) {
		return
	}
	for _, im := range written {
		if im.owes() {
			im.inherited.subtractFrom(f.sumOf(im.layout).ended)
		}
		delete(m.last, im.layout)
	}
	for l, w := range m.last {
		l.add(f.sumOf(l).ended, w)
	}
}

// written are those of images whose data files a member has written that does not tell of it any more.
func (m *member) written(f *Family, images []*placed) (written []*placed) {
	if n, known := m.proc.BytesWritten(); known && n == 0 {
		return nil
	}
	for _, im := range images {
		if im.files.wroteOneMore(f) {
			written = append(written, im)
		}
	}
	return written
}
