//go:build linux

package patch

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process"
	"footfall/trace"
)

// inject puts into the process what the sites need and is not there. Where the process
// has mapped something itself meanwhile, other places are looked for.
func (s *Session) inject(sites []*EntrySite) error {
	const tries = 10
	for try := 1; ; try++ {
		if err := s.injectAt(sites); try == tries || !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
}

func (s *Session) injectAt(sites []*EntrySite) error {
	needed, err := s.place(s.needs(sites))
	if err != nil {
		return err
	}
	first := s.region == nil
	for _, b := range s.islands {
		s.shadow = cmp.Or(s.shadow, b.shadow)
	}
	shadow, returns := s.lacksShadow(), s.lacksReturns()
	if !first && len(needed) == 0 && !shadow && !returns {
		return nil
	}
	s.returnsBefore = len(s.returns)
	if first {
		err = s.injectFirst(sites, needed, shadow, returns)
	} else {
		err = held(s.p, func(h *process.Held) (err error) {
			// Before the threads run on: nobody may see half of the list of islands.
			defer func() { err = errors.Join(err, s.writeIslands()) }()
			return h.InjectCalls(func() error {
				for ; len(needed) > 0; needed = needed[1:] {
					if err := s.addIsland(h, needed[0]); err != nil {
						return err
					}
				}
				if err := s.mapRest(h, shadow, returns); err != nil {
					return err
				}
				return s.followFork(h)
			})
		})
	}
	if err != nil {
		return roomier(s.p, err)
	}
	return s.noteIslands()
}

// longestStep is for how long the process is to stand still at most while memory is mapped: what
// is missing then is mapped when it has run on for a moment. It is no longer than one file
// takes, of which no thread is to see the descriptor.
const longestStep = time.Millisecond

// injectFirst is injectAt before anything leads to what is mapped.
func (s *Session) injectFirst(sites []*EntrySite, needed []plannedIsland, shadow, returns bool) error {
	if err := s.survey(sites); err != nil {
		return err
	}
	r, err := s.planRegion()
	if err != nil {
		return err
	}
	steps := []func(*process.Held) error{
		s.lookAtThreads,
	}
	for _, b := range needed {
		steps = append(steps, func(h *process.Held) error { return s.addIsland(h, b) })
	}
	steps = append(steps, // where the kernel wants, which may be where the islands were to be
		func(h *process.Held) error { return s.mapRest(h, shadow, returns) },
		func(h *process.Held) error { return r.mapInto(h) },
	)
	before := len(s.islands)
	for next := 0; next < len(steps); {
		err := held(s.p, func(h *process.Held) (err error) {
			begun := next
			err = h.InjectCalls(func() error {
				for ; next < len(steps) && (next == begun || h.StoodFor() < longestStep); next++ {
					if err := steps[next](h); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil && !errors.Is(err, process.ErrBusy) {
				return errors.Join(err, r.unmap(h), s.unmap(h, before))
			}
			if err != nil || next < len(steps) {
				return err
			}
			return h.InjectCallsAlone(r.addr+r.mapped(), r.mapped(), func() error { return s.followFork(h) })
		})
		if err != nil { // what could not be unmapped goes with the next session
			r.forget()
			s.islands = s.islands[:before]
			return err
		}
	}
	s.region = r
	s.fillRegion()
	s.region.noteReadable(s.p)
	s.NoticeFilters()
	return s.writeIslands()
}

func (s *Session) addIsland(h *process.Held, planned plannedIsland) error {
	b, err := newIsland(h, planned.addr, planned.stubs, uint32(len(s.islands)))
	if err == nil {
		s.islands = append(s.islands, b)
	}
	return err
}

// mapRest maps what a session has besides islands and the region.
func (s *Session) mapRest(h *process.Held, shadow, returns bool) error {
	if shadow {
		if err := s.newShadow(h); err != nil {
			return err
		}
	}
	if returns {
		return s.newReturns(h)
	}
	return nil
}

// lookAtThreads finds out how the threads that there are are told apart, and where their stacks
// are.
func (s *Session) lookAtThreads(h *process.Held) (err error) {
	lacking := false
	if s.idPlace, lacking, err = threadIDOffset(s.p, h, s.threadsOf(h)); err != nil {
		return err
	}
	s.pointerless = lacking || native.looksAtPointer && s.before.makesThreads
	if s.notesStacks() {
		s.before.tops, err = h.StackTops()
	}
	return err
}

// fillRegion writes what is to be in the region before sites lead there.
func (s *Session) fillRegion() {
	r := s.region
	r.prepare(&s.options, s.ownPID)
	if s.options.Follow {
		r.near = r.first
	}
	r.give(r.addr+r.ringsAt(), r.first)
	if r.first == maxThreads {
		r.giveAll()
	}
	s.noteStacks()
	s.muteThreads()
}

// A survey is what is known of a process before its threads are stopped: to look takes
// longer than they are to stand still.
type survey struct {
	threads      []process.ThreadStatus
	tops         []process.StackTop
	limits       bool // see limitsMemory
	makesThreads bool // which may have no thread pointer
}

func (s *Session) survey(sites []*EntrySite) (err error) {
	s.before.threads, err = s.p.Threads()
	s.before.limits, s.before.makesThreads = limitsMemory(s.p), makesThreads(sites) || native.looksAtPointer && clonesItself(s.p)
	return err
}

// threadsOf returns the threads of a process that is held: those that there were before, of
// which some may have ended, and new ones.
func (s *Session) threadsOf(h *process.Held) []process.ThreadStatus {
	known := make(map[int]bool)
	for _, t := range s.before.threads {
		known[t.ID] = true
	}
	for _, tid := range h.Threads() {
		if known[tid] {
			continue
		}
		if t, alive := s.p.Thread(tid); alive {
			s.before.threads = append(s.before.threads, t)
		}
	}
	return s.before.threads
}

// unmap takes back what has been mapped, where nothing leads there yet: islands, of
// which there were so many before, and a shadow that no island knows.
func (s *Session) unmap(h *process.Held, before int) error {
	var failed []error
	for _, b := range s.islands[before:] {
		failed = append(failed, b.unmap(h))
	}
	s.islands = s.islands[:before]
	if s.shadow != 0 && !slices.ContainsFunc(s.islands, func(b *island) bool { return b.shadow == s.shadow }) {
		failed = append(failed, h.Unmap(s.shadow+s.stacks[0]-shadowColour, s.stacks[1]))
		s.shadow = 0
	}
	for _, r := range s.returns[s.returnsBefore:] {
		failed = append(failed, h.Unmap(r.addr-r.size, 2*r.size+returnsPage))
	}
	s.returns = s.returns[:s.returnsBefore]
	return errors.Join(failed...)
}

// roomier says what can be done where the limits of the process leave no room.
func roomier(p *process.Process, err error) error {
	switch {
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("%w; it has as many files open as it may; to allow more: prlimit --pid %d --nofile=NUMBER", err, p.PID)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w; to lift the limits of the process: prlimit --pid %d --as=unlimited --data=unlimited", err, p.PID)
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("%w; it locks all its memory, of which it may lock no more: prlimit --pid %d --memlock=unlimited", err, p.PID)
	}
	return err
}

func (s *Session) writeIslands() error {
	for _, b := range s.islands {
		if err := b.write(s); err != nil {
			return err
		}
	}
	return nil
}

// A plannedIsland is one that is to be mapped.
type plannedIsland struct {
	addr  uint64
	stubs int
}

// A stubNeed is how many stubs are needed for a site.
type stubNeed struct {
	site  uint64
	stubs int
}

// needs are the stubs that sites need.
func (s *Session) needs(sites []*EntrySite) []stubNeed {
	needs := make([]stubNeed, len(sites))
	for i, site := range sites {
		stubs := 1 + len(site.exits)
		if site.window != nil {
			stubs++
		}
		if s.findStub(site, site.Root && s.options.Mode == trace.Filtered) != nil {
			stubs = 0
		}
		needs[i] = stubNeed{site.Addr, stubs}
	}
	return needs
}

// place returns which new islands are needed, so that there is room for the stubs of each
// site in one that it reaches.
func (s *Session) place(needs []stubNeed) ([]plannedIsland, error) {
	maps, _, err := s.p.Maps()
	if err != nil {
		return nil, err
	}
	s.stacks = native.stackRange(maps)
	used := make(map[*island]int)
	total := 0
	for _, b := range s.islands {
		used[b] = b.count()
		total += b.count()
	}
	var needed []plannedIsland
	put := func(site uint64, stubs int) bool {
		for _, b := range s.islands {
			if reaches(b.addr, site) && used[b]+stubs <= b.room && !s.closed[b] {
				used[b] += stubs
				return true
			}
		}
		for i := range needed {
			if n := &needed[i]; reaches(n.addr, site) && n.stubs+stubs <= maxStubs-spareStubs {
				n.stubs += stubs
				return true
			}
		}
		addr := gap(maps, site)
		if addr != 0 {
			maps = insert(maps, addr)
			needed = append(needed, plannedIsland{addr, stubs})
		}
		return addr != 0
	}
	for _, need := range needs {
		if !put(need.site, need.stubs) {
			return nil, fmt.Errorf("process %d: no room for code within %d MB of %#x", s.p.PID, native.reach>>20, need.site)
		}
	}
	if s.notifier != nil && len(s.islands)+len(needed) < maxIslands {
		put(s.notifier.site, 1)
	}
	if len(s.islands)+len(needed) > maxIslands {
		return nil, fmt.Errorf("process %d: its code is spread too far: %d islands are needed, there can be %d; select functions of fewer images", s.p.PID, len(s.islands)+len(needed), maxIslands)
	}
	for i := range needed { // the more there are, the more may come
		n := &needed[i]
		n.stubs = min((max(n.stubs+n.stubs/4, total)+2*spareStubs-1)&^(spareStubs-1), maxStubs)
	}
	return needed, nil
}

// spareStubs is what an island has at least, and a multiple of which: for some sites more,
// and so that its parts end with pages.
const spareStubs = 512

func insert(maps process.Maps, addr uint64) process.Maps {
	maps = append(slices.Clone(maps), process.Mapping{Start: addr, End: addr + islandSize})
	slices.SortFunc(maps, func(a, b process.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	return maps
}

func reaches(island, site uint64) bool {
	d := int64(site - island)
	return -native.reach < d && d < native.reach
}

// islandFor returns an island that the site reaches and that is not full.
func (s *Session) islandFor(site uint64) *island {
	for _, b := range s.islands {
		if reaches(b.addr, site) && len(b.stubs) < b.room {
			return b
		}
	}
	return nil
}

// gap finds free addresses for an island: as near as possible below the site,
// or as far as possible above, because the heap grows there.
func gap(maps process.Maps, site uint64) uint64 {
	const margin = 1 << 16
	low := max(int64(site)-native.reach, 1<<20)
	high := min(int64(site)+native.reach, math.MaxInt64-islandSize)
	var below, above int64
	free := low
	consider := func(from, to int64) {
		from, to = from+margin, min(to, high)-margin-islandSize
		if from > to {
			return
		}
		at := to &^ 0xfff
		if at < from {
			return
		}
		if at < int64(site) {
			below = at
		} else {
			above = at
		}
	}
	for _, m := range maps {
		if m.Start > 1<<62 { // of the kernel
			break
		}
		if int64(m.Start) > free {
			consider(free, int64(m.Start))
		}
		free = max(free, int64(m.End))
	}
	if free < high {
		consider(free, high)
	}
	return uint64(cmp.Or(below, above))
}
