//go:build linux

package patch

import (
	"cmp"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"footfall/process"
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
	forgotten int // stubs that are not in stubs and byKey: the last ones

	owner, ownerTicks uint64
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
	islandSize    = hitsAt + maxStubs
	infoMagic     = "FOOTFALL"
	infoSize      = 96
	codeName      = process.MemoryPrefix + "code"
	regionName    = process.MemoryPrefix + "ring"
	islandOfIDLog = 16

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
	if err := b.readStubs(p, int(count)); err != nil {
		return nil, err
	}
	if version != native.version() && slices.ContainsFunc(b.stubs, func(st *stub) bool { return !st.notesRun() }) { // which need the trampoline
		return nil, errOtherVersion
	}
	return b, nil
}

// readStubs reads the stubs that an island has.
func (b *island) readStubs(p *process.Process, count int) error {
	records := make([]byte, recordSize*count)
	if _, err := p.ReadAt(records, int64(b.addr+recordsAt)); err != nil {
		return err
	}
	word := encoding.LittleEndian.Uint64
	b.stubs = make([]*stub, 0, count)
	for i := range count {
		r := records[recordSize*i:]
		st := &stub{island: b, index: uint32(i), site: word(r), resume: word(r[8:]), mode: trace.Mode(r[24]), root: r[25] == 1, doubted: r[25] == doubtedRoot, patched: r[26] != 0, conditional: r[27] != 0, arguments: word(r[32:])}
		copy(st.old[:], r[16:24])
		b.add(st)
	}
	return nil
}

var errOtherVersion = errors.New("another version of footfall has put it there: use that one, or start the process anew")

func (b *island) add(st *stub) {
	b.stubs = append(b.stubs, st)
	key := st.key()
	b.byKey[key] = append(b.byKey[key], st)
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
	info = encoding.LittleEndian.AppendUint32(info, uint32(b.count()))
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
	var own []*stub
	for _, st := range stubs {
		if st.island == b {
			st.patched = patched
			own = append(own, st)
		}
	}
	slices.SortFunc(own, func(a, b *stub) int { return cmp.Compare(a.index, b.index) })
	if b.forgotten == 0 && len(own) > 0 { // with those between them, at once
		for _, st := range own {
			known := b.stubs[st.index]
			known.patched, known.doubted = patched, st.doubted
		}
		return b.writeRecords(p, b.stubs[own[0].index:own[len(own)-1].index+1])
	}
	for len(own) > 0 {
		n := 1
		for n < len(own) && own[n].index == own[n-1].index+1 {
			n++
		}
		if err := b.writeRecords(p, own[:n]); err != nil {
			return err
		}
		own = own[n:]
	}
	return nil
}

// writeRecords writes those of stubs that follow each other.
func (b *island) writeRecords(p *process.Process, stubs []*stub) error {
	var records []byte
	for _, st := range stubs {
		records = append(records, st.record()...)
	}
	_, err := p.WriteAt(records, int64(b.addr+recordsAt+uint64(stubs[0].index)*recordSize))
	return err
}
