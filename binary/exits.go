package binary

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"footfall/binary/unwind"
)

// An Exit is a place where a function is left for good, by ret or by a jump to
// another function, and room there for a jump of 5 bytes. The stack pointer is there
// what it was at the function's entry.
//
//	in place                     moved                       a conditional jump
//
//	ret           1: Code        pop %rbx     1: Code        0f
//	nop           4              pop %rbp     1  ...         8x rel32   5: Code
//	                             ret          1  ...
//	                             nop          2
//
// The last instruction of Code leaves the function; those before it are to be run
// first. Nothing leads to addresses within the room but to Addr.
type Exit struct {
	Addr   uint64 // of the room, as the file has it
	Code   []byte
	Starts []int  // of the instructions, in Code
	Target uint64 // of a direct jump; 0: it is ret, or a jump through a pointer
	// Conditional: Code is a conditional jump but for its first byte.
	Conditional bool
	// Within: Addr is the function's entry, all of whose first instructions up to the exit are
	// run elsewhere. There is no room at the exit itself.
	Within bool
	// Relative are where Code has 4 bytes that are relative to where the instruction
	// ends whose number is beside: addresses of data. The jump to Target is not among them.
	Relative []RelativeAddress
}

// A RelativeAddress is 4 bytes of code at At, from the instruction's end on, which is at End.
type RelativeAddress struct{ At, End int }

// exitRoom is what a jump needs.
const exitRoom = 5

// maxMoved is how many bytes of instructions are before the last one at most.
const maxMoved = 18

// ErrExits is wrapped by the reasons why a function's exits cannot be had.
var ErrExits = errors.New("not all exits have room")

// ErrPops is wrapped as well where the function takes its arguments from the stack itself
// (ret N), or where that is not known.
var ErrPops = errors.New("the function may remove its arguments")

// ErrJumps is wrapped as well where the function ends by a jump to another one, which then sees
// the return address: dlsym tells by it which library asks.
var ErrJumps = errors.New("the function ends by a jump to another")

// ExitFinder finds the exits of functions of a file, one at a time.
type ExitFinder struct {
	f        *File
	code     *pieces
	tables   *pieces // data, where tables may be
	names    Functions
	frames   *unwind.Table
	pointers []uint64 // addresses of code that data has, which are no beginnings of functions
	starts   []uint64 // of functions, with names or without
	// entered are addresses within functions to which something outside of them leads, as far as
	// an EntryFinder has looked.
	entered  map[uint64]bool
	sections *sectionCache // for exceptions
	absolute bool          // instructions may have addresses as their values
	// sequences are restartable ones, within which the kernel must find the program counter: from, to.
	sequences [][2]uint64
	// all is memory for the instructions of a function and its parts, buffer what is left of
	// it: each function uses it again.
	all, buffer []instruction
}

// Frame returns the row of the file's call frames for an address.
func (x *ExitFinder) Frame(addr uint64) (row unwind.Row, ok bool) {
	if x.frames == nil {
		return row, false
	}
	return x.frames.Row(addr)
}

// ExitFinder returns one; names are the functions of the file, sites those that it has.
// Only x86-64 is known.
func (f *File) ExitFinder(names Functions, sites []Site) (*ExitFinder, error) {
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return nil, fmt.Errorf("exits of %v: %w", f.Machine, ErrExits)
	}
	code, err := f.code()
	if err != nil {
		return nil, err
	}
	frames, err := f.CallFrames()
	if err != nil {
		frames = nil // then no more than ret is known
	}
	x := &ExitFinder{f: f, code: code, tables: f.tables(), names: names, frames: frames, entered: make(map[uint64]bool), sections: &sectionCache{read: make(map[*elf.Section][]byte)}}
	relocated, _ := f.elf.DynValue(elf.DT_TEXTREL)
	x.absolute = f.elf.Type == elf.ET_EXEC || len(relocated) > 0
	x.findPointers()
	x.findSequences()
	if frames != nil {
		x.starts = frames.Starts()
	}
	x.starts = slices.Grow(x.starts, len(names)+2*len(sites))
	for _, fn := range names {
		x.starts = append(x.starts, fn.Addr)
	}
	for _, site := range sites {
		x.starts = append(x.starts, site.Addr, site.Function.Addr)
	}
	slices.Sort(x.starts)
	x.starts = slices.Compact(x.starts)
	return x, nil
}

// Exits returns all exits of a function. protected are addresses of it that are not to
// be used as room: low, high. Where moves is set these are instructions that are run elsewhere,
// and those behind them may be, too.
func (x *ExitFinder) Exits(fn FunctionSymbol, protected [2]uint64, moves bool) ([]Exit, error) {
	b := &body{x: x, targets: make(map[uint64]bool), protected: protected}
	x.buffer = x.all[:0]
	if err := b.read(fn); err != nil {
		return nil, fmt.Errorf("%s: %w: %w: %w", fn.Name, ErrExits, ErrPops, err)
	}
	var exits []Exit
	for _, code := range b.code {
		for n := range code {
			leaves, err := b.leaves(code, n)
			if err == nil && leaves {
				var e Exit
				if e, err = b.room(code, n); err == nil && e.Addr < protected[1] && protected[0] < e.end() {
					err = errors.New("it is within the entry's room")
				}
				if err != nil && moves {
					if within, ok := b.within(code, n); ok {
						e, err = within, nil
					}
				}
				exits = append(exits, e)
			}
			if err != nil {
				err = fmt.Errorf("%s: at %#x: %w: %w", fn.Name, code[n].addr, ErrExits, err)
				if b.pops() {
					err = fmt.Errorf("%w: %w", err, ErrPops)
				}
				if b.jumps() {
					err = fmt.Errorf("%w: %w", err, ErrJumps)
				}
				return nil, err
			}
		}
	}
	if err := x.unread(); err != nil {
		return nil, fmt.Errorf("%s: %w: %w: %w", fn.Name, ErrExits, ErrPops, err)
	}
	return exits, nil
}

// errUnread is why nothing is said of a file that could be read no more while it was looked at.
var errUnread = errors.New("a part of its file cannot be read any more: it may have become shorter")

// unread returns an error if a part of the file could not be read so far: what is known of where code leads lacks that.
func (x *ExitFinder) unread() error {
	if x.code.failed.Load() || x.tables.failed.Load() {
		return errUnread
	}
	return nil
}

// end is where the exit's room ends.
func (e *Exit) end() uint64 { return e.Addr + uint64(max(len(e.Code), exitRoom)) }

// pops tells whether a ret removes arguments.
func (b *body) pops() bool {
	for _, code := range b.code {
		for i := range code {
			if code[i].Op == x86asm.RET && code[i].Args[0] != nil {
				return true
			}
		}
	}
	return false
}

// jumps tells whether it may end by a jump to another function.
func (b *body) jumps() bool {
	for _, code := range b.code {
		for n := range code {
			i := &code[n]
			t, direct := i.target()
			switch {
			case direct && i.Op != x86asm.CALL && !b.has(t):
				return true
			case direct || i.Op != x86asm.JMP:
				continue
			}
			if popped, known := b.popped(i.addr); known && !popped {
				continue
			}
			if dispatches, err := b.dispatches(code, n); err != nil || !dispatches {
				return true
			}
		}
	}
	return false
}

// leaves tells whether instruction n leaves the function.
func (b *body) leaves(code []instruction, n int) (bool, error) {
	i := &code[n]
	if n == len(code)-1 && !ends(i.Op) {
		return false, errors.New("it goes on into what follows")
	}
	t, direct := i.target()
	switch {
	case i.Op == x86asm.RET:
		if popped, known := b.popped(i.addr); known && !popped {
			return false, errors.New("ret with something on the stack")
		}
		return true, nil
	case direct && (i.Op == x86asm.CALL || b.has(t) && t != b.parts[0][0]), !direct && i.Op != x86asm.JMP:
		return false, nil
	}
	popped, _ := b.popped(i.addr) // asked for last: that takes longest
	switch {
	case direct && b.has(t) && !popped:
		return false, nil
	case direct && !popped:
		return false, errors.New("a jump out of it with something on the stack")
	case direct:
		return true, nil
	}
	dispatches, err := b.dispatches(code, n)
	switch {
	case err == nil && !dispatches && !popped:
		dispatches = true
	case err == nil && !dispatches && b.computed:
		err = errors.New("a jump through a pointer, and labels are values")
	}
	if dispatches && !b.tables && !b.computed {
		b.blind = true
	}
	return !dispatches, err
}

// ends tells whether a function may end with the instruction: the last may be a call
// that does not return.
func ends(op x86asm.Op) bool {
	switch op {
	case x86asm.RET, x86asm.JMP, x86asm.CALL, x86asm.UD0, x86asm.UD1, x86asm.UD2, x86asm.HLT, x86asm.INT, x86asm.NOP:
		return true
	}
	return false
}

// popped tells whether, in front of an instruction, the stack pointer is what it was at
// the entry; known, whether anything tells that.
func (b *body) popped(addr uint64) (popped, known bool) {
	if b.x.frames == nil {
		return false, false
	}
	row, ok := b.x.frames.Row(addr)
	if !ok {
		return false, false
	}
	return row.CFA.Kind == unwind.RuleRegister && row.CFA.Register == unwind.AMD64_RSP && row.CFA.Offset == 8, true
}

// dispatches tells whether a jump through a pointer leads to a place of the function,
// by a table or a label, not to another function.
func (b *body) dispatches(code []instruction, n int) (bool, error) {
	i := &code[n]
	if i.notrack {
		return true, nil
	}
	if m, ok := i.Args[0].(x86asm.Mem); ok {
		return m.Index != 0, nil
	}
	const far = 16 // instructions
	for k := n - 1; k >= 0 && k > n-far; k-- {
		w := &code[k]
		if b.targets[code[k+1].addr] {
			break
		}
		if w.Op == x86asm.CMP || w.Op == x86asm.TEST || w.Op == x86asm.PUSH || w.Args[0] != i.Args[0] {
			continue
		}
		switch m, ok := w.Args[1].(x86asm.Mem); {
		case w.Op == x86asm.ADD, w.Op == x86asm.MOVSXD, w.Op == x86asm.LEA:
			return true, nil
		case ok && m.Index != 0:
			return true, nil
		}
		return false, nil
	}
	if n < far && !b.targets[code[0].addr] && b.straight(code[:n+1]) {
		return false, nil // an argument
	}
	return false, errors.New("a jump through a pointer of which it is not clear where to")
}

// straight tells whether nothing leads into the instructions but to the first.
func (b *body) straight(code []instruction) bool {
	return !slices.ContainsFunc(code[1:], func(i instruction) bool { return b.targets[i.addr] })
}

// room finds the room of the exit that is instruction n.
func (b *body) room(code []instruction, n int) (Exit, error) {
	i := &code[n]
	e := Exit{Addr: i.addr}
	e.Target, _ = i.target()
	if e.Target != 0 && i.Op != x86asm.JMP {
		code := bytes.Clone(b.x.code.at(i.addr, i.Len))
		if len(code) != 6 || code[0] != 0x0f {
			return e, fmt.Errorf("a conditional jump of %d bytes", i.Len)
		}
		e.Addr, e.Code, e.Starts, e.Conditional = i.addr+1, code[1:], []int{0}, true
		return e, nil
	}
	first := n
	room := i.Len
	if room < exitRoom {
		room += b.padding(i.end(), exitRoom-room)
	}
	for ; room < exitRoom; room += code[first].Len {
		if b.blind {
			return e, errors.New("no room, and it has a jump table whose end is not known")
		}
		if b.targets[code[first].addr] || first == 0 {
			return e, fmt.Errorf("room of %d bytes", room)
		}
		if p := &code[first-1]; !movable(p) || b.protected[0] < p.end() && p.addr < b.protected[1] {
			return e, fmt.Errorf("room of %d bytes behind %v", room, p.Op)
		}
		first--
	}
	if moved := i.addr - code[first].addr; moved > maxMoved {
		return e, fmt.Errorf("%d bytes in front of it", moved)
	}
	e = b.exit(code[first : n+1])
	if at, led := b.x.led(e.Addr+1, e.end()); led {
		return e, fmt.Errorf("something else leads to %#x", at)
	}
	if b.x.restarts(e.Addr, e.end()) {
		return e, errors.New("it is in a restartable sequence")
	}
	return e, nil
}

// exit is one by the last of the instructions, where the others are moved with it.
func (b *body) exit(code []instruction) Exit {
	last := len(code) - 1
	e := Exit{Addr: code[0].addr}
	e.Target, _ = code[last].target()
	e.Code = bytes.Clone(b.x.code.at(e.Addr, int(code[last].end()-e.Addr)))
	for k := range code {
		at := int(code[k].addr - e.Addr)
		e.Starts = append(e.Starts, at)
		if code[k].PCRel == 4 && (k < last || e.Target == 0) {
			e.Relative = append(e.Relative, RelativeAddress{at + code[k].PCRelOff, at + code[k].Len})
		}
	}
	return e
}

// maxWithin is how many bytes of instructions are moved from the entry up to an exit at most.
const maxWithin = 30

// within is the exit by instruction n if nothing but what is at the entry comes before it.
func (b *body) within(code []instruction, n int) (e Exit, ok bool) {
	first := slices.IndexFunc(code, func(i instruction) bool { return i.addr == b.protected[0] })
	if _, direct := code[n].target(); first < 0 || first > n || b.blind || direct && code[n].Op != x86asm.JMP {
		return e, false
	}
	moved := code[first : n+1]
	if !b.straight(moved) || slices.ContainsFunc(moved[:n-first], func(i instruction) bool { return !movable(&i) }) {
		return e, false
	}
	e = b.exit(moved)
	e.Within = true
	_, led := b.x.led(e.Addr+1, e.Addr+uint64(len(e.Code)))
	return e, !led && len(e.Code) <= maxWithin && !b.x.restarts(e.Addr, e.end())
}

// led returns the first of some addresses where another function begins, or to which one leads.
func (x *ExitFinder) led(from, to uint64) (addr uint64, ok bool) {
	for at := from; at < to; at++ {
		if _, begins := slices.BinarySearch(x.starts, at); begins || x.entered[at] {
			return at, true
		}
	}
	return 0, false
}

const int3 = 0xcc

// movable tells whether an instruction does the same elsewhere, and goes on to the next.
func movable(i *instruction) bool {
	if _, branch := i.target(); branch || i.PCRel != 0 && i.PCRel != 4 {
		return false
	}
	switch i.Op {
	case x86asm.CALL, x86asm.LCALL, x86asm.JMP, x86asm.LJMP, x86asm.RET, x86asm.LRET, x86asm.INT, x86asm.INTO, x86asm.SYSCALL, x86asm.SYSENTER,
		x86asm.HLT, x86asm.UD0, x86asm.UD1, x86asm.UD2, x86asm.XABORT, x86asm.XEND:
		return false
	}
	return true
}

// padding returns how many bytes from an address on nobody needs, at most about most.
func (b *body) padding(addr uint64, most int) int {
	return b.x.padding(addr, most, func(at uint64) bool {
		_, begins := slices.BinarySearch(b.x.starts, at)
		return begins || b.targets[at]
	})
}

// IsPadding tells whether all code from one address up to another does nothing.
func (x *ExitFinder) IsPadding(from, to uint64) bool {
	none := func(uint64) bool { return false }
	return from < to && uint64(x.padding(from, int(to-from), none)) >= to-from
}

// padding returns how many bytes from an address on are padding, at most about most, up to the first that is needed.
func (x *ExitFinder) padding(addr uint64, most int, needed func(addr uint64) bool) int {
	n := 0
	for n < most {
		at := addr + uint64(n)
		code := x.code.at(at, decodedAhead)
		if needed(at) || isEndbr(code) {
			return n
		}
		i, err := x86asm.Decode(code, 64)
		if err != nil || i.Op != x86asm.NOP && code[0] != int3 && !isNop66(code) {
			return n
		}
		n += i.Len
	}
	return n
}
