package llvmcov

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"footfall/formats/gcov"
)

// llvm-cov reads notes and data with other care than ReadNotes: at the end of
// the bytes it takes zeros, in some places with a message, and lists what it
// has got until there. For that it has its own reader here, so that a file cut
// off gives what llvm-cov prints of it.

// An llvmLayout is the version of a file, as far as the reader tells them
// apart.
type llvmLayout int

const (
	llvm304  llvmLayout = iota
	llvm407             // checksum of the graph
	llvm408             // exit block is block 1
	llvm800             // columns, number of blocks
	llvm900             // working directory
	llvm1200            // lengths in bytes
)

// An llvmFile is one pair of notes and data.
type llvmFile struct {
	version  llvmVersion
	stderr   io.Writer
	layout   llvmLayout
	stamp    uint32
	sources  []string
	index    map[string]int // of sources
	fns      []*llvmFunc
	byIdent  map[uint32]*llvmFunc
	runs     uint32
	programs uint32
	room     int // blocks and arcs that the size of the file makes believable
}

type llvmFunc struct {
	ident, lineSum, cfgSum uint32
	name                   string
	source                 int
	startLine              uint32
	blocks                 []llvmBlock
	arcs                   []llvmArc
	counted, tree          []int32 // indexes of the arcs with and without counter
	solved                 []bool  // blocks that the solver has seen
}

type llvmBlock struct {
	number     uint32
	count      uint64
	pred, succ []int32 // arcs
	lines      []llvmLines
	last       uint32 // line that was named last

	// While a line's cycles are sought.
	open     bool
	incoming int32 // arc it was reached by; noArc, startArc
}

// llvmLines are lines of one source in a block.
type llvmLines struct {
	source int
	lines  []uint32
}

type llvmArc struct {
	src, dst int32
	flags    uint32
	count    uint64
	left     uint64 // of count, while cycles are sought
}

// exit is the index of the block where the function is left.
func (f *llvmFile) exit(fn *llvmFunc) int {
	if f.layout < llvm408 || len(fn.blocks) < 2 {
		return len(fn.blocks) - 1
	}
	return 1
}

// An llvmCursor reads words from behind the magic. Once a read has failed all
// further ones give zero.
type llvmCursor struct {
	b      []byte
	pos    int
	big    bool // the order of bytes
	bytes  bool // lengths are in bytes, not words
	bad    bool
	stderr io.Writer
}

func newLLVMCursor(b []byte, big bool, stderr io.Writer) *llvmCursor {
	return &llvmCursor{b: b[4:], big: big, stderr: stderr}
}

func (c *llvmCursor) word() uint32 {
	if c.bad || len(c.b)-c.pos < 4 {
		c.bad = true
		return 0
	}
	p := c.b[c.pos:]
	c.pos += 4
	if c.big {
		return binary.BigEndian.Uint32(p)
	}
	return binary.LittleEndian.Uint32(p)
}

// need reads a word that must be there, and says so if it is not.
func (c *llvmCursor) need() (uint32, bool) {
	if len(c.b)-c.pos < 4 {
		fmt.Fprintf(c.stderr, "unexpected end of memory buffer: %d\n", c.pos)
		return 0, false
	}
	return c.word(), true
}

func (c *llvmCursor) take(n uint32) []byte {
	if c.bad || uint64(len(c.b)-c.pos) < uint64(n) {
		c.bad = true
		return nil
	}
	b := c.b[c.pos : c.pos+int(n)]
	c.pos += int(n)
	return b
}

// text reads a string; ok is false for an empty one.
func (c *llvmCursor) text() (s string, ok bool) {
	n, ok := c.need()
	if !ok || n == 0 {
		return "", false
	}
	if c.bytes {
		b := c.take(n)
		if len(b) == 0 {
			return "", false
		}
		return string(b[:len(b)-1]), true
	}
	b := c.take(n * 4)
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b), !c.bad
}

// leave goes on behind a record of that length which started at start; false
// if more was read than the record has.
func (c *llvmCursor) leave(start int, length uint32) bool {
	if !c.bytes {
		length *= 4
	}
	end := uint32(start) + length
	if end < uint32(c.pos) {
		return false
	}
	c.take(end - uint32(c.pos))
	return true
}

// readVersion reads the version word.
func (f *llvmFile) readVersion(c *llvmCursor) (llvmLayout, bool) {
	raw := c.take(4)
	if len(raw) < 4 {
		return 0, false
	}
	v := [4]byte{raw[0], raw[1], raw[2], raw[3]}
	if !c.big {
		v = [4]byte{raw[3], raw[2], raw[1], raw[0]}
	}
	n := (int(int8(v[0]))-'0')*10 + int(int8(v[2])) - '0'
	if int8(v[0]) >= 'A' {
		n = (int(v[0])-'A')*100 + (int(int8(v[1]))-'0')*10 + int(int8(v[2])) - '0'
	}
	switch {
	case n >= 120 && f.version.readsByteLengths():
		c.bytes = true
		return llvm1200, true
	case n >= 90:
		return llvm900, true
	case n >= 80:
		return llvm800, true
	case n >= 48:
		return llvm408, true
	case n >= 47:
		return llvm407, true
	case n >= 34:
		return llvm304, true
	}
	fmt.Fprintf(f.stderr, "unexpected version: %s\n", v[:])
	return 0, false
}

// source returns the index of a source name.
func (f *llvmFile) source(name string) int {
	if f.version.normalizesNames() {
		name = llvmClean(name)
	}
	if i, ok := f.index[name]; ok {
		return i
	}
	if f.index == nil {
		f.index = make(map[string]int)
	}
	f.index[name] = len(f.sources)
	f.sources = append(f.sources, name)
	return len(f.sources) - 1
}

// readNotes decodes a notes file; false if there is nothing to show of it.
func (f *llvmFile) readNotes(b []byte) bool {
	if f.version.fixedLayout() {
		return f.readOldNotes(b)
	}
	if !bytes.HasPrefix(b, []byte("gcno")) && !bytes.HasPrefix(b, []byte("oncg")) {
		fmt.Fprintf(f.stderr, "unexpected magic: %s\n", b[:min(4, len(b))])
		return false
	}
	c := newLLVMCursor(b, b[0] == 'g', f.stderr)
	var ok bool
	if f.layout, ok = f.readVersion(c); !ok {
		return false
	}
	f.room = len(b)/4 + 4096
	f.byIdent = make(map[uint32]*llvmFunc)
	f.stamp = c.word()
	if f.layout >= llvm900 {
		if _, ok := c.text(); !ok && f.version.solvesTree() {
			return false
		}
	}
	if f.layout >= llvm800 {
		c.word()
	}
	for {
		tag := c.word()
		if tag == 0 {
			return true
		}
		length, ok := c.need()
		if !ok {
			return false
		}
		start := c.pos
		if tag == gcov.TagFunction {
			ok = f.readFunction(c)
		} else if len(f.fns) > 0 {
			ok = f.readGraph(c, f.fns[len(f.fns)-1], tag, length)
		}
		if !ok {
			return false
		}
		if f.version.solvesTree() && !c.leave(start, length) {
			return false
		}
	}
}

func (f *llvmFile) readFunction(c *llvmCursor) bool {
	fn := &llvmFunc{ident: c.word(), lineSum: c.word()}
	f.fns = append(f.fns, fn)
	if f.layout >= llvm407 {
		fn.cfgSum = c.word()
	}
	fn.name, _ = c.text()
	if f.layout >= llvm800 {
		c.word() // made by the compiler
	}
	source, ok := c.text()
	if !ok && f.version.solvesTree() {
		return false
	}
	fn.startLine = c.word()
	if f.layout >= llvm800 {
		c.word() // column
		c.word() // last line
	}
	if f.layout >= llvm900 {
		c.word() // its column
	}
	fn.source = f.source(source)
	f.byIdent[fn.ident] = fn
	return true
}

// readGraph reads a record of blocks, arcs or lines; others are skipped.
func (f *llvmFile) readGraph(c *llvmCursor, fn *llvmFunc, tag, length uint32) bool {
	switch tag {
	case gcov.TagBlocks:
		n := length
		if f.layout >= llvm800 {
			n = c.word()
		}
		if f.room -= int(n); f.room < 0 {
			return false
		}
		for i := range n {
			if f.layout < llvm800 {
				c.word()
			}
			fn.blocks = append(fn.blocks, llvmBlock{number: i})
		}
	case gcov.TagArcs:
		src := c.word()
		if c.bytes {
			length /= 4
		}
		n := (length - 1) / 2
		if f.room -= int(n); !f.inside(fn, src) || f.room < 0 {
			return false
		}
		for range n {
			dst, flags := c.word(), c.word()
			if dst >= uint32(len(fn.blocks)) {
				return false
			}
			fn.addArc(int(src), int(dst), flags)
		}
	case gcov.TagLines:
		block := c.word()
		if !f.inside(fn, block) {
			return false
		}
		f.readLines(c, fn, &fn.blocks[block])
	}
	return true
}

func (f *llvmFile) inside(fn *llvmFunc, block uint32) bool {
	if block >= uint32(len(fn.blocks)) {
		fmt.Fprintf(f.stderr, "unexpected block number: %d (in %d)\n", block, len(fn.blocks))
		return false
	}
	return true
}

func (f *llvmFile) readLines(c *llvmCursor, fn *llvmFunc, b *llvmBlock) {
	for {
		if line := c.word(); line != 0 {
			if f.version.linesKeepSource() && len(b.lines) == 0 {
				b.last = line // of no source: lost
				continue
			}
			b.addLine(line, fn.source)
			continue
		}
		name, _ := c.text()
		if name == "" {
			return
		}
		if f.version.linesKeepSource() {
			b.lines = append(b.lines, llvmLines{source: f.source(name)})
		}
	}
}

// addLine adds a line of the source that was named last, which is the
// function's if none was.
func (b *llvmBlock) addLine(line uint32, source int) {
	if len(b.lines) == 0 {
		b.lines = append(b.lines, llvmLines{source: source})
	}
	l := &b.lines[len(b.lines)-1]
	l.lines = append(l.lines, line)
	b.last = line
}

func (fn *llvmFunc) addArc(src, dst int, flags uint32) {
	i := int32(len(fn.arcs))
	fn.arcs = append(fn.arcs, llvmArc{src: int32(src), dst: int32(dst), flags: flags})
	fn.blocks[src].succ = append(fn.blocks[src].succ, i)
	fn.blocks[dst].pred = append(fn.blocks[dst].pred, i)
	if flags&gcov.ArcTree != 0 {
		fn.tree = append(fn.tree, i)
	} else {
		fn.counted = append(fn.counted, i)
	}
}

// readData decodes a data file into the counts of the arcs. What was read
// before something wrong stays.
func (f *llvmFile) readData(b []byte) bool {
	if f.version.fixedLayout() {
		return f.readOldData(b)
	}
	if !llvmIsData(b) {
		return false
	}
	c := newLLVMCursor(b, b[0] == 'g', f.stderr)
	layout, ok := f.readVersion(c)
	if !ok {
		return false
	}
	if layout != f.layout {
		fmt.Fprint(f.stderr, "GCOV versions do not match.\n")
		return false
	}
	stamp, ok := c.need()
	if !ok {
		return false
	}
	if stamp != f.stamp {
		format := "file checksums do not match: %d != %d\n"
		if !f.version.solvesTree() {
			format = "File checksums do not match: %d != %d.\n"
		}
		fmt.Fprintf(f.stderr, format, f.stamp, stamp)
		return false
	}
	var fn *llvmFunc
	for {
		tag := c.word()
		if tag == 0 {
			return true
		}
		length, ok := c.need()
		if !ok {
			return false
		}
		start := c.pos
		switch {
		case tag == gcov.TagObjectSummary:
			f.runs, _ = c.need()
			c.need()
			if length == 9 && f.version.knowsOldClang() {
				f.runs, _ = c.need()
			}
		case tag == gcov.TagProgramSummary:
			if length > 0 || !f.version.knowsOldClang() {
				c.need()
				c.need()
				f.runs, _ = c.need()
			}
			f.programs++
		case tag == gcov.TagFunction && length == 0: // dropped by the linker
			continue
		case tag == gcov.TagFunction:
			fn, ok = f.readFunctionCounts(c, fn, length)
		case tag == gcov.TagCounters && fn != nil:
			ok = f.readCounters(c, fn, length)
		}
		if !ok || !c.leave(start, length) {
			return false
		}
	}
}

// readFunctionCounts finds the function that the counters are of. For an
// unknown one it stays the function before.
func (f *llvmFile) readFunctionCounts(c *llvmCursor, fn *llvmFunc, length uint32) (*llvmFunc, bool) {
	if length < 2 {
		return fn, false
	}
	ident, ok := c.need()
	if !ok {
		return fn, false
	}
	lineSum, _ := c.need()
	var cfgSum uint32
	if f.layout >= llvm407 {
		cfgSum, _ = c.need()
	}
	found := f.byIdent[ident]
	if found == nil {
		return fn, true
	}
	if lineSum != found.lineSum || cfgSum != found.cfgSum {
		fmt.Fprintf(f.stderr, "%s: checksum mismatch, (%d, %d) != (%d, %d)\n",
			found.name, lineSum, cfgSum, found.lineSum, found.cfgSum)
		return found, false
	}
	return found, true
}

func (f *llvmFile) readCounters(c *llvmCursor, fn *llvmFunc, length uint32) bool {
	want := uint32(2 * len(fn.counted))
	if c.bytes {
		want *= 4
	}
	if length != want {
		fmt.Fprintf(f.stderr, "%s: GCOV_TAG_COUNTER_ARCS mismatch, got %d, expected %d\n", fn.name, length, want)
		return false
	}
	for _, i := range fn.counted {
		low, ok := c.need()
		if !ok {
			return false
		}
		high, ok := c.need()
		if !ok {
			return false
		}
		arc := &fn.arcs[i]
		arc.count = uint64(high)<<32 | uint64(low)
		fn.blocks[arc.src].count += arc.count
		if dst := &fn.blocks[arc.dst]; !f.version.solvesTree() && len(dst.succ) == 0 {
			dst.count += arc.count
		}
	}
	if f.version.solvesTree() && len(fn.blocks) >= 2 {
		fn.solve(f.exit(fn))
	}
	return true
}
