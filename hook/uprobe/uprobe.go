//go:build linux

// Package uprobe watches functions of a process by the kernel's uprobes and
// small BPF programs: functions that the compiler left no room in.
//
// The kernel puts a breakpoint on the first instruction of each function, in
// the memory of the one process, and runs a BPF program there, which writes an
// event, counts the call, or counts the chain of its callers. With the process
// that opened a [ProbeSet] all of it goes: nothing is ever left behind.
//
// It knows nothing of symbols: a function is an offset in a file.
//
// # What it needs
//
// Linux 5.15 on x86-64, and the right to load BPF programs: root, or CAP_BPF and
// CAP_PERFMON. Linux before 6.10 sets each probe by itself, which takes long for
// thousands.
package uprobe

import (
	encoding "encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"footfall/binary/unwind"
	"footfall/input"
	"footfall/trace"
)

// MaxChainDepth is the largest number of callers of a chain.
const MaxChainDepth = 30

// Options say how to watch.
type Options struct {
	PID int
	// Thread returns a thread of the process that has not ended; nil: the first one has not.
	Thread func() int
	Mode   trace.Mode // 0: Entries
	// Children made by fork are recorded, and theirs, until they become other programs: all
	// that begin after Open.
	Children bool
	// BufferSize is the size in bytes of the memory for events or chains; a power
	// of 2, and at least a page.
	BufferSize int
	ChainDepth int
	// Filter is for mode Filtered.
	Filter trace.Filter
	// Arguments tells that probes of mode Filtered, or with Newest, may have some.
	Arguments bool
	// Newest keeps the newest events of each thread, in memory of BufferSize for each.
	// They are read after Detach. Rings is for how many threads there is to be so much; if
	// there are more all have less.
	Newest bool
	Rings  int
	// ThreadNames tells which threads are recorded, by the names that they have when they
	// call, and ThreadIDs which are whatever their name is. Without both all are. They are
	// not for Chains.
	ThreadNames func(string) bool
	ThreadIDs   []uint32
	// Rows say, for Chains, how to find callers; their addresses are those of the
	// process, and ascend.
	Rows []unwind.CompactRow

	single bool // set each probe by itself, as on older kernels
}

// A Probe is a function to watch.
type Probe struct {
	File   string // the program or library
	Offset uint64 // of the function's first instruction in the file
	ID     uint32 // less than MaxID
	Root   bool   // with Filter.Roots: recording begins here
	// OnlyProcess keeps the probe out of all processes but PID, so that it is not in
	// children, either. With Options.Children it is else in all that run the file, whose
	// calls cost time, but are not recorded.
	OnlyProcess bool
	// Arguments are read with each event of an entry.
	Arguments []trace.Capture
}

// MaxID is more than any ID.
const MaxID = 1 << 18

// A ProbeEvent is an entry into a function or an exit from it.
type ProbeEvent struct {
	Time  uint64 // nanoseconds of the monotonic clock
	TID   int    // as the first namespace has it
	ID    uint32 // of the probe
	Exit  bool
	Stack uint64 // where the return address is
	// Name is that of the thread, where threads were chosen by names.
	Name string
	// Words are the arguments: of an integer one, of a string the pointer, its
	// length with flags above, and the bytes, as package trace has them.
	Words []uint64
}

// A ProbeSet watches functions. Its methods must not be called at the same time.
type ProbeSet struct {
	options       Options
	lost, results *ebpf.Map
	rows          *ebpf.Map
	flags, shift  *ebpf.Map // of probes
	set           uint32    // shift of the set of flags that counts
	on            []byte    // what flags has
	offSince      map[uint32]time.Time
	reader        *ringbuf.Reader
	entry, exit   *ebpf.Program
	entries       map[string]*ebpf.Program   // with arguments
	arguments     map[uint32][]trace.Capture // by probe
	links         []linked
	held          int // breakpoints in a process that has lost its first thread
	multi         bool

	states, fresh, settings *ebpf.Map // of threads
	names, numbers, ids     *ebpf.Map
	nameOf                  map[uint32]threadName
	rings                   rings
	forgotten               uint64 // threads that ended

	processes, owners, called *ebpf.Map // with Children
	events                    []link.Link
}

// linked are probes that were set together.
type linked struct {
	link.Link
	ids []uint32
}

// A PermissionError tells what is needed to watch functions.
type PermissionError struct{ Err error }

func (e *PermissionError) Error() string {
	return "the kernel's uprobes need root, or CAP_BPF and CAP_PERFMON"
}

func (e *PermissionError) Unwrap() error { return e.Err }

// A ChildrenError tells why children cannot be recorded here.
type ChildrenError struct{ Err error }

func (e *ChildrenError) Error() string { return e.Err.Error() }

func (e *ChildrenError) Unwrap() error { return e.Err }

// Open loads the programs; nothing is watched yet, and nothing switched on.
func Open(o Options) (*ProbeSet, error) {
	if runtime.GOARCH != "amd64" {
		return nil, errors.New("uprobes are known for x86-64 only")
	}
	if o.Mode == trace.Exits && (o.ThreadNames != nil || len(o.ThreadIDs) > 0) {
		o.Mode = trace.Filtered // an exit goes by its entry
	}
	s := &ProbeSet{options: o, entries: make(map[string]*ebpf.Program), arguments: make(map[uint32][]trace.Capture), on: make([]byte, MaxID), offSince: make(map[uint32]time.Time), nameOf: make(map[uint32]threadName)}
	if err := s.load(); err != nil {
		s.Close()
		var refused *ebpf.VerifierError
		switch {
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES) && !errors.As(err, &refused):
			return nil, &PermissionError{err}
		case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL):
			return nil, fmt.Errorf("uprobes with BPF need Linux 5.15: %w", err)
		}
		return nil, err
	}
	return s, nil
}

func (s *ProbeSet) load() (err error) {
	if err := s.makeMaps(); err != nil {
		return err
	}
	if s.options.Children {
		if err := s.followChildren(); err != nil {
			return &ChildrenError{err}
		}
	}
	// The kernel says how a program that is for many probes is to be loaded; it
	// is tried on this very program.
	if !s.options.single {
		if s.multi, err = filtersProcesses(); err != nil {
			return err
		}
	}
	if s.entry, err = s.loadEntry(nil); err != nil {
		return err
	}
	if s.options.Mode == trace.Exits || s.options.Mode == trace.Filtered {
		s.exit, err = s.loadExit()
	}
	return err
}

// Attach watches further functions. Those that cannot be, for the kernel cannot
// step over their first instruction, are returned by their IDs.
func (s *ProbeSet) Attach(probes []Probe) (skipped map[uint32]error, err error) {
	skipped = make(map[uint32]error)
	type group struct {
		file, arguments string
		everywhere      bool
	}
	groups := make(map[group][]Probe)
	var order []group
	for _, p := range probes {
		g := group{p.File, fmt.Sprint(p.Arguments), s.everywhere(p)}
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], p)
		if len(p.Arguments) > 0 {
			s.arguments[p.ID] = p.Arguments
		}
	}
	for _, g := range order {
		file, err := link.OpenExecutable(g.file)
		if err != nil {
			return skipped, err
		}
		entry, err := s.entryProgram(groups[g][0].Arguments)
		if err != nil {
			return skipped, err
		}
		can := s.holdable(groups[g], skipped)
		if len(can) == 0 {
			continue
		}
		good, doubtful := sortOut(can)
		for _, p := range doubtful {
			if err := checkFirst(p); err != nil {
				_ = skip(p, err, skipped) // nil, as it is notSupported
				continue
			}
			if err := s.attach(file, entry, []Probe{p}, skipped); err != nil {
				return skipped, err
			}
		}
		if len(good) > 0 {
			if err := s.attach(file, entry, good, skipped); err != nil {
				return skipped, err
			}
		}
	}
	return skipped, nil
}

// sortOut finds probes of a file which the kernel will hardly set: of many at once it sets
// none if there is one of these, and does not say which.
func sortOut(probes []Probe) (good, doubtful []Probe) {
	f, err := input.Open(probes[0].File)
	if err != nil {
		return probes, nil
	}
	defer f.Close()
	for _, p := range probes {
		var first [5]byte
		if _, err := f.ReadAt(first[:], int64(p.Offset)); err == nil && (hasPrefix(first[:]) || misread(first[:])) {
			doubtful = append(doubtful, p)
		} else {
			good = append(good, p)
		}
	}
	return good, doubtful
}

// hasPrefix tells whether an instruction has a prefix with which the kernel does not step
// over it: lock, or that of a segment other than %fs and %gs.
func hasPrefix(code []byte) bool {
	for _, b := range code {
		switch b {
		case 0xf0, 0x26, 0x2e, 0x36, 0x3e:
			return true
		case 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3: // others may follow
		default:
			return false
		}
	}
	return false
}

// misread tells whether the kernel (6.18 and before) takes an instruction with a VEX prefix for a
// jump or a call of one byte, since it looks at the byte behind the prefix only: vmovq (%rsi),%xmm1 for jle.
func misread(code []byte) bool {
	at := 0
	for at < len(code) && (code[at] == 0x64 || code[at] == 0x65 || code[at] == 0x67) {
		at++
	}
	if at == len(code) {
		return false
	}
	switch code[at] { // to the opcode
	case 0xc5:
		at += 2
	case 0xc4:
		at += 3
	default:
		return false
	}
	if at >= len(code) {
		return false
	}
	switch op := code[at]; op {
	case 0x0f, 0x90, 0xe8, 0xe9, 0xeb:
		return true
	default:
		return op >= 0x70 && op <= 0x7f
	}
}

// checkFirst returns an error if the kernel would set a probe and then misread the instruction there.
func checkFirst(p Probe) error {
	f, err := input.Open(p.File)
	if err != nil {
		return nil // the kernel will say so
	}
	defer f.Close()
	var first [5]byte
	if n, _ := f.ReadAt(first[:], int64(p.Offset)); misread(first[:n]) {
		return notSupported
	}
	return nil
}

// notSupported is ENOTSUPP, which the kernel keeps to itself but for here.
const notSupported = unix.Errno(524)

// maxSkipped probes that cannot be set are not the functions' fault.
const maxSkipped = 64

func (s *ProbeSet) attach(file *link.Executable, entry *ebpf.Program, probes []Probe, skipped map[uint32]error) error {
	if !s.multi || s.leaderless(probes[0]) && !knowsGroups() {
		for _, p := range probes {
			err := s.attachOne(file, entry, p)
			if err := skip(p, err, skipped); err != nil {
				return err
			}
		}
		return nil
	}
	err := s.attachMany(file, entry, probes)
	if err != nil && len(probes) > 1 && !errors.Is(err, os.ErrPermission) { // which one is it?
		half := len(probes) / 2
		if err := s.attach(file, entry, probes[:half], skipped); err != nil {
			return err
		}
		return s.attach(file, entry, probes[half:], skipped)
	}
	return skip(probes[0], err, skipped)
}

// skip notes why a probe could not be set. It returns an error if that was not
// the function's fault.
func skip(p Probe, err error, skipped map[uint32]error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return &PermissionError{err}
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, notSupported):
		skipped[p.ID] = errors.New("the kernel cannot step over its first instruction")
		return nil
	}
	if skipped[p.ID] = err; len(skipped) > maxSkipped {
		return err
	}
	return nil
}

func (s *ProbeSet) attachMany(file *link.Executable, entry *ebpf.Program, probes []Probe) error {
	o := &link.UprobeMultiOptions{PID: uint32(s.options.PID)}
	if s.everywhere(probes[0]) {
		o.PID = 0
	}
	var ids []uint32
	for _, p := range probes {
		o.Addresses = append(o.Addresses, p.Offset)
		o.Cookies = append(o.Cookies, uint64(p.ID))
		ids = append(ids, p.ID)
	}
	if s.leaderless(probes[0]) {
		if err := s.hold(file, probes); err != nil {
			return err
		}
	}
	return s.link(ids,
		func() (link.Link, error) { return file.UprobeMulti(nil, entry, o) },
		func() (link.Link, error) { return file.UretprobeMulti(nil, s.exit, o) })
}

func (s *ProbeSet) attachOne(file *link.Executable, entry *ebpf.Program, p Probe) error {
	o := &link.UprobeOptions{Address: p.Offset, PID: s.thread(), Cookie: uint64(p.ID)}
	if s.everywhere(p) {
		o.PID = 0
	}
	return s.link([]uint32{p.ID},
		func() (link.Link, error) { return file.Uprobe("", entry, o) },
		func() (link.Link, error) { return file.Uretprobe("", s.exit, o) })
}

// link sets probes at entries and, if they are watched, at exits. With a filter those come
// first: a call that has begun must be seen to end.
func (s *ProbeSet) link(ids []uint32, entry, exit func() (link.Link, error)) error {
	order := []func() (link.Link, error){entry}
	switch s.options.Mode {
	case trace.Exits:
		order = append(order, exit)
	case trace.Filtered:
		order = []func() (link.Link, error){exit, entry}
	}
	var made []linked
	for _, set := range order {
		l, err := set()
		if err != nil {
			for _, l := range made {
				l.Close()
			}
			return err
		}
		made = append(made, linked{l, ids})
	}
	s.links = append(s.links, made...)
	return nil
}

// Switch has the calls of these probes recorded, and of no others, from one moment on.
// Those that are not attached are recorded once they are.
func (s *ProbeSet) Switch(probes []Probe) error {
	next := s.set ^ flagsShift
	for id := range s.on {
		s.on[id] &^= flagsSet << next
	}
	now := time.Now()
	for _, p := range probes {
		if s.on[p.ID] |= flagOn << next; p.Root {
			s.on[p.ID] |= flagRoot << next
		}
		delete(s.offSince, p.ID)
	}
	for _, l := range s.links {
		for _, id := range l.ids {
			if _, known := s.offSince[id]; !known && s.on[id]>>next&flagOn == 0 {
				s.offSince[id] = now
			}
		}
	}
	if err := s.flags.Put(uint32(0), s.on); err != nil {
		return err
	}
	s.set = next
	return s.shift.Put(uint32(0), next)
}

// lingering is how long probes stay that are switched off: for the ends of calls that have
// begun.
const lingering = time.Second

// Trim detaches probes that have been switched off for a while, unless others which were
// attached with them have not.
func (s *ProbeSet) Trim() error {
	var idle []linked
	s.links = slices.DeleteFunc(s.links, func(l linked) bool {
		used := slices.ContainsFunc(l.ids, func(id uint32) bool {
			since, off := s.offSince[id]
			return !off || time.Since(since) < lingering
		})
		if !used {
			idle = append(idle, l)
		}
		return !used
	})
	return closeLinks(idle)
}

// Attached tells whether a probe is.
func (s *ProbeSet) Attached(id uint32) bool {
	return slices.ContainsFunc(s.links, func(l linked) bool { return slices.Contains(l.ids, id) })
}

// Read gives the events that there are to do, those of each thread in order,
// and returns how many there were. What do gets is used again. With Newest it gives
// nothing before Detach.
func (s *ProbeSet) Read(do func([]ProbeEvent)) (n int) {
	if s.options.Newest {
		if s.links != nil || s.decide() != nil {
			return 0
		}
		return s.readNewest(do)
	}
	s.reader.SetDeadline(time.Now().Add(-time.Second)) // take what there is
	var record ringbuf.Record
	events := make([]ProbeEvent, 0, 1024)
	for s.reader.ReadInto(&record) == nil {
		if len(record.RawSample) < eventSize {
			continue
		}
		e, wanted := s.event(record.RawSample)
		if !wanted {
			continue
		}
		events = append(events, e)
		if n++; len(events) == cap(events) {
			do(events)
			events = events[:0]
		}
	}
	if len(events) > 0 {
		do(events)
	}
	return n
}

// event reads an event, and tells whether its thread is wanted.
func (s *ProbeSet) event(b []byte) (e ProbeEvent, wanted bool) {
	word := encoding.NativeEndian.Uint32(b[12:])
	e = ProbeEvent{
		Time: encoding.NativeEndian.Uint64(b), TID: int(encoding.NativeEndian.Uint32(b[8:])),
		ID: word & (MaxID - 1), Exit: word&exitFlag != 0, Stack: encoding.NativeEndian.Uint64(b[16:]),
	}
	if !e.Exit {
		e.Words = argumentWords(b[eventSize:], s.arguments[e.ID])
	}
	number := word &^ exitFlag >> nameShift
	if _, known := s.nameOf[number]; number > 0 && !known {
		_ = s.decide() // else it is not wanted
	}
	e.Name = s.nameOf[number].text
	return e, s.wantsName(number)
}

// Counts returns how often the functions were called, by the IDs of probes.
func (s *ProbeSet) Counts() (map[uint32]uint64, error) {
	counts := make(map[uint32]uint64)
	if !s.named() {
		memory, err := s.results.Memory()
		if err != nil {
			return nil, err
		}
		all := make([]byte, 8*MaxID)
		if _, err := memory.ReadAt(all, 0); err != nil {
			return nil, err
		}
		for id := range uint32(MaxID) {
			if n := encoding.NativeEndian.Uint64(all[8*id:]); n > 0 {
				counts[id] = n
			}
		}
		return counts, nil
	}
	if err := s.decide(); err != nil {
		return nil, err
	}
	var id uint32
	var n uint64
	each := s.results.Iterate()
	for each.Next(&id, &n) {
		if n > 0 && s.wantsName(id>>nameShift) {
			counts[id&(MaxID-1)] += n
		}
	}
	return counts, each.Err()
}

// Chains returns the chains, the most frequent first.
func (s *ProbeSet) Chains() ([]trace.Chain, error) {
	var chains []trace.Chain
	key := make([]byte, 8*s.options.ChainDepth)
	var n uint64
	each := s.results.Iterate()
	for each.Next(&key, &n) {
		var addresses []uint64
		for b := key; len(b) > 0; b = b[8:] {
			if a := encoding.NativeEndian.Uint64(b); a != 0 {
				addresses = append(addresses, a)
			}
		}
		chains = append(chains, trace.Chain{Addresses: addresses, Count: n})
	}
	slices.SortFunc(chains, func(a, b trace.Chain) int {
		if a.Count != b.Count {
			if a.Count > b.Count {
				return -1
			}
			return 1
		}
		return slices.Compare(a.Addresses, b.Addresses)
	})
	// A table that grows while it is gone through may be begun again.
	chains = slices.CompactFunc(chains, func(a, b trace.Chain) bool { return slices.Equal(a.Addresses, b.Addresses) })
	return chains, each.Err()
}

// Lost returns how many events or calls found no room, and how many were not recorded
// because there were too many threads; or, of threads that ended with Newest, how many
// were forgotten.
func (s *ProbeSet) Lost() (events, threads, forgotten uint64) {
	missing, _ := s.missing()
	return missing[lostEvents/8], missing[lostThreads/8], s.forgotten
}

func (s *ProbeSet) missing() (counts [lostSize / 8]uint64, err error) {
	err = s.lost.Lookup(uint32(0), &counts)
	return counts, err
}

// Detach ends the watching, at one moment for all functions; what there is can still be
// read.
func (s *ProbeSet) Detach() error {
	var err error
	if s.shift != nil {
		err = s.shift.Put(uint32(0), uint32(nothingOn))
	}
	err = errors.Join(err, closeLinks(s.links))
	s.links = nil
	return err
}

// closeLinks closes links. The kernel waits for all CPUs each time: for many at once it
// waits once.
func closeLinks(links []linked) error {
	var closing sync.WaitGroup
	failed := make([]error, len(links))
	const atOnce = 64
	for from := range min(atOnce, len(links)) {
		closing.Go(func() {
			for i := from; i < len(links); i += atOnce {
				failed[i] = links[i].Close()
			}
		})
	}
	closing.Wait()
	return errors.Join(failed...)
}

// Close ends the watching.
func (s *ProbeSet) Close() error {
	err := s.Detach()
	if s.reader != nil {
		err = errors.Join(err, s.reader.Close())
	}
	for _, l := range s.events {
		err = errors.Join(err, l.Close())
	}
	for _, p := range append(slices.Collect(maps.Values(s.entries)), s.entry, s.exit) {
		err = errors.Join(err, p.Close())
	}
	for _, m := range []*ebpf.Map{s.lost, s.results, s.rows, s.flags, s.shift, s.processes, s.owners, s.called, s.states, s.fresh, s.settings, s.names, s.numbers, s.ids, s.rings.free} {
		err = errors.Join(err, m.Close())
	}
	return err
}
