package perfdata

import "math/bits"

// Bits of an event's sample_type: which values its samples have.
const (
	sampleIP = 1 << iota
	sampleTID
	sampleTime
	sampleAddr
	sampleRead
	sampleCallchain
	sampleID
	sampleCPU
	samplePeriod
	sampleStream
	sampleRaw
	sampleBranches
	sampleUserRegisters
	sampleUserStack
	sampleWeight
	sampleDataSource
	sampleIdentifier
)

// Bits of branch_sample_type.
const (
	branchCallStack = 1 << 11
	branchIndex     = 1 << 17
	branchCounters  = 1 << 19
)

// A Sample is a sample.
type Sample struct {
	Event    *SampledEvent
	PID, TID int
	Time     uint64
	// Period is how many events the sample stands for.
	Period uint64
	// Kernel and User are the chains, the innermost first: addresses of code, all but
	// the first of each after the call. They are used again for the next sample.
	Kernel, User []uint64
	// Guest: the sample is of a virtual machine's code.
	Guest bool
	// Deferred: the chain of the program is in a later record (--call-graph fp,defer).
	Deferred bool
	// Registers are those of the program, by their numbers in the kernel's
	// asm/perf_regs.h; those that are missing are 0. Stack is a copy of its stack, from
	// the stack pointer on.
	Registers *[64]uint64
	Compat    bool // 32 bits
	Stack     []byte

	registers [64]uint64
}

// IsX86 tells whether the registers are those of x86 CPUs, of 32 or 64 bits: other CPUs
// have more.
func (s *Sample) IsX86() bool { return s.Event.userRegisters>>24 == 0 }

// A Decoder decodes samples. Several of a File can be used at the same time.
type Decoder struct {
	f *Recording
	s Sample
	// Of samples that say how far counters have come: how far these, and how far all had
	// before.
	readings []reading
	counted  map[counter]uint64
	// Damaged counts samples that end too early, or are of no known event.
	Damaged int64
}

// NewDecoder returns a decoder; the file must have been scanned.
func (f *Recording) NewDecoder() *Decoder { return &Decoder{f: f, counted: make(map[counter]uint64)} }

// Samples calls visit with the samples of a chunk. The sample is used again. One that
// says how far several events have come is one of each.
func (d *Decoder) Samples(c Chunk, visit func(*Sample)) {
	d.resume(c)
	d.f.records(c, func(r record) {
		switch {
		case r.kind != recordSample:
		case !d.decode(r):
			d.Damaged++
		case len(d.readings) > 0:
			d.each(visit)
		default:
			visit(&d.s)
		}
	})
}

// event returns that of a sample: by its identifier, which comes first, or by its ID,
// which is at the same place in all of a file.
func (d *Decoder) event(b []byte) *SampledEvent {
	f := d.f
	if len(f.Events) == 0 {
		return nil
	}
	first := f.Events[0]
	if len(f.Events) == 1 {
		return first
	}
	at := 0
	switch t := first.sampleType; {
	case t&sampleIdentifier != 0:
	case t&sampleID != 0:
		at = 8 * bits.OnesCount64(t&(sampleIP|sampleTID|sampleTime|sampleAddr))
	default:
		return first
	}
	if len(b) < at+8 {
		return nil
	}
	id := f.Order.Uint64(b[at:])
	if id == 0 {
		return first // what perf made itself
	}
	return f.byID[id]
}

// decode decodes a sample; the values are in the order of the kernel's comment at
// PERF_RECORD_SAMPLE.
func (d *Decoder) decode(r record) bool {
	c := &cursor{b: r.body, order: d.f.Order}
	ip, ok := d.begin(r, c)
	if !ok {
		return false
	}
	s, e := &d.s, d.s.Event
	t := e.sampleType
	mode := r.misc & miscMode
	s.Guest = mode >= modeGuest
	if t&sampleCallchain != 0 {
		s.chain(c, mode)
	}
	if t&sampleRaw != 0 {
		c.take(uint64(c.u32()))
	}
	if t&sampleBranches != 0 {
		s.branchStack(c, e)
	}
	if t&sampleUserRegisters != 0 {
		s.userRegisters(c, e.userRegisters)
	}
	if t&sampleUserStack != 0 {
		if n := c.u64(); n > 0 {
			s.Stack = c.take(n)
			s.Stack = s.Stack[:min(c.u64(), uint64(len(s.Stack)))] // as much as there was
		}
	}
	if len(s.Kernel)+len(s.User) == 0 && t&sampleIP != 0 {
		switch mode {
		case modeKernel:
			s.Kernel = append(s.Kernel, ip)
		case modeUser:
			s.User = append(s.User, ip)
		}
	}
	return !c.bad
}

// begin decodes what comes before the chain.
func (d *Decoder) begin(r record, c *cursor) (ip uint64, ok bool) {
	e := d.event(r.body)
	if e == nil {
		return 0, false
	}
	s, t := &d.s, e.sampleType
	*s = Sample{Event: e, Period: e.Period, Time: r.order, Kernel: s.Kernel[:0], User: s.User[:0]}
	d.readings = d.readings[:0]
	skip := func(which uint64) {
		if t&which != 0 {
			c.take(8)
		}
	}
	skip(sampleIdentifier)
	if t&sampleIP != 0 {
		ip = c.u64()
	}
	if t&sampleTID != 0 {
		s.PID, s.TID = c.pid(), c.pid()
	}
	if t&sampleTime != 0 {
		s.Time = c.u64()
	}
	skip(sampleAddr)
	skip(sampleID)
	skip(sampleStream)
	skip(sampleCPU)
	if t&samplePeriod != 0 {
		s.Period = c.u64()
	}
	if t&sampleRead != 0 {
		d.readings = readings(c, e.readFormat, d.readings)
	}
	return ip, !c.bad
}

// Marks in a chain of calls: the addresses after it are of that code.
const (
	markKernel   = ^uint64(128 - 1)
	markUser     = ^uint64(512 - 1)
	markDeferred = ^uint64(640 - 1)
	firstMark    = ^uint64(4095 - 1)
)

func (s *Sample) chain(c *cursor, mode uint16) {
	n := c.u64()
	all := c.take8(n)
	mark := uint64(0)
	switch mode { // until there is a mark
	case modeKernel:
		mark = markKernel
	case modeUser:
		mark = markUser
	}
	for ; len(all) >= 8; all = all[8:] {
		addr := c.order.Uint64(all)
		if addr >= firstMark {
			mark = addr
			s.Deferred = s.Deferred || mark == markDeferred
			continue
		}
		switch mark {
		case markKernel:
			s.Kernel = append(s.Kernel, addr)
		case markUser:
			s.User = append(s.User, addr)
		}
	}
}

// take8 takes n values of 8 bytes.
func (c *cursor) take8(n uint64) []byte {
	if n > uint64(len(c.b))/8 {
		c.bad, c.b = true, nil
		return nil
	}
	return c.take(8 * n)
}

// branchStack takes the user's chain from the branches, if the CPU kept them as a
// stack of calls (--call-graph lbr): the first branch led to where the sample is, and
// each came from a call.
//
//	u64 n, {u64 index}, n of: u64 from, u64 to, u64 flags; {u64[n] counters}
func (s *Sample) branchStack(c *cursor, e *SampledEvent) {
	n := c.u64()
	if e.branches&branchIndex != 0 {
		c.take(8)
	}
	if n > uint64(len(c.b))/24 {
		c.bad = true
		return
	}
	b := c.take(24 * n)
	if e.branches&branchCounters != 0 {
		c.take8(n)
	}
	if e.branches&branchCallStack == 0 || n == 0 {
		return
	}
	s.User = s.User[:0]
	s.User = append(s.User, c.order.Uint64(b[8:]))
	for ; len(b) >= 24; b = b[24:] {
		// The call itself: as return addresses are after it, so is this.
		s.User = append(s.User, c.order.Uint64(b)+1)
	}
}

// userRegisters takes the registers that mask chooses.
func (s *Sample) userRegisters(c *cursor, mask uint64) {
	const bits32 = 1
	abi := c.u64()
	if abi == 0 {
		return // a thread of the kernel
	}
	s.Compat = abi == bits32
	for m := mask; m != 0; m &= m - 1 {
		s.registers[bits.TrailingZeros64(m)] = c.u64()
	}
	s.Registers = &s.registers
}
