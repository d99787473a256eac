//go:build linux

package patch

import (
	"bytes"
	"cmp"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process"
)

// A Ran tells which of some functions of a process have run since they were armed. Their first
// instructions are moved into a stub that notes that it ran; when that has been seen, they are
// put back:
//
//	site                 stub
//	push %r15  --> jmp   cmpb $0,hit; jne copy
//	push %r14            movb $1,hit
//	push %r13            copy: the instructions
//	...        <--       jmp behind the window
//
// So what runs costs nothing any more, and what does not never did. hit is a byte of memory that is
// shared with us: what ran is known also when the process has ended, and what its children by
// fork ran is noted, too. Nothing in the process needs us: if footfall is killed, it goes on with
// the stubs, at a nanosecond a call, until [Repair] or the next session puts everything back.
type Ran struct {
	s       *Session // has the islands; nothing is recorded
	hits    map[*island][]byte
	shared  [][]byte   // what is mapped of it here
	groups  []ranGroup // all sites
	armed   []armedStub
	gone    []armedStub          // that have run
	waiting []*stub              // see putOff
	sites   map[*stub]*EntrySite // of those that are being armed, or wait
	blind   []*EntrySite         // blocks that cannot be armed, by ascending address
	blocked []int                // all that were blind
	doubts  map[int]bool
	keep    Keeping         // 0: it does not stay
	files   map[string]bool // for hits
	before  map[string]bool // of these, those of the Ran that was taken over
	found   []int           // that ran before it was, and are to be returned

	// TakenOver is what an earlier Ran watched, which was to stay, and is gone on with; 0: there was none.
	TakenOver Keeping
	// Gaps are sites that it had not armed, nor seen run.
	Gaps map[int]bool

	// Stopped is how long all threads stood still the last time, Longest the longest time, and
	// Stood all of them together.
	Stopped, Longest, Stood time.Duration
	Stops                   int
	// Skipped are sites that are not armed, and why.
	Skipped map[int]string
}

// hitsName is that of the memory for hits.
const hitsName = process.MemoryPrefix + "hits"

// mostAtOnce is how many sites are changed while the process stands still: more are changed when
// it has run on for a moment.
var mostAtOnce = 1000

// notesRun tells whether the stub is one of a Ran.
func (st *stub) notesRun() bool { return st.mode == notesRun }

// OpenRan arms sites whose instructions are moved, which [Moved] has found, of what. They are known by their numbers from 0 on.
// If one is to stay in the process it is gone on with. If keep, this one is to stay, too, even if we are killed. If it fails the
// process is as before.
func OpenRan(p *process.Process, sites RanSites, what Keeping, keep bool) (r *Ran, err error) {
	if err := supported(p, &Options{}); err != nil {
		return nil, err
	}
	release, err := p.Claim()
	if err != nil {
		return nil, err
	}
	defer release()
	s := &Session{p: p, Skipped: make(map[*EntrySite]string)}
	opened := &Ran{s: s, hits: make(map[*island][]byte), sites: make(map[*stub]*EntrySite), doubts: make(map[int]bool), files: make(map[string]bool), before: make(map[string]bool), Skipped: make(map[int]string), Gaps: make(map[int]bool)}
	if keep {
		opened.keep = what
	}
	if s.islands, err = findIslands(p); err != nil {
		return nil, err
	}
	if err := refuseSecond(p, s.islands); err != nil {
		return nil, err
	}
	opened.TakenOver = keptBy(s.islands)
	if opened.TakenOver != 0 && opened.TakenOver != what {
		return nil, refuseKept(p, s.islands)
	}
	if opened.TakenOver != 0 {
		err = opened.noteFiles(opened.before)
	} else {
		_, err = repair(p, s.islands)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			end := opened.Close
			if opened.TakenOver != 0 { // it stays as it was
				end = opened.Leave
			}
			_, closeErr := end()
			err = errors.Join(err, closeErr)
		}
	}()
	if err := opened.Add(sites); err != nil {
		return nil, err
	}
	if len(opened.armed)+len(opened.gone)+len(opened.waiting) == 0 {
		return nil, fmt.Errorf("process %d: none of its functions can be watched: %s", p.PID, opened.firstSkipped())
	}
	return opened, nil
}

// Add arms more sites, of libraries that have been loaded. Their numbers follow those of the sites before.
func (r *Ran) Add(sites RanSites) error {
	first := r.count()
	r.groups = append(r.groups, ranGroup{first, sites})
	return r.add(func(yield func(int) bool) {
		for n := range sites.Count {
			if !yield(first + n) {
				return
			}
		}
	})
}

// An arming is sites that are being armed, by their numbers.
type arming struct {
	numbers iter.Seq[int]
	earlier *earlierRan        // nil: there was none
	taken   map[stubID]bool    // see Ran.taken
	there   map[*island][]byte // stubs of earlier sessions, of those that were looked at
	first   map[*island]int    // how many these are
	seen    map[uint64]bool    // addresses
}

// add arms sites, some at a time: each of them and its stub take a thousand bytes until it is armed.
func (r *Ran) add(numbers iter.Seq[int]) error {
	s := r.s
	release, err := s.p.Claim()
	if err != nil {
		return err
	}
	defer release()
	defer r.pack()
	if err := recallAll(s.p, s.islands); err != nil {
		return err
	}
	a := &arming{numbers: numbers, taken: r.taken(), there: make(map[*island][]byte), first: make(map[*island]int), seen: make(map[uint64]bool)}
	for _, b := range s.islands {
		a.first[b] = len(b.stubs)
	}
	if r.TakenOver != 0 && len(r.hits) == 0 {
		if err := r.inject(nil); err != nil {
			return err
		}
		if a.earlier, err = r.findEarlier(); err != nil {
			return err
		}
	}
	if needs := r.needs(a); len(needs) > 0 {
		r.armed = slices.Grow(r.armed, len(needs))
		if err := r.inject(needs); err != nil {
			return err
		}
	}
	if err := r.addInParts(a); err != nil {
		return err
	}
	for try := 0; try < 5 && len(r.waiting) > 0; try++ {
		time.Sleep(time.Millisecond)
		if err := r.retry(); err != nil {
			return err
		}
	}
	return nil
}

// needs are the stubs that are missing.
func (r *Ran) needs(a *arming) (needs []stubNeed) {
	for n := range a.numbers {
		if addr, has := r.window(n); has && !a.earlier.has(addr) {
			needs = append(needs, stubNeed{addr, 1})
		}
	}
	return needs
}

// stepsInPart is for how many stops sites are made at once.
const stepsInPart = 4

// addInParts arms sites in parts, of which each has some that can be armed.
func (r *Ran) addInParts(a *arming) error {
	var part []*EntrySite
	with := 0 // windows
	for n := range a.numbers {
		_, has := r.window(n)
		if has && with == stepsInPart*mostAtOnce {
			if err := r.addPart(a, part); err != nil {
				return err
			}
			part, with = part[:0], 0
		}
		if part = append(part, r.Site(n)); has {
			with++
		}
	}
	if err := r.addPart(a, part); err != nil {
		return err
	}
	for _, site := range r.blind { // nothing was armed with which these would have been looked at
		r.doubts[site.number] = true
	}
	return nil
}

// addPart arms some of the sites.
func (r *Ran) addPart(a *arming, sites []*EntrySite) error {
	if a.earlier != nil {
		sites = r.takeOver(a.earlier, sites)
	}
	var armable []*EntrySite
	for _, site := range sites {
		if site.window != nil {
			armable = append(armable, site)
			continue
		}
		r.blind = append(r.blind, site)
		r.blocked = append(r.blocked, site.number)
	}
	slices.SortFunc(r.blind, func(a, b *EntrySite) int { return cmp.Compare(a.code.from, b.code.from) })
	armable = r.s.usable(armable, a.seen)
	r.skipped()
	if len(armable) == 0 {
		return nil
	}
	stubs, err := r.writeStubs(a, armable)
	if err != nil {
		return err
	}
	r.tellLibunwind(stubs)
	if err := r.arm(stubs); err != nil {
		return err
	}
	r.forgetSites()
	for _, b := range r.s.islands {
		b.forgetStubs(a.first[b])
	}
	return nil
}

// inject maps islands and hits that are missing; again where the process has mapped something itself
// meanwhile.
func (r *Ran) inject(needs []stubNeed) error {
	const tries = 10
	for try := 1; ; try++ {
		if err := r.injectAt(needs); try == tries || !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
}

func (r *Ran) injectAt(needs []stubNeed) error {
	s := r.s
	if err := r.closeTaken(); err != nil {
		return err
	}
	needed, err := s.place(needs)
	if err != nil {
		return err
	}
	before := len(s.islands)
	lacking := slices.DeleteFunc(slices.Clone(s.islands), func(b *island) bool { return r.hits[b] != nil || s.closed[b] })
	if len(needed)+len(lacking) == 0 {
		return nil
	}
	taking := len(r.hits) == 0 && r.TakenOver != 0
	err = held(s.p, func(h *process.Held) error {
		defer r.stood(h)
		err := h.InjectCalls(func() error {
			for _, b := range needed {
				if err := s.addIsland(h, b); err != nil {
					return err
				}
			}
			return r.mapHits(h, slices.Concat(lacking, s.islands[before:]), taking)
		})
		if err != nil && !errors.Is(err, process.ErrBusy) {
			return errors.Join(err, s.unmap(h, before))
		}
		return err
	})
	if err != nil {
		return roomier(s.p, err)
	}
	self, err := process.Identify(os.Getpid())
	if err != nil {
		return err
	}
	for _, b := range s.islands {
		if b.kept = r.keep; r.keep == 0 && r.TakenOver != 0 { // until it is closed
			b.kept = r.TakenOver
		}
		if err := b.setOwner(s.p, uint64(os.Getpid()), self.Ticks); err != nil {
			return err
		}
	}
	return errors.Join(s.noteIslands(), r.noteFiles(r.files))
}

// closeTaken finds islands of earlier traces where hits would be, but the process has mapped something meanwhile.
func (r *Ran) closeTaken() error {
	mappings, _, err := r.s.p.Maps()
	if err != nil {
		return err
	}
	r.s.closed = make(map[*island]bool)
	for _, b := range r.s.islands {
		hits := span{b.addr + hitsAt, b.addr + hitsAt + maxStubs}
		r.s.closed[b] = r.hits[b] == nil && slices.ContainsFunc(mappings, func(m process.Mapping) bool {
			return m.Start < hits.to && hits.from < m.End && m.Path != "/memfd:"+hitsName
		})
	}
	return nil
}

// mapHits maps memory for the hits of islands, in place of that of an earlier session, whose hits are taken over or
// forgotten.
func (r *Ran) mapHits(h *process.Held, islands []*island, taking bool) error {
	mappings, _, err := r.s.p.Maps()
	if err != nil {
		return err
	}
	size := len(islands) * maxStubs
	return h.WithFile(hitsName, int64(size), func(fd uint64, f *os.File) error {
		memory, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("map shared memory: %w", err)
		}
		for n, b := range islands {
			how := unix.MAP_SHARED | unix.MAP_FIXED_NOREPLACE
			if m := mappings.At(b.addr + hitsAt); m != nil && m.Path == "/memfd:"+hitsName {
				how = unix.MAP_SHARED | unix.MAP_FIXED
				if taking {
					if _, err := r.s.p.ReadAt(memory[n*maxStubs:(n+1)*maxStubs], int64(b.addr+hitsAt)); err != nil {
						return errors.Join(err, unix.Munmap(memory))
					}
				}
			}
			if _, err := h.Map(b.addr+hitsAt, maxStubs, unix.PROT_READ|unix.PROT_WRITE, how, fd, uint64(n*maxStubs)); err != nil {
				for _, done := range islands[:n] {
					if taking { // stubs write there
						delete(r.hits, done)
						continue
					}
					err = errors.Join(err, h.Unmap(done.addr+hitsAt, maxStubs))
					delete(r.hits, done)
				}
				return errors.Join(fmt.Errorf("map shared memory: %w", err), unix.Munmap(memory))
			}
			r.hits[b] = memory[n*maxStubs : (n+1)*maxStubs]
		}
		r.shared = append(r.shared, memory)
		return nil
	})
}

// writeStubs adds the stubs that are missing, and the notes by which all are put back.
func (r *Ran) writeStubs(a *arming, sites []*EntrySite) (stubs []*stub, err error) {
	s := r.s
	first := make(map[*island]int)
	for _, b := range s.islands {
		first[b] = len(b.stubs)
	}
	for _, site := range sites {
		st := r.findStub(site, a)
		if st == nil {
			if st, err = r.addStub(site); err != nil {
				r.Skipped[site.number] = err.Error()
				continue
			}
		}
		r.sites[st] = site
		r.hits[st.island][st.index] = 0
		stubs = append(stubs, st)
	}
	for _, b := range s.islands {
		var code []byte
		for _, st := range b.stubs[first[b]:] {
			code = append(code, st.ranCode()...)
		}
		if len(code) > 0 {
			if _, err := s.p.WriteAt(code, int64(b.stubs[first[b]].addr())); err != nil {
				return nil, err
			}
		}
		if err := errors.Join(b.setPatched(s.p, stubs, true), b.setOwner(s.p, b.owner, b.ownerTicks)); err != nil {
			return nil, err
		}
	}
	return stubs, nil
}

// tellLibunwind lets GNU libunwind, where the process has it, find the callers from stubs. libgcc is not
// told, see unwindsAlways.
func (r *Ran) tellLibunwind(stubs []*stub) {
	if list, err := r.s.findDynamicList(); err != nil || list.addr == 0 {
		return
	}
	for _, st := range stubs {
		if finder, err := r.sites[st].Image.ExitFinder(); err == nil && st.frames == nil {
			st.frames = st.moved.frames(r.sites[st], finder)
			st.frames.fillUpTo(st.moved.starts[0]) // what notes leaves stack and registers as they are
		}
	}
	r.s.tellLibunwind()
}

// ranCode is what a stub consists of.
func (st *stub) ranCode() []byte {
	return append(slices.Clone(st.moved.code), bytes.Repeat(native.breakpoint, stubSize-len(st.moved.code))...)
}

// addStub adds the stub of a site.
func (r *Ran) addStub(site *EntrySite) (*stub, error) {
	err := r.s.full()
	for _, b := range r.s.islands {
		if !reaches(b.addr, site.Addr) || b.count() >= b.room || r.s.closed[b] {
			continue
		}
		st := &stub{island: b, index: uint32(b.count()), site: site.Addr, old: site.old, mode: site.mode}
		if st.fillRan(site) {
			b.add(st)
			return st, nil
		}
		err = errFar
	}
	return nil, err
}

// fillRan encodes the stub, which is the copy of the site's instructions, too. It returns false if
// that cannot be where the stub is.
func (st *stub) fillRan(site *EntrySite) bool {
	note := noteRun
	if site.block {
		note = noteBlock
	}
	code := note(st.addr(), st.island.addr+hitsAt+uint64(st.index))
	m, ok := movedCode(site, st.addr()+uint64(len(code)))
	if !ok || len(code)+len(m.code) > stubSize {
		return false
	}
	for n := range m.starts {
		m.starts[n] += len(code)
	}
	st.moved = movedCopy{append(code, m.code...), m.starts}
	st.window, st.copy, st.resume = site.window, st, st.addr()
	return true
}

// noteRun encodes what notes that a stub ran, in a byte at hit:
//
//	80 3d disp32 00  cmpb $0,hit(%rip)    nobody needs the flags at a function's entry, and threads
//	75 07            jne  behind          share what they only read
//	c6 05 disp32 01  movb $1,hit(%rip)
func noteRun(at, hit uint64) (code []byte) {
	const size = 7 // of both instructions with an address
	relative := func(opcode ...byte) {
		end := at + uint64(len(code)) + size
		code = append(code, opcode...)
		code = encoding.LittleEndian.AppendUint32(code, uint32(hit-end))
	}
	relative(0x80, 0x3d)
	code = append(code, 0, 0x75, size)
	relative(0xc6, 0x05)
	return append(code, 1)
}

// noteBlock is noteRun where flags may be needed, and what is below the stack pointer:
//
//	c6 05 disp32 01  movb $1,hit(%rip)
func noteBlock(at, hit uint64) (code []byte) {
	const size = 7
	code = encoding.LittleEndian.AppendUint32([]byte{0xc6, 0x05}, uint32(hit-at-size))
	return append(code, 1)
}

// findStub finds the stub of a site that an earlier session has left; nil: there is none.
func (r *Ran) findStub(site *EntrySite, a *arming) *stub {
	for _, b := range r.s.islands {
		if r.s.closed[b] {
			continue
		}
		for _, st := range b.byKey[stubKey{site: site.Addr, mode: site.mode}] {
			if st.old != site.old || a.taken[r.idOf(st)] || r.sites[st] != nil {
				continue
			}
			if a.there[b] == nil {
				all := make([]byte, a.first[b]*stubSize)
				if _, err := r.s.p.ReadAt(all, int64(b.addr+stubsAt)); err != nil {
					return nil
				}
				a.there[b] = all
			}
			at := int(st.index) * stubSize
			if there := a.there[b]; st.fillRan(site) && at+stubSize <= len(there) && bytes.Equal(there[at:at+stubSize], st.ranCode()) {
				return st
			}
		}
	}
	return nil
}

// arm writes the jumps.
func (r *Ran) arm(stubs []*stub) error {
	stubs = sorted(stubs)
	for len(stubs) > 0 {
		some := stubs[:min(len(stubs), mostAtOnce)]
		stubs = stubs[len(some):]
		end := uint64(math.MaxUint64)
		if len(stubs) > 0 {
			end = r.sites[stubs[0]].code.from
		}
		if err := r.s.p.WhileHeld(func(h *process.Held) error {
			defer r.stood(h)
			return r.armSome(h, some, end)
		}); err != nil {
			return err
		}
	}
	return nil
}

// armSome arms the first of the stubs that are to be armed; end is where the code of the others begins.
func (r *Ran) armSome(h *process.Held, stubs []*stub, end uint64) error {
	p := r.s.p
	there, pages, err := present(p, stubs, func(st *stub) []byte { return st.old[:native.jumpSize] })
	if err != nil {
		return err
	}
	blind := r.takeBlind(end)
	if len(there) == 0 {
		for _, site := range blind {
			r.doubts[site.number] = true
		}
		return nil
	}
	code := span{r.sites[there[0]].code.from, 0}
	for _, st := range there {
		c := r.sites[st].code
		code = span{min(code.from, c.from), max(code.to, c.to+1)}
	}
	for _, site := range blind {
		code = span{min(code.from, site.code.from), max(code.to, site.code.to+1)}
	}
	there, later, err := free(p, h, there, code, r.doubter(there, blind))
	if err != nil {
		return err
	}
	if err := r.noteDoubts(there); err != nil {
		return err
	}
	r.waiting = append(r.waiting, later...)
	changes := make([]change, len(there))
	for i, st := range there {
		changes[i] = change{st.site, st.old[:native.jumpSize], st.jump()}
	}
	for _, st := range there { // from here on there is something to put back
		r.armed = append(r.armed, r.packed(st, r.sites[st].number))
	}
	_, err = writeCode(p, pages, changes)
	return err
}

// noteDoubts notes in the process of which of the stubs it is doubted whether their code was running, for who may go on
// with this one.
func (r *Ran) noteDoubts(stubs []*stub) error {
	var doubted []*stub
	for _, st := range stubs {
		if st.doubted = r.doubts[r.sites[st].number]; st.doubted && keptBy(r.s.islands) != 0 {
			doubted = append(doubted, st)
		}
	}
	for _, b := range r.s.islands {
		if err := b.setPatched(r.s.p, doubted, true); err != nil {
			return err
		}
	}
	return nil
}

// takeBlind returns the sites that cannot be armed up to an address, once.
func (r *Ran) takeBlind(end uint64) []*EntrySite {
	n, _ := slices.BinarySearchFunc(r.blind, end, func(s *EntrySite, end uint64) int { return cmp.Compare(s.code.from, end) })
	some := r.blind[:n]
	r.blind = r.blind[n:]
	return some
}

// doubter returns what notes which code may be running already, by addresses on stacks. A call
// returns behind it, where other code may begin; where a block begins it is seen.
func (r *Ran) doubter(stubs []*stub, blind []*EntrySite) func(addr uint64) {
	sites := slices.Clone(blind)
	for _, st := range stubs {
		sites = append(sites, r.sites[st])
	}
	slices.SortFunc(sites, func(a, b *EntrySite) int { return cmp.Compare(a.code.from, b.code.from) })
	doubt := func(addr uint64, returned bool) {
		i, found := slices.BinarySearchFunc(sites, addr, func(s *EntrySite, addr uint64) int { return cmp.Compare(s.code.from, addr) })
		if !found {
			i--
		}
		if i >= 0 && sites[i].code.has(addr) && !(returned && sites[i].block) {
			r.doubts[sites[i].number] = true
		}
	}
	return func(addr uint64) {
		doubt(addr, false)
		doubt(addr-1, true)
	}
}

// MayHaveBegun tells whether a site's code may have been running already when it was armed: then
// it may run on without that being seen.
func (r *Ran) MayHaveBegun(site int) bool { return r.doubts[site] }

// stood notes how long the process has stood still.
func (r *Ran) stood(h *process.Held) {
	r.Stopped = h.StoodFor()
	r.Longest = max(r.Longest, r.Stopped)
	r.Stood += r.Stopped
	r.Stops++
}

// Look returns the sites that have run since the last Look, and puts their code back. It arms
// what could not be armed yet. When the process has ended, nothing is missing.
func (r *Ran) Look() (ran []int, err error) {
	hit := r.takeHit()
	ran, r.found = append(r.found, numbers(hit)...), nil
	if r.s.p.Check() != nil {
		return ran, nil
	}
	if err := r.disarm(hit); err != nil {
		r.armed = append(r.armed, hit...) // Close tries again
		return ran, r.unlessEnded(err)
	}
	r.gone = append(r.gone, hit...)
	return ran, r.unlessEnded(r.retry())
}

// disarm puts the code of sites back.
func (r *Ran) disarm(armed []armedStub) error {
	slices.SortFunc(armed, func(a, b armedStub) int { return cmp.Compare(a.site, b.site) })
	for some := range slices.Chunk(armed, mostAtOnce) {
		stubs := make([]*stub, len(some))
		for i := range some {
			stubs[i] = r.stubOf(&some[i])
		}
		if err := r.s.p.WhileHeld(func(h *process.Held) error {
			defer r.stood(h)
			return putBackCode(r.s.p, stubs)
		}); err != nil {
			return err
		}
		for _, b := range r.s.islands {
			if err := b.setPatched(r.s.p, stubs, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Ran) retry() error {
	if len(r.waiting) == 0 {
		return nil
	}
	stubs := r.waiting
	r.waiting = nil
	return r.arm(stubs)
}

func (r *Ran) unlessEnded(err error) error {
	if err != nil && r.s.p.Check() != nil {
		return nil
	}
	return err
}

// Armed tells whether it would be seen if the site ran, or has been.
func (r *Ran) Armed(site int) bool {
	return r.Skipped[site] == "" && !slices.ContainsFunc(r.waiting, func(st *stub) bool { return r.sites[st].number == site })
}

// Close puts all code back, also in children made by fork, and returns what has run since the
// last Look.
func (r *Ran) Close() (ran []int, err error) {
	s := r.s
	release, _ := s.p.Claim() // it may have ended
	defer release()
	hit := r.takeHit()
	if alive := s.p.Check() == nil; alive && len(s.islands) > 0 {
		if err = recallAll(s.p, s.islands); err == nil {
			err = r.disarm(slices.Concat(hit, r.armed))
		}
		if err == nil {
			err = restore(s.p, s.islands, r.all()) // what is not there is noted, too
		}
		err = r.unlessEnded(err)
	}
	s.restoreChildren()
	ran = slices.Concat(r.found, numbers(hit), numbers(r.takeHit())) // it has run on
	err = errors.Join(err, r.forget())
	if err == nil && s.p.Check() == nil {
		err = r.unlessEnded(tidy(s.p, s.islands))
	}
	return ran, err
}

// all are the stubs that may be to be put back: also those that an earlier Ran has left, and that were not asked for.
func (r *Ran) all() (stubs []*stub) {
	for _, b := range r.s.islands {
		for _, st := range b.stubs {
			if st.patched && st.notesRun() {
				stubs = append(stubs, st)
			}
		}
	}
	return stubs
}

// forget lets go of what there is here.
func (r *Ran) forget() (err error) {
	r.armed, r.gone, r.waiting, r.found = nil, nil, nil, nil
	for _, memory := range r.shared {
		err = errors.Join(err, unix.Munmap(memory))
	}
	r.shared = nil
	clear(r.hits)
	return err
}
