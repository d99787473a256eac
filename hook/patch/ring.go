//go:build linux

package patch

import (
	"cmp"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"footfall/binary/unwind"
	"footfall/process"
	"footfall/trace"
)

// The region is memory that the process shares with us:
//
//	0x0000     settings, which end where the table begins (trampoline/amd64.S)
//	0x1000     table of threads
//	0x21000    cache of unwind rows
//	0x31000    queue of rings that threads may take
//	0x40000    unwind rows, twice, for chains
//	           of each thread its ring and, for filters and for chains by traced callers,
//	           its open calls
//
// Nothing of it takes memory until it is used. Where events are recorded the process has
// only as many rings mapped as it has threads, and some more: see rings.go.
type region struct {
	addr     uint64 // in the process
	memory   []byte
	file     *os.File
	ringSize uint64
	newest   bool
	framed   bool                           // there is memory for open calls
	chains   bool                           // there are unwind rows
	few      bool                           // no more rings are mapped than are needed soon
	rings    []uint64                       // where the process has them, in their order in the file
	numbers  map[uint64]int                 // of these
	first    int                            // so many are mapped at first
	near     int                            // children may have so many of these, the first ones; 0: all
	far      []uint64                       // those that are to be had of the others
	rows     map[string][]unwind.CompactRow // of each image, for chains
	sorted   []chainRow                     // all that the trampoline has
}

const (
	tableAt    = 0x1000
	maxThreads = 1024
	threadSize = 128
	cacheAt    = tableAt + maxThreads*threadSize
	queueAt    = cacheAt + 0x10000
	rowsAt     = 0x40000
	framesSize = 1 << 20
	rowsSize   = 1 << 26

	defaultRing = 4 << 20
)

// thread is an entry of the table.
type thread struct {
	id     uint32
	muted  uint32 // the id, once it was muted
	head   uint64
	limit  uint64
	ring   uint64
	lost   uint64
	mask   uint32
	turn   uint32
	frames uint64
	depth  uint64
	tail   uint64
	pid    uint32 // as the process sees itself
	_      uint32
	low    uint64 // of its stack; with filters where it was last
	top    uint64 // with filters not 0: it records everything
	asks   uint64
	byFP   uint64 // steps by frame pointers

	byTrace uint64 // steps by traced callers
	_       uint64
}

// settings are those before the table.
type settings struct {
	queue      uint64 // of rings
	given      uint64 // how many were ever put there
	taken      uint64
	noRing     uint64       // calls by threads that wait for one
	noReturn   uint64       // calls for which there was no return stub
	readable   [8][2]uint64 // address and size
	noPointer  uint64
	unasked    uint32
	unanswered uint32
	state      uint64 // of the dynamic linker: where it is
	patience   uint64 // nanoseconds
	notices    uint32
	answered   uint32
	beat       uint32
	answering  uint32
	pid        uint64
	cache      uint64
	depth      uint64
	minTime    uint64
	period     uint64
	roots      uint64
	noThread   uint64
	chainDepth uint32
	chainShift uint32
	rows       uint64
	rowCount   uint64
}

// A SiteEvent is an entry into a function, or an exit from it.
type SiteEvent struct {
	Time  uint64 // in ticks: see Clock
	ID    uint32 // of the site; for exits with ExitFlag
	Stack uint32 // the low half of the address of the return address
}

// ExitFlag marks the ID of exits.
const ExitFlag = exitFlag

// More of the ID. An entry with NoExitFlag has no exit; an exit with it is that of a
// call which has not returned. RootFlag: its function is a root. WholeFlag: no filter was
// asked, since its thread has several stacks. JumpFlag: the call ended by a jump to another
// site; if the next event is an entry with the same Stack it goes on until that call ends.
const (
	NoExitFlag = unseenFlag
	RootFlag   = rootFlag
	WholeFlag  = wholeFlag // of entries
	JumpFlag   = jumpFlag  // of exits
)

// GapFlag marks the ID of what is no event: from here on to the next one, which has
// ExitFlag, events of the thread were dropped.
const GapFlag = 1 << 25

// IDMask has the bits of an ID that tell the site.
const IDMask = idMask

const eventFlags = exitFlag | unseenFlag | rootFlag | wholeFlag

// WordFlag marks the ID of what is no event: Time is a word of the arguments of
// the event before.
const WordFlag = wordFlag

func (r *region) table() uint64 { return r.addr + tableAt }

func (r *region) settings() *settings {
	return (*settings)(unsafe.Pointer(&r.memory[tableAt-unsafe.Sizeof(settings{})]))
}

func (r *region) thread(i int) *thread {
	return (*thread)(unsafe.Pointer(&r.memory[tableAt+i*threadSize]))
}

// ring is that of a thread, nil if it has none.
func (r *region) ring(i int) []SiteEvent {
	at := r.ringOffset(i)
	if at == 0 {
		return nil
	}
	return unsafe.Slice((*SiteEvent)(unsafe.Pointer(&r.memory[at])), r.ringSize/uint64(unsafe.Sizeof(SiteEvent{})))
}

// ringOffset is where it is in the file, 0: nowhere.
func (r *region) ringOffset(i int) uint64 {
	k, has := r.numbers[atomic.LoadUint64(&r.thread(i).ring)]
	if !has {
		return 0
	}
	return r.ringsAt() + uint64(k)*r.stride()
}

// stride is what each thread has.
func (r *region) stride() uint64 {
	if r.framed {
		return r.ringSize + framesSize
	}
	return r.ringSize
}

// ringsAt is where the first ring is.
func (r *region) ringsAt() uint64 {
	if r.chains {
		return rowsAt + 2*rowsSize
	}
	return rowsAt
}

func (r *region) size() uint64 { return r.ringsAt() + maxThreads*r.stride() }

// countsSize is the memory in which a thread counts: a word for each stub that there can be, by its id.
const countsSize = maxIslands << islandOfIDLog * 8

// memory is that of each thread, unless the process may have less.
func (o *Options) memory() uint64 {
	if o.Mode == trace.Counts {
		return countsSize
	}
	return uint64(cmp.Or(o.RingSize, defaultRing))
}

// counts tells whether a thread has memory to count what reaches a stub, which it has not where its process may have little.
func (r *region) counts(st *stub) bool { return uint64(st.id())*8 < r.ringSize }

// planRegion returns a region that is to be mapped.
func (s *Session) planRegion() (r *region, err error) {
	r = &region{ringSize: s.options.memory(), newest: s.options.Newest}
	if r.ringSize < 4096 || r.ringSize&(r.ringSize-1) != 0 || r.ringSize > 1<<30 {
		return nil, fmt.Errorf("a ring of %d bytes: it must be a power of 2, at least 4096", r.ringSize)
	}
	if r.ringSize < minArgumentsRing && s.options.Arguments {
		return nil, fmt.Errorf("a ring of %d bytes: with arguments it must have %d", r.ringSize, minArgumentsRing)
	}
	if s.ownPID, err = s.p.OwnPID(); err != nil {
		return nil, err
	}
	r.framed, r.chains = s.options.Mode >= trace.Filtered || s.options.Mode == trace.Chains, s.options.Mode == trace.Chains
	r.first = maxThreads
	if native.takesRings && (s.options.Mode >= trace.Entries || s.before.limits) {
		r.first = s.firstRings(r, len(s.before.threads))
	}
	return r, nil
}

// mapped is how much of the region is mapped at first.
func (r *region) mapped() uint64 { return r.ringsAt() + uint64(r.first)*r.stride() }

// mapInto maps a region, which is complete before anything leads to it.
func (r *region) mapInto(h *process.Held) error {
	size := r.size()
	err := h.WithFile(regionName, int64(size), func(fd uint64, f *os.File) error {
		own, err := unix.Dup(int(f.Fd()))
		if err != nil {
			return err
		}
		unix.CloseOnExec(own)
		r.file = os.NewFile(uintptr(own), regionName)
		if r.memory, err = unix.Mmap(own, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			return err
		}
		r.addr, err = h.Map(0, r.mapped(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE, fd, 0)
		return err
	})
	if err != nil {
		r.forget()
		return fmt.Errorf("map memory for events, %d MB of addresses: %w; a smaller --buffer needs less", r.mapped()>>20, err)
	}
	return nil
}

// unmap takes it back, if it was mapped.
func (r *region) unmap(h *process.Held) error {
	if r.memory == nil {
		return nil
	}
	r.forget()
	return h.Unmap(r.addr, r.mapped())
}

// forget gives back what we have of it.
func (r *region) forget() {
	if r.memory != nil {
		unix.Munmap(r.memory)
	}
	if r.file != nil {
		r.file.Close()
	}
	r.memory, r.file = nil, nil
}

// prepare fills the settings and the table.
func (r *region) prepare(o *Options, pid int) {
	set := r.settings()
	set.pid = uint64(pid)
	r.filter(o.Filter, o.Clock)
	set.cache, set.queue = r.addr+cacheAt, r.addr+queueAt
	set.chainDepth, set.chainShift = uint32(o.ChainDepth), chainShift(o.ChainDepth)
	set.rows, set.rowCount = r.addr+rowsAt, 1
	eventless := o.Mode == trace.Counts || o.Mode == trace.Chains
	if eventless {
		set.depth = 0
	}
	for i := range maxThreads {
		t := r.thread(i)
		t.turn = rand.Uint32()
		t.mask = uint32(r.ringSize/uint64(unsafe.Sizeof(SiteEvent{}))) - 1
		switch {
		case eventless:
			t.tail = fullTail - uint64(t.mask)
		case r.newest:
			t.limit = math.MaxUint64
		}
	}
}

// fullTail, less the mask, is the tail of threads for which there is no room for events: with
// Counts and Chains their memory is for something else. A thread may come with one all the same, by
// a return address that an earlier session has replaced.
const fullTail = 63

// filter sets the filter. Where there is no memory for open calls none is kept: a thread may come
// late from a stub of an earlier session.
func (r *region) filter(f trace.Filter, clock *Clock) {
	set := r.settings()
	roots := uint64(0)
	if f.Roots {
		roots = 1
	}
	depth := 0
	if r.framed {
		depth = min(cmp.Or(f.Depth, maxDepth), maxDepth)
	}
	atomic.StoreUint64(&set.depth, uint64(depth))
	minTime := f.MinTime
	if clock != nil {
		minTime = clock.Ticks(time.Duration(minTime))
	}
	atomic.StoreUint64(&set.minTime, minTime)
	atomic.StoreUint64(&set.period, f.Period)
	atomic.StoreUint64(&set.roots, roots)
}

// close gives the memory back, but for the table: a thread may be about to
// write an event, since before the sites were restored.
func (r *region) close() error {
	err := errors.Join(
		unix.Munmap(r.memory),
		unix.Fallocate(int(r.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, rowsAt, int64(len(r.memory))-rowsAt),
	)
	r.memory = nil
	return errors.Join(err, r.file.Close())
}

// batch is how many events are taken before the place of them is given back.
const batch = 4096

// Read takes the events of all threads that are there, and gives them to do,
// thread by thread, in order. The slice is only valid until do returns. It
// returns how many there were; with Options.Newest it is to be called after
// SwitchOff. If a thread waits for [Session.Answer] it returns early.
func (s *Session) Read(do func(t process.ThreadStatus, events []SiteEvent)) int {
	if s.options.Mode < trace.Entries {
		return 0
	}
	s.NoticeFilters()
	s.mapRings()
	total := 0
	first := s.interrupted
	for k := range maxThreads {
		i := (first + k) % maxThreads
		t := s.region.thread(i)
		id := atomic.LoadUint32(&t.id)
		head := atomic.LoadUint64(&t.head)
		if id == 0 || head == s.tails[i] && head == t.tail || !s.wants(i) {
			continue
		}
		thread := s.threadCalled(id, atomic.LoadUint32(&t.pid))
		ring := s.region.ring(i)
		if ring == nil {
			s.Damaged = true // somebody else has written there
			continue
		}
		if !s.sound(i, t, ring, head) {
			continue
		}
		if s.options.Newest {
			total += s.readNewest(t, ring, head, thread, do)
			s.tails[i] = t.tail
			continue
		}
		lost := atomic.LoadUint64(&t.lost) // after head: what is lost later comes behind it
		gap := lost != s.lostBefore[i]
		s.lostBefore[i] = lost
		if gap {
			do(thread, []SiteEvent{{ID: GapFlag}})
		}
		waits := false
		for !waits {
			n := s.take(t, ring, head)
			s.tails[i] = t.tail
			if n == 0 {
				break
			}
			total += n
			do(thread, s.buffer)
			_, waits = s.Noticed()
		}
		if gap {
			do(thread, []SiteEvent{{ID: GapFlag | ExitFlag}})
		}
		if waits {
			s.interrupted = i // it goes on from there, so that all get their turn
			return total
		}
	}
	return total
}

// sound tells whether what a thread has recorded can be read. If the program has written over
// it, all that there is of the thread is left out.
func (s *Session) sound(i int, t *thread, ring []SiteEvent, head uint64) bool {
	tail := s.tails[i]
	if t.tail == tail && head >= tail && (s.options.Newest || head-tail <= uint64(len(ring))) {
		return true
	}
	s.Damaged = true
	clear(ring)
	s.tails[i] = head
	atomic.StoreUint64(&t.tail, head)
	return false
}

// mostCounted is more than there can be of anything: a thousand processors would take a week.
const mostCounted = 1 << 56

// counter returns what a word has counted; 0 if it cannot have.
func (s *Session) counter(word *uint64) uint64 {
	n := atomic.LoadUint64(word)
	if n >= mostCounted {
		s.Damaged = true
		return 0
	}
	return n
}

// take moves up to a batch of events to the buffer. A time of 0 is an event
// that is being written.
func (s *Session) take(t *thread, ring []SiteEvent, head uint64) int {
	if cap(s.buffer) < batch {
		s.buffer = make([]SiteEvent, batch)
	}
	b := s.buffer[:batch]
	mask := uint64(len(ring) - 1)
	tail := t.tail
	n := 0
	for tail < head && n < batch {
		e := &ring[tail&mask]
		time := atomic.LoadUint64(&e.Time)
		if time == 0 {
			break
		}
		words := wordsOf(e.ID)
		if words > 0 && (tail+uint64(words) >= head || n+int(words) >= batch) {
			break
		}
		b[n] = SiteEvent{time, e.ID & (eventFlags | idMask), e.Stack}
		e.Time = 0
		tail++
		n++
		for ; words > 0; words-- {
			w := &ring[tail&mask]
			b[n] = SiteEvent{Time: w.Time, ID: WordFlag}
			w.Time = 0
			tail++
			n++
		}
	}
	atomic.StoreUint64(&t.tail, tail)
	s.buffer = b[:n]
	return n
}

// wordsOf returns how many words follow the event of that id.
func wordsOf(id uint32) uint32 {
	if id&(exitFlag|wordFlag) != 0 {
		return 0
	}
	return id >> wordsShift & 0x3f
}

// readNewest takes all that a ring has.
func (s *Session) readNewest(t *thread, ring []SiteEvent, head uint64, thread process.ThreadStatus, do func(process.ThreadStatus, []SiteEvent)) int {
	n := uint64(len(ring))
	tail := max(t.tail, head-min(head, n))
	var events []SiteEvent
	last := uint64(0)
	for tail < head {
		e := ring[tail&(n-1)]
		tail++
		if e.ID&wordFlag != 0 || e.Time < max(last, 1) {
			continue // of an event that is gone, or was being written
		}
		last = e.Time
		events = append(events, SiteEvent{e.Time, e.ID & (eventFlags | idMask), e.Stack})
		for words := wordsOf(e.ID); words > 0 && tail < head && ring[tail&(n-1)].ID == wordFlag; words-- {
			events = append(events, SiteEvent{Time: ring[tail&(n-1)].Time, ID: WordFlag})
			tail++
		}
	}
	t.tail = head
	if len(events) > 0 {
		do(thread, events)
	}
	return len(events)
}

// Lost returns how many events were dropped because they were not read in time
// or, for Counts and Chains, how many calls were not counted; and how many
// because there were too many threads.
func (s *Session) Lost() (events, threads uint64) {
	events = s.ended.lost
	for i := range maxThreads {
		if lost := s.counter(&s.region.thread(i).lost); lost > 0 && s.wants(i) {
			events += lost
		}
	}
	set := s.region.settings()
	return events, s.counter(&set.noThread) + s.counter(&set.noRing)
}

// Pointerless returns how many calls were not recorded because their threads have no
// thread pointer: nothing tells these apart.
func (s *Session) Pointerless() uint64 { return s.counter(&s.region.settings().noPointer) }

// Counts returns how often each site was called, with mode Counts.
func (s *Session) Counts() map[uint32]uint64 {
	counts := make(map[uint32]uint64)
	maps.Copy(counts, s.ended.counts)
	for i := range maxThreads {
		if s.region.thread(i).id == 0 && !s.used[i] || !s.wants(i) {
			continue // reading it would take memory
		}
		s.countsOf(i, counts)
	}
	return counts
}

// countsOf adds what a thread has counted.
func (s *Session) countsOf(i int, counts map[uint32]uint64) {
	words := s.region.ring(i)
	if words == nil {
		return
	}
	for id := range s.stubs {
		if n := s.counter((*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(words)), uint64(id)*8))); n != 0 {
			counts[id] += n
		}
	}
}

// Site returns the site of an event's id; nil for calls that an earlier session
// has seen begin.
func (s *Session) Site(id uint32) *EntrySite { return s.stubs[id&idMask] }

// Sites returns all sites that are switched on, with their ids.
func (s *Session) Sites() map[uint32]*EntrySite { return s.stubs }

// chainShift is the binary logarithm of a chain's size in the table.
func chainShift(depth int) uint32 {
	shift := uint32(5)
	for 1<<shift < 16+8*depth {
		shift++
	}
	return shift
}

// MaxChainDepth is how many callers are followed at most.
const MaxChainDepth = 30

// Chains returns what mode Chains has counted, the most frequent first, equal
// chains of all threads added up.
func (s *Session) Chains() []trace.Chain {
	shift := chainShift(s.options.ChainDepth)
	byAddresses := make(map[string]*trace.Chain)
	for i := range maxThreads {
		t := s.region.thread(i)
		if atomic.LoadUint64(&t.head) == 0 {
			continue
		}
		from := s.region.ringOffset(i)
		if from == 0 {
			continue
		}
		for table := range s.region.written(from, from+s.region.ringSize) {
			s.Damaged = !collectChains(table, shift, s.options.ChainDepth, byAddresses) || s.Damaged
		}
	}
	var chains []trace.Chain
	for _, c := range byAddresses {
		chains = append(chains, *c)
	}
	SortChains(chains)
	return chains
}

// SortChains sorts chains, the most frequent first.
func SortChains(chains []trace.Chain) {
	slices.SortFunc(chains, func(a, b trace.Chain) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.Addresses, b.Addresses))
	})
}

// collectChains adds the chains of (a part of) a table.
func collectChains(table []byte, shift uint32, depth int, byAddresses map[string]*trace.Chain) (sound bool) {
	sound = true
	for ; len(table) >= 1<<shift; table = table[1<<shift:] {
		n := encoding.LittleEndian.Uint32(table[8:])
		count := encoding.LittleEndian.Uint64(table)
		if n == math.MaxUint32 || n == 0 && count == 0 {
			continue // it is just being written
		}
		if n == 0 || int64(n) > int64(depth) || count >= mostCounted {
			sound = false
			continue
		}
		key := string(table[16 : 16+8*n])
		c := byAddresses[key]
		if c == nil {
			c = new(trace.Chain)
			for a := []byte(key); len(a) > 0; a = a[8:] {
				c.Addresses = append(c.Addresses, encoding.LittleEndian.Uint64(a))
			}
			byAddresses[key] = c
		}
		c.Count += count
	}
	return sound
}

// written gives the parts of the region that have been written to. To read the
// others would take memory.
func (r *region) written(from, to uint64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for from < to {
			data, err := unix.Seek(int(r.file.Fd()), int64(from), unix.SEEK_DATA)
			if err != nil || uint64(data) >= to {
				return // no more
			}
			hole, err := unix.Seek(int(r.file.Fd()), data, unix.SEEK_HOLE)
			if err != nil {
				return
			}
			from = min(uint64(hole), to)
			if !yield(r.memory[data:from]) {
				return
			}
		}
	}
}
