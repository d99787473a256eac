package perfdata

import "encoding/hex"

// Kinds of records: of the kernel, and of perf.
const (
	recordMap         = 1
	recordLost        = 2
	recordName        = 3
	recordExit        = 4
	recordThrottle    = 5
	recordFork        = 7
	recordSample      = 9
	recordMap2        = 10
	recordLostSamples = 13
	recordSymbol      = 17
	recordDeferred    = 22

	recordEvent       = 64
	recordTracing     = 66
	recordBuildID     = 67
	recordAuxTrace    = 71
	recordUpdate      = 78
	recordFeature     = 80
	recordCompressed  = 81
	recordCompressed2 = 83
)

// The low bits of a record's misc: what the CPU was doing.
const (
	miscMode       = 7
	modeKernel     = 1
	modeUser       = 2
	modeHypervisor = 3
	modeGuest      = 4 // its kernel, or with 5 its programs
)

// A SidebandKind tells what happened.
type SidebandKind int

// Kinds of changes.
const (
	Mapped     SidebandKind = iota // code was mapped: Addr, Len, Offset, Path, BuildID if it is known
	Named                          // a thread has a new name
	Executed                       // a process has become another program: Name
	Forked                         // Parent made a thread or process
	Ended                          // a thread
	Lost                           // Count samples (or other records) were lost
	Throttled                      // the kernel paused sampling, as it took too long
	KernelCode                     // code that the kernel made has a name: Addr, Len, Name
)

// A SidebandEvent is something that happened besides samples: a mapping, a fork, a name.
type SidebandEvent struct {
	Kind     SidebandKind
	PID, TID int
	// Time is that of the record, 0 of what perf found when it began. Samples of the
	// same file have the same clock.
	Time              uint64
	Parent            int // its process
	ParentTID         int
	Name, Path        string
	BuildID           string
	Addr, Len, Offset uint64
	Count             uint64
	// Kernel: the code is the kernel's.
	Kernel bool
	// Fresh: perf found the process when it began, so that nothing is mapped that it
	// does not tell of.
	Fresh bool
}

// Scan goes through the file for all that is not a sample, in the order of the
// file: sort by Time. The texts of a change can be kept. It fills the File with
// what stands among the records: events, features, build IDs.
func (f *Recording) Scan(visit func(SidebandEvent)) error {
	d := f.NewDecoder()
	err := f.Chunks(func(c Chunk) error {
		f.records(c, func(r record) {
			if r.kind == recordSample && f.counted != nil {
				d.follow(c, r)
			} else if change, ok := f.scan(r); ok {
				visit(change)
			}
		})
		return nil
	})
	if err == nil && len(f.Events) == 0 {
		return &FormatError{Offset: f.parts[0].begin, Text: "no events"}
	}
	return err
}

// scan decodes a record other than a sample; ok tells that it is of interest.
func (f *Recording) scan(r record) (c SidebandEvent, ok bool) {
	const (
		exec      = 1 << 13 // of names, and of processes
		data      = 1 << 13 // of maps
		hasID     = 1 << 14
		forgotten = 1 // of symbols
	)
	b := &cursor{b: r.body, order: f.Order}
	switch r.kind {
	case recordSample:
		return c, false
	case recordMap, recordMap2:
		c = SidebandEvent{Kind: Mapped, PID: b.pid(), TID: b.pid(), Addr: b.u64(), Len: b.u64(), Offset: b.u64(), Kernel: r.misc&miscMode == modeKernel}
		if r.kind == recordMap2 {
			// u32 major, minor, u64 inode, u64 generation, or u8 size, u8[3], u8[20]
			// build ID; then u32 protection, u32 flags
			id := b.take(24)
			b.take(8)
			if r.misc&hasID != 0 && id != nil && id[0] <= 20 {
				c.BuildID = hex.EncodeToString(id[4 : 4+id[0]])
			}
		}
		c.Path = cString(b.b)
		ok = r.misc&data == 0 && c.Len > 0 && c.Addr+c.Len > c.Addr && r.misc&miscMode < modeHypervisor
	case recordName:
		c = SidebandEvent{Kind: Named, PID: b.pid(), TID: b.pid(), Name: cString(b.b)}
		if r.misc&exec != 0 {
			c.Kind = Executed
		}
		ok = true
	case recordFork, recordExit:
		c = SidebandEvent{Kind: Forked, PID: b.pid(), Parent: b.pid(), TID: b.pid(), ParentTID: b.pid()}
		c.Fresh = r.misc&exec != 0
		if r.kind == recordExit {
			c.Kind = Ended
		}
		ok = true
	case recordLost:
		b.take(8) // of the event
		c, ok = SidebandEvent{Kind: Lost, Count: b.u64()}, true
	case recordLostSamples:
		c, ok = SidebandEvent{Kind: Lost, Count: b.u64()}, true
	case recordThrottle:
		return SidebandEvent{Kind: Throttled}, true
	case recordSymbol:
		c = SidebandEvent{Kind: KernelCode, Addr: b.u64(), Len: uint64(b.u32())}
		b.take(2)
		unregistered := b.u16()&forgotten != 0
		c.Name = cString(b.b)
		ok = !unregistered && c.Name != ""
	default:
		f.scanOwn(r, b)
		return c, false
	}
	if b.bad {
		return c, false
	}
	c.Time = f.timeOf(r)
	return c, ok
}

// scanOwn takes over what perf, not the kernel, wrote.
func (f *Recording) scanOwn(r record, b *cursor) {
	switch r.kind {
	case recordEvent:
		size := uint64(leastAttribute)
		if len(r.body) >= 8 {
			size = max(size, uint64(f.Order.Uint32(r.body[4:])))
		}
		if e := f.event(b.take(size)); e != nil && f.Pipe && len(f.Events) < mostEvents {
			f.addEvent(e, b.b)
		}
	case recordUpdate: // of an event: u64 what (2: its name), u64 ID, text
		if what, id := b.u64(), b.u64(); what == 2 {
			if e := f.byID[id]; e != nil {
				e.Name = cString(b.b)
			}
		}
	case recordFeature:
		if bit := b.u64(); bit < 256 {
			f.feature(int(bit), b.b)
		}
	case recordBuildID:
		f.addBuildID(r.body, r.misc)
	}
}

// mostEvents is how many events a file may have.
const mostEvents = 1 << 16

func (c *cursor) pid() int { return int(int32(c.u32())) }

// timeOf returns the time of a record that is no sample, which is at its end.
//
//	{u32 pid, tid} {u64 time} {u64 id} {u64 stream} {u32 cpu, 0} {u64 identifier}
func (f *Recording) timeOf(r record) uint64 {
	e := f.trailing(r.body)
	if e == nil || !e.trailers {
		return 0
	}
	if e.sampleType&sampleTime == 0 {
		return r.order
	}
	after := 8
	for _, bit := range []uint64{sampleID, sampleStream, sampleCPU, sampleIdentifier} {
		if e.sampleType&bit != 0 {
			after += 8
		}
	}
	if len(r.body) < after {
		return 0
	}
	t := f.Order.Uint64(r.body[len(r.body)-after:])
	if t == ^uint64(0) {
		return 0
	}
	return t
}

// trailing returns the event of a record that is no sample.
func (f *Recording) trailing(b []byte) *SampledEvent {
	if len(f.Events) == 0 {
		return nil
	}
	first := f.Events[0]
	if first.sampleType&sampleIdentifier != 0 && len(b) >= 8 {
		if e := f.byID[f.Order.Uint64(b[len(b)-8:])]; e != nil {
			return e
		}
	}
	return first
}
