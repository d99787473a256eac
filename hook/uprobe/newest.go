//go:build linux

package uprobe

import (
	"encoding/binary"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// With Newest each thread writes records to a ring of its own: chunks of memory, which it
// takes one after another out of what there is for all threads, until it has as many as it
// may, or there are no more. Then it begins again with its first one. Rings are read when
// nobody writes any more.
//
// The numbers of its chunks, plus 1, are at the end of the state of a thread.

// chunkSlots is how many records are in a chunk.
const (
	chunkShift = 7
	chunkSlots = 1 << chunkShift
)

// maxPool is how much memory the chunks may take, and what threads leave that have ended;
// maxEnded is how many of these there may be.
const (
	maxPool  = 1 << 30
	maxEnded = 1 << 16
)

// rings are those of a session.
type rings struct {
	free   *ebpf.Map // a queue of chunks
	chunks int       // that a thread may have
	all    int
	ended  []endedRing
	kept   int // bytes of these
}

// An endedRing is what a thread has left.
type endedRing struct {
	thread  uint32
	records []byte
}

// recordSpace is the size of a record in a ring.
func (s *ProbeSet) recordSpace() int {
	if s.options.Arguments {
		return maxRecord
	}
	return eventSize
}

// bpfMappable is BPF_F_MMAPABLE: read without a system call for each record.
const bpfMappable = 1 << 10

// makeRings makes the chunks.
func (s *ProbeSet) makeRings() (err error) {
	r := &s.rings
	size := chunkSlots * s.recordSpace()
	r.chunks = max(s.options.BufferSize/size, 1)
	r.all = max(min(r.chunks*max(s.options.Rings, 1), maxPool/size), 1)
	s.results, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, Flags: bpfMappable, KeySize: 4, ValueSize: uint32(s.recordSpace()), MaxEntries: uint32(r.all) * chunkSlots})
	if err != nil {
		return err
	}
	if r.free, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Queue, ValueSize: 4, MaxEntries: uint32(r.all)}); err != nil {
		return err
	}
	for number := range uint32(r.all) {
		if err := r.free.Put(nil, number); err != nil {
			return err
		}
	}
	return nil
}

// chunksAt is where the state of a thread has its chunks.
func (s *ProbeSet) chunksAt() int32 { return int32(s.stateSize() - (4*s.rings.chunks+7)&^7) }

// nextSlot sets R0 to the place of the next record of the thread, whose state is R7. label
// tells the code from other such in the program.
func (s *ProbeSet) nextSlot(label string) asm.Instructions {
	took, has, next := label+".took", label+".has", label+".next"
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R7, slotAt, asm.Word), asm.RSh.Imm(asm.R2, chunkShift),
		asm.JGE.Imm(asm.R2, int32(s.rings.chunks), "threads"),
		asm.LSh.Imm(asm.R2, 2), asm.Add.Reg(asm.R2, asm.R7), asm.Add.Imm(asm.R2, s.chunksAt()),
		asm.LoadMem(asm.R3, asm.R2, 0, asm.Word),
		asm.JNE.Imm(asm.R3, 0, has),
		asm.StoreMem(asm.RFP, wordAt, asm.R2, asm.DWord),
		asm.LoadMapPtr(asm.R1, s.rings.free.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapPopElem.Call(),
		asm.JEq.Imm(asm.R0, 0, took),
		// There is no more: it begins again.
		asm.LoadMem(asm.R1, asm.R7, slotAt, asm.Word), asm.RSh.Imm(asm.R1, chunkShift),
		asm.JEq.Imm(asm.R1, 0, "threads"),
		asm.StoreMem(asm.R7, limitAt, asm.R1, asm.Word),
		asm.StoreImm(asm.R7, slotAt, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R7), asm.Add.Imm(asm.R2, s.chunksAt()),
		asm.LoadMem(asm.R3, asm.R2, 0, asm.Word),
		asm.Ja.Label(has),
		asm.LoadMem(asm.R2, asm.RFP, wordAt, asm.DWord).WithSymbol(took),
		asm.LoadMem(asm.R3, asm.RFP, keyAt, asm.Word), asm.Add.Imm(asm.R3, 1),
		asm.StoreMem(asm.R2, 0, asm.R3, asm.Word),

		asm.Sub.Imm(asm.R3, 1).WithSymbol(has), asm.LSh.Imm(asm.R3, chunkShift),
		asm.LoadMem(asm.R1, asm.R7, slotAt, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R1), asm.And.Imm(asm.R2, chunkSlots-1),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.StoreMem(asm.RFP, keyAt, asm.R3, asm.Word),
		asm.Add.Imm(asm.R1, 1),
		asm.LoadMem(asm.R2, asm.R7, limitAt, asm.Word), asm.LSh.Imm(asm.R2, chunkShift),
		asm.JLT.Reg(asm.R1, asm.R2, next),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R7, slotAt, asm.R1, asm.Word).WithSymbol(next),
		asm.LoadMem(asm.R1, asm.R7, writtenEverAt, asm.DWord), asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R7, writtenEverAt, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, s.results.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "threads"),
	}
}

// chunksOf returns the chunks of a thread.
func (s *ProbeSet) chunksOf(state []byte) (chunks []uint32) {
	for b := state[s.chunksAt():]; len(b) >= 4 && len(chunks) < s.rings.chunks; b = b[4:] {
		number := binary.NativeEndian.Uint32(b)
		if number == 0 || int(number) > s.rings.all {
			break
		}
		chunks = append(chunks, number-1)
	}
	return chunks
}

// recordsOf returns what the ring of a thread has, the oldest record first.
func (s *ProbeSet) recordsOf(state []byte) ([]byte, error) {
	memory, err := s.results.Memory()
	if err != nil {
		return nil, err
	}
	space := s.recordSpace()
	var ring []byte
	for _, chunk := range s.chunksOf(state) {
		b := make([]byte, chunkSlots*space)
		if _, err := memory.ReadAt(b, int64(chunk)*int64(len(b))); err != nil {
			return nil, err
		}
		ring = append(ring, b...)
	}
	slot, ever := int(binary.NativeEndian.Uint32(state[slotAt:])), binary.NativeEndian.Uint64(state[writtenEverAt:])
	next := min(slot*space, len(ring))
	if ever <= uint64(slot) {
		return ring[:next], nil
	}
	return append(ring[next:len(ring):len(ring)], ring[:next]...), nil
}

// keepEnded keeps what a thread that has ended has left, and lets others have its chunks. If
// that becomes too much, what ended threads left first goes.
func (s *ProbeSet) keepEnded(tid uint32) error {
	r := &s.rings
	state := make([]byte, s.stateSize())
	if !s.options.Newest || s.states.Lookup(tid, &state) != nil {
		return nil
	}
	records, err := s.recordsOf(state)
	if err != nil {
		return err
	}
	r.ended = append(r.ended, endedRing{tid, records})
	r.kept += len(records)
	for len(r.ended) > maxEnded || r.kept > maxPool && len(r.ended) > 1 {
		r.kept -= len(r.ended[0].records)
		r.ended = r.ended[1:]
		s.forgotten++
	}
	for _, chunk := range s.chunksOf(state) {
		if err := r.free.Put(nil, chunk); err != nil {
			return err
		}
	}
	return nil
}

// readNewest gives the newest events to do, thread by thread.
func (s *ProbeSet) readNewest(do func([]ProbeEvent)) (n int) {
	left := s.rings.ended
	tids, _ := s.threadsWithState()
	for _, tid := range tids {
		state := make([]byte, s.stateSize())
		if s.states.Lookup(tid, &state) != nil {
			continue
		}
		if records, err := s.recordsOf(state); err == nil {
			left = append(left, endedRing{tid, records})
		}
	}
	space := s.recordSpace()
	for _, r := range left {
		events := make([]ProbeEvent, 0, len(r.records)/space)
		for b := r.records; len(b) >= space; b = b[space:] {
			if e, wanted := s.event(b[:space]); wanted {
				events = append(events, e)
			}
		}
		if n += len(events); len(events) > 0 {
			do(events)
		}
	}
	s.rings.ended = nil
	return n
}
