//go:build linux

package uprobe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"footfall/trace"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Where calls are filtered, or the newest are kept, each thread has a state, which it
// makes with its first call:
//
//	open calls u32, how many of them are written u32, whether the outermost one is left
//	out u32, what is searched u32, in its ring (newest.go) where the next record goes u32,
//	how many chunks it has u32, how many records were written u64;
//	then the open calls (filter.go), and the chunks of the ring
const (
	openAt        = 0
	writtenAt     = 4
	leftOutAt     = 8
	searchAt      = 12
	slotAt        = 16
	limitAt       = 20
	writtenEverAt = 24
	framesAt      = 32
)

// maxThreads is how many threads can have a state at once; with arguments, for which
// there must be room, fewer.
const (
	maxThreads         = 1024
	maxArgumentThreads = 256
)

func (s *ProbeSet) stateful() bool { return s.options.Mode == trace.Filtered || s.options.Newest }

// stateSize is the size of a thread's state.
func (s *ProbeSet) stateSize() int {
	size := framesAt
	if s.options.Mode == trace.Filtered {
		size += maxFrames * eventSize
		if s.options.Arguments {
			size += keptFrames * keptSize
		}
	}
	if s.options.Newest {
		size += (4*s.rings.chunks + 7) &^ 7
	}
	return size
}

// makeStates makes room for the states of threads, and one to begin with.
func (s *ProbeSet) makeStates() (err error) {
	threads := uint32(maxThreads)
	if s.options.Mode == trace.Filtered && s.options.Arguments {
		threads = maxArgumentThreads
	}
	size := uint32(s.stateSize())
	if s.states, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: size, MaxEntries: threads}); err != nil {
		return err
	}
	if s.fresh, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: size, MaxEntries: 1}); err != nil {
		return err
	}
	first := make([]byte, size)
	binary.NativeEndian.PutUint32(first[limitAt:], uint32(s.rings.chunks))
	if err := s.fresh.Put(uint32(0), first); err != nil {
		return err
	}
	if s.settings, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: settingsSize, MaxEntries: 1}); err != nil {
		return err
	}
	return s.SetFilter(s.options.Filter)
}

// ofThread goes to "end" unless the thread is one that is recorded; with Newest it sets R7
// to its state.
func (s *ProbeSet) ofThread() (code asm.Instructions) {
	if s.named() {
		code = append(code, s.checkName()...)
	}
	if s.options.Newest {
		code = append(code, s.state(true)...)
	}
	return code
}

// state sets R7 to the state of the thread. If there is none it is made, or the program ends.
func (s *ProbeSet) state(make bool) asm.Instructions {
	find := asm.Instructions{
		asm.LoadMapPtr(asm.R1, s.states.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, threadAt),
		asm.FnMapLookupElem.Call(),
	}
	code := append(asm.Instructions{}, find...)
	if make {
		code = append(code,
			asm.JNE.Imm(asm.R0, 0, "state"),
			asm.LoadMapPtr(asm.R1, s.states.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, threadAt),
			asm.LoadMapValue(asm.R3, s.fresh.FD(), 0),
			asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)),
			asm.FnMapUpdateElem.Call())
		code = append(code, find...)
		return append(code,
			asm.JEq.Imm(asm.R0, 0, "threads"),
			asm.Mov.Reg(asm.R7, asm.R0).WithSymbol("state"))
	}
	return append(code, asm.JEq.Imm(asm.R0, 0, "end"), asm.Mov.Reg(asm.R7, asm.R0))
}

// Which threads are wanted goes by the names that they have when they call. A program
// knows verdicts on names; one that has none yet gets a number, and its calls are
// recorded with that until there is one.
const (
	undecided = 0
	wanted    = 1
	unwanted  = 2

	nameSize       = 16
	maxNamedCounts = 1 << 16
)

// named tells whether only some threads are recorded.
func (s *ProbeSet) named() bool { return s.options.ThreadNames != nil || len(s.options.ThreadIDs) > 0 }

// makeNames makes the tables of names, {verdict u32, number u32} each, and of ids, and a
// queue of numbers for names.
func (s *ProbeSet) makeNames() (err error) {
	if s.numbers, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Queue, ValueSize: 4, MaxEntries: maxNames}); err != nil {
		return err
	}
	for number := uint32(1); number <= maxNames; number++ {
		if err := s.numbers.Put(nil, number); err != nil {
			return err
		}
	}
	if s.names, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: nameSize, ValueSize: 8, MaxEntries: maxNames + 1}); err != nil {
		return err
	}
	if len(s.options.ThreadIDs) == 0 {
		return nil
	}
	if s.ids, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: uint32(len(s.options.ThreadIDs))}); err != nil {
		return err
	}
	for _, id := range s.options.ThreadIDs {
		if err := s.ids.Put(id, uint32(wanted)); err != nil {
			return err
		}
	}
	return nil
}

// checkName goes to "end" if the thread of the event is not wanted. If it depends on the
// name its number becomes part of the event.
func (s *ProbeSet) checkName() (code asm.Instructions) {
	if s.ids != nil {
		code = append(code,
			asm.LoadMapPtr(asm.R1, s.ids.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, threadAt),
			asm.FnMapLookupElem.Call(),
			asm.JNE.Imm(asm.R0, 0, "wanted"))
	}
	find := func(missing asm.Instruction) {
		code = append(code,
			asm.LoadMapPtr(asm.R1, s.names.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, nameAt),
			asm.FnMapLookupElem.Call(),
			missing)
	}
	code = append(code,
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, nameAt),
		asm.Mov.Imm(asm.R2, nameSize),
		asm.FnGetCurrentComm.Call())
	find(asm.JNE.Imm(asm.R0, 0, "known"))
	code = append(code,
		asm.LoadMapPtr(asm.R1, s.numbers.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapPopElem.Call(),
		asm.JNE.Imm(asm.R0, 0, "threads"),
		asm.StoreImm(asm.RFP, verdictAt, undecided, asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, keyAt, asm.Word),
		asm.StoreMem(asm.RFP, verdictAt+4, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, s.names.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, nameAt),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, verdictAt),
		asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)),
		asm.FnMapUpdateElem.Call(),
		asm.JNE.Imm(asm.R0, 0, "late")) // another thread was faster
	code = append(code, s.countLost(namesCount)...)
	code = append(code, asm.Mov.Imm(asm.R0, 0).WithSymbol("late"))
	find(asm.JEq.Imm(asm.R0, 0, "threads"))
	return append(code,
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word).WithSymbol("known"),
		asm.JEq.Imm(asm.R1, unwanted, "end"),
		asm.LoadMem(asm.R1, asm.R0, 4, asm.Word),
		asm.LSh.Imm(asm.R1, nameShift),
		asm.LoadMem(asm.R2, asm.RFP, idAt, asm.Word),
		asm.Or.Reg(asm.R2, asm.R1),
		asm.StoreMem(asm.RFP, idAt, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("wanted"))
}

// countNamed adds 1 to the count of the probe and the name.
func (s *ProbeSet) countNamed() asm.Instructions {
	code := append(s.begin(false), s.checkName()...)
	find := func(missing string) {
		code = append(code,
			asm.LoadMapPtr(asm.R1, s.results.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, idAt),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, missing),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Ja.Label("end"))
	}
	find("first")
	code = append(code, labelled("first", asm.Instructions{
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, wordAt, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, s.results.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, idAt),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, wordAt),
		asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)),
		asm.FnMapUpdateElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
	})...)
	find("lost")
	return code
}

// decide gives names that are new their verdicts.
func (s *ProbeSet) decide() error {
	if !s.named() {
		return nil
	}
	if missing, err := s.missing(); err != nil || missing[namesCount/8] == uint64(len(s.nameOf)) {
		return err
	}
	var fresh [][nameSize]byte
	var name [nameSize]byte
	var entry [2]uint32
	each := s.names.Iterate()
	for each.Next(&name, &entry) {
		text, _, _ := bytes.Cut(name[:], []byte{0})
		s.nameOf[entry[1]&maxNames] = threadName{string(text), s.options.ThreadNames != nil && s.options.ThreadNames(string(text))}
		if entry[0] == undecided {
			fresh = append(fresh, name)
		}
	}
	if err := each.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) { // else there will be a next time
		return err
	}
	for _, name := range fresh {
		if err := s.names.Lookup(name, &entry); err != nil {
			return err
		}
		entry[0] = unwanted
		if known := s.nameOf[entry[1]&maxNames]; known.wanted {
			entry[0] = wanted
		}
		if err := s.names.Put(name, entry); err != nil {
			return err
		}
	}
	return nil
}

// A threadName is one that has a number.
type threadName struct {
	text   string
	wanted bool
}

// wantsName tells whether calls with the number of a name are wanted; 0 is that of
// threads which are wanted by their ids.
func (s *ProbeSet) wantsName(number uint32) bool { return number == 0 || s.nameOf[number].wanted }

// Recycle gives the places of threads that have ended to new ones; alive tells which
// have not. It is to be called now and then.
func (s *ProbeSet) Recycle(alive func(tid int) bool) error {
	if err := s.decide(); err != nil {
		return err
	}
	if s.states == nil || !countsAll() {
		return nil
	}
	tids, err := s.threadsWithState()
	for _, tid := range tids {
		if alive(int(tid)) {
			continue
		}
		if err := s.keepEnded(tid); err != nil {
			return err
		}
		if err := s.states.Delete(tid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return err
}

// threadsWithState returns the ids of threads. Some may be missing while others come and go.
func (s *ProbeSet) threadsWithState() (tids []uint32, err error) {
	var tid uint32
	for err = s.states.NextKey(nil, &tid); err == nil && len(tids) < maxThreads; err = s.states.NextKey(tid, &tid) {
		tids = append(tids, tid)
	}
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	return tids, err
}

// countsAll tells whether our ids of threads are those that programs see: of the first
// namespace, whose number the kernel fixes.
func countsAll() bool {
	link, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && link == "pid:[4026531836]"
}
