//go:build linux

// Package patch switches the calls of functions on and off in a running
// process: at the sites that the compiler left (binary.Site) it writes a jump to
// code which records and goes on. It is injected from outside by ptrace; there
// is no library in the process, and between [Open] and [Session.Close] it is
// stopped twice, for about a millisecond.
//
//	site                stub (one a site)         trampoline (one an island)
//	nop  x5  --> jmp -> push id
//	                    call ------------------>  write an event to the ring
//	                    call the function         of this thread
//	function <--------- ...
//	   ret  ----------> push id
//	                    call ------------------>  write an event
//	caller <----------- ret
//
// island.go has the layout of what is put into the process, ring.go the memory
// that it shares with us, amd64.go and arm64.go the bytes, trampoline/*.S the code.
//
// # What is left behind
//
// Close puts the sites back, byte for byte. The code stays where it is, for
// threads which have yet to return through it; the next Open uses it again. Memory
// for events goes, see leave.go. Which bytes were at
// a site is written into the process before the site is changed: when footfall
// is killed, the process goes on, and [Repair], or the next Open, restores it.
//
// # What is not seen
//
// Children made by fork record if [Options.Follow] is set; [Session.SwitchOff]
// restores them. Exits
// of calls on stacks outside of 0xfe0000000000-0xffffffffffff on arm64, those of some
// coroutines, are not seen, the entries are.
package patch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// Modes of stubs, besides those of package trace. The numbers are written down in the program, for a footfall that
// comes later.
const (
	// Of a session with mode Chains.
	chainsOn = trace.Filtered + 1 + iota // calls are counted, and chains lead on through them
	leads                                // chains lead through calls

	// Of stubs where exits are seen, but no return addresses are replaced.
	enters         // with Exits: those are sites
	entersFiltered // with Filtered
	entersUnseen   // with Filtered: the exits of the function are not seen
	leaves         // an exit, with Exits
	leavesFiltered

	copies        // no stub, but the first instructions of a function that were moved
	copiesLeaving // the same, up to an exit, which is seen

	// With mode Chains, where exits are sites.
	chainsOnSites
	leadsSites
	leavesCaller

	notesRun // of a [Ran], and nothing else
)

// maxDepth is what fits into the memory of a thread.
const maxDepth = 1000

// Options of a session.
type Options struct {
	Mode   trace.Mode
	Filter trace.Filter
	Clock  *Clock // for Filter.MinTime; nil: that is in ticks
	// RingSize is the memory for the events of each thread, a power of 2 of at
	// least 4096; 0: 4 MB. Counts need what they need.
	RingSize int
	// Newest keeps the newest events, if they are not read in time, instead of
	// dropping the newest. They are read at the end.
	Newest bool
	// ChainDepth is the number of callers of Chains.
	ChainDepth int
	// NoCFI are functions without call-frame information: Chains lead through them by tracing
	// them. They are switched on, too.
	NoCFI []NoCFI
	// Arguments records those of the sites that have some, with modes Entries
	// and Filtered.
	Arguments bool
	// Threads tells which threads are recorded, by what is known of them now; nil: all
	// are. It is for all modes but Chains.
	Threads func(process.ThreadStatus) bool
	// Follow records the calls of children made by fork, too.
	Follow bool
	// NotifyLoads has the process tell of libraries that are loaded: see
	// Session.LoadNotifications.
	NotifyLoads bool
	// returns is for tests: no exits are sites, return addresses are replaced.
	returns bool
	// Anchor is an address of code near which there is to be room for further
	// code if there are no sites yet, but may be later, by Add.
	Anchor uint64
}

// ErrNotSupported is returned where this machine or process lacks something.
var ErrNotSupported = errors.ErrUnsupported

// A Session records calls of one process.
type Session struct {
	p       *process.Process
	options Options
	islands []*island
	closed  map[*island]bool // to new stubs
	region  *region
	shadow  uint64
	stacks  [2]uint64 // what it is for: the lowest address, size
	on      []*stub
	putOff  []*stub               // to be on, as soon as nothing on a stack leads into the middle of their sites
	stubs   map[uint32]*EntrySite // by id
	threads map[uint32]process.ThreadStatus
	wanted  map[uint32]bool      // threads that Options.Threads has chosen
	since   map[uint32]time.Time // others which are not muted, and when Recycle saw them first
	ended   ended
	buffer  []SiteEvent
	// events that had been lost when those of a place were read last
	lostBefore [maxThreads]uint64
	used       [maxThreads]bool // places of threads that have ended
	// tails are how many events of each place were read: the program can write over what it has.
	tails     [maxThreads]uint64
	idPlace   uint64    // where threads have their id
	filtersAt time.Time // when it was looked last whether the process filters its system calls
	faultsAt  time.Time // and whether it fills memory itself
	// pointerless: there may be threads without a thread pointer.
	pointerless bool
	ownPID      int // as the process sees itself
	bare        []NoCFI
	before      survey

	replaced int           // functions whose return addresses are
	returns  []returnStubs // in the process; the last are used for new calls
	// returnsBefore is how many there were before the ones that are just being mapped.
	returnsBefore int
	noReturns     error           // why that cannot be
	traced        map[uint64]bool // where functions and their sites are; of those that were on before, sites

	follows map[int]*child          // by their own pids
	samples map[*target.Image]*stub // one of each image, by which Gone sees that it is gone
	files   map[string]bool         // of the islands

	notifier     *notifier              // nil: there is none
	unwinders    map[string]*unwinding  // by image
	dynamicLists map[string]dynamicList // by image
	opened       time.Time
	untold       time.Time // since when it is known that the unwinder does not know all islands; 0: it does

	unmapped    error // why no more rings can be mapped
	recording   bool  // the threads have the table, or are about to
	waits       bool  // the threads get the table only when no site is put off
	interrupted int   // where the last Read ended early

	// Stopped is how long it took to stop the process, switch on and let it go.
	Stopped time.Duration
	// Skipped are sites that could not be switched on, and why.
	Skipped map[*EntrySite]string
	// Late are sites that were in Skipped and were switched on later, and how long after Open.
	Late map[*EntrySite]time.Duration
	// Untraced is why functions without call-frame information are not traced, or one of them.
	Untraced error
	// Follows tells whether children made by fork record, as Options.Follow wants.
	Follows bool
	// Unanswered is how often a library was loaded or unloaded and the thread did not
	// wait until Answer, so that first calls may be missing: known after SwitchOff.
	Unanswered int
	// Damaged tells that the program has written over what it has recorded, and that this is left out.
	Damaged bool
	// Children is how many processes SwitchOff restored besides: children made
	// by fork since Open.
	Children int
}

// Open switches the sites on. If it fails the process is as before.
func Open(p *process.Process, sites []*EntrySite, options Options) (s *Session, err error) {
	if err := supported(p, &options); err != nil {
		return nil, err
	}
	release, err := p.Claim()
	if err != nil {
		return nil, err
	}
	defer release()
	s = &Session{p: p, options: options, stubs: make(map[uint32]*EntrySite), threads: make(map[uint32]process.ThreadStatus), wanted: make(map[uint32]bool), since: make(map[uint32]time.Time), ended: ended{counts: make(map[uint32]uint64)}, samples: make(map[*target.Image]*stub), Skipped: make(map[*EntrySite]string), Late: make(map[*EntrySite]time.Duration)}
	if s.islands, err = findIslands(p); err != nil {
		return nil, err
	}
	if err := errors.Join(refuseSecond(p, s.islands), refuseKept(p, s.islands)); err != nil {
		return nil, err
	}
	if _, err := repair(p, s.islands); err != nil {
		return nil, err
	}
	if err := s.readReturns(); err != nil {
		return nil, err
	}
	if sites = s.usable(sites, nil); len(sites) == 0 && options.Anchor == 0 {
		return nil, fmt.Errorf("process %d: none of the sites can be used: %s", p.PID, s.firstSkipped())
	}
	sites = s.usable(s.leading(sites, options.NoCFI), nil)
	s.mayReplaceReturns()
	sites = s.chooseExits(sites)
	places := sites
	if len(sites) == 0 {
		places = []*EntrySite{{Entry: target.Entry{Addr: options.Anchor}}}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if options.NotifyLoads {
		s.notifier = findNotifier(p)
	}
	if err := s.inject(places); err != nil {
		return s, err
	}
	if s.exits() || unwindsAlways {
		switch err := s.registerUnwinding(); {
		case errors.Is(err, process.ErrBusy), errors.Is(err, process.ErrStuck):
			sites = s.withoutReturns(sites, err)
		case err != nil:
			return s, err
		}
	}
	stubs, err := s.writeStubs(sites)
	if err != nil {
		return s, err
	}
	if len(stubs) == 0 && options.Anchor == 0 {
		return s, fmt.Errorf("process %d: none of the sites can be used: %s", p.PID, s.firstSkipped())
	}
	s.tellLibunwind()
	if options.Mode == trace.Chains {
		if err := s.unwindRows(stubs); err != nil {
			return s, err
		}
	}
	if err := s.switchOnAll(stubs); err != nil {
		return s, err
	}
	s.watchNotices()
	s.opened = time.Now()
	return s, nil
}

// switchOnAll switches on what nothing records yet, so that all of it records from one moment on: sites that
// are put off are waited for, if that does not last.
func (s *Session) switchOnAll(stubs []*stub) error {
	const tries = 5
	s.waits = true
	defer func() { s.waits = false }()
	err := s.switchOn(stubs)
	for try := 1; try <= tries && err == nil && len(s.putOff) > 0; try++ {
		time.Sleep(time.Millisecond)
		s.waits = try < tries
		err = s.retry()
	}
	return err
}

func supported(p *process.Process, o *Options) error {
	if err := native.supports(p, o); err != nil {
		return err
	}
	switch {
	case p.MoreFiltered():
		return fmt.Errorf("process %d: %w", p.PID, process.ErrFiltered)
	}
	return nil
}

// usable looks at what is in memory at the sites, and keeps those where there
// is room, of several at one address the first. Unless it is nil, seen are addresses that there were before.
func (s *Session) usable(sites []*EntrySite, seen map[uint64]bool) []*EntrySite {
	var usable []*EntrySite
	if seen == nil {
		seen = make(map[uint64]bool)
	}
	code := make([]byte, 16)
	guarded := s.p.ShadowStack()
	for _, site := range sites {
		if seen[site.Addr] {
			continue
		}
		seen[site.Addr] = true
		if site.window != nil {
			if why := s.usableWindow(site, guarded); why != "" {
				s.Skipped[site] = why
			} else {
				usable = append(usable, site)
			}
			continue
		}
		room := min(len(code), max(site.Size, native.jumpSize))
		switch _, err := s.p.ReadAt(code[:room], int64(site.Addr)); {
		case site.Size < native.jumpSize:
			s.Skipped[site] = fmt.Sprintf("only %d bytes of room, a jump needs %d: compile with -fpatchable-function-entry=%d", site.Size, native.jumpSize, native.jumpSize)
		case err != nil:
			s.Skipped[site] = err.Error()
		default:
			if site.room = site.Image.File.Nops(code[:room], native.jumpSize); site.room < native.jumpSize {
				s.Skipped[site] = fmt.Sprintf("somebody has changed the code there: % x", code[:native.jumpSize])
				continue
			}
			copy(site.old[:], code)
			usable = append(usable, site)
		}
	}
	slices.SortFunc(usable, func(a, b *EntrySite) int { return cmp.Compare(a.Addr, b.Addr) })
	return usable
}

func (s *Session) firstSkipped() string {
	for _, why := range s.Skipped {
		return why
	}
	return "there are none"
}

// held calls do while all threads are stopped, again if they are in a state
// where none of them can be used.
func held(p *process.Process, do func(*process.Held) error) error {
	p.PrepareSystemCalls()
	for try := 0; ; try++ {
		err := p.WhileHeld(do)
		if try == 100 || !errors.Is(err, process.ErrBusy) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// switchOn writes the jumps, in steps between which the process runs on. What records already does so
// from its step on, the rest from the last one on.
func (s *Session) switchOn(stubs []*stub) error {
	release, err := s.p.Claim()
	if err != nil {
		return err
	}
	defer release()
	begin := time.Now()
	defer func() { s.Stopped = time.Since(begin) }()
	steps := inSteps(stubs)
	for i, some := range steps {
		if err := s.switchSomeOn(some, i == len(steps)-1); err != nil {
			return err
		}
	}
	return nil
}

// inSteps divides entries into parts, one at least, of which each may be switched with its exits while the process stands
// still: the exits of a function are not to be on without it.
func inSteps(stubs []*stub) (steps [][]*stub) {
	sites, from := 0, 0
	for i, st := range stubs {
		n := 1 + len(st.exits)
		if sites > 0 && sites+n > mostAtOnce {
			steps = append(steps, stubs[from:i])
			sites, from = 0, i
		}
		sites += n
	}
	return append(steps, stubs[from:])
}

// switchSomeOn does it in one step.
func (s *Session) switchSomeOn(stubs []*stub, last bool) error {
	return s.p.WhileHeld(func(h *process.Held) error {
		// What was there a moment ago may have been unloaded.
		stubs, code, err := present(s.p, sorted(s.withNotifier(withExits(stubs), false)), func(st *stub) []byte { return st.old[:native.jumpSize] })
		if err != nil {
			return err
		}
		stubs, later, err := free(s.p, h, stubs, span{}, nil)
		if err != nil {
			return err
		}
		for _, st := range later {
			if st.mode == notices { // without them there is another way
				continue
			}
			s.putOff = append(s.putOff, st)
			if !st.leaves() {
				s.Skipped[s.stubs[st.id()]] = putOff
			}
		}
		// From here on Close has something to undo.
		s.recording = true
		for _, st := range stubs {
			if st.mode != notices && !st.leaves() {
				s.on = append(s.on, st)
				s.noLonger(s.stubs[st.id()])
			}
		}
		for _, b := range s.islands {
			if err := b.setPatched(s.p, stubs, true); err != nil {
				return err
			}
			if !last || s.waits && len(s.putOff) > 0 {
				continue // nothing records until the others are on, too
			}
			if err := b.setTable(s.p, s.region.table()); err != nil {
				return err
			}
		}
		changes := make([]change, len(stubs))
		for i, st := range stubs {
			changes[i] = change{st.site, st.old[:native.jumpSize], st.jump()}
			if site := s.stubs[st.id()]; site != nil && s.samples[site.Image] == nil {
				s.samples[site.Image] = st
			}
		}
		_, err = writeCode(s.p, code, changes)
		return err
	})
}

// noLonger notes that a site is on, which may have been put off for so long that others recorded.
func (s *Session) noLonger(site *EntrySite) {
	if _, skipped := s.Skipped[site]; skipped && !s.opened.IsZero() {
		s.Late[site] = time.Since(s.opened)
	}
	delete(s.Skipped, site)
}

// jump is what leads from the site to the stub.
func (st *stub) jump() []byte {
	jump := native.jump(st.site, st.addr())
	if st.conditional {
		jump[0] = st.old[0]
	}
	return jump
}

func sorted(stubs []*stub) []*stub {
	slices.SortFunc(stubs, func(a, b *stub) int { return cmp.Compare(a.site, b.site) })
	return stubs
}

// present returns those of the stubs, which are sorted, at whose sites the
// wanted bytes are, and the code there. They are not where a library has been unloaded, and maybe
// another one loaded.
func present(p *process.Process, stubs []*stub, wanted func(*stub) []byte) (there []*stub, code []process.MemoryRange, err error) {
	if code, err = readCode(p, stubs); err != nil {
		return nil, nil, err
	}
	pages := code
	for _, st := range stubs {
		for st.site >= pages[0].Addr+uint64(len(pages[0].Bytes)) && len(pages) > 1 {
			pages = pages[1:]
		}
		at := int(st.site - pages[0].Addr)
		if at >= 0 && at+native.jumpSize <= len(pages[0].Bytes) && string(pages[0].Bytes[at:at+native.jumpSize]) == string(wanted(st)) {
			there = append(there, st)
		}
	}
	return there, code, nil
}

// readCode reads what is at the sites of stubs, which are sorted: a range for each page, as far as it is there.
func readCode(p *process.Process, stubs []*stub) (code []process.MemoryRange, err error) {
	const page = 4096
	for len(stubs) > 0 {
		from := stubs[0].site
		n := 1
		for n < len(stubs) && stubs[n].site < from&^(page-1)+page {
			n++
		}
		code = append(code, process.MemoryRange{Addr: from, Bytes: make([]byte, stubs[n-1].site+uint64(native.jumpSize)-from)})
		stubs = stubs[n:]
	}
	if p.ReadRanges(code) == nil {
		return code, nil
	}
	for i, r := range code { // some are not there
		n, err := p.ReadAt(r.Bytes, int64(r.Addr))
		if err != nil && !errors.Is(err, unix.EFAULT) && !errors.Is(err, unix.EIO) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		code[i].Bytes = r.Bytes[:max(n, 0)]
	}
	return code, nil
}

// A change of code.
type change struct {
	addr     uint64
	old, new []byte
}

// writeCode makes changes, by ascending address, in code that has been read since the process stands still, a page with one
// write. Where the old bytes are not what is there nothing is written; it returns how many were.
func writeCode(p *process.Process, code []process.MemoryRange, changes []change) (written int, err error) {
	for _, page := range code {
		from, to := len(page.Bytes), 0
		for len(changes) > 0 && changes[0].addr < page.Addr+uint64(len(page.Bytes)) {
			c := changes[0]
			changes = changes[1:]
			at := int(c.addr - page.Addr)
			if there := page.Bytes[at:]; string(there[:len(c.old)]) == string(c.old) {
				copy(there, c.new)
				from, to = min(from, at), at+len(c.new)
				written++
			}
		}
		if from >= to {
			continue
		}
		if _, err := p.WriteAt(page.Bytes[from:to], int64(page.Addr)+int64(from)); err != nil {
			return written, err
		}
	}
	return written, nil
}

// Close switches everything off and lets go of the process.
func (s *Session) Close() error {
	release, _ := s.p.Claim() // it may have ended
	defer release()
	err := s.SwitchOff()
	s.letGo()
	if s.region != nil {
		err = errors.Join(err, s.region.close())
		s.region = nil
		if err == nil && s.p.Check() == nil {
			err = tidy(s.p, s.islands)
		}
		if s.p.Check() != nil { // it has ended meanwhile
			err = nil
		}
	}
	return err
}

// CloseEnded is Close where the process and its children made by fork have all
// ended or become other programs: there is nothing to restore.
func (s *Session) CloseEnded() error {
	s.files = nil
	return s.Close()
}

// SwitchOff restores the sites. What was recorded can still be read.
func (s *Session) SwitchOff() error {
	defer func() { s.Children += s.restoreChildren() }()
	s.stopNotices()
	defer s.stopNotices() // those that have come meanwhile
	if err := s.p.Check(); err != nil || len(s.islands) == 0 {
		s.on, s.recording = nil, false
		return nil // there is nothing to restore
	}
	var err error
	if len(s.on) > 0 || s.recording {
		err = restore(s.p, s.islands, s.withNotifier(withExits(s.on), true))
	}
	if err == nil { // else it may be tried again
		s.on, s.recording = nil, false
	}
	return err
}

// restore switches recording off, and writes what was at the sites before, in steps between which the process runs on.
func restore(p *process.Process, islands []*island, stubs []*stub) error {
	steps := slices.Collect(slices.Chunk(sorted(stubs), mostAtOnce))
	if len(steps) == 0 {
		steps = [][]*stub{nil}
	}
	for i, some := range steps {
		err := p.WhileHeld(func(*process.Held) error { return restoreSome(p, islands, some, i == 0, i == len(steps)-1) })
		if p.Check() != nil {
			return nil // it ended meanwhile
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restoreSome does it in one step.
func restoreSome(p *process.Process, islands []*island, stubs []*stub, first, last bool) error {
	if first { // all of it ends at one moment
		for _, b := range islands {
			if err := b.setTable(p, 0); err != nil {
				return err
			}
		}
	}
	if err := putBack(p, islands, stubs); err != nil || !last {
		return err
	}
	for _, b := range islands {
		b.kept = 0
		if err := b.setOwner(p, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// putBack writes what was at the sites before, and notes that.
func putBack(p *process.Process, islands []*island, stubs []*stub) error {
	if err := putBackCode(p, stubs); err != nil {
		return err
	}
	for _, b := range islands {
		if err := b.setPatched(p, stubs, false); err != nil {
			return err
		}
	}
	return nil
}

// putBackCode writes what was at the sites before, while the threads are stopped.
func putBackCode(p *process.Process, stubs []*stub) error {
	there, code, err := present(p, sorted(stubs), (*stub).jump)
	if err != nil {
		return err
	}
	changes := make([]change, len(there))
	for i, st := range there {
		changes[i] = change{st.site, st.jump(), st.old[:native.jumpSize]}
	}
	_, err = writeCode(p, code, changes)
	return err
}

// Repair restores the sites of a process whose footfall was killed, and
// returns how many there were.
func Repair(p *process.Process) (int, error) {
	release, err := p.Claim()
	if err != nil {
		return 0, err
	}
	defer release()
	islands, err := findIslands(p)
	if err != nil {
		return 0, err
	}
	if err := refuseSecond(p, islands); err != nil {
		return 0, err
	}
	return repair(p, islands)
}

func repair(p *process.Process, islands []*island) (int, error) {
	var stubs []*stub
	for _, b := range islands {
		for _, st := range b.stubs {
			if st.patched {
				stubs = append(stubs, st)
			}
		}
	}
	records := false
	for _, b := range islands {
		on, err := b.on(p)
		if err != nil {
			return 0, err
		}
		records = records || on || b.owner != 0 || b.kept != 0
	}
	sites := 0
	for _, st := range stubs {
		if st.mode != notices && !st.leaves() {
			sites++
		}
	}
	if len(stubs) > 0 || records {
		if err := restore(p, islands, stubs); err != nil {
			return 0, err
		}
	}
	return sites, tidy(p, islands)
}

// refuseSecond returns an error if another footfall traces the process. One that was
// killed does not, even if it has not ended yet.
func refuseSecond(p *process.Process, islands []*island) error {
	for _, b := range islands {
		if b.owner == 0 || b.owner == uint64(os.Getpid()) {
			continue
		}
		if process.Runs(int(b.owner), b.ownerTicks) {
			return fmt.Errorf("process %d: footfall process %d traces it already", p.PID, b.owner)
		}
	}
	return nil
}
