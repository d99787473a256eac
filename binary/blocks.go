package binary

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// A Block is code that runs from its beginning to its end: nothing else leads into it, and only
// its last instruction leads elsewhere. A call ends one, since it may not return.
type Block struct {
	Addr, End uint64 // as the file has it
	// Window are instructions of the block that can be run elsewhere, as those of an entry; behind a
	// conditional jump there may be some of the block that follows. nil: there is no room for a jump.
	Window *EntryWindow
	// Next are the blocks that may follow, by their numbers in the function.
	Next []int
	// Leaves: something else may follow than Next, or nothing: calls, returns, jumps through pointers.
	Leaves bool
	// Entered: callers or code of other functions may lead to it. Returned: so may what the function
	// itself has begun: calls that return, exceptions, jumps through tables.
	Entered, Returned bool
}

// A DividedFunction is one with its blocks, the entry first.
type DividedFunction struct {
	Function FunctionSymbol
	Blocks   []Block
	// Err is why it is not divided: something may lead anywhere into it.
	Err error
	// Led: other code may lead into it otherwise than to its entry.
	Led bool
}

// Reasons why a function is not divided into blocks.
var (
	errDispatch = errors.New("a jump through a pointer of which it is not known where to")
	errData     = errors.New("it may have data among its instructions")
	errOverlap  = errors.New("it shares code with another function")
	errUncalled = errors.New("it has no name and is not called: it may be a part of another function")
	errMiddle   = errors.New("a jump leads into the middle of an instruction")
)

// A divider finds the blocks of all functions of a file.
type divider struct {
	*EntryFinder
	led      bits // addresses to which something may lead
	outside  bits // those to which something else than a jump of the same function may
	foreign  bits // those to which code of other functions may
	data     bits // those whose code is read as data, or whose addresses are values elsewhere
	roots    bits // those to which exceptions and tables lead
	called   bits // those that calls have, or values elsewhere
	pointed  bits // of x.pointers
	divided  []DividedFunction
	sketches []sketch // of divided
}

// bits are a bit for each byte of code.
type bits struct {
	code []pieceSection
	sets [][]uint64
}

func newBits(c *pieces) bits {
	b := bits{code: c.sections}
	for _, s := range c.sections {
		b.sets = append(b.sets, make([]uint64, s.size/64+1))
	}
	return b
}

func (b *bits) set(addr uint64) {
	for n, s := range b.code {
		if at := addr - s.addr; at < s.size {
			b.sets[n][at/64] |= 1 << (at % 64)
			return
		}
	}
}

func (b *bits) has(addr uint64) bool {
	for n, s := range b.code {
		if at := addr - s.addr; at < s.size {
			return b.sets[n][at/64]&(1<<(at%64)) != 0
		}
	}
	return false
}

// any tells whether any address from one up to another has its bit.
func (b *bits) any(from, to uint64) bool {
	for at := from; at < to; at++ {
		if b.has(at) {
			return true
		}
	}
	return false
}

// A sketch is what a function consists of: its parts, their instructions one after another.
type sketch struct {
	parts [][2]uint64
	steps [][]step
}

// A step is an instruction.
type step struct {
	addr   uint64
	target uint64 // of a direct branch
	size   uint8
	kind   stepKind
}

type stepKind uint8

const (
	stepPlain     stepKind = iota
	stepNop                // does nothing
	stepBranch             // a conditional jump
	stepJump               // a direct jump
	stepCall               // a call, or what may not come back either
	stepNoFurther          // does not go on: ret, a jump through a pointer, ud2
)

func (s *step) end() uint64 { return s.addr + uint64(s.size) }

// Divide divides all functions into blocks. Parts that the compiler has moved apart
// (".cold") belong to their functions.
func (x *EntryFinder) Divide() []DividedFunction {
	d := &divider{EntryFinder: x}
	for _, b := range []*bits{&d.led, &d.outside, &d.foreign, &d.data, &d.roots, &d.called, &d.pointed} {
		*b = newBits(x.code)
	}
	for _, addr := range x.pointers {
		d.lead(addr, true)
		d.pointed.set(addr)
	}
	end := uint64(0)
	for _, fn := range x.functions {
		s, err := d.sketch(fn)
		if x.parts[fn.Addr] || isPart(&fn) {
			continue
		}
		if fn.Addr < end {
			err = errOverlap
			d.divided[len(d.divided)-1].Err = errOverlap
		}
		end = max(end, fn.Addr+fn.Size)
		d.divided, d.sketches = append(d.divided, DividedFunction{Function: fn, Err: err}), append(d.sketches, s)
	}
	d.between()
	d.overlaps()
	for n := range d.divided {
		fn := &d.divided[n]
		fn.Led = d.foreign.any(fn.Function.Addr+1, fn.Function.Addr+fn.Function.Size)
		if fn.Function.Name == "" && !d.called.has(fn.Function.Addr) {
			fn.Err = cmp.Or(fn.Err, errUncalled)
		}
		if fn.Err == nil {
			fn.Blocks, fn.Err = d.blocks(&fn.Function, &d.sketches[n])
		}
		d.sketches[n] = sketch{}
	}
	x.sections.forget()
	if err := x.unread(); err != nil {
		for n := range d.divided {
			d.divided[n] = DividedFunction{Function: d.divided[n].Function, Err: err}
		}
	}
	return d.divided
}

// lead notes that something leads to an address.
func (d *divider) lead(addr uint64, outside bool) {
	d.led.set(addr)
	if outside {
		d.outside.set(addr)
	}
}

// begins tells whether an address is the beginning of a function.
func (d *divider) begins(addr uint64) bool {
	_, begins := slices.BinarySearch(d.starts, addr)
	return begins
}

// sketch decodes a function and notes where it leads. Its error is why it cannot be divided.
func (d *divider) sketch(fn FunctionSymbol) (s sketch, err error) {
	x := d.ExitFinder
	b := &body{x: x, targets: make(map[uint64]bool), protected: [2]uint64{fn.Addr, fn.Addr}, indirect: make(map[uint64]bool), strays: make(map[uint64]bool), offsets: make(map[uint64]bool)}
	x.buffer = x.all[:0]
	if err = b.read(fn); err != nil { // what is known of where it leads is led into
		d.sweep(&body{x: x, parts: [][2]uint64{{fn.Addr, fn.Addr + fn.Size}}}, fn.Addr, fn.Addr+fn.Size)
		b = &body{x: x, tolerant: true, targets: b.targets, protected: b.protected, indirect: b.indirect, strays: b.strays}
		x.buffer = x.all[:0]
		_ = b.read(fn)
	}
	for t := range b.targets {
		d.lead(t, false)
	}
	for t := range b.indirect {
		d.lead(t, true)
		d.roots.set(t)
	}
	for t := range b.strays {
		d.lead(t, true)
		d.foreign.set(t)
	}
	s.parts = b.parts
	for n := range b.code {
		steps := make([]step, len(b.code[n]))
		for k := range steps {
			steps[k] = d.step(b, &b.code[n][k])
		}
		s.steps = append(s.steps, steps)
	}
	if padsErr := d.leadPads(b); err == nil {
		err = padsErr
	}
	if err == nil {
		err = d.dispatches(b)
	}
	return s, err
}

// step notes where an instruction of a function leads.
func (d *divider) step(b *body, i *instruction) step {
	s := step{addr: i.addr, size: uint8(i.Len)}
	target, direct := i.target()
	switch {
	case direct:
		s.target = target
		own := b.has(target)
		if d.lead(target, i.Op == x86asm.CALL || !own); !own && !d.begins(target) {
			d.foreign.set(target)
		}
		if i.Op == x86asm.CALL {
			d.called.set(target)
		}
		switch i.Op {
		case x86asm.CALL:
			s.kind = stepCall
		case x86asm.JMP:
			s.kind = stepJump
		default:
			s.kind = stepBranch
		}
		return s
	case i.Op == x86asm.CALL, i.Op == x86asm.SYSCALL, i.Op == x86asm.INT:
		s.kind = stepCall
	case i.Op == x86asm.JMP, i.Op == x86asm.RET, i.Op == x86asm.UD0, i.Op == x86asm.UD1, i.Op == x86asm.UD2, i.Op == x86asm.HLT:
		s.kind = stepNoFurther
	case i.Op == x86asm.NOP, i.Len == 2 && isNop66(d.code.at(i.addr, i.Len)):
		s.kind = stepNop
	}
	d.values(b, i)
	return s
}

// values notes which code an instruction has as a value, or reads.
func (d *divider) values(b *body, i *instruction) {
	note := func(addr uint64, value bool) {
		if value && !b.has(addr) {
			d.called.set(addr)
		}
		if value && d.begins(addr) || !d.code.has(addr) {
			return
		}
		d.lead(addr, true)
		if own := b.has(addr); !own || !value {
			d.data.set(addr)
			if !own {
				d.foreign.set(addr)
			}
		}
	}
	for _, arg := range i.Args {
		if m, ok := arg.(x86asm.Mem); ok && m.Base == x86asm.RIP {
			note(i.end()+uint64(m.Disp), i.Op == x86asm.LEA)
		}
	}
	if i.PCRel == 4 && i.Op == 0 { // of which x86asm knows the length only
		if b := d.code.at(i.addr+uint64(i.PCRelOff), i.PCRel); len(b) == i.PCRel {
			note(i.end()+uint64(int64(int32(d.f.Order.Uint32(b)))), false)
		}
	}
	if imm, ok := d.immediate(i); ok {
		note(imm, true)
	}
}

// sweep notes where code leads of which it is not known where instructions begin.
func (d *divider) sweep(in *body, from, to uint64) {
	d.scan(from, to, func(i *instruction) { d.step(in, i) })
}

// between looks at code that is in no function.
func (d *divider) between() {
	none := &body{x: d.ExitFinder}
	for _, s := range d.code.sections {
		at := s.addr
		for _, fn := range d.functions {
			if fn.Addr+fn.Size <= at || fn.Addr < s.addr {
				continue
			}
			to := min(fn.Addr, s.addr+s.size)
			if at < to {
				d.sweep(none, at, to)
			}
			at = fn.Addr + fn.Size
		}
		if end := s.addr + s.size; at < end {
			d.sweep(none, at, end)
		}
	}
}

// leadPads notes where exceptions lead in a function and its parts.
func (d *divider) leadPads(b *body) error {
	if d.frames == nil {
		return nil
	}
	for _, p := range b.parts {
		addr := d.frames.LanguageData(p[0])
		if addr == 0 {
			continue
		}
		pads, err := d.frames.LandingPads(p[0], addr, d.loaded(addr))
		if err != nil {
			return err
		}
		for _, pad := range pads {
			d.lead(pad, true)
			d.roots.set(pad)
			if !b.has(pad) {
				err = fmt.Errorf("%w: exceptions lead out of it", errDispatch)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loaded returns what the file has from an address on.
func (d *divider) loaded(addr uint64) []byte {
	for _, s := range d.f.elf.Sections {
		if s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_ALLOC != 0 && s.Addr <= addr && addr-s.Addr < s.Size {
			if b, err := d.section(s); err == nil && addr-s.Addr < uint64(len(b)) {
				return b[addr-s.Addr:]
			}
		}
	}
	return nil
}

// dispatches looks at the jumps through pointers: it must be known where those lead that stay in
// the function. They are of two kinds. Addresses in memory are known, wherever they are: the
// dynamic linker has to relocate them, or they are words of the data of a program at fixed addresses.
// Offsets in a table are known if the table was found: there must be a table for each jump.
func (d *divider) dispatches(b *body) error {
	byOffsets, byAddress, pointed := 0, false, false
	for _, p := range b.parts {
		pointed = pointed || d.pointed.any(p[0]+1, p[1])
	}
	// Where there is nothing else that leads within, an address can come from memory only.
	memory := pointed && len(b.offsets)+len(b.labels) == 0
	for _, code := range b.code {
		for n := range code {
			i := &code[n]
			t, direct := i.target()
			switch {
			case direct && i.Op != x86asm.CALL && d.isThunk(t):
				return errDispatch
			case i.Op == x86asm.RET:
				if popped, known := b.popped(i.addr); known && !popped {
					return errDispatch
				}
				continue
			case direct || i.Op != x86asm.JMP:
				continue
			}
			offsets, stays, err := b.dispatch(code, n)
			switch {
			case err != nil && memory:
				byAddress = true
			case err != nil:
				return err
			case stays && offsets:
				byOffsets++
			case stays:
				byAddress = true
			}
		}
	}
	switch {
	case byAddress && !pointed, byOffsets > len(b.offsets):
		return errDispatch
	case byOffsets == 0 && !byAddress && (len(b.labels) > 0 || pointed):
		return errData
	}
	return nil
}

// isThunk tells whether an address is that of code that jumps through a register for others.
func (d *divider) isThunk(addr uint64) bool {
	fn := d.names.At(addr)
	return fn != nil && (strings.HasPrefix(fn.Name, "__x86_indirect_thunk") || strings.HasPrefix(fn.Name, "__llvm_retpoline"))
}

// dispatch tells of a jump through a pointer whether it stays in the function, by a table or a
// label, and whether that has offsets: else there are addresses in memory.
func (b *body) dispatch(code []instruction, n int) (offsets, stays bool, err error) {
	i := &code[n]
	stays, err = b.dispatches(code, n)
	if err != nil {
		return false, false, err
	}
	popped, known := b.popped(i.addr)
	switch {
	case !known:
		return false, false, errDispatch
	case !stays && popped && b.computed:
		return false, false, errDispatch
	case !stays && popped: // to another function
		return false, false, b.fromElsewhere(code, n)
	}
	if _, ok := i.Args[0].(x86asm.Mem); ok {
		return false, true, nil
	}
	const far = 16 // instructions
	for k := n - 1; k >= 0 && k > n-far && !b.targets[code[k+1].addr]; k-- {
		w := &code[k]
		if w.Op == x86asm.CMP || w.Op == x86asm.TEST || w.Op == x86asm.PUSH || w.Args[0] != i.Args[0] {
			continue
		}
		_, memory := w.Args[1].(x86asm.Mem)
		return !(w.Op == x86asm.MOV && memory), true, nil
	}
	return true, true, nil
}

// fromElsewhere returns an error unless a jump through a register is one to another function: the
// register is loaded from memory, or is an argument.
func (b *body) fromElsewhere(code []instruction, n int) error {
	i := &code[n]
	for k := n - 1; k >= 0 && !b.targets[code[k+1].addr]; k-- {
		w := &code[k]
		if w.Op == x86asm.CMP || w.Op == x86asm.TEST || w.Op == x86asm.PUSH || w.Args[0] != i.Args[0] {
			continue
		}
		if _, memory := w.Args[1].(x86asm.Mem); w.Op == x86asm.MOV && !memory || w.Op == x86asm.CMOVE || w.Op == x86asm.CMOVNE {
			return errDispatch // it may have been a label
		}
		return nil
	}
	return nil
}

// overlaps finds code that belongs to several functions.
func (d *divider) overlaps() {
	type claim struct {
		part [2]uint64
		by   int
	}
	var claims []claim
	for n, s := range d.sketches {
		for _, p := range s.parts {
			claims = append(claims, claim{p, n})
		}
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.part[0], b.part[0]), cmp.Compare(a.part[1], b.part[1]))
	})
	last := claim{}
	for _, c := range claims {
		if c.part[0] < last.part[1] && c.by != last.by {
			for _, n := range []int{c.by, last.by} {
				d.divided[n].Err = cmp.Or(d.divided[n].Err, errOverlap)
			}
		}
		if c.part[1] > last.part[1] {
			last = c
		}
	}
}

// blocks divides a function.
func (d *divider) blocks(fn *FunctionSymbol, s *sketch) ([]Block, error) {
	var f flow
	entry := fn.Addr
	for n, steps := range s.steps {
		p := s.parts[n]
		if d.data.any(p[0], p[1]) {
			return nil, errData
		}
		f.cut(d, steps)
	}
	slices.SortFunc(f.blocks, func(a, b cutBlock) int {
		if (a.Addr == entry) != (b.Addr == entry) {
			if a.Addr == entry {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Addr, b.Addr)
	})
	if len(f.blocks) == 0 || f.blocks[0].Addr != entry {
		return nil, ErrNoCode
	}
	if err := f.connect(d, s); err != nil {
		return nil, err
	}
	f.reach(d)
	f.windows(d)
	return f.result(), nil
}

// result returns the blocks without padding.
func (f *flow) result() []Block {
	var blocks []Block
	const left = -1
	now := make([]int, len(f.blocks)) // their numbers
	for n := range f.blocks {
		b := &f.blocks[n]
		if now[n] = left; b.reached || slices.ContainsFunc(b.steps, func(s step) bool { return s.kind != stepNop }) {
			now[n] = len(blocks)
			blocks = append(blocks, b.Block)
		}
	}
	for n := range blocks {
		next := blocks[n].Next[:0]
		for _, k := range blocks[n].Next {
			if now[k] == left {
				blocks[n].Leaves = true
				continue
			}
			next = append(next, now[k])
		}
		blocks[n].Next = next
	}
	return blocks
}

// A flow is a function that is being divided.
type flow struct {
	blocks []cutBlock
	number map[uint64]int
}

type cutBlock struct {
	Block
	steps   []step
	reached bool // something is known that leads to it
}

func (b *cutBlock) last() *step { return &b.steps[len(b.steps)-1] }

// cut cuts instructions that follow each other into blocks.
func (f *flow) cut(d *divider, steps []step) {
	from := 0
	for n := range steps {
		last := n == len(steps)-1
		if !last && steps[n].kind <= stepNop && !d.led.has(steps[n+1].addr) && !d.begins(steps[n+1].addr) {
			continue
		}
		f.blocks = append(f.blocks, cutBlock{Block: Block{Addr: steps[from].addr, End: steps[n].end()}, steps: steps[from : n+1]})
		from = n + 1
	}
}

// connect finds out what may follow each block.
func (f *flow) connect(d *divider, s *sketch) error {
	f.number = make(map[uint64]int, len(f.blocks))
	for n := range f.blocks {
		f.number[f.blocks[n].Addr] = n
	}
	within := func(addr uint64) bool {
		return slices.ContainsFunc(s.parts, func(p [2]uint64) bool { return p[0] <= addr && addr < p[1] })
	}
	for n := range f.blocks {
		b := &f.blocks[n]
		last := b.last()
		b.Entered = n == 0 || d.foreign.has(b.Addr)
		b.Returned = b.Returned || d.outside.has(b.Addr)
		follow := func(addr uint64) {
			if next, ok := f.number[addr]; ok {
				b.Next = append(b.Next, next)
			} else {
				b.Leaves = true
			}
		}
		switch last.kind {
		case stepNoFurther:
			b.Leaves = true
			continue
		case stepCall:
			b.Leaves = true
			if next, ok := f.number[last.end()]; ok {
				f.blocks[next].Returned = true
			}
			continue
		case stepBranch, stepJump:
			if _, is := f.number[last.target]; !is && within(last.target) {
				return errMiddle
			}
			if follow(last.target); last.kind == stepJump {
				continue
			}
		}
		follow(last.end())
	}
	return nil
}

// reach finds the blocks to which something that is known leads: what is not may be data.
func (f *flow) reach(d *divider) {
	var queue []int
	to := func(n int) {
		if b := &f.blocks[n]; !b.reached {
			b.reached = true
			queue = append(queue, n)
		}
	}
	for n := range f.blocks {
		if n == 0 || d.roots.has(f.blocks[n].Addr) {
			to(n)
		}
	}
	for len(queue) > 0 {
		b := &f.blocks[queue[0]]
		queue = queue[1:]
		for _, n := range b.Next {
			to(n)
		}
		if last := b.last(); last.kind == stepCall {
			if n, ok := f.number[last.end()]; ok {
				to(n)
			}
		}
	}
}

// windows finds the windows of the blocks.
func (f *flow) windows(d *divider) {
	for n := len(f.blocks) - 1; n >= 0; n-- {
		b := &f.blocks[n]
		if !b.reached {
			continue
		}
		if b.Window = d.blockWindow(b.steps, 0, len(b.steps)); b.Window != nil || b.last().kind != stepBranch {
			continue
		}
		// What follows a conditional jump can be moved with it where nothing else leads there.
		next, ok := f.number[b.End]
		if !ok || f.blocks[next].Entered || f.blocks[next].Returned || d.led.has(b.End) {
			continue
		}
		f.share(d, b, &f.blocks[next], n == 0)
	}
}

// share gives a block a window that goes on in the one that follows, if that has enough room for both;
// that of a function's entry is wanted more.
func (f *flow) share(d *divider, b, next *cutBlock, entry bool) {
	both := slices.Concat(b.steps, next.steps)
	w := d.blockWindow(both, 0, len(b.steps))
	if w == nil {
		return
	}
	if next.Window != nil && next.Window.Addr < w.Addr+uint64(max(len(w.Code), windowRoom)) {
		var later *EntryWindow
		if from := slices.IndexFunc(next.steps, func(s step) bool { return s.addr >= w.Addr+uint64(max(len(w.Code), windowRoom)) }); from >= 0 {
			later = d.blockWindow(next.steps, from, len(next.steps))
		}
		if later == nil && !entry {
			return
		}
		next.Window = later
	}
	b.Window = w
}

// blockWindow returns the first window that begins with one of the steps from one on, before
// another; nil if there is none. All steps follow each other.
func (d *divider) blockWindow(steps []step, from, before int) *EntryWindow {
	for n := from; n < before; n++ {
		if steps[n].kind == stepNop && n == 0 && d.isEndbrAt(steps[n].addr) {
			continue
		}
		if w, ok := d.windowAt(steps[n:]); ok {
			return w
		}
	}
	return nil
}

func (d *divider) windowAt(steps []step) (*EntryWindow, bool) {
	w := &EntryWindow{Addr: steps[0].addr}
	size := 0
	for n := 0; n < len(steps) && size < windowRoom; n++ {
		m, err := w.next(d.code.at(steps[n].addr, decodedAhead))
		if err != nil {
			return nil, false
		}
		size = m.End
		if m.Kind == MoveJump || m.Kind == MoveReturn || m.Kind == MoveCall {
			break
		}
	}
	if w.Code = bytes.Clone(d.code.at(w.Addr, size)); len(w.Code) < size {
		return nil, false
	}
	if size < windowRoom && (w.GoesOn() || size+d.unneeded(w.Addr+uint64(size), windowRoom-size) < windowRoom) {
		return nil, false
	}
	last := w.Addr + windowRoom - 1
	if w.Addr>>12 != last>>12 || d.led.any(w.Addr+1, last+1) || d.restarts(w.Addr, w.Addr+uint64(max(size, windowRoom))) {
		return nil, false
	}
	for at := w.Addr + 1; at <= last; at++ {
		if d.begins(at) {
			return nil, false
		}
	}
	return w, true
}

// unneeded returns how many bytes from an address on are padding to which nothing leads.
func (d *divider) unneeded(addr uint64, most int) int {
	return d.padding(addr, most, func(at uint64) bool { return d.led.has(at) || d.begins(at) })
}
