//go:build linux

package patch

import (
	"bytes"
	"cmp"
	"debug/elf"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/binary"
	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// An island is memory in the target within the reach of a jump from its sites,
// so that a program and its libraries have several. What there is no memory for, of
// stubs and records, is not mapped. It is a private mapping of
// a file in memory (memfd), by whose name a later footfall finds it; but for
// the header, which is anonymous memory that fork fills with zeros, unless
// children are followed.
//
//	0x0000    header: address of the table of threads, 0: off
//	0x1000    id of the process u32, anonymous memory that fork always fills with zeros
//	0x2000    info (below)
//	0x3000    trampoline
//	0x5000    stubs
//	0x305000  records, one for each stub (below)
//	0x585000  unwind table
//	0x586000  rows for that, see frameRow
//	0x587000  cells: a byte for each of trampoline and stubs, where that is known to the unwinder
//	0x889000  hits: a byte for each stub, of a [Ran]; memory that is shared with us and with children
//
// Info:
//
//	0   "FOOTFALL"
//	8   version of the trampoline u32, number of stubs u32
//	16  owner: the footfall that traces, its pid u64 and when it started u64
//	32  region: address u64, size u64
//	48  shadow u64, 0: none
//	56  the function that the unwind table was registered with, 0: none u64
//	64  the island's number, which is part of its stubs' ids u64
//	72  for how many stubs, and their records, there is memory u64
//	80  whether a [Ran] is to stay, and of what: see Keeping, u64
//	88  layout of the island u64
//
// A record, from which the site can be restored:
//
//	0   site u64, where to resume u64, bytes of the site [8]
//	24  mode u8, root u8 (of a Ran: 2 if its code may have been running when it was armed), patched u8, conditional u8
//	32  description of the arguments, or id of the exit's entry, u64
//
// Stubs are only ever added: there may be threads within.
type island struct {
	addr      uint64
	index     uint32
	room      int // for stubs
	stubs     []*stub
	byKey     map[stubKey][]*stub
	region    [2]uint64 // address and size
	shadow    uint64
	unwinder  uint64     // where the unwind table is registered
	rows      []frameRow // that are there, but for the first one
	described bool       // whether all stubs have cells
	kept      Keeping

	owner, ownerTicks uint64
}

type stub struct {
	island        *island
	index        uint32
	site, resume uint64
	old          [8]byte
	mode         trace.Mode
	root         bool
	doubted      bool // of a [Ran]: see MayHaveBegun
	patched      bool
	arguments    uint64 // their description; of an exit the id of its entry

	exits []*stub // of an entry: those that are sites

	// Of an exit.
	conditional bool         // a conditional jump is changed, but for its first byte
	leave       *binary.Exit // what it does
	bias        uint64       // of its image
	frames      *cellRows    // nil: not known; also of a copy

	// Of an entry without room, and of the copy of its first instructions.
	copy   *stub // of the entry
	window *binary.EntryWindow
	moved  movedCopy // of the copy
}

type stubKey struct {
	site      uint64
	mode      trace.Mode
	root      bool
	arguments uint64
}

const (
	zeroAt        = 0x800 // a word that is 0
	basesAt       = 0x900 // what _Unwind_Find_FDE returns
	processAt     = 0x1000
	infoAt        = 0x2000
	codeAt        = 0x3000
	stubsAt       = 0x5000
	maxStubs      = 1 << 16
	recordsAt     = stubsAt + maxStubs*stubSize
	recordSize    = 40
	unwindAt      = recordsAt + maxStubs*recordSize
	rowsOfCellsAt = unwindAt + 0x1000
	cellsAt       = rowsOfCellsAt + maxRows*rowSize
	hitsAt        = cellsAt + recordsAt - codeAt
	islandSize     = hitsAt + maxStubs
	infoMagic     = "FOOTFALL"
	infoSize      = 96
	codeName      = process.MemoryPrefix + "code"
	regionName    = process.MemoryPrefix + "ring"
	islandOfIDLog  = 16

	// Of ids, as the trampoline has them.
	exitFlag      = 1 << 31
	rootFlag      = 1 << 30
	argumentsFlag = 1 << 29
	wordFlag      = 1 << 28
	sitesFlag     = 1 << 27 // of stubs
	wholeFlag     = 1 << 27 // of events of entries
	jumpFlag      = 1 << 27 // of stubs of exits, and their events
	unseenFlag    = 1 << 26 // of stubs, and of events of these
	wordsShift    = 20      // 6 bits
	idMask        = 1<<wordsShift - 1
)

func (st *stub) addr() uint64 { return st.island.addr + stubsAt + uint64(st.index)*stubSize }

// id is what the stub pushes, but for the flag.
func (st *stub) id() uint32 { return st.island.index<<islandOfIDLog | st.index }

// findIslands reads the islands that an earlier session left in the process.
func findIslands(p *process.Process) ([]*island, error) {
	maps, _, err := p.Maps()
	if err != nil {
		return nil, err
	}
	var islands []*island
	for _, m := range maps {
		if m.Path != "/memfd:"+codeName || len(islands) > 0 && m.Start < islands[len(islands)-1].addr+islandSize {
			continue
		}
		if m.Offset != infoAt || m.Start < infoAt {
			continue // of an island that was not finished
		}
		b, err := readIsland(p, m.Start-infoAt)
		if err != nil {
			return nil, fmt.Errorf("process %d: island at %#x: %w", p.PID, m.Start-infoAt, err)
		}
		if b == nil {
			continue
		}
		islands = append(islands, b)
	}
	return islands, nil
}

// readIsland reads one; nil if the footfall that mapped it was killed before it wrote
// anything there.
func readIsland(p *process.Process, addr uint64) (*island, error) {
	info := make([]byte, infoSize)
	if _, err := p.ReadAt(info, int64(addr+infoAt)); err != nil {
		return nil, err
	}
	word := encoding.LittleEndian.Uint64
	if !slices.ContainsFunc(info, func(b byte) bool { return b != 0 }) {
		return nil, nil
	}
	version, count := encoding.LittleEndian.Uint32(info[8:]), encoding.LittleEndian.Uint32(info[12:])
	switch {
	case string(info[:8]) != infoMagic || count > maxStubs:
		return nil, errors.New("it is damaged")
	case word(info[64:]) >= maxIslands, word(info[72:]) > maxStubs, uint64(count) > word(info[72:]):
		return nil, errors.New("it is damaged")
	case version != native.version() && (word(info[80:]) == 0 || word(info[88:]) != layout):
		return nil, errOtherVersion
	}
	b := &island{
		addr: addr, index: uint32(word(info[64:])), room: int(word(info[72:])), byKey: make(map[stubKey][]*stub), owner: word(info[16:]), ownerTicks: word(info[24:]),
		region: [2]uint64{word(info[32:]), word(info[40:])}, shadow: word(info[48:]), unwinder: word(info[56:]), kept: Keeping(word(info[80:])),
	}
	records := make([]byte, recordSize*count)
	if _, err := p.ReadAt(records, int64(addr+recordsAt)); err != nil {
		return nil, err
	}
	for i := range count {
		r := records[recordSize*i:]
		st := &stub{island: b, index: i, site: word(r), resume: word(r[8:]), mode: trace.Mode(r[24]), root: r[25] == 1, doubted: r[25] == doubtedRoot, patched: r[26] != 0, conditional: r[27] != 0, arguments: word(r[32:])}
		copy(st.old[:], r[16:24])
		b.add(st)
		if version != native.version() && !st.notesRun() { // which needs the trampoline
			return nil, errOtherVersion
		}
	}
	return b, nil
}

var errOtherVersion = errors.New("another version of footfall has put it there: use that one, or start the process anew")

// doubtedRoot is a record's root where the stub is doubted.
const doubtedRoot = 2

func (b *island) add(st *stub) {
	b.stubs = append(b.stubs, st)
	key := stubKey{st.site, st.mode, st.root, st.arguments}
	b.byKey[key] = append(b.byKey[key], st)
}

func (st *stub) record() []byte {
	r := make([]byte, recordSize)
	encoding.LittleEndian.PutUint64(r, st.site)
	encoding.LittleEndian.PutUint64(r[8:], st.resume)
	copy(r[16:], st.old[:])
	r[24] = byte(st.mode)
	for i, flag := range []bool{st.root, st.patched, st.conditional} {
		if flag {
			r[25+i] = 1
		}
	}
	if st.doubted {
		r[25] = doubtedRoot
	}
	encoding.LittleEndian.PutUint64(r[32:], st.arguments)
	return r
}

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
	needed, err := s.place(sites)
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

// place returns which new islands are needed, so that there is room for the stubs of each
// site in one that it reaches.
func (s *Session) place(sites []*EntrySite) ([]plannedIsland, error) {
	maps, _, err := s.p.Maps()
	if err != nil {
		return nil, err
	}
	s.stacks = native.stackRange(maps)
	used := make(map[*island]int)
	total := 0
	for _, b := range s.islands {
		used[b] = len(b.stubs)
		total += len(b.stubs)
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
	for _, site := range sites {
		stubs := 1 + len(site.exits)
		if site.window != nil && !site.notesRun() {
			stubs++
		}
		if !site.notesRun() && s.findStub(site, site.Root && s.options.Mode == trace.Filtered) != nil {
			stubs = 0
		}
		if !put(site.Addr, stubs) {
			return nil, fmt.Errorf("process %d: no room for code within %d MB of %#x", s.p.PID, native.reach>>20, site.Addr)
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

// newIsland maps an island with room for so many stubs: its parts, of which the one that is
// looked for comes last.
func newIsland(h *process.Held, addr uint64, room int, index uint32) (*island, error) {
	const fixed = unix.MAP_PRIVATE | unix.MAP_FIXED_NOREPLACE
	b := &island{addr: addr, index: index, room: room, byKey: make(map[stubKey][]*stub)}
	_, err := h.Map(addr, infoAt, unix.PROT_READ|unix.PROT_WRITE, fixed|unix.MAP_ANONYMOUS, process.NoFile, 0)
	if err != nil {
		return nil, fmt.Errorf("map memory: %w", err)
	}
	mapped := 0
	err = h.WithFile(codeName, islandSize, func(fd uint64, _ *os.File) error {
		for _, part := range b.parts() {
			if _, err := h.Map(addr+part[0], part[1], unix.PROT_READ|unix.PROT_EXEC, fixed, fd, part[0]); err != nil {
				return err
			}
			mapped++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("map code: %w", errors.Join(err, b.unmapParts(h, mapped)))
	}
	return b, nil
}

// alone has a thread make system calls, if possible while the others run on: it may have to
// wait for a processor. Behind the info of an island there is room for what it does else.
func (b *island) alone(h *process.Held, do func() error) error {
	err := h.InjectCallsAlone(b.addr+codeAt, codeAt-infoAt-infoSize, do)
	if errors.Is(err, process.ErrNoRoom) {
		return h.InjectCalls(do)
	}
	return err
}

// tablesSize is what the unwinder's tables take.
func (b *island) tablesSize() uint64 {
	if !native.describesAll {
		return rowsOfCellsAt - unwindAt
	}
	return cellsAt - unwindAt + stubsAt - codeAt + pages(b.room*stubSize)
}

// parts are what is mapped of the island's file: offset and size.
func (b *island) parts() [3][2]uint64 {
	return [3][2]uint64{
		{unwindAt, b.tablesSize()},
		{recordsAt, pages(b.room * recordSize)},
		{infoAt, stubsAt - infoAt + pages(b.room*stubSize)},
	}
}

func pages(size int) uint64 { return (uint64(size) + pageSize - 1) &^ (pageSize - 1) }

// unmap takes the island back, to which nothing leads.
func (b *island) unmap(h *process.Held) error { return b.unmapParts(h, len(b.parts())) }

// unmapParts unmaps the header and so many parts: where the others would be there may be
// memory of the process.
func (b *island) unmapParts(h *process.Held, mapped int) error {
	var err error
	parts := b.parts()
	for _, part := range parts[:mapped] {
		err = errors.Join(err, h.Unmap(b.addr+part[0], part[1]))
	}
	return errors.Join(err, h.Unmap(b.addr, infoAt)) // it has no name by which it is found
}

// write fills the island but for its stubs. What is there already is the same.
func (b *island) write(s *Session) error {
	b.region, b.shadow = [2]uint64{s.region.addr, uint64(len(s.region.memory))}, s.shadow
	self, err := process.Identify(unix.Getpid())
	if err != nil {
		return err
	}
	code := native.code(s.shadow, s.idPlace, s.pointerless, s.stacks, s.islands, s.returns)
	if _, err := s.p.WriteAt(code, int64(b.addr+codeAt)); err != nil {
		return err
	}
	if _, err := s.p.WriteAt(encoding.LittleEndian.AppendUint32(nil, uint32(s.ownPID)), int64(b.addr+processAt)); err != nil {
		return err
	}
	return b.setOwner(s.p, uint64(unix.Getpid()), self.Ticks)
}

// setOwner writes the info.
func (b *island) setOwner(p *process.Process, pid, ticks uint64) error {
	b.owner, b.ownerTicks = pid, ticks
	info := []byte(infoMagic)
	info = encoding.LittleEndian.AppendUint32(info, native.version())
	info = encoding.LittleEndian.AppendUint32(info, uint32(len(b.stubs)))
	for _, v := range []uint64{pid, ticks, b.region[0], b.region[1], b.shadow, b.unwinder, uint64(b.index), uint64(b.room), uint64(b.kept), layout} {
		info = encoding.LittleEndian.AppendUint64(info, v)
	}
	_, err := p.WriteAt(info, int64(b.addr+infoAt))
	return err
}

// setTable switches recording on or, with 0, off.
func (b *island) setTable(p *process.Process, table uint64) error {
	_, err := p.WriteAt(encoding.LittleEndian.AppendUint64(nil, table), int64(b.addr))
	return err
}

// on tells whether recording is switched on.
func (b *island) on(p *process.Process) (bool, error) {
	var table [8]byte
	_, err := p.ReadAt(table[:], int64(b.addr))
	return table != [8]byte{}, err
}

// setPatched writes the records of those stubs that are in the island.
func (b *island) setPatched(p *process.Process, stubs []*stub, patched bool) error {
	var low, high uint32 = maxStubs, 0
	for _, st := range stubs {
		if st.island == b {
			st.patched = patched
			low, high = min(low, st.index), max(high, st.index+1)
		}
	}
	if low >= high {
		return nil
	}
	var records []byte
	for _, st := range b.stubs[low:high] {
		records = append(records, st.record()...)
	}
	_, err := p.WriteAt(records, int64(b.addr+recordsAt+uint64(low)*recordSize))
	return err
}

// writeStubs adds the stubs that are missing. No thread gets there before the
// sites are changed.
func (s *Session) writeStubs(sites []*EntrySite) ([]*stub, error) {
	var stubs []*stub
	before := make(map[*island]int)
	for _, b := range s.islands {
		before[b] = len(b.stubs)
	}
	s.traced = make(map[uint64]bool)
	for _, site := range sites {
		s.traced[site.Addr] = true
		s.traced[site.Function.Addr+site.Image.Bias] = true
	}
	for _, st := range s.on {
		s.traced[st.site] = true
	}
	for _, site := range sites {
		st, err := s.addStub(site)
		if site.way == bySites && (errors.Is(err, errFar) || err == nil && !s.addExits(site, st)) {
			if site.unsee(s.options.Mode); site.mode == 0 {
				s.Skipped[site] = "its exits have no stubs in reach"
				continue
			}
			st, err = s.addStub(site)
		}
		switch {
		case errors.Is(err, errFar):
			s.Skipped[site] = err.Error()
			continue
		case err != nil:
			return nil, err
		}
		stubs = append(stubs, st)
		s.stubs[st.id()] = site
	}
	s.addNotifier()
	described := slices.Clip(withExits(stubs))
	for _, st := range stubs {
		if st.copy != nil {
			described = append(described, st.copy)
		}
	}
	for _, b := range s.islands {
		var code, records []byte
		first := before[b]
		for _, st := range b.stubs[first:] {
			code = append(code, st.code()...)
			records = append(records, st.record()...)
		}
		if len(code) == 0 {
			continue
		}
		if _, err := s.p.WriteAt(code, int64(b.stubs[first].addr())); err != nil {
			return nil, err
		}
		if _, err := s.p.WriteAt(records, int64(b.addr+recordsAt+uint64(first)*recordSize)); err != nil {
			return nil, err
		}
		if err := b.setOwner(s.p, b.owner, b.ownerTicks); err != nil {
			return nil, err
		}
	}
	for _, b := range s.islands {
		if native.describesAll && (b.unwinder != 0 || b.described) {
			if err := b.describeStubs(s.p, described); err != nil {
				return nil, err
			}
		}
	}
	return stubs, nil
}

// code encodes the stub.
func (st *stub) code() []byte {
	if st.mode == copies || st.mode == copiesLeaving {
		return append(slices.Clone(st.moved.code), bytes.Repeat(native.breakpoint, stubSize-len(st.moved.code))...)
	}
	s := stubCode{at: st.addr(), resume: st.resume, id: st.id(), description: st.arguments}
	switch {
	case st.leaves():
		s.id, s.description = uint32(st.arguments), 0
		s.site, s.leave = st.site, st.leave
		s.target = st.leave.Target + st.bias
	case st.root || st.mode == chainsOn || st.mode == chainsOnSites:
		s.id |= rootFlag
	}
	if s.description != 0 {
		s.id |= argumentsFlag
	}
	switch st.mode {
	case entersFiltered, chainsOnSites, leadsSites:
		s.id |= sitesFlag
	case trace.Entries, entersUnseen:
		s.id |= unseenFlag
	}
	return native.stubAt(st.mode, st.island.addr+codeAt, s)
}

// addStub returns the stub of a site, which may be there.
func (s *Session) addStub(site *EntrySite) (*stub, error) {
	root := site.Root && s.options.Mode == trace.Filtered
	if site.window != nil {
		return s.addMovedStub(site, root)
	}
	if st := s.findStub(site, root); st != nil {
		return st, nil
	}
	b := s.islandFor(site.Addr)
	if b == nil {
		return nil, s.full()
	}
	st := &stub{
		island: b, index: uint32(len(b.stubs)), site: site.Addr, resume: site.Addr + uint64(site.room), old: site.old,
		mode: site.mode, root: root, arguments: s.description(site),
	}
	b.add(st)
	return st, nil
}

// full is what cannot be done where the islands are.
func (s *Session) full() error {
	return fmt.Errorf("process %d: more than %d sites: select fewer", s.p.PID, maxStubs)
}

// findStub finds a stub for the site that is there. In this session it must
// not have been that of another function, whose library was at the same place.
func (s *Session) findStub(site *EntrySite, root bool) *stub {
	for _, b := range s.islands {
		for _, st := range b.byKey[stubKey{site.Addr, site.mode, root, s.description(site)}] {
			other := s.stubs[st.id()]
			same := other == nil || other.Image.Path == site.Image.Path && other.Function == site.Function
			if same && st.old == site.old && s.resumes(site, st) {
				return st
			}
		}
	}
	return nil
}

// resumes tells whether the stub goes on with what is behind the site.
func (s *Session) resumes(site *EntrySite, st *stub) bool {
	if site.window != nil {
		return s.findCopy(site, st) != nil
	}
	return st.resume == site.Addr+uint64(site.room)
}

// The shadow of stacks, where there are no return stubs: return addresses of calls whose exits
// are seen.
const (
	shadowSize = 1 << 41
	shadowHint = 0x5e0000000000
	// In a slot with the same low 12 bits of the address, the processor takes a load
	// from one for a load from the other, which costs some 10 ns a call.
	shadowColour = 0x7c0

	// Where there are 39 bits of addresses: the upper quarter has stacks and libraries,
	// at half of them are programs.
	narrow           = 1 << 39
	narrowShadowSize = narrow / 4
	narrowShadowHint = narrow / 4
)

// stackRange returns the lowest address of stacks whose exits are seen in a process, and
// the size of the part from there on. On arm64 it depends on the kernel.
func (c *cpu) stackRange(maps process.Maps) [2]uint64 {
	if c.machine == elf.EM_AARCH64 && len(maps) > 0 && maps[len(maps)-1].End <= narrow {
		return [2]uint64{narrow - narrowShadowSize, narrowShadowSize}
	}
	return [2]uint64{c.stacksFrom, shadowSize}
}

// lacksShadow tells whether there is none yet, but has to be.
func (s *Session) lacksShadow() bool {
	return native.returnStub == nil && s.exits() && s.shadow == 0
}

func (s *Session) newShadow(h *process.Held) error {
	hint, size := uint64(shadowHint), s.stacks[1]
	if size != shadowSize {
		hint = narrowShadowHint
	}
	at, err := h.Map(hint, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, process.NoFile, 0)
	if gap, mapErr := largestGap(s.p); err != nil && mapErr == nil && gap < size {
		return fmt.Errorf("exits need %d GB of addresses (no memory) in one piece, and the process has %d left, as programs with ThreadSanitizer: trace entries only, without --exits", size>>30, gap>>30)
	}
	if err != nil {
		return fmt.Errorf("exits need %d GB of addresses (no memory): %w; ulimit -v and vm.overcommit_memory=2 forbid that: trace entries only, without --exits", size>>30, err)
	}
	s.shadow = at - s.stacks[0] + shadowColour
	_, err = h.SystemCall(unix.SYS_MADVISE, at, size, unix.MADV_DONTDUMP)
	return err
}

// largestGap returns the size of the largest part of the addresses of a process, up to its
// last mapping, that has nothing mapped.
func largestGap(p *process.Process) (gap uint64, err error) {
	maps, _, err := p.Maps()
	end := uint64(0)
	for _, m := range maps {
		if m.Start >= 1<<63 { // the kernel's
			break
		}
		gap, end = max(gap, m.Start-end), m.End
	}
	return gap, err
}

// threadIDOffset finds where a thread has its own id, from its thread pointer on:
// in what libc keeps of it. At 0 is the low half of an address that identifies
// it too. lacking tells whether there is a thread without such a pointer.
func threadIDOffset(p *process.Process, h *process.Held, threads []process.ThreadStatus) (at uint64, lacking bool, err error) {
	var candidates []uint64
	first := true
	for _, t := range threads {
		base, err := h.ThreadPointer(t.ID)
		if err != nil {
			continue
		}
		if base == 0 {
			if lacking = true; !native.looksAtPointer {
				return 0, true, fmt.Errorf("process %d: its thread %d has no thread pointer, and this processor or kernel does not let programs see that (FSGSBASE): %w", p.PID, t.ID, ErrNotSupported)
			}
			continue
		}
		found := idsAt(p, base, uint32(t.OwnID))
		if first {
			candidates, first = found, false
			continue
		}
		candidates = slices.DeleteFunc(candidates, func(c uint64) bool { return !slices.Contains(found, c) })
	}
	if first {
		return 0, true, fmt.Errorf("process %d: no thread has a thread pointer, by which threads are told apart: %w", p.PID, ErrNotSupported)
	}
	if len(candidates) == 0 {
		return 0, lacking, nil
	}
	for _, known := range native.idPlaces {
		if slices.Contains(candidates, known) {
			return known, lacking, nil
		}
	}
	return candidates[0], lacking, nil
}

// makesThreads tells whether one of the images makes threads itself, which may then have
// no thread pointer.
func makesThreads(sites []*EntrySite) bool {
	looked := make(map[*target.Image]bool)
	for _, site := range sites {
		if i := site.Image; i != nil && !looked[i] {
			if looked[i] = true; i.File.Imports("clone") || i.IsStatic() {
				return true
			}
		}
	}
	return false
}

// clonesItself tells whether code outside of the C library makes threads by the system call
// itself, as far as its instructions say the number: those may have no thread pointer either.
func clonesItself(p *process.Process) bool {
	maps, _, err := p.Maps()
	if err != nil {
		return true
	}
	const most, overlap = 1 << 20, 64
	b := make([]byte, most+overlap)
	for _, i := range p.Images(maps) {
		if target.IsOurs(i.Path) || isLibC(i.Path) {
			continue
		}
		for _, part := range i.Parts {
			for at := part.Start; part.Exec && at < part.End; at += most {
				n, _ := p.ReadAt(b[:min(uint64(len(b)), part.End-at)], int64(at))
				if clones(b[:n]) {
					return true
				}
			}
		}
	}
	return false
}

// isLibC knows the C library and its dynamic linker, who give each thread a pointer.
func isLibC(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	return strings.HasPrefix(name, "libc.so") || strings.HasPrefix(name, "libc-2.") || strings.HasPrefix(name, "libpthread") || strings.HasPrefix(name, "ld-")
}

// clones tells whether there is a system call shortly behind the number of clone or clone3.
func clones(code []byte) bool {
	const near = 64
	call := []byte{0x0f, 0x05} // syscall
	for from := 0; ; {
		i := bytes.Index(code[from:], call)
		if i < 0 {
			return false
		}
		before := code[max(0, from+i-near) : from+i]
		for _, load := range [][]byte{
			{0xb8, 56, 0, 0, 0}, {0xb8, 0xb3, 1, 0, 0}, // mov $56 or $435,%eax
			{0xc7, 0xc0, 56, 0, 0, 0}, {0xc7, 0xc0, 0xb3, 1, 0, 0}, // mov $56 or $435,%rax
			{0x6a, 56, 0x58}, {0x68, 0xb3, 1, 0, 0, 0x58}, // push and pop %rax
		} {
			if bytes.Contains(before, load) {
				return true
			}
		}
		from += i + len(call)
	}
}

func idsAt(p *process.Process, base uint64, id uint32) []uint64 {
	const page = 4096
	b := make([]byte, 2048)
	start := int64(base) + native.threadBlock
	if _, err := p.ReadAt(b, start); err != nil {
		// The first thread's may begin where memory does, or end where that ends.
		next := (start + page - 1) &^ (page - 1)
		low, high := b[:next-start], b[next-start:]
		if _, err := p.ReadAt(high, next); err == nil {
			b, start = high, next
		} else if _, err := p.ReadAt(low, start); err == nil {
			b = low
		} else {
			return nil
		}
	}
	var found []uint64
	for at := 0; at+4 <= len(b); at += 4 {
		if encoding.LittleEndian.Uint32(b[at:]) == id {
			found = append(found, uint64(start-int64(base)+int64(at)))
		}
	}
	return found
}
