// Package uprobe watches functions of a process by the kernel's uprobes and
// small BPF programs: functions that the compiler left no room in.
//
// The kernel puts a breakpoint on the first instruction of each function, in
// the memory of the one process, and runs a BPF program there, which writes an
// event, counts the call, or counts the chain of its callers. With the process
// that opened a [Session] all of it goes: nothing is ever left behind.
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
	"encoding/binary"
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
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"footfall/exe"
)

// A Mode says what is done at each call.
type Mode int

// Modes.
const (
	Entries Mode = iota // an event
	Exits               // an event for the entry, and one for the exit
	Counts              // calls are counted
	Chains              // chains of callers are counted
)

// MaxChainDepth is the largest number of callers of a chain.
const MaxChainDepth = 30

// Options say how to watch.
type Options struct {
	PID  int
	Mode Mode
	// BufferSize is the size in bytes of the memory for events or chains; a power
	// of 2, and at least a page.
	BufferSize int
	ChainDepth int
	// Rows say, for Chains, how to find callers; their addresses are those of the
	// process, and ascend.
	Rows []exe.UnwindRow

	single bool // set each probe by itself, as on older kernels
}

// A Probe is a function to watch.
type Probe struct {
	File   string // the program or library
	Offset uint64 // of the function's first instruction in the file
	ID     uint32 // less than MaxID
	// Arguments are read with each event of an entry.
	Arguments []Argument
}

// MaxID is more than any ID.
const MaxID = 1 << 18

// An Event is an entry into a function or an exit from it.
type Event struct {
	Time  uint64 // nanoseconds of the monotonic clock
	TID   int    // as the first namespace has it
	ID    uint32 // of the probe
	Exit  bool
	Stack uint64 // where the return address is
	// Words are the arguments: of an integer one, of a string the pointer, its
	// length with flags above, and the bytes, as package trace has them.
	Words []uint64
}

// A Chain is how a function was reached.
type Chain struct {
	Addresses []uint64 // return addresses, the nearest caller first
	Count     uint64
}

// A Session watches functions. Its methods must not be called at the same time.
type Session struct {
	options       Options
	lost, results *ebpf.Map
	rows          *ebpf.Map
	reader        *ringbuf.Reader
	entry, exit   *ebpf.Program
	entries       map[string]*ebpf.Program // with arguments
	arguments     map[uint32][]Argument    // by probe
	links         []link.Link
	multi         bool
}

// A PermissionError tells what is needed to watch functions.
type PermissionError struct{ Err error }

func (e *PermissionError) Error() string {
	return "the kernel's uprobes need root, or CAP_BPF and CAP_PERFMON"
}

func (e *PermissionError) Unwrap() error { return e.Err }

// Open loads the programs; nothing is watched yet.
func Open(o Options) (*Session, error) {
	if runtime.GOARCH != "amd64" {
		return nil, errors.New("uprobes are known for x86-64 only")
	}
	s := &Session{options: o, entries: make(map[string]*ebpf.Program), arguments: make(map[uint32][]Argument)}
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

func (s *Session) load() (err error) {
	_ = rlimit.RemoveMemlock() // Linux before 5.11; what it is for fails later if it was needed
	if err := s.makeMaps(); err != nil {
		return err
	}
	// The kernel says how a program that is for many probes is to be loaded; it
	// is tried on this very program.
	if !s.options.single {
		if s.multi, err = filtersProcesses(); err != nil {
			return err
		}
	}
	if s.entry, err = s.program(false); err != nil {
		return err
	}
	if s.options.Mode == Exits {
		s.exit, err = s.program(true)
	}
	return err
}

// Attach watches further functions. Those that cannot be, for the kernel cannot
// step over their first instruction, are returned by their IDs.
func (s *Session) Attach(probes []Probe) (skipped map[uint32]error, err error) {
	skipped = make(map[uint32]error)
	type group struct{ file, arguments string }
	groups := make(map[group][]Probe)
	var order []group
	for _, p := range probes {
		g := group{p.File, fmt.Sprint(p.Arguments)}
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
		if err := s.attach(file, entry, groups[g], skipped); err != nil {
			return skipped, err
		}
	}
	return skipped, nil
}

// notSupported is ENOTSUPP, which the kernel keeps to itself but for here.
const notSupported = unix.Errno(524)

// maxSkipped probes that cannot be set are not the functions' fault.
const maxSkipped = 64

func (s *Session) attach(file *link.Executable, entry *ebpf.Program, probes []Probe, skipped map[uint32]error) error {
	if !s.multi {
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

func (s *Session) attachMany(file *link.Executable, entry *ebpf.Program, probes []Probe) error {
	o := &link.UprobeMultiOptions{PID: uint32(s.options.PID)}
	for _, p := range probes {
		o.Addresses = append(o.Addresses, p.Offset)
		o.Cookies = append(o.Cookies, uint64(p.ID))
	}
	entries, err := file.UprobeMulti(nil, entry, o)
	if err != nil {
		return err
	}
	if s.exit != nil {
		exits, err := file.UretprobeMulti(nil, s.exit, o)
		if err != nil {
			entries.Close()
			return err
		}
		s.links = append(s.links, exits)
	}
	s.links = append(s.links, entries)
	return nil
}

func (s *Session) attachOne(file *link.Executable, entry *ebpf.Program, p Probe) error {
	o := &link.UprobeOptions{Address: p.Offset, PID: s.options.PID, Cookie: uint64(p.ID)}
	entries, err := file.Uprobe("", entry, o)
	if err != nil {
		return err
	}
	if s.exit != nil {
		exit, err := file.Uretprobe("", s.exit, o)
		if err != nil {
			entries.Close()
			return err
		}
		s.links = append(s.links, exit)
	}
	s.links = append(s.links, entries)
	return nil
}

// Read gives the events that there are to do, those of each thread in order,
// and returns how many there were. What do gets is used again.
func (s *Session) Read(do func([]Event)) (n int) {
	s.reader.SetDeadline(time.Now().Add(-time.Second)) // take what there is
	var record ringbuf.Record
	events := make([]Event, 0, 1024)
	for s.reader.ReadInto(&record) == nil {
		b := record.RawSample
		if len(b) < eventSize {
			continue
		}
		word := binary.NativeEndian.Uint32(b[12:])
		e := Event{
			Time: binary.NativeEndian.Uint64(b), TID: int(binary.NativeEndian.Uint32(b[8:])),
			ID: word &^ exitFlag, Exit: word&exitFlag != 0, Stack: binary.NativeEndian.Uint64(b[16:]),
		}
		if !e.Exit {
			e.Words = argumentWords(b[eventSize:], s.arguments[e.ID])
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

// Counts returns how often the functions were called, by the IDs of probes.
func (s *Session) Counts() (map[uint32]uint64, error) {
	counts := make(map[uint32]uint64)
	var id uint32
	var n uint64
	each := s.results.Iterate()
	for each.Next(&id, &n) {
		if n > 0 {
			counts[id] = n
		}
	}
	return counts, each.Err()
}

// Chains returns the chains, the most frequent first.
func (s *Session) Chains() ([]Chain, error) {
	var chains []Chain
	key := make([]byte, 8*s.options.ChainDepth)
	var n uint64
	each := s.results.Iterate()
	for each.Next(&key, &n) {
		var addresses []uint64
		for b := key; len(b) > 0; b = b[8:] {
			if a := binary.NativeEndian.Uint64(b); a != 0 {
				addresses = append(addresses, a)
			}
		}
		chains = append(chains, Chain{addresses, n})
	}
	slices.SortFunc(chains, func(a, b Chain) int {
		if a.Count != b.Count {
			if a.Count > b.Count {
				return -1
			}
			return 1
		}
		return slices.Compare(a.Addresses, b.Addresses)
	})
	// A table that grows while it is gone through may be begun again.
	chains = slices.CompactFunc(chains, func(a, b Chain) bool { return slices.Equal(a.Addresses, b.Addresses) })
	return chains, each.Err()
}

// Lost returns how many events or calls found no room.
func (s *Session) Lost() uint64 {
	var n uint64
	_ = s.lost.Lookup(uint32(0), &n)
	return n
}

// Detach ends the watching; what there is can still be read.
func (s *Session) Detach() error {
	// The kernel waits for all CPUs each time: for many at once it waits once.
	var closing sync.WaitGroup
	failed := make([]error, len(s.links))
	const atOnce = 64
	for from := range min(atOnce, len(s.links)) {
		closing.Go(func() {
			for i := from; i < len(s.links); i += atOnce {
				failed[i] = s.links[i].Close()
			}
		})
	}
	closing.Wait()
	s.links = nil
	return errors.Join(failed...)
}

// Close ends the watching.
func (s *Session) Close() error {
	err := s.Detach()
	if s.reader != nil {
		err = errors.Join(err, s.reader.Close())
	}
	for _, p := range append(slices.Collect(maps.Values(s.entries)), s.entry, s.exit) {
		err = errors.Join(err, p.Close())
	}
	for _, m := range []*ebpf.Map{s.lost, s.results, s.rows} {
		err = errors.Join(err, m.Close())
	}
	return err
}
