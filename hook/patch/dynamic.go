//go:build linux

package patch

import (
	encoding "encoding/binary"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"
	"golang.org/x/sys/unix"

	"footfall/binary"
	"footfall/process"
	"footfall/process/target"
)

// GNU libunwind (unw_step) looks for code that no file has in a list of its own, to which
// programs that make code add their tables (_U_dyn_register). We add ours by writing to its
// memory: nothing runs in the process for that, and it takes no lock when it looks there.
//
// An island has, in the page of its unwind table, which can be written to from then on:
//
//	0x800  entries of the list, of dynamicSize: its own, and in the first island those of return stubs
//	0xd00  what its own refers to, see dynamicTable
const (
	dynamicAt      = unwindAt + 0x800
	dynamicSize    = 128
	dynamicTableAt = unwindAt + 0xd00

	returnsDynamicAt = 0x800 // in the page behind return stubs
)

// A dynamicList is the one of a libunwind.
type dynamicList struct {
	addr    uint64      // of struct unw_dyn_info_list; 0: there is none
	changes [][2]uint64 // code that changes it, from and to
}

// tellLibunwind adds tables of what libunwind does not know yet, when stubs have been written.
// If that fails its chains end in our code, for which no trace is given up.
func (s *Session) tellLibunwind() { _ = s.tryLibunwind() }

func (s *Session) tryLibunwind() error {
	if !native.describesAll || len(s.islands) == 0 {
		return nil
	}
	list, err := s.findDynamicList()
	if err != nil || list.addr == 0 {
		return err
	}
	if err := s.describeAll(); err != nil {
		return err
	}
	untold, err := s.untoldDynamic(list)
	if err != nil || len(untold) == 0 {
		return err
	}
	return held(s.p, func(h *process.Held) error {
		busy, err := list.isChanged(h)
		if err == nil && busy {
			err = process.ErrBusy
		}
		for i := 0; err == nil && i < len(untold); i++ {
			err = untold[i].add(s.p, h, list)
		}
		return err
	})
}

// describeAll writes what tables refer to, of islands and of return stubs.
func (s *Session) describeAll() error {
	if err := s.describeIslands(); err != nil {
		return err
	}
	for _, b := range s.islands {
		b.described = true
	}
	for _, r := range s.returns {
		if _, err := s.p.WriteAt(r.unwindTable(), int64(r.table())); err != nil {
			return err
		}
	}
	return nil
}

// A dynamic is an entry of the list that is to be.
type dynamic struct {
	at, tableAt uint64 // where it goes, and what it refers to
	code, size  uint64 // what it is about
	table       []byte
}

// untoldDynamic returns those that are not in the list.
func (s *Session) untoldDynamic(list dynamicList) (untold []dynamic, err error) {
	known := make(map[uint64]bool)
	const most = 1 << 12 // it may be changed while we read it
	for at, n := list.addr+8, 0; n < most; n++ {
		if at, err = readWord(s.p, at); err != nil || at == 0 || known[at] {
			break
		}
		known[at] = true // the next one is in its first word
	}
	if err != nil {
		return nil, err
	}
	first := s.islands[0].addr + dynamicAt
	for _, b := range s.islands {
		size := stubsAt - codeAt + uint64(b.room)*stubSize
		untold = append(untold, dynamic{b.addr + dynamicAt, b.addr + dynamicTableAt, b.addr + codeAt, size, dynamicTable(b.addr+dynamicTableAt, frameRules(b.addr), size)})
	}
	for i, r := range s.returns {
		at := r.table() + returnsDynamicAt
		untold = append(untold, dynamic{first + uint64(1+i)*dynamicSize, at, r.addr, r.size, dynamicTable(at, r.rules(false), r.size)})
	}
	return slices.DeleteFunc(untold, func(d dynamic) bool { return known[d.at] }), nil
}

// add makes it the first one of the list, as soon as it is complete.
func (d *dynamic) add(p *process.Process, h *process.Held, list dynamicList) error {
	page := d.at &^ (pageSize - 1)
	if _, err := h.SystemCall(unix.SYS_MPROTECT, page, pageSize, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	next, err := readWord(p, list.addr+8)
	if err != nil {
		return err
	}
	put := func(at uint64, b []byte) {
		if err == nil {
			_, err = p.WriteAt(b, int64(at))
		}
	}
	word := func(v uint64) []byte { return encoding.LittleEndian.AppendUint64(nil, v) }
	put(d.tableAt, d.table)
	put(d.at, d.entry(next))
	put(list.addr+8, word(d.at))
	if next != 0 {
		put(next+8, word(d.at)) // the one before it
	}
	return err
}

// entry is a struct unw_dyn_info. Before version 1.6 it had no load_offset, so that what
// follows was one word before; of its format there is nothing in the way of both.
func (d *dynamic) entry(next uint64) (b []byte) {
	const formatTable = 1 // UNW_INFO_FORMAT_TABLE
	for _, v := range []uint64{
		next, 0, d.code, d.code + d.size, 0, formatTable,
		0,                          // name_ptr; load_offset
		d.code,                     // segbase; name_ptr
		d.code,                     // table_len, which is not read; segbase
		d.tableAt,                  // table_data; table_len
		d.tableAt + descriptorSize, // nothing; table_data
	} {
		b = encoding.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// What a dynamicTable begins with.
const (
	descriptorSize = 64
	indexEntries   = 8
)

// dynamicTable is what an entry refers to, at an address: two struct unw_debug_frame_list, of
// versions before 1.6 and from then on, the index, and .debug_frame of one function.
func dynamicTable(at uint64, rules []byte, size uint64) (b []byte) {
	const indexSize = indexEntries * 8 // in versions before 1.4 there are so many entries
	index := at + 2*descriptorSize
	frame := index + indexSize
	words := func(all ...uint64) {
		for _, v := range all {
			b = encoding.LittleEndian.AppendUint64(b, v)
		}
	}
	words(0, 0, frame, 0, index, indexEntries, 0, 0)
	words(0, 0, 0, frame, 0, index, indexSize, 0)
	table, entry := debugFrame(rules, size)
	for i := range indexEntries {
		var from uint32
		if i > 0 {
			from = 1<<31 - 1 // behind all code
		}
		b = encoding.LittleEndian.AppendUint32(b, from)
		b = encoding.LittleEndian.AppendUint32(b, uint32(entry))
	}
	return append(b, table...)
}

// debugFrame is .debug_frame of so many bytes of code from its base on, and where in it the
// entry is.
func debugFrame(rules []byte, size uint64) (b []byte, entry int) {
	const isCIE = 1<<32 - 1
	b = frameEntry(join(encoding.LittleEndian.AppendUint32(nil, isCIE), cieFields, rules))
	entry = len(b)
	fde := encoding.LittleEndian.AppendUint64(make([]byte, 4+8), size) // of the first CIE, from 0 on
	return append(b, frameEntry(fde)...), entry
}

// isChanged tells whether a thread is just in code that changes the list.
func (l *dynamicList) isChanged(h *process.Held) (bool, error) {
	for _, tid := range h.Threads() {
		pc, err := h.PC(tid)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(l.changes, func(c [2]uint64) bool { return c[0] <= pc && pc < c[1] }) {
			return true, nil
		}
	}
	return false, nil
}

func readWord(p *process.Process, at uint64) (uint64, error) {
	var b [8]byte
	_, err := p.ReadAt(b[:], int64(at))
	return encoding.LittleEndian.Uint64(b[:]), err
}

// findDynamicList looks for a libunwind among libraries of that name, and in the program itself.
func (s *Session) findDynamicList() (dynamicList, error) {
	maps, _, err := s.p.Maps()
	if err != nil {
		return dynamicList{}, err
	}
	before := s.dynamicLists
	s.dynamicLists = make(map[string]dynamicList)
	var found dynamicList
	for _, i := range s.p.Images(maps) {
		if process.IsOurs(i.Path) || !strings.Contains(filepath.Base(i.Path), "unwind") && !i.IsProgram() {
			continue
		}
		list, known := before[i.Key()]
		if !known {
			list = dynamicListOf(s.p, i)
		}
		s.dynamicLists[i.Key()] = list
		if found.addr == 0 {
			found = list
		}
	}
	return found, nil
}

// dynamicListOf returns that of an image. Where it is, a function of it returns.
func dynamicListOf(p *process.Process, of *process.MappedFile) (list dynamicList) {
	i, err := target.Open(p, of)
	if err != nil {
		return list
	}
	defer i.Close()
	at, has := i.Symbol("_U_dyn_info_list_addr")
	if !has {
		return list
	}
	for _, name := range []string{"_U_dyn_register", "_U_dyn_cancel"} {
		const most = 256 // bytes of them
		if at, has := i.Symbol(name); has {
			list.changes = append(list.changes, [2]uint64{at, at + most})
		}
	}
	var text [32]byte
	if _, err := p.ReadAt(text[:], int64(at)); err == nil {
		list.addr = returnedAddress(text[:], at)
	}
	return list
}

// returnedAddress returns the address that a function returns, of which this is the code; 0 if
// it does anything besides.
func returnedAddress(text []byte, at uint64) (value uint64) {
	for len(text) > 0 {
		i, err := binary.DecodeAMD64(text)
		if err != nil {
			return 0
		}
		text, at = text[i.Len:], at+uint64(i.Len)
		m, _ := i.Args[1].(x86asm.Mem)
		n, _ := i.Args[1].(x86asm.Imm)
		switch {
		case i.Op == x86asm.LEA && i.Args[0] == x86asm.RAX && m.Base == x86asm.RIP:
			value = at + uint64(m.Disp)
		case i.Op == x86asm.MOV && (i.Args[0] == x86asm.RAX || i.Args[0] == x86asm.EAX) && n > 0:
			value = uint64(n)
		case i.Op == x86asm.RET:
			return value
		case i.Op != x86asm.NOP:
			return 0
		}
	}
	return 0
}
