//go:build linux

package patch

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// Rings of events are mapped as threads need them: at first one for each thread that
// there is and some more, from which new threads take theirs by themselves (probe in
// trampoline/amd64.S); when few are left, more are mapped. A thread that finds none is
// muted until it is given one, and its calls are counted as not recorded. A ring that
// nobody has any more is put into the queue again.
//
// Children made by fork have what was mapped at that time. Where their calls are recorded,
// rings that are mapped later are far ones: they are in no queue, and footfall gives them to
// threads of the process itself.

const (
	spareRings     = 64
	mostSpareBytes = 256 << 20
	// Where memory may be limited, or locked.
	fewRings     = 4
	fewRingBytes = fewRings * (defaultRing + framesSize)
)

// A queued ring, in the queue of the region.
type queuedRing struct{ ring, frames uint64 }

func (r *region) queued(n uint64) *queuedRing {
	at := queueAt + n%maxThreads*uint64(unsafe.Sizeof(queuedRing{}))
	return (*queuedRing)(unsafe.Pointer(&r.memory[at]))
}

// firstRings returns how many rings are mapped at first, for n threads. Where the memory of the process
// is limited, or it is able to lock all that it has, it is to have room besides: rings are
// smaller then.
func (s *Session) firstRings(r *region, n int) int {
	if room := s.p.MemoryRoom(); room > 0 && r.ringSize == defaultRing {
		const least = 1 << 16
		spare := fewRings
		if s.options.Follow {
			spare = 14 // children come and go, and can be given no more
		}
		for r.ringSize > least && uint64(n+spare)*r.stride() > room/4*3 {
			r.ringSize /= 2
		}
		if uint64(n+spare)*r.stride() <= room/4*3 {
			return min(n+spare, maxThreads)
		}
		r.ringSize = defaultRing // it is not, in any case
	}
	r.few = s.before.limits
	return min(n+r.spare(), maxThreads)
}

// limitsMemory tells whether a file of the process calls what limits its memory, or locks
// all that it has.
func limitsMemory(p *process.Process) bool {
	return uses(p, "mlockall", "setrlimit", "setrlimit64", "prlimit", "prlimit64")
}

// uses tells whether a file of the process uses a function of that name in another one, or
// a program that has all its libraries within the first of them.
func uses(p *process.Process, names ...string) bool {
	maps, _, err := p.Maps()
	if err != nil {
		return false
	}
	for _, i := range p.Images(maps) {
		image, err := target.Open(p, i)
		if err != nil {
			continue
		}
		does := image.File.Imports(names...)
		if image.IsStatic() {
			_, does = image.Symbol(names[0])
		}
		image.Close()
		if does {
			return true
		}
	}
	return false
}

// spare is how many rings there are to be for new threads.
func (r *region) spare() int {
	if r.few {
		return max(fewRings, min(spareRings, fewRingBytes/int(r.stride())))
	}
	return max(2, min(spareRings, int(mostSpareBytes/r.stride())))
}

// give puts rings into the queue that the process has at an address, the next ones of
// the file.
func (r *region) give(at uint64, n int) {
	if r.numbers == nil {
		r.numbers = make(map[uint64]int)
	}
	for range n {
		r.numbers[at] = len(r.rings)
		r.rings = append(r.rings, at)
		r.free(at)
		at += r.stride()
	}
}

// free makes a ring one that is to be had.
func (r *region) free(ring uint64) {
	if r.near > 0 && r.numbers[ring] >= r.near {
		r.far = append(r.far, ring)
	} else {
		r.enqueue(ring)
	}
}

func (r *region) enqueue(ring uint64) {
	set := r.settings()
	given := atomic.LoadUint64(&set.given)
	q := r.queued(given)
	atomic.StoreUint64(&q.frames, ring+r.ringSize)
	atomic.StoreUint64(&q.ring, ring)
	atomic.StoreUint64(&set.given, given+1)
}

// giveAll gives each place a ring.
func (r *region) giveAll() {
	for i := range maxThreads {
		r.takeFor(r.thread(i))
	}
}

// takeFor sees to it that the thread of a place has a ring; false: there is none left.
func (r *region) takeFor(t *thread) bool {
	if _, has := r.numbers[atomic.LoadUint64(&t.ring)]; has {
		return true
	}
	set := r.settings()
	if n := len(r.far); n > 0 && atomic.LoadUint32(&t.pid) == uint32(set.pid) {
		ring := r.far[n-1]
		r.far = r.far[:n-1]
		atomic.StoreUint64(&t.frames, ring+r.ringSize)
		atomic.StoreUint64(&t.ring, ring)
		return true
	}
	for {
		taken := atomic.LoadUint64(&set.taken)
		if taken >= atomic.LoadUint64(&set.given) {
			return false
		}
		q := *r.queued(taken)
		if atomic.CompareAndSwapUint64(&set.taken, taken, taken+1) {
			atomic.StoreUint64(&t.frames, q.frames)
			atomic.StoreUint64(&t.ring, q.ring)
			return true
		}
	}
}

// takeBack puts the ring of a place, whose thread has ended, into the queue. What has
// been counted stays with the place.
func (r *region) takeBack(t *thread, mode trace.Mode) {
	ring := atomic.LoadUint64(&t.ring)
	if _, has := r.numbers[ring]; !has || mode < trace.Entries || !native.takesRings {
		return
	}
	atomic.StoreUint64(&t.ring, 0)
	r.free(ring)
}

// mapRings maps more rings if few are left, and gives threads theirs that wait for one.
func (s *Session) mapRings() {
	r := s.region
	set := r.settings()
	left := int64(atomic.LoadUint64(&set.given)-atomic.LoadUint64(&set.taken)) + int64(len(r.far))
	first := r.spare()
	if r.ringSize < s.options.memory() {
		first = fewRings // because of limits
	}
	if left > int64(first)/2 {
		return
	}
	if n := min(first, maxThreads-len(r.rings)); n > 0 && s.unmapped == nil {
		s.unmapped = held(s.p, func(h *process.Held) error {
			return s.islands[0].alone(h, func() error {
				at, err := r.extend(h, n)
				if err == nil {
					r.give(at, n)
				}
				return err
			})
		})
	}
	for i := range maxThreads {
		t := r.thread(i)
		if id, muted := t.occupant(); muted && id != 0 && atomic.LoadUint64(&t.ring) == 0 && r.takeFor(t) {
			atomic.StoreUint32(&t.id, id)
		}
	}
}

// extend maps the next rings of the file: what is there of it can be mapped once more,
// and further, without its descriptor.
func (r *region) extend(h *process.Held, n int) (at uint64, err error) {
	const mayMove = 1 // MREMAP_MAYMOVE
	last := r.rings[len(r.rings)-1]
	at, err = h.SystemCall(unix.SYS_MREMAP, last, 0, uint64(n+1)*r.stride(), mayMove)
	if err != nil {
		return 0, err
	}
	return at + r.stride(), h.Unmap(at, r.stride())
}
