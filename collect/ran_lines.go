//go:build linux

package collect

import (
	"cmp"
	"maps"
	"slices"

	"footfall/binary"
	"footfall/coverage"
	"footfall/hook/patch"
	"footfall/process/target"
	"footfall/report/exclude"
)

// This file is what lines are known to have run, by the blocks of code that did.

// A ranBlock is a block of a function.
type ranBlock struct {
	addr, end uint64
	fn        *RanFunction
	next      []*ranBlock
	single    *ranBlock // the only one that leads to it; nil: there are several, or something else may
	leads     int       // how many blocks lead to it
	entered   bool      // entered, returned and leaves are as binary.Block has them
	returned  bool
	leaves    bool
	window    bool // it is armed
	ranState

	known bool // whether it ran, as settled
	ran   bool
}

// A ranStatement is a line of the source at a place in the code. Either its block is known, or
// its function is, which is not divided; of what is nil nothing is known.
type ranStatement struct {
	file  int32 // number in files
	line  int32
	block *ranBlock
	fn    *RanFunction
}

// divided returns the functions of an image that are divided into blocks, by their addresses;
// none unless lines are wanted.
func (r *Ran) divided(i *target.Image) (map[uint64]*binary.DividedFunction, error) {
	if !r.options.Lines || i.Lines() == nil {
		return nil, nil
	}
	all, err := patch.Divided(i)
	if err != nil {
		return nil, err
	}
	byAddr := make(map[uint64]*binary.DividedFunction, len(all))
	for n := range all {
		byAddr[all[n].Function.Addr] = &all[n]
	}
	return byAddr, nil
}

// noRoom is why a block is not armed.
const noRoom = "a jump has no room there"

// divide watches the blocks of a function in place of its entry. It returns false if that is not
// divided.
func (p *RanProgram) divide(i *target.Image, s *patch.EntrySite, fn *RanFunction, divided map[uint64]*binary.DividedFunction) bool {
	d := divided[s.Function.Addr]
	if d == nil {
		return false
	}
	if fn.led = d.Led; d.Err != nil {
		return false
	}
	fn.ranState = ranState{}
	blocks := make([]*ranBlock, len(d.Blocks))
	for n := range blocks {
		b := &d.Blocks[n]
		blocks[n] = &ranBlock{addr: b.Addr, end: b.End, fn: fn, entered: b.Entered, returned: b.Returned, leaves: b.Leaves, window: b.Window != nil}
	}
	for n := range blocks {
		b := blocks[n]
		for _, k := range d.Blocks[n].Next {
			next := blocks[k]
			b.next = append(b.next, next)
			next.leads++
			next.single = b
		}
		p.sites = append(p.sites, ranSite{patch.BlockSite(i, s.Function, &d.Blocks[n]), ranPlace{fn, &b.ranState, p}})
	}
	for _, b := range blocks {
		if b.leads != 1 || b.entered || b.returned {
			b.single = nil
		}
	}
	fn.blocks = blocks
	p.blocks = append(p.blocks, blocks...)
	return true
}

// addStatements reads the lines of a program, and finds the blocks that they are in.
func (r *Ran) addStatements(p *RanProgram, i *target.Image) {
	lines := i.Lines()
	finder, err := i.ExitFinder()
	if p.NoLines = lines == nil || err != nil; p.NoLines {
		return
	}
	slices.SortFunc(p.blocks, func(a, b *ranBlock) int { return cmp.Compare(a.addr, b.addr) })
	numbers := make(map[string]int32)
	statements, rests := make(map[ranStatement]bool), make(map[ranStatement]bool)
	for row := range lines.Rows() {
		st, code := p.place(row.Addr)
		if !code && !i.File.HasCode(row.Addr) {
			continue // the linker has thrown it away
		}
		n, known := numbers[row.File]
		if !known {
			n = int32(len(p.files))
			numbers[row.File] = n
			p.files = append(p.files, row.File)
		}
		add := func(st ranStatement, to *[]ranStatement, seen map[ranStatement]bool) {
			if st.file, st.line = n, int32(row.Line); !seen[st] {
				seen[st] = true
				*to = append(*to, st)
			}
		}
		between := st == (ranStatement{}) && (code || finder.IsPadding(row.Addr, row.End)) // blocks, or functions
		switch {
		case between:
		case row.Statement:
			add(st, &p.statements, statements)
		default:
			add(st, &p.rests, rests)
		}
		for _, b := range p.later(row) {
			add(ranStatement{block: b}, &p.rests, rests)
		}
	}
	p.NoLines = len(p.statements) == 0
}

// later returns the blocks that begin within a row.
func (p *RanProgram) later(row binary.Row) []*ranBlock {
	search := func(addr uint64) int {
		n, _ := slices.BinarySearchFunc(p.blocks, addr, func(b *ranBlock, addr uint64) int { return cmp.Compare(b.addr, addr) })
		return n
	}
	from := search(row.Addr + 1)
	return p.blocks[from:max(from, search(row.End))]
}

// place finds what is at an address: a block, or a function that is not divided; within tells
// whether any function is there.
func (p *RanProgram) place(addr uint64) (s ranStatement, within bool) {
	n, found := slices.BinarySearchFunc(p.blocks, addr, func(b *ranBlock, addr uint64) int { return cmp.Compare(b.addr, addr) })
	if !found {
		n--
	}
	if n >= 0 && addr < p.blocks[n].end {
		return ranStatement{block: p.blocks[n]}, true
	}
	n, found = slices.BinarySearchFunc(p.Functions, addr, func(fn *RanFunction, addr uint64) int { return cmp.Compare(fn.Addr, addr) })
	if !found {
		n--
	}
	if n < 0 || addr >= p.Functions[n].Addr+p.Functions[n].Size {
		return ranStatement{}, false
	}
	if len(p.Functions[n].blocks) > 0 {
		return ranStatement{}, true
	}
	return ranStatement{fn: p.Functions[n]}, true
}

// settleBlocks finds out of which blocks it is known whether they ran, then the same of functions.
//
// What ran is known of a block that is armed, and of one that surely follows it, or surely came
// before. A block did not run if no way leads to it from one that may have run, or if
// none of those ran that surely follow it.
func (p *RanProgram) settleBlocks() {
	for _, fn := range p.Functions {
		if len(fn.blocks) > 0 {
			fn.settleRan()
			fn.settleNot()
			fn.settle()
		}
	}
}

// settleRan finds what ran.
func (fn *RanFunction) settleRan() {
	var queue []*ranBlock
	note := func(b *ranBlock) {
		if b != nil && !(b.known && b.ran) {
			b.known, b.ran = true, true
			queue = append(queue, b)
		}
	}
	for _, b := range fn.blocks {
		b.known, b.ran = b.Ran || b.window && b.Unknown == "", b.Ran
		if b.Ran {
			queue = append(queue, b)
		}
	}
	for len(queue) > 0 {
		b := queue[0]
		queue = queue[1:]
		note(b.single)
		if len(b.next) == 1 && !b.leaves {
			note(b.next[0])
		}
	}
}

// settleNot finds what did not run.
func (fn *RanFunction) settleNot() {
	not := func(b *ranBlock) bool { return b.known && !b.ran }
	// A call may return that was made before, as if nothing of the function had run since.
	active := slices.ContainsFunc(fn.blocks, func(b *ranBlock) bool { return b.Ran || b.Unknown != "" })
	for changed := true; changed; {
		changed = false
		maybe := make(map[*ranBlock]bool) // what may have run
		var queue []*ranBlock
		to := func(b *ranBlock) {
			if !not(b) && !maybe[b] {
				maybe[b] = true
				queue = append(queue, b)
			}
		}
		for _, b := range fn.blocks {
			if b.entered || b.returned && active || b.Unknown != "" || b.ran {
				to(b)
			}
		}
		for len(queue) > 0 {
			b := queue[0]
			queue = queue[1:]
			for _, next := range b.next {
				to(next)
			}
		}
		for _, b := range fn.blocks {
			if b.known || b.Unknown != "" {
				continue
			}
			if !maybe[b] || !b.leaves && len(b.next) > 0 && !slices.ContainsFunc(b.next, func(next *ranBlock) bool { return !not(next) }) {
				b.known, changed = true, true
			}
		}
	}
}

// settle finds out whether the function ran: any of its blocks did, or nothing can have led into it.
func (fn *RanFunction) settle() {
	fn.Ran, fn.Unknown = false, ""
	for _, b := range fn.blocks {
		switch {
		case b.ran:
			fn.Ran, fn.Unknown = true, ""
			return
		case b.known:
		case b.Unknown != "":
			fn.Unknown = b.Unknown
		default:
			fn.Unknown = cmp.Or(fn.Unknown, noRoom)
		}
	}
}

// Blocks is how many blocks of code are watched.
func (p *RanProgram) Blocks() (watched int) {
	for _, b := range p.blocks {
		if b.window {
			watched++
		}
	}
	return watched
}

// lines counts the lines of a program by what is known of them.
func (p *RanProgram) lines() (ran, not, unknown int) {
	for _, state := range p.lineStates() {
		switch state {
		case lineRan:
			ran++
		case lineNot:
			not++
		default:
			unknown++
		}
	}
	return ran, not, unknown
}

// A ranLine is a line; file is a number in files.
type ranLine struct{ file, line int32 }

// lineStates is what is known of the lines at which statements begin. A line has run if a block did in which
// one of these begins. It has not if it is known of all of its code that it did not: where only another part ran, that
// may be what the compiler has moved to before it is decided whether the line runs, or the line itself.
func (p *RanProgram) lineStates() map[ranLine]lineState {
	states := make(map[ranLine]lineState)
	for n := range p.statements {
		s := &p.statements[n]
		at := ranLine{s.file, s.line}
		states[at] = max(states[at], s.state())
	}
	for n := range p.rests {
		s := &p.rests[n]
		at := ranLine{s.file, s.line}
		if before, there := states[at]; there {
			states[at] = max(before, min(s.state(), lineUnknown))
		}
	}
	return states
}

// A lineState is what is known of a line; the larger of two holds.
type lineState uint8

const (
	lineNot lineState = iota + 1
	lineUnknown
	lineRan
)

// state is that of a statement.
func (s *ranStatement) state() lineState {
	switch {
	case s.block != nil && s.block.known && s.block.ran:
		return lineRan
	case s.block != nil && s.block.known:
		return lineNot
	case s.fn != nil && !s.fn.Ran && s.fn.Unknown == "" && !s.fn.led:
		return lineNot
	}
	return lineUnknown
}

// unknownLine is the rule by which lines are excluded of which it is not known whether they ran.
const unknownLine = "it is not known whether it ran"

// addLines adds the lines of all programs to files, by their resolved names. Those of which it is not known
// whether they ran are excluded.
func (r *Ran) addLines(file func(name string) *coverage.File, excluded *exclude.Excluded) {
	states := make(map[*coverage.File]map[int32]lineState)
	for _, p := range r.programs {
		into := make([]map[int32]lineState, len(p.files))
		for n, name := range p.files {
			if f := file(name); f != nil {
				if states[f] == nil {
					states[f] = make(map[int32]lineState)
				}
				into[n] = states[f]
			}
		}
		for at, state := range p.lineStates() {
			if lines := into[at.file]; lines != nil {
				lines[at.line] = max(lines[at.line], state)
			}
		}
	}
	for f, lines := range states {
		for _, number := range slices.Sorted(maps.Keys(lines)) {
			switch lines[number] {
			case lineRan:
				f.Lines = append(f.Lines, coverage.Line{Number: number, Count: 1})
			case lineNot:
				f.Lines = append(f.Lines, coverage.Line{Number: number})
			default:
				one := coverage.Ratio{Total: 1}
				excluded.List = append(excluded.List, exclude.Exclusion{File: f.Name, First: number, Last: number, What: "lines", Rule: unknownLine, Lines: one})
				excluded.Totals.Lines = excluded.Totals.Lines.Plus(one)
			}
		}
	}
}
