//go:build linux

package uprobe

import (
	"errors"
	"footfall/trace"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// An event as the program writes it:
//
//	time u64, thread u32, ID, number of the name and exitFlag u32, stack u64
//
// Numbers of names (threads.go) are in bits 18 to 29; 0: none.
const (
	eventSize = 24
	exitFlag  = 1 << 31
	nameShift = 18
	maxNames  = 1<<12 - 1
)

// Every program has the event at the lower end of its stack, and above it
//
//	RFP - 28   flags of the probe u32
//	RFP - 32   a key u32
//	RFP - 48   what is read u64
//	RFP - 64   name of the thread
//	RFP - 72   its verdict and number u32 each
const (
	eventAt   = -eventSize
	timeAt    = eventAt
	threadAt  = eventAt + 8
	idAt      = eventAt + 12
	stackAt   = eventAt + 16
	flagsAt   = -28
	keyAt     = -32
	wordAt    = -48
	nameAt    = -64
	verdictAt = -72
)

// Offsets in the kernel's struct pt_regs of x86-64.
const (
	regsRBP = 32
	regsRSP = 152
)

// Flags of probes, in a byte for each. There are two sets of them: one that counts, and
// one that is made meanwhile, so that all functions are switched at one moment. A map
// says how far to the right is the set that counts; with nothing there, all are off.
const (
	flagOn   = 1 // calls are recorded
	flagRoot = 2 // recording begins here

	flagsSet   = 3 // the flags of a set
	flagsShift = 4 // of the other set
	nothingOn  = 8
)

// Counts in the map lost: of what is missing, and of names.
const (
	lostEvents  = 0
	lostThreads = 8
	namesCount  = 16
	// Of children: that have called, and all that are not other programs.
	childrenCount = 24
	forkedCount   = 32
	lostSize      = 40
)

// makeMaps makes what the programs read and write.
func (s *ProbeSet) makeMaps() (err error) {
	array := func(size uint32) (*ebpf.Map, error) {
		return ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: size, MaxEntries: 1})
	}
	if s.lost, err = array(lostSize); err != nil {
		return err
	}
	if s.flags, err = array(MaxID); err != nil {
		return err
	}
	if s.shift, err = array(4); err != nil {
		return err
	}
	if err := s.shift.Put(uint32(0), uint32(nothingOn)); err != nil {
		return err
	}
	switch {
	case s.options.Mode == trace.Counts && !s.named():
		s.results, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, Flags: bpfMappable, KeySize: 4, ValueSize: 8, MaxEntries: MaxID})
	case s.options.Mode == trace.Counts:
		s.results, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: maxNamedCounts})
	case s.options.Mode == trace.Chains:
		size := 8 * s.options.ChainDepth
		entries := min(max(s.options.BufferSize/(size+64), 256), 1<<20)
		if s.results, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: uint32(size), ValueSize: 8, MaxEntries: uint32(entries)}); err == nil {
			err = s.makeRows()
		}
	case s.options.Newest:
		err = s.makeRings()
	default:
		s.results, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: uint32(s.options.BufferSize)})
		if err == nil {
			s.reader, err = ringbuf.NewReader(s.results)
		}
	}
	if err == nil && s.named() {
		err = s.makeNames()
	}
	if err == nil && s.stateful() {
		err = s.makeStates()
	}
	return err
}

// Licenses: the kernel lets only programs of the second one read a process's memory, or its own.
const (
	ownLicense     = "Apache-2.0"
	readingLicense = "Dual MIT/GPL"
)

// loadEntry loads the program for entries into functions with these arguments.
func (s *ProbeSet) loadEntry(arguments []trace.Capture) (*ebpf.Program, error) {
	license := ownLicense
	if len(arguments) > 0 || s.options.Mode == trace.Chains || s.options.Mode == trace.Filtered {
		license = readingLicense
	}
	var code asm.Instructions
	switch s.options.Mode {
	case trace.Counts:
		code = s.countCall()
	case trace.Chains:
		code = countChain(s.results, s.rows, s.options.ChainDepth, len(s.options.Rows)+1)
	case trace.Filtered:
		code = s.enterFiltered(arguments)
	default:
		code = s.begin(false)
		code = append(code, s.ofThread()...)
		code = append(append(code, s.now()...), s.write("write", arguments)...)
	}
	return s.newProgram(code, license)
}

// loadExit loads the program for exits.
func (s *ProbeSet) loadExit() (*ebpf.Program, error) {
	if s.options.Mode == trace.Filtered {
		return s.newProgram(s.exitFiltered(), readingLicense)
	}
	code := append(s.begin(true), s.ofThread()...)
	return s.newProgram(append(append(code, s.now()...), s.write("write", nil)...), ownLicense)
}

// newProgram loads a program. Where its code jumps to "lost" or "threads" what it is
// about is counted as missing; it ends at "end".
func (s *ProbeSet) newProgram(code asm.Instructions, license string) (*ebpf.Program, error) {
	code = append(s.ofProcess(), code...)
	wanted := make(map[string]bool)
	for _, i := range code {
		wanted[i.Reference()] = true
	}
	end := asm.Ja.Label("end")
	if code[len(code)-1].OpCode != end.OpCode { // the kernel refuses code that nothing leads to
		code = append(code, end)
	}
	if wanted["lost"] {
		code = append(append(code, labelled("lost", s.countLost(lostEvents))...), end)
	}
	if wanted["threads"] {
		code = append(append(code, labelled("threads", s.countLost(lostThreads))...), end)
	}
	code = append(code, asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
	spec := &ebpf.ProgramSpec{Name: "footfall", Type: ebpf.Kprobe, License: license, Instructions: code}
	if s.multi {
		spec.AttachType = ebpf.AttachTraceUprobeMulti
	}
	return ebpf.NewProgram(spec)
}

// labelled puts a label before code.
func labelled(label string, code asm.Instructions) asm.Instructions {
	code[0] = code[0].WithSymbol(label)
	return code
}

// countLost adds 1 to a count of what is missing.
func (s *ProbeSet) countLost(at uint32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapValue(asm.R1, s.lost.FD(), at),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
	}
}

// ifOn goes to "end" unless the calls of the probe R0 are recorded. Its flags are in R1
// then.
func (s *ProbeSet) ifOn() asm.Instructions {
	return asm.Instructions{
		asm.And.Imm(asm.R0, MaxID-1),
		asm.LoadMapValue(asm.R1, s.flags.FD(), 0),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.Byte),
		asm.LoadMapValue(asm.R2, s.shift.FD(), 0),
		asm.LoadMem(asm.R2, asm.R2, 0, asm.Word),
		asm.RSh.Reg(asm.R1, asm.R2), asm.And.Imm(asm.R1, flagsSet),
		asm.JEq.Imm(asm.R1, 0, "end"),
	}
}

// begin makes the event, but for the time, of a call that is recorded. R6 has the
// registers of the thread. After an exit the stack pointer is behind the return address.
func (s *ProbeSet) begin(exit bool) asm.Instructions {
	behind, flag := int32(0), int32(0)
	if exit {
		behind, flag = 8, math.MinInt32
	}
	code := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetAttachCookie.Call(),
	}
	code = append(code, s.ifOn()...)
	if s.options.Mode == trace.Filtered {
		code = append(code, asm.StoreMem(asm.RFP, flagsAt, asm.R1, asm.Word))
	}
	return append(code,
		asm.Or.Imm(asm.R0, flag),
		asm.StoreMem(asm.RFP, idAt, asm.R0, asm.Word),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, threadAt, asm.R0, asm.Word),
		asm.LoadMem(asm.R1, asm.R6, regsRSP, asm.DWord),
		asm.Sub.Imm(asm.R1, behind),
		asm.StoreMem(asm.RFP, stackAt, asm.R1, asm.DWord),
	)
}

// ringNoWakeup is BPF_RB_NO_WAKEUP: the reader looks by itself.
const ringNoWakeup = 1

// now sets the time of the event.
func (s *ProbeSet) now() asm.Instructions {
	return asm.Instructions{asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.RFP, timeAt, asm.R0, asm.DWord)}
}

// write writes the event and arguments behind it. With Newest R7 is the thread's state. It
// changes R7 and R8. label tells the code from other such in the program.
func (s *ProbeSet) write(label string, arguments []trace.Capture) asm.Instructions {
	switch {
	case s.options.Newest:
		code := append(s.nextSlot(label), asm.Mov.Reg(asm.R7, asm.R0))
		return append(append(code, copyEvent(asm.RFP, eventAt)...), readArguments(arguments)...)
	case len(arguments) > 0:
		code := asm.Instructions{
			asm.LoadMapPtr(asm.R1, s.results.FD()),
			asm.Mov.Imm(asm.R2, int32(recordSize(arguments))),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnRingbufReserve.Call(),
			asm.JEq.Imm(asm.R0, 0, "lost"),
			asm.Mov.Reg(asm.R7, asm.R0),
		}
		code = append(append(code, copyEvent(asm.RFP, eventAt)...), readArguments(arguments)...)
		return append(code,
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.Mov.Imm(asm.R2, ringNoWakeup),
			asm.FnRingbufSubmit.Call())
	}
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, s.results.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, eventAt),
		asm.Mov.Imm(asm.R3, eventSize),
		asm.Mov.Imm(asm.R4, ringNoWakeup),
		asm.FnRingbufOutput.Call(),
		asm.JNE.Imm(asm.R0, 0, "lost"),
	}
}

// copyEvent copies an event to where R7 points.
func copyEvent(from asm.Register, at int16) (code asm.Instructions) {
	for i := int16(0); i < eventSize; i += 8 {
		code = append(code, asm.LoadMem(asm.R1, from, at+i, asm.DWord), asm.StoreMem(asm.R7, i, asm.R1, asm.DWord))
	}
	return code
}

// countCall adds 1 to the count of the probe, where only some threads count to that of
// the probe and the name.
func (s *ProbeSet) countCall() asm.Instructions {
	if s.named() {
		return s.countNamed()
	}
	return append(append(asm.Instructions{asm.FnGetAttachCookie.Call()}, s.ifOn()...),
		asm.StoreMem(asm.RFP, keyAt, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, s.results.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "lost"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord))
}

// filtersProcesses tells whether the kernel has probes for many functions at
// once, and can limit them to a process. Until it was corrected (Linux 6.10) it
// limited them to a thread; since then it knows that there is no process -1
// before it looks for it.
func filtersProcesses() (bool, error) {
	if err := features.HaveBPFLinkUprobeMulti(); errors.Is(err, ebpf.ErrNotSupported) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	nothing, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "footfall", Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return false, err
	}
	defer nothing.Close()
	self, err := link.OpenExecutable("/proc/self/exe")
	if err != nil {
		return false, err
	}
	l, err := self.UprobeMulti(nil, nothing, &link.UprobeMultiOptions{Addresses: []uint64{1}, PID: math.MaxUint32})
	if err == nil {
		return false, l.Close()
	}
	return errors.Is(err, unix.EINVAL), nil
}
