//go:build linux

package live

import (
	"encoding/binary"
	"slices"
	"time"

	"footfall/process"
)

// A floor is what a process had counted in an image a moment ago, when one of its children was looked at. Its next children inherit no
// less. Of those that libgcov's wrapper of fork makes no more needs to be known: that sets all counters to zero before it returns.
// So nothing that they inherit counts, and that this has been done shows as soon as a counter is less than it was. To read
// what each child inherits, half a megabyte of a server, takes longer than all else that is done for it.
type floor struct {
	pid    int // of the process
	counts *sparse
	read   time.Time

	// Some words where there is much, by which it is seen whether the parent has set its counters to zero meanwhile: it does so in no
	// time, but then they are not what they were until as much has run again.
	at    uint64 // where the image was found
	words words
	// The counters that libgcov sets to zero last, of those that are not, in the buffer.
	last mark
}

const (
	floorFor   = time.Second // for how long it is taken
	floorPages = 8           // of whom there is less, each child is read
	floorCheck = 16          // counters by which it is checked, at least
	// wrapperSize is how far behind the beginning of libgcov's wrapper fork returns to it, at most.
	wrapperSize = 128
	// stackRead is how much of the stack is looked at for that: the frames of the C library's fork.
	stackRead = 1024
	// resetTime is for how long a process has run that is past libgcov's wrapper, at least: to set to zero as much as may be
	// takes less.
	resetTime = 200 * time.Millisecond
)

// newFloor makes one of what a child has inherited just now; nil: it is not worth it.
func (l *layout) newFloor(parent int, s *sparse) *floor {
	if l.wrapper == 0 || len(s.parts) < floorPages {
		return nil
	}
	much := slices.MaxFunc(s.parts, func(a, b *sparsePart) int { return len(a.at) - len(b.at) })
	from, to := int(much.at[0]), int(much.at[len(much.at)-1])+1
	i := slices.IndexFunc(l.regions, func(r region) bool { return r.from <= from && to <= r.to })
	if len(much.at) < floorCheck || i < 0 {
		return nil
	}
	f := &floor{pid: parent, counts: s, read: time.Now(), at: l.regions[i].addr + uint64(from-l.regions[i].from)*8, words: make(words, to-from)}
	for n, at := range much.at {
		f.words[int(at)-from] = much.value[n]
	}
	w := l.buffer()
	defer l.release(w)
	clear(w)
	for _, p := range s.parts {
		for n, at := range p.at {
			w[at] = p.value[n]
		}
	}
	for _, i := range l.inOrder {
		l.eachCounterOf(l.units[i], func(at, n int) {
			if slices.ContainsFunc(w[at:at+n], func(x uint64) bool { return x != 0 }) {
				f.last = mark{from: at, to: at + n}
			}
		})
	}
	return f
}

// floorOf is what a child inherits at least that has just been made, and stands still; nil: it is not known, or it has not been made
// by libgcov's wrapper of fork. The caller is the thread that traces.
func (im *placed) floorOf(m *member, parent int) *floor {
	f := im.floor.Load()
	if f == nil || f.pid != parent || time.Since(f.read) > floorFor {
		return nil
	}
	sp, known := process.StackPointer(m.pid)
	if !known {
		return nil
	}
	delta := im.at - im.start
	now, stack := make(words, len(f.words)), make([]byte, stackRead)
	ranges := []process.MemoryRange{{Addr: f.at + delta, Bytes: now.bytes()}, {Addr: sp, Bytes: stack}}
	if m.proc.ReadTouched(ranges, im.at+im.named) != nil {
		return nil
	}
	for i, x := range f.words {
		if now[i] < x {
			return nil
		}
	}
	for ; len(stack) >= 8; stack = stack[8:] {
		if returns := binary.LittleEndian.Uint64(stack); returns > im.wrapper+delta && returns <= im.wrapper+delta+wrapperSize {
			return f
		}
	}
	return nil
}

// hasReset tells of a process that has ended, whose counters are w, whether all that it has not counted itself has been set to zero;
// known is false if it may have been in the midst of that.
func (im *placed) hasReset(m *member, w words) (has, known bool) {
	if im.resets == nil || im.inherited == nil {
		return true, true
	}
	begun := !im.inherited.in(w)
	if begun && (im.resets.lastIsLess(w) || m.proc.InSystemCall()) {
		return true, true
	}
	transferred, told := m.proc.BytesTransferred()
	ran, _, err := m.proc.Activity()
	late := told && transferred > 0 || err == nil && ran > resetTime
	return begun && late, begun == late
}

// lastIsLess tells whether the counters that are set to zero last have been.
func (f *floor) lastIsLess(w words) bool {
	for _, p := range f.counts.parts {
		for i, at := range p.at {
			if int(at) >= f.last.from && int(at) < f.last.to && w[at] < p.value[i] {
				return true
			}
		}
	}
	return false
}

// isPastReset tells of a process that runs, whose counters were w, whether it has set all to zero that it has inherited: it had begun
// to, and now waits for something, or has run for longer than that takes.
func (im *placed) isPastReset(m *member, w words) bool {
	if im.inherited.in(w) {
		return false
	}
	ran, sleeps, err := m.proc.Activity()
	return err == nil && (sleeps || ran > resetTime)
}
