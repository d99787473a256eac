// Package perfdata reads the files that "perf record" of Linux writes: which
// events were sampled, which code processes had mapped, and the samples.
//
// The format is described in tools/perf/Documentation/perf.data-file-format.txt of
// Linux, the records of the kernel in include/uapi/linux/perf_event.h. The package
// knows nothing about symbols, and does not unwind stacks.
//
// # Reading
//
// A file is read twice. [Recording.Scan] goes through it for all that is not a sample;
// with that it is known what any process had mapped at any time. Then samples can
// be decoded in any order: [Recording.Chunks] cuts the file into pieces for that,
// which several goroutines may decode, each with a [Decoder] of its own.
//
// # Damage
//
// What is readable is read. Where perf was killed its file has no length in its
// header, and goes on to its end. Where records end amid one, or have an
// impossible size, reading ends with a [*FormatError]; all before was visited.
package perfdata

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"strings"
)

// A Recording is a perf.data file, what perf record has written.
type Recording struct {
	Order binary.ByteOrder
	// Pipe: it was written to a pipe (perf record -o -). Then Scan finds the events.
	Pipe bool
	// Killed: perf did not get to its end, so that there are no features.
	Killed bool
	// Events are those that were sampled, in the order of perf's options.
	Events []*SampledEvent
	// BuildIDs are those of the programs and libraries that samples are in.
	BuildIDs []BuildID
	// Release is the kernel's (uname -r), Arch its CPU (uname -m); "" if not known.
	Release, Arch string

	r     io.ReaderAt
	parts []part
	byID  map[uint64]*SampledEvent
	// counted is how far counters were at the begin of a chunk, by its Order, nil unless
	// samples say so.
	counted map[uint64]map[counter]uint64
}

// A part has records.
type part struct {
	name       string // if it is a file of its own
	r          io.ReaderAt
	begin, end int64
}

// Add adds a file of records alone: one of data.0, data.1, ... beside the file data,
// as perf record --threads writes.
func (f *Recording) Add(name string, r io.ReaderAt, size int64) {
	f.parts = append(f.parts, part{name, r, 0, size})
}

// A SampledEvent is what was sampled, such as cycles.
type SampledEvent struct {
	Name   string // as perf was asked for it, or made from the numbers
	Type   uint32 // PERF_TYPE_*
	Config uint64
	// Period is how many events a sample stands for if it does not say so itself, 0
	// if perf chose it by a frequency.
	Period uint64

	sampleType, readFormat, flags, branches, userRegisters, interruptRegisters uint64
	trailers                                                                   bool // of records that are no samples
	stack                                                                      uint32
}

// A BuildID tells the build of a file.
type BuildID struct {
	Path, ID string // the ID in hexadecimal
	Kernel   bool
}

// A FormatError tells where a file is damaged.
type FormatError struct {
	Part   string // a file that was added, "": the one that was opened
	Offset int64
	Text   string
}

func (e *FormatError) Error() string {
	if e.Part != "" {
		return fmt.Sprintf("%s: offset %#x: %s", e.Part, e.Offset, e.Text)
	}
	return fmt.Sprintf("offset %#x: %s", e.Offset, e.Text)
}

const (
	magic        = "PERFILE2"
	magicSwapped = "2ELIFREP"
	magicOld     = "PERFFILE"
	headerSize   = 104
	pipeHeader   = 16
)

// Is tells whether b begins as such a file does.
func Is(b []byte) bool {
	return len(b) >= len(magic) && (string(b[:8]) == magic || string(b[:8]) == magicSwapped || string(b[:8]) == magicOld || string(b[:8]) == "ELIFFREP")
}

// Open reads the header of a file of so many bytes. It reads from r as long as the
// File is used.
//
//	 0  magic "PERFILE2"
//	 8  u64 size of this header, 16 of a pipe's
//	16  u64 size of an event there
//	24  events: u64 offset, u64 size
//	40  records: likewise
//	56  (not used any more)
//	72  u64[4] bits: which features follow the records
func Open(r io.ReaderAt, size int64) (*Recording, error) {
	b := make([]byte, headerSize)
	n, err := r.ReadAt(b, 0)
	if n < pipeHeader {
		if err == nil || err == io.EOF {
			err = &FormatError{Offset: int64(n), Text: fmt.Sprintf("the file ends amid its header of %d bytes", pipeHeader)}
		}
		return nil, err
	}
	f := &Recording{r: r, Order: binary.LittleEndian, byID: make(map[uint64]*SampledEvent)}
	switch string(b[:8]) {
	case magic:
	case magicSwapped:
		f.Order = binary.BigEndian
	default:
		return nil, &FormatError{Offset: 0, Text: fmt.Sprintf("%q is not %q: files of perf before Linux 3.0 are not read", b[:8], magic)}
	}
	switch s := f.Order.Uint64(b[8:]); {
	case s == pipeHeader:
		f.Pipe, f.parts = true, []part{{"", r, pipeHeader, size}}
		return f, nil
	case s != headerSize:
		return nil, &FormatError{Offset: 8, Text: fmt.Sprintf("a header of %d bytes, expected %d or %d", s, headerSize, pipeHeader)}
	case n < headerSize:
		return nil, &FormatError{Offset: int64(n), Text: fmt.Sprintf("the file ends amid its header of %d bytes", headerSize)}
	}
	if err := f.readEvents(b, size); err != nil {
		return nil, err
	}
	begin, length := f.Order.Uint64(b[40:]), f.Order.Uint64(b[48:])
	if begin > uint64(size) {
		return nil, &FormatError{Offset: 40, Text: fmt.Sprintf("records begin at %#x, the file has %#x bytes", begin, size)}
	}
	records := part{"", r, int64(begin), size}
	switch {
	case length == 0:
		f.Killed = true
	case length <= uint64(size)-begin:
		records.end = int64(begin + length)
		f.readFeatures(b[72:headerSize], records.end, size)
	default:
		f.Killed = true // or the file was cut: its last record tells
	}
	f.parts = []part{records}
	return f, nil
}

// section reads a part of the file whose place the file tells, nil if it is not
// there.
func (f *Recording) section(place []byte, size int64) []byte {
	at, n := f.Order.Uint64(place), f.Order.Uint64(place[8:])
	if at > uint64(size) || n > uint64(size)-at || n > mostSection {
		return nil
	}
	b := make([]byte, n)
	if _, err := f.r.ReadAt(b, int64(at)); err != nil {
		return nil
	}
	return b
}

// mostSection is the largest section that is read at once: the numbers of an event
// on thousands of CPUs have some KB.
const mostSection = 64 << 20

// readEvents reads the events: each an attribute, then the place of its numbers.
func (f *Recording) readEvents(header []byte, size int64) error {
	stride := f.Order.Uint64(header[16:])
	b := f.section(header[24:], size)
	if b == nil || stride < leastAttribute+16 || uint64(len(b)) < stride {
		return &FormatError{Offset: 16, Text: fmt.Sprintf("no events: they have %d bytes each, at %#x, %d in all", stride, f.Order.Uint64(header[24:]), f.Order.Uint64(header[32:]))}
	}
	for ; uint64(len(b)) >= stride; b = b[stride:] {
		e := f.event(b[:stride-16])
		if e == nil {
			return &FormatError{Offset: int64(f.Order.Uint64(header[24:])), Text: "a damaged event"}
		}
		f.addEvent(e, f.section(b[stride-16:], size))
	}
	return nil
}

func (f *Recording) addEvent(e *SampledEvent, ids []byte) {
	f.Events = append(f.Events, e)
	if e.sampleType&sampleRead != 0 && f.counted == nil {
		f.counted = make(map[uint64]map[counter]uint64)
	}
	for ; len(ids) >= 8; ids = ids[8:] {
		f.byID[f.Order.Uint64(ids)] = e
	}
}

// leastAttribute is the size of struct perf_event_attr as it was first.
const leastAttribute = 64

// event decodes a struct perf_event_attr, of any version, nil if it is damaged.
//
//	 0 u32 type, u32 size, u64 config, u64 period or frequency, u64 sample_type
//	32 u64 read_format, u64 flags, u32, u32, u64, u64 (64)
//	72 u64 branch_sample_type, u64 sample_regs_user, u32 sample_stack_user, u32
//	96 u64 sample_regs_intr, ...
func (f *Recording) event(b []byte) *SampledEvent {
	if len(b) < leastAttribute {
		return nil
	}
	o := f.Order
	if n := o.Uint32(b[4:]); n >= leastAttribute && uint64(n) < uint64(len(b)) {
		b = b[:n]
	}
	whole := make([]byte, max(104, len(b))) // what older versions lack is 0
	copy(whole, b)
	b = whole
	e := &SampledEvent{
		Type: o.Uint32(b), Config: o.Uint64(b[8:]), sampleType: o.Uint64(b[24:]), readFormat: o.Uint64(b[32:]),
		branches: o.Uint64(b[72:]), userRegisters: o.Uint64(b[80:]), stack: o.Uint32(b[88:]), interruptRegisters: o.Uint64(b[96:]),
	}
	flags := o.Uint64(b[40:])
	if o == binary.BigEndian {
		flags = bits.Reverse64(flags) // compilers begin bit fields at the other end there
	}
	const frequency, trailers = 1 << 10, 1 << 18
	e.flags = flags
	if flags&frequency == 0 {
		e.Period = o.Uint64(b[16:])
	}
	e.trailers = flags&trailers != 0
	e.Name = e.madeName()
	return e
}

var (
	hardware = []string{"cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"}
	software = []string{"cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults", "major-faults", "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches"}
)

// madeName names an event by its numbers.
func (e *SampledEvent) madeName() string {
	switch names := map[uint32][]string{0: hardware, 1: software}[e.Type]; {
	case e.Config&0xffffffff < uint64(len(names)):
		return names[e.Config&0xffffffff] // above it is the kind of core
	case e.Type == 2:
		return fmt.Sprintf("tracepoint %d", e.Config)
	case e.Type == 4:
		return fmt.Sprintf("r%x", e.Config)
	}
	return fmt.Sprintf("type %d, config %#x", e.Type, e.Config)
}

// Kind is the name of the event without a kind of core and without modifiers:
// cpu_core/cycles/P and cycles:u are cycles.
func (e *SampledEvent) Kind() string {
	switch e.Type {
	case 0, 1: // whatever it was called
		if name := e.madeName(); !strings.HasPrefix(name, "type") && name != "bpf-output" {
			return name
		}
	}
	name := e.Name
	if unit, rest, ok := strings.Cut(name, "/"); ok {
		inner, _, _ := strings.Cut(rest, "/")
		if strings.Contains(inner, "=") || inner == "" {
			return unit + "/" + inner + "/"
		}
		return inner
	}
	if at := strings.LastIndexByte(name, ':'); at > 0 && e.Type != 2 && strings.Trim(name[at+1:], "ukhpPGHDSWIeb") == "" {
		name = name[:at]
	}
	return name
}

// Modes tells what the event counts of its kind, as a set of 6 bits: what programs, the
// kernel and a hypervisor do, on the machine itself and in virtual ones. Modifiers as in
// cycles:u leave some out.
func (e *SampledEvent) Modes() uint {
	const excludeUser, excludeHost = 4, 19 // the lowest of 3 and of 2 bits in a row
	modes := uint(^e.flags>>excludeUser) & 7
	modes |= modes << 3
	if e.flags>>excludeHost&1 != 0 {
		modes &^= 7
	}
	if e.flags>>excludeHost&2 != 0 {
		modes &= 7
	}
	return modes
}

// Overlaps tells whether something may be counted by both of two events of a kind: they
// are of the same kind of core and have a mode in common.
func (e *SampledEvent) Overlaps(o *SampledEvent) bool {
	return e.unit() == o.unit() && e.Modes()&o.Modes() != 0
}

// unit is the number of what counts, PERF_TYPE_RAW for the CPU.
func (e *SampledEvent) unit() uint64 {
	const generic, cache, raw = 0, 3, 4
	if e.Type != generic && e.Type != cache {
		return uint64(e.Type)
	}
	return cmp.Or(e.Config>>32, raw)
}

// Callers tells that its samples have chains of calls, or what these can be found by.
func (e *SampledEvent) Callers() bool {
	return e.sampleType&(sampleCallchain|sampleUserStack) != 0 || e.branches&branchCallStack != 0
}

// Nanoseconds tells that the event counts time.
func (e *SampledEvent) Nanoseconds() bool {
	switch e.Kind() {
	case "cpu-clock", "task-clock", "offcpu-time":
		return true
	}
	return false
}
