package binary

import (
	"bufio"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"golang.org/x/arch/x86/x86asm"
)

// An instruction of a function: of an x86asm.Inst what is needed, since large functions have a hundred thousand.
type instruction struct {
	Op       x86asm.Op
	notrack  bool // it is a jump by a table, where the processor looks at where jumps lead
	Args     x86asm.Args
	Len      int
	PCRel    int // how many bytes at PCRelOff are relative to the end
	PCRelOff int
	addr     uint64
}

func newInstruction(i *x86asm.Inst, addr uint64) instruction {
	const notrack = 0x3e
	is := instruction{Op: i.Op, Args: i.Args, Len: i.Len, PCRel: i.PCRel, PCRelOff: i.PCRelOff, addr: addr}
	for _, p := range i.Prefix {
		is.notrack = is.notrack || p&0xff == notrack
	}
	return is
}

func (i *instruction) end() uint64 { return i.addr + uint64(i.Len) }

// target returns where a direct branch leads.
func (i *instruction) target() (uint64, bool) {
	rel, ok := i.Args[0].(x86asm.Rel)
	if !ok {
		return 0, false
	}
	return i.end() + uint64(int64(rel)), true
}

// A body is the code of a function: with the parts that the compiler has moved apart.
type body struct {
	x        *ExitFinder
	parts    [][2]uint64
	code     [][]instruction // of each part
	targets  map[uint64]bool
	tables   bool     // it has jumps by tables whose targets are known
	repeats  bool     // such a table leads to the entry
	computed bool     // labels of it are values
	labels   []uint64 // those that instructions have
	data     []uint64 // addresses of data that instructions have
	blind    bool     // it has a jump table that was not found
	ragged   bool     // it is not known for sure where its instructions begin
	tolerant bool     // what leads to where it is not expected is no error
	unknown  []uint64 // what tables have in code without a name
	// indirect are the targets within that tables and pointers have, strays what unknown has, offsets the
	// tables of offsets of 4 bytes; nil: not wanted.
	indirect, strays, offsets map[uint64]bool
	protected                 [2]uint64
}

// again is a body for another function, with the memory of one that nobody needs any more.
func (b *body) again(protected [2]uint64) *body {
	const few = 256 // targets: to clear a map takes as long as it has room
	if len(b.targets) > few {
		b.targets = make(map[uint64]bool)
	}
	clear(b.targets)
	return &body{x: b.x, tolerant: b.tolerant, protected: protected, targets: b.targets, parts: b.parts[:0], code: b.code[:0], labels: b.labels[:0], data: b.data[:0], unknown: b.unknown[:0]}
}

// maxExitFunction is how many bytes a function has at most that is looked at.
const maxExitFunction = 1 << 22

// read decodes the function and its parts, and finds what leads where.
func (b *body) read(fn FunctionSymbol) error {
	b.parts = append(b.parts[:0], [2]uint64{fn.Addr, fn.Addr + fn.Size})
	if fn.Size == 0 { // it has no name, or that has no size
		var known bool
		if b.parts[0], known = b.x.unnamed(b.protected[0]); !known {
			return errors.New("its size is not known")
		}
	}
	if fn.Size > maxExitFunction {
		return fmt.Errorf("its size is %d", fn.Size)
	}
	for n := 0; n < len(b.parts); n++ {
		code, err := b.x.decode(b.parts[n])
		if err != nil {
			return err
		}
		b.code, b.ragged = append(b.code, code), b.ragged || isRagged(code, b.parts[n])
		for i := range code {
			if err := b.follow(&code[i]); err != nil && !b.tolerant {
				return err
			}
		}
		b.tablesOfLabels()
	}
	b.leadStrays()
	for _, p := range b.parts {
		from, _ := slices.BinarySearch(b.x.pointers, p[0]+1)
		for _, addr := range b.x.pointers[from:] {
			if addr >= p[1] {
				break
			}
			b.targets[addr], b.computed = true, true
			b.leadIndirect(addr)
		}
	}
	return nil
}

// mostKept is for how many instructions memory is kept from one function to the next.
const mostKept = 1 << 13

func (x *ExitFinder) decode(part [2]uint64) ([]instruction, error) {
	if x.code.rest(part[0]) < part[1]-part[0] {
		return nil, errors.New("it is not all in the file")
	}
	bytes := x.code.at(part[0], int(part[1]-part[0]))
	if len(bytes) == 0 && part[0] < part[1] {
		return nil, errUnread
	}
	code := x.buffer
	const each = 4 // bytes of an instruction, or some more
	if len(bytes) > each*mostKept {
		code = slices.Grow(code, len(bytes)/each)
	}
	for addr := part[0]; len(bytes) > 0; {
		i, err := DecodeAMD64(bytes)
		if err != nil || i.Len > len(bytes) {
			return nil, fmt.Errorf("instruction at %#x: % x", addr, bytes[:min(len(bytes), 8)])
		}
		code = append(code, newInstruction(&i, addr))
		addr, bytes = addr+uint64(i.Len), bytes[i.Len:]
	}
	if x.buffer = code[len(code):]; cap(code) > cap(x.all) && cap(code) <= mostKept {
		x.all = code[:0]
	}
	return code, nil
}

func (b *body) has(addr uint64) bool {
	return slices.ContainsFunc(b.parts, func(p [2]uint64) bool { return p[0] <= addr && addr < p[1] })
}

// leadIndirect notes that something else than a branch may lead to an address.
func (b *body) leadIndirect(addr uint64) {
	if b.indirect != nil {
		b.indirect[addr] = true
	}
}

// follow notes where an instruction leads, and adds the part that it leads to.
func (b *body) follow(i *instruction) error {
	switch i.Op {
	case x86asm.IRET, x86asm.IRETD, x86asm.IRETQ, x86asm.LRET, x86asm.SYSRET, x86asm.SYSEXIT, x86asm.XBEGIN:
		return fmt.Errorf("%v at %#x", i.Op, i.addr)
	}
	if t, ok := i.target(); ok {
		if b.has(t) {
			b.targets[t] = true
			return nil
		}
		if i.Op == x86asm.CALL {
			return nil
		}
		switch fn := b.x.names.At(t); {
		case fn != nil && isPart(fn):
			b.parts = append(b.parts, [2]uint64{fn.Addr, fn.Addr + fn.Size})
			b.targets[t] = true
		case fn == nil && b.x.linkage(t), fn != nil && fn.Addr == t:
		case fn == nil && b.addUnnamed(i, t):
		default:
			return fmt.Errorf("a jump at %#x into code without a name, or into another function, at %#x", i.addr, t)
		}
		return nil
	}
	for _, arg := range i.Args {
		m, ok := arg.(x86asm.Mem)
		if !ok {
			continue
		}
		switch {
		case m.Base == x86asm.RIP:
			addr := i.end() + uint64(m.Disp)
			if i.Op == x86asm.LEA {
				b.pointer(addr)
				b.table(addr, 4, addr)
			}
		case m.Base == 0 && m.Scale == 8:
			b.table(uint64(m.Disp), 8, 0)
		case m.Base == 0 && m.Scale == 4:
			b.data = append(b.data, uint64(m.Disp))
		}
	}
	if imm, ok := b.x.immediate(i); ok {
		b.pointer(imm)
		b.table(imm, 8, 0)
	}
	return nil
}

// immediate returns the value of an instruction which may be an address: where programs are at
// fixed addresses, or instructions are relocated.
func (x *ExitFinder) immediate(i *instruction) (uint64, bool) {
	if !x.absolute {
		return 0, false
	}
	switch i.Op {
	case x86asm.MOV, x86asm.PUSH, x86asm.ADD:
	default:
		return 0, false
	}
	for _, arg := range i.Args {
		if imm, ok := arg.(x86asm.Imm); ok {
			return uint64(imm), true
		}
	}
	return 0, false
}

// mostLabels is of how many labels tables are looked for.
const mostLabels = 16

// tablesOfLabels notes the targets of tables of offsets of 4 bytes from a label of the function.
func (b *body) tablesOfLabels() {
	labels := b.labels[:min(len(b.labels), mostLabels)]
	for _, label := range labels {
		for _, addr := range b.data {
			b.table(addr, 4, label)
		}
	}
}

// addUnnamed takes code without a name to which the instruction jumps for a part, unless
// it is another function: where nothing is on the stack. It returns false if it is
// neither.
func (b *body) addUnnamed(i *instruction, t uint64) bool {
	part, known := b.x.unnamed(t)
	if !known {
		return false
	}
	if popped, _ := b.popped(i.addr); part[0] == t && popped && i.Op == x86asm.JMP {
		return true
	}
	b.parts = append(b.parts, part)
	b.targets[t] = true
	return true
}

// unnamed returns the code around an address that is described together, as that of a
// function is.
func (x *ExitFinder) unnamed(addr uint64) (part [2]uint64, known bool) {
	if x.frames == nil {
		return part, false
	}
	low, high, ok := x.frames.Described(addr)
	return [2]uint64{low, high}, ok
}

// pointer notes an address that the code has: of a label, if it is within.
func (b *body) pointer(addr uint64) {
	switch {
	case b.has(addr) && addr != b.parts[0][0]:
		b.targets[addr], b.computed = true, true
		b.labels = append(b.labels, addr)
	case !b.x.code.has(addr):
		b.data = append(b.data, addr)
	}
}

// linkage tells whether an address is in a table by which libraries are called.
func (x *ExitFinder) linkage(addr uint64) bool {
	for _, s := range x.f.elf.Sections {
		if strings.HasPrefix(s.Name, ".plt") && s.Addr <= addr && addr < s.Addr+s.Size {
			return true
		}
	}
	return false
}

// tables returns the sections of the file's data in which there may be jump tables. Of those that cannot be read none are found.
func (f *File) tables() *pieces {
	p := newPieces(tablePiece, tablePieces)
	for _, s := range f.elf.Sections {
		if s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_ALLOC != 0 {
			_ = p.add(s)
		}
	}
	return p
}

// maxTable is how many entries of a jump table are looked at.
const maxTable = 4096

// table notes the targets of what may be a jump table: offsets of 4 bytes, or addresses. It ends
// where an entry leads to no code, or into the middle of an instruction, at the latest: what is read behind its end
// costs room only, what is not read would cost the program's life.
func (b *body) table(addr uint64, size int, base uint64) {
	if b.has(addr) || b.x.code.has(addr) {
		return
	}
	left := b.x.tables.rest(addr)
	for n := 0; n < maxTable && left >= uint64(size); n, left = n+1, left-uint64(size) {
		entry := b.x.tables.at(addr+uint64(n*size), size)
		if len(entry) < size {
			return
		}
		t := base
		if size == 4 {
			t += uint64(int64(int32(b.x.f.Order.Uint32(entry))))
		} else {
			t = b.x.f.Order.Uint64(entry)
		}
		if b.splits(t) || !b.x.code.has(t) && !b.x.code.has(t-1) {
			return // it is no entry: the table has ended before
		}
		fn := b.x.names.At(t)
		if !b.has(t) && fn != nil && isPart(fn) {
			b.parts = append(b.parts, [2]uint64{fn.Addr, fn.Addr + fn.Size})
		}
		if b.has(t) {
			b.targets[t], b.tables = true, true
			b.leadIndirect(t)
			entry := b.parts[0][0]
			b.repeats = b.repeats || t == entry || t == entry+uint64(len(endbr64)) && b.x.isEndbrAt(entry)
		} else if !b.stray(t, fn) && n == 0 {
			return
		}
		if b.offsets != nil && n == 0 && size == 4 {
			b.offsets[addr] = true
		}
	}
}

// splits tells whether an address is within an instruction of a part whose instructions are known for sure.
func (b *body) splits(addr uint64) bool {
	for n, code := range b.code {
		if p := b.parts[n]; p[0] <= addr && addr < p[1] {
			return !b.ragged && !begins(code, addr)
		}
	}
	return false
}

// begins tells whether one of the instructions, which follow each other, begins at an address.
func begins(code []instruction, addr uint64) bool {
	_, found := slices.BinarySearchFunc(code, addr, func(i instruction, addr uint64) int { return cmp.Compare(i.addr, addr) })
	return found
}

// isRagged tells whether a branch leads into the middle of one of the instructions of a part: it may have data among
// them, or instructions of which there are two readings.
func isRagged(code []instruction, part [2]uint64) bool {
	return slices.ContainsFunc(code, func(i instruction) bool {
		t, direct := i.target()
		return direct && part[0] <= t && t < part[1] && !begins(code, t)
	})
}

// stray notes the target of a table in code that may be a part of the function, perhaps one that is found later: it
// is in none that has a name.
func (b *body) stray(addr uint64, in *FunctionSymbol) bool {
	if in != nil || !b.x.code.has(addr) {
		return false
	}
	if b.unknown = append(b.unknown, addr); b.strays != nil {
		b.strays[addr] = true
	}
	return true
}

// leadStrays notes those strays that are in parts that were found.
func (b *body) leadStrays() {
	for _, t := range b.unknown {
		if b.has(t) {
			b.targets[t], b.tables = true, true
			b.leadIndirect(t)
		}
	}
}

// isPart tells whether a function is what the compiler has moved apart of another one.
func isPart(fn *FunctionSymbol) bool { return fn.Size > 0 && strings.Contains(fn.Name, ".cold") }

// decodedAhead is how many bytes are read for an instruction that has no more than maxInstruction: prefixes that repeat may be more.
const decodedAhead = 64

// scan visits instructions from an address up to another one, at most to the end of the section, of which it is not known where
// instructions begin. A byte that begins none is passed.
func (x *ExitFinder) scan(from, to uint64, visit func(i *instruction)) {
	to = min(to, from+x.code.rest(from))
	for addr := from; addr < to; {
		code := x.code.at(addr, int(min(to-addr, decodedAhead)))
		if len(code) == 0 {
			return
		}
		i, err := DecodeAMD64(code)
		if err != nil || i.Len > len(code) {
			i.Len = 1
		} else {
			is := newInstruction(&i, addr)
			visit(&is)
		}
		addr += uint64(i.Len)
	}
}

// isEndbrAt tells whether endbr64 is at an address.
func (x *ExitFinder) isEndbrAt(addr uint64) bool { return isEndbr(x.code.at(addr, len(endbr64))) }

// A sectionCache has sections that have been read, for several at once.
type sectionCache struct {
	lock sync.Mutex
	read map[*elf.Section][]byte
}

// forget lets go of the sections: they are read again when they are needed.
func (c *sectionCache) forget() {
	c.lock.Lock()
	defer c.lock.Unlock()
	clear(c.read)
}

// section returns what a section has, which is read once.
func (x *ExitFinder) section(s *elf.Section) ([]byte, error) {
	x.sections.lock.Lock()
	defer x.sections.lock.Unlock()
	if b, ok := x.sections.read[s]; ok {
		return b, nil
	}
	b, err := data(s)
	x.sections.read[s] = b
	return b, err
}

// findPointers finds the relocations which lead into functions, but not to their
// beginnings: labels as values, and tables of them.
func (x *ExitFinder) findPointers() {
	add := func(addr uint64) {
		if fn := x.names.At(addr); (fn == nil || fn.Addr != addr) && x.code.has(addr) {
			x.pointers = append(x.pointers, addr)
		}
	}
	const packed = 19 // SHT_RELR: what they add is in the data
	relocated := false
	for _, s := range x.f.elf.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		if checkSize(s) != nil {
			continue
		}
		r, b := bufio.NewReaderSize(s.Open(), 1<<16), make([]byte, 24) // offset u64, type u32, symbol u32, addend i64
		for _, err := io.ReadFull(r, b); err == nil; _, err = io.ReadFull(r, b) {
			if x.f.Order.Uint32(b[8:]) == uint32(elf.R_X86_64_RELATIVE) {
				relocated = true
				add(x.f.Order.Uint64(b[16:]))
			}
		}
	}
	if !relocated || x.f.elf.SectionByType(packed) != nil { // at fixed addresses every word may be one
		for _, s := range x.f.elf.Sections {
			if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_EXECINSTR != 0 || s.Size > maxSection {
				continue
			}
			r, b := bufio.NewReaderSize(s.Open(), 1<<16), make([]byte, 8) // also where most of it are holes
			for _, err := io.ReadFull(r, b); err == nil; _, err = io.ReadFull(r, b) {
				add(x.f.Order.Uint64(b))
			}
		}
	}
	slices.Sort(x.pointers)
	x.pointers = slices.Compact(x.pointers)
}

// findSequences finds the restartable sequences of the file: struct rseq_cs of <linux/rseq.h>,
// which lie in a section of their own by convention of librseq and tcmalloc.
func (x *ExitFinder) findSequences() {
	const size, start, length = 32, 8, 16 // of the structure, and where it has u64 in it
	s := x.f.elf.Section("__rseq_cs")
	if s == nil || s.Type == elf.SHT_NOBITS {
		return
	}
	b, err := data(s)
	if err != nil {
		return
	}
	b = slices.Clone(b)
	x.relocate(s.Addr, b)
	for ; len(b) >= size; b = b[size:] {
		from := x.f.Order.Uint64(b[start:])
		x.sequences = append(x.sequences, [2]uint64{from, from + x.f.Order.Uint64(b[length:])})
	}
}

// relocate writes addresses into data of the file that are to be there by its relocations.
func (x *ExitFinder) relocate(addr uint64, into []byte) {
	for _, s := range x.f.elf.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := data(s)
		if err != nil {
			continue
		}
		for ; len(b) >= 24; b = b[24:] { // as in findPointers
			at := x.f.Order.Uint64(b) - addr
			if x.f.Order.Uint32(b[8:]) == uint32(elf.R_X86_64_RELATIVE) && at < uint64(len(into)) && uint64(len(into))-at >= 8 {
				x.f.Order.PutUint64(into[at:], x.f.Order.Uint64(b[16:]))
			}
		}
	}
}

// restarts tells whether code is in a restartable sequence.
func (x *ExitFinder) restarts(from, to uint64) bool {
	return slices.ContainsFunc(x.sequences, func(s [2]uint64) bool { return from < s[1] && s[0] < to })
}
