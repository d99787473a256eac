package binary

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/arch/x86/x86asm"
)

// An EntryWindow is the first instructions of a function, which can be run elsewhere: a
// jump of 5 bytes can take their place. Nothing leads to addresses within the jump but to Addr.
//
//	function: [endbr64]
//	Addr:     push %r15         Code: whole instructions, of at least 5 bytes; behind one
//	          push %r14               that does not go on (ret, jmp) what is missing may be
//	          push %r13               padding, which is not part of Code
//	end:      ...
type EntryWindow struct {
	Addr         uint64 // as the file has it
	Code         []byte
	Instructions []MovedInstruction // of Code
}

// A MovedInstruction is one of an EntryWindow.
type MovedInstruction struct {
	At, End  int // in the window's code
	Kind     MoveKind
	Target   uint64 // of a branch, as the file has it
	Relative int    // where in the window's code 4 bytes are that are relative to End; 0: nowhere
}

// A MoveKind says what is to be done to an instruction elsewhere.
type MoveKind uint8

// Kinds.
const (
	MovePlain       MoveKind = iota // its bytes do, but for relative ones
	MoveJump                        // a direct jump
	MoveConditional                 // a conditional one; its condition is the low 4 bits of the last byte of its opcode
	MoveCall                        // a direct call, always the last one
	MoveReturn                      // ret, or a jump through a pointer: does not go on
)

// WindowOf is the window at an address that has such code, of one that was found before.
func WindowOf(addr uint64, code []byte) (*EntryWindow, error) {
	w := &EntryWindow{Addr: addr, Code: code}
	for size := 0; size < len(code); {
		m, err := w.next(code[size:])
		if err != nil {
			return nil, err
		}
		size = m.End
	}
	if len(w.Instructions) == 0 {
		return nil, ErrShort
	}
	return w, nil
}

// next adds the first instruction of code, which follows those that the window has.
func (w *EntryWindow) next(code []byte) (m MovedInstruction, err error) {
	at := 0
	if n := len(w.Instructions); n > 0 {
		at = w.Instructions[n-1].End
	}
	i, err := DecodeAMD64(code)
	if err != nil {
		return m, ErrUndecoded
	}
	is := newInstruction(&i, w.Addr+uint64(at))
	if m, err = moved(&is, code, at); err == nil {
		w.Instructions = append(w.Instructions, m)
	}
	return m, err
}

// GoesOn tells whether something is run behind the window.
func (w *EntryWindow) GoesOn() bool {
	switch w.Instructions[len(w.Instructions)-1].Kind {
	case MoveJump, MoveCall, MoveReturn:
		return false
	}
	return true
}

// windowRoom is what a jump needs.
const windowRoom = 5

// Reasons why the first instructions of a function cannot be run elsewhere.
var (
	ErrUndecoded = errors.New("it has bytes that are no known instructions")
	ErrLedInto   = errors.New("something may lead into its first bytes")
	ErrLoops     = errors.New("it jumps to its own entry")
	ErrFlags     = errors.New("it reads flags that it has not set")
	ErrShort     = errors.New("it is shorter than a jump, without padding behind it")
	ErrUnmovable = errors.New("its first instructions cannot be run elsewhere")
	ErrPart      = errors.New("it is a part of a function, to which that jumps")
	ErrNoCode    = errors.New("its code is not in the file")
)

// An EntryFinder finds the windows of functions of a file.
type EntryFinder struct {
	*ExitFinder
	functions Functions
	led       map[uint64]bool  // addresses shortly behind the entries of functions to which something leads
	loops     map[uint64]bool  // functions that jump to their own entries
	parts     map[uint64]bool  // functions without names to which others jump conditionally, or with something on the stack
	undecoded map[uint64]error // functions that were not understood
	body      *body            // of the function that is looked at
}

// farthestTarget is how far behind a function's beginning windows may reach.
const farthestTarget = 4 + windowRoom

// mostLookers is how many look at functions at a time: each has some megabytes of what it looks at.
const mostLookers = 8

// EntryFinder returns one of a file. It decodes all functions of it: those with names, which may
// have come from elsewhere, and those that .eh_frame tells apart.
func (x *ExitFinder) EntryFinder() *EntryFinder {
	e := newEntryFinder(x)
	e.functions = e.all()
	for _, addr := range x.pointers {
		e.lead(addr)
	}
	const share = 256 // functions
	var lookers []*EntryFinder
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), mostLookers, len(e.functions)/share+1) {
		l := newEntryFinder(x.another())
		lookers = append(lookers, l)
		group.Go(func() {
			for {
				to := int(next.Add(share))
				if to-share >= len(e.functions) {
					return
				}
				for _, fn := range e.functions[to-share : min(to, len(e.functions))] {
					l.look(fn)
				}
			}
		})
	}
	group.Wait()
	for _, l := range lookers {
		maps.Copy(e.led, l.led)
		maps.Copy(e.loops, l.loops)
		maps.Copy(e.parts, l.parts)
		maps.Copy(e.undecoded, l.undecoded)
		maps.Copy(e.entered, l.entered)
		*l = EntryFinder{}
	}
	return e
}

func newEntryFinder(x *ExitFinder) *EntryFinder {
	return &EntryFinder{ExitFinder: x, led: make(map[uint64]bool), loops: make(map[uint64]bool), parts: make(map[uint64]bool), undecoded: make(map[uint64]error), body: &body{x: x, tolerant: true, targets: make(map[uint64]bool)}}
}

// another returns one for the same file that may look at functions at the same time.
func (x *ExitFinder) another() *ExitFinder {
	other := *x
	other.code, other.tables = x.code.another(), x.tables.another()
	other.entered, other.all, other.buffer = make(map[uint64]bool), nil, nil
	return &other
}

// all returns the functions with names that have a size, and those without names.
func (x *EntryFinder) all() Functions {
	all := slices.DeleteFunc(slices.Clone(x.names), func(fn FunctionSymbol) bool {
		if low, high, ok := x.described(fn.Addr); fn.Size == 0 && (!ok || low != fn.Addr || high == low) {
			return true
		}
		return fn.Indirect || !x.code.has(fn.Addr) || x.linkage(fn.Addr)
	})
	for i := range all {
		if fn := &all[i]; fn.Size == 0 {
			_, high, _ := x.described(fn.Addr)
			fn.Size = high - fn.Addr
		}
	}
	if x.frames == nil {
		return all
	}
	for _, low := range x.frames.Starts() {
		fn := x.names.At(low)
		_, high, ok := x.described(low)
		if ok && fn == nil && low < high && x.code.has(low) && !x.linkage(low) {
			all = append(all, FunctionSymbol{Addr: low, Size: high - low, Local: true})
		}
	}
	slices.SortFunc(all, func(a, b FunctionSymbol) int { return cmp.Compare(a.Addr, b.Addr) })
	return slices.CompactFunc(all, func(a, b FunctionSymbol) bool { return a.Addr == b.Addr })
}

func (x *EntryFinder) described(addr uint64) (low, high uint64, ok bool) {
	if x.frames == nil {
		return 0, 0, false
	}
	return x.frames.Described(addr)
}

// Functions are those of the file whose extent is known, of which some have no name.
func (x *EntryFinder) Functions() Functions { return x.functions }

// lead notes that something leads to an address, if that is shortly behind a function's entry. It tells whether it is
// where one begins.
func (x *EntryFinder) lead(addr uint64) (begins bool) {
	i, begins := slices.BinarySearch(x.starts, addr)
	if !begins && i > 0 && addr-x.starts[i-1] < farthestTarget {
		x.led[addr] = true
	}
	return begins
}

// leadFrom notes that code of a function leads to an address. It tells whether a function begins there.
func (x *EntryFinder) leadFrom(fn *FunctionSymbol, addr uint64) (begins bool) {
	begins = x.lead(addr)
	if !begins && addr-fn.Addr >= fn.Size && x.code.has(addr) {
		x.entered[addr] = true
	}
	return begins
}

// look notes where the code of a function leads.
func (x *EntryFinder) look(fn FunctionSymbol) {
	x.body = x.body.again([2]uint64{fn.Addr, fn.Addr})
	b := x.body
	x.buffer = x.ExitFinder.all[:0]
	if err := b.read(fn); err != nil {
		x.undecoded[fn.Addr] = err
		x.lookStraight(fn)
		return
	}
	for t := range b.targets {
		x.lead(t)
	}
	if b.repeats {
		x.loops[fn.Addr] = true
	}
	for _, part := range b.parts[1:] {
		if fn := x.names.At(part[0]); fn == nil || fn.Addr != part[0] {
			x.parts[part[0]] = true
		}
	}
	for _, code := range b.code {
		for i := range code {
			x.branch(fn, &code[i])
		}
	}
}

// lookStraight is look where not all is understood: as far as it is.
func (x *EntryFinder) lookStraight(fn FunctionSymbol) {
	x.scan(fn.Addr, fn.Addr+fn.Size, func(i *instruction) { x.branch(fn, i) })
}

func (x *EntryFinder) branch(fn FunctionSymbol, i *instruction) {
	t, ok := i.target()
	if !ok {
		x.leadPointers(&fn, i)
		return
	}
	if begins := x.leadFrom(&fn, t); begins && conditional(i) && t != fn.Addr && x.names.At(t) == nil {
		x.parts[t] = true
	}
	if i.Op != x86asm.CALL && (t == fn.Addr || t == fn.Addr+uint64(len(endbr64)) && x.isEndbrAt(fn.Addr)) {
		x.loops[fn.Addr] = true
	}
}

// leadPointers notes the addresses of code that an instruction has as values.
func (x *EntryFinder) leadPointers(fn *FunctionSymbol, i *instruction) {
	for _, arg := range i.Args {
		if m, ok := arg.(x86asm.Mem); ok && i.Op == x86asm.LEA && m.Base == x86asm.RIP {
			x.leadFrom(fn, i.end()+uint64(m.Disp))
		}
	}
	if imm, ok := x.immediate(i); ok {
		x.leadFrom(fn, imm)
	}
}

// conditional tells whether an instruction is a conditional jump.
func conditional(i *instruction) bool {
	_, direct := i.target()
	return direct && i.Op != x86asm.CALL && i.Op != x86asm.JMP
}

// Window returns that of a function of Functions. Its error is one of the reasons.
func (x *EntryFinder) Window(fn FunctionSymbol) (EntryWindow, error) {
	w := EntryWindow{Addr: fn.Addr}
	if x.isEndbrAt(fn.Addr) {
		w.Addr += uint64(len(endbr64))
	}
	end := fn.Addr + fn.Size
	switch err := x.undecoded[fn.Addr]; {
	case end <= w.Addr || x.code.rest(fn.Addr) < fn.Size:
		return w, ErrNoCode
	case fn.Addr == x.f.Entry() || w.Addr == x.f.Entry():
		return w, fmt.Errorf("%w: the program begins there", ErrUnmovable)
	case err != nil:
		return w, fmt.Errorf("%w: %w", ErrUndecoded, err)
	case x.parts[fn.Addr], isPart(&fn):
		return w, ErrPart
	case x.loops[fn.Addr]:
		return w, ErrLoops
	case !x.called(w.Addr):
		return w, ErrPart
	}
	code := x.code.at(w.Addr, int(min(end-w.Addr, farFlags*maxInstruction)))
	if len(code) == 0 {
		return w, errUnread
	}
	size := 0
	for size < windowRoom && size < len(code) {
		m, err := w.next(code[size:])
		if err != nil {
			return w, err
		}
		size = m.End
		if m.Kind == MoveJump || m.Kind == MoveReturn {
			break
		}
	}
	w.Code = bytes.Clone(code[:size])
	flags := readsFlags(code)
	if size < windowRoom && (w.GoesOn() || size+x.paddingBehind(w.Addr+uint64(size), windowRoom-size) < windowRoom) {
		return w, ErrShort
	}
	for at := w.Addr + 1; at < w.Addr+windowRoom; at++ {
		if _, begins := slices.BinarySearch(x.starts, at); begins || x.led[at] {
			return w, ErrLedInto
		}
	}
	if w.Addr>>12 != (w.Addr+windowRoom-1)>>12 {
		return w, fmt.Errorf("%w: they are in two pages", ErrUnmovable)
	}
	if x.restarts(w.Addr, w.Addr+uint64(max(len(w.Code), windowRoom))) {
		return w, fmt.Errorf("%w: they are in a restartable sequence", ErrUnmovable)
	}
	if flags {
		return w, ErrFlags
	}
	return w, x.unread()
}

// called tells whether the stack is, where a function begins, as a call leaves it: it is not in
// parts to which exceptions or jump tables lead, and where signals return to.
func (x *EntryFinder) called(addr uint64) bool {
	b := &body{x: x.ExitFinder}
	popped, known := b.popped(addr)
	return popped || !known
}

// paddingBehind returns how many bytes behind a function nobody needs.
func (x *EntryFinder) paddingBehind(addr uint64, most int) int {
	b := &body{x: x.ExitFinder, targets: x.led}
	return b.padding(addr, most)
}

// moved tells what is to be done to an instruction elsewhere.
func moved(i *instruction, code []byte, at int) (MovedInstruction, error) {
	m := MovedInstruction{At: at, End: at + i.Len}
	target, direct := i.target()
	switch {
	case direct && i.Op == x86asm.CALL && i.Len == 5:
		m.Kind, m.Target = MoveCall, target
	case direct && i.Op == x86asm.JMP:
		m.Kind, m.Target = MoveJump, target
	case direct && (code[0]&0xf0 == 0x70 && i.Len == 2 || code[0] == 0x0f && i.Len == 6):
		m.Kind, m.Target = MoveConditional, target
	case direct:
		return m, fmt.Errorf("%w: %v", ErrUnmovable, i.Op)
	case i.Op == x86asm.RET, i.Op == x86asm.JMP:
		m.Kind = MoveReturn
	case !movable(i):
		return m, fmt.Errorf("%w: %v", ErrUnmovable, i.Op)
	}
	if i.PCRel == 4 && !direct {
		m.Relative = at + i.PCRelOff
	}
	return m, nil
}

// farFlags is how many instructions are looked at: behind them it is taken for granted that no flags are read.
const farFlags = 16

// readsFlags tells whether code may read flags before it sets them.
func readsFlags(code []byte) bool {
	for n := 0; n < farFlags && len(code) > 0; n++ {
		i, err := DecodeAMD64(code)
		if err != nil {
			return true
		}
		vex, _ := lengthVEX(code)
		switch op := i.Op; {
		case op == 0 && !vex:
			return true
		case slices.Contains(flagReaders, op):
			return true
		case slices.Contains(flagWriters, op), shifts(&i):
			return false
		}
		if branchesAlways(i.Op) {
			return false
		}
		code = code[i.Len:]
	}
	return false
}

// branchesAlways tells whether an instruction goes elsewhere: by convention flags mean nothing there.
func branchesAlways(op x86asm.Op) bool {
	return op == x86asm.CALL || op == x86asm.JMP || op == x86asm.RET
}

// shifts tells whether an instruction is a shift which sets the flags: one by 0 does not.
func shifts(i *x86asm.Inst) bool {
	count, constant := i.Args[1].(x86asm.Imm)
	return constant && count > 0 && (i.Op == x86asm.SHL || i.Op == x86asm.SHR || i.Op == x86asm.SAR)
}

// flagWriters are the frequent instructions that set what others read of the flags.
var flagWriters = []x86asm.Op{x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.CMP, x86asm.TEST, x86asm.NEG, x86asm.BT, x86asm.UCOMISD, x86asm.UCOMISS, x86asm.COMISD, x86asm.COMISS, x86asm.PTEST, x86asm.BSF, x86asm.BSR, x86asm.TZCNT, x86asm.LZCNT, x86asm.POPCNT, x86asm.IMUL, x86asm.MUL, x86asm.CMPXCHG, x86asm.XADD}

// flagReaders are those that read some.
var flagReaders = []x86asm.Op{
	x86asm.ADC, x86asm.SBB, x86asm.RCL, x86asm.RCR, x86asm.CMC, x86asm.LAHF, x86asm.PUSHF, x86asm.PUSHFD, x86asm.PUSHFQ, x86asm.INTO,
	x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JE, x86asm.JG, x86asm.JGE, x86asm.JL, x86asm.JLE, x86asm.JNE, x86asm.JNO, x86asm.JNP, x86asm.JNS, x86asm.JO, x86asm.JP, x86asm.JS,
	x86asm.SETA, x86asm.SETAE, x86asm.SETB, x86asm.SETBE, x86asm.SETE, x86asm.SETG, x86asm.SETGE, x86asm.SETL, x86asm.SETLE, x86asm.SETNE, x86asm.SETNO, x86asm.SETNP, x86asm.SETNS, x86asm.SETO, x86asm.SETP, x86asm.SETS,
	x86asm.CMOVA, x86asm.CMOVAE, x86asm.CMOVB, x86asm.CMOVBE, x86asm.CMOVE, x86asm.CMOVG, x86asm.CMOVGE, x86asm.CMOVL, x86asm.CMOVLE, x86asm.CMOVNE, x86asm.CMOVNO, x86asm.CMOVNP, x86asm.CMOVNS, x86asm.CMOVO, x86asm.CMOVP, x86asm.CMOVS,
	x86asm.FCMOVB, x86asm.FCMOVBE, x86asm.FCMOVE, x86asm.FCMOVNB, x86asm.FCMOVNBE, x86asm.FCMOVNE, x86asm.FCMOVNU, x86asm.FCMOVU,
}
