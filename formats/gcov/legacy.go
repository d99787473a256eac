package gcov

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Before GCC 3.4 the notes were two files and the data a third. GCC 2.91 (egcs)
// to 3.2 have one form of them, GCC 3.3 another:
//
//	X.bb    lines of the blocks: for each function
//	          -2 name -2         and for each block from the entry on
//	          [-1 file -1]       only when it changes, which may be anywhere
//	          line ... 0
//	X.bbg   flow graph: for each function
//	          [-1 length name -1, checksum: 3.3]
//	          number of blocks, number of arcs,
//	          for each block: number of arcs, and for each arc: target, flags
//	          -1
//	X.da    counters of the arcs that are not on the spanning tree
//	          until 3.2: N, N counters
//	          3.3: once or more
//	            -123, number of functions, bytes of what follows here (40):
//	            of the program, then of the object:
//	              number of counters (4 bytes), their sum (8), the largest (8)
//	            for each function: -1 length name -1, checksum, number of
//	            counters (4 bytes each), counters
//
// All numbers are little-endian with a sign bit and a magnitude, 4 bytes wide
// but for the counters, and the N until 3.2, of 8. A string is padded with zeros
// to 4 bytes, its NUL counted. Blocks are numbered from the entry, the last is
// the exit, and it has an arc to the entry so that the flow closes. Until 3.2
// functions have no names in .bbg and .da: the three files have the same
// functions in the same order.

// LegacyNotes are a .bb and a .bbg file.
type LegacyNotes struct {
	// Named tells that the graph has names and checksums, as in GCC 3.3.
	Named  bool
	Lines  []LegacyToken    // the .bb file
	Graphs []*LegacyGraph   // the .bbg file
	BySite []LegacyFunction // both, function by function
}

// A LegacyToken is a line, the end of a block's lines (0), or a name behind -1
// (of a file) or -2 (of a function).
type LegacyToken struct {
	Number int32
	Name   string
}

const (
	TokenFile     = -1
	TokenFunction = -2
)

// A LegacyGraph is the flow graph of a function. The arc from the exit, the
// last block, to the entry is among its arcs.
type LegacyGraph struct {
	Name     string // GCC 3.3
	Checksum int32
	Blocks   int
	Arcs     []Arc // by source block

	Counted int // arcs that are not on the tree
}

// A LegacyFunction is where a function begins in LegacyNotes.Lines, and its
// graph.
type LegacyFunction struct {
	Name  string
	Lines []LegacyToken // up to the next function
	Graph *LegacyGraph
}

// A legacyReader reads sign-and-magnitude numbers.
type legacyReader struct {
	b   []byte
	pos int
	err *FormatError
}

func (r *legacyReader) fail(pos int, format string, args ...any) {
	if r.err == nil {
		r.err = &FormatError{int64(pos), fmt.Sprintf(format, args...)}
	}
	r.pos = len(r.b)
}

func (r *legacyReader) result() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

func (r *legacyReader) number() int32 {
	if len(r.b)-r.pos < 4 {
		r.fail(r.pos, "file ends here, expected a number of 4 bytes")
		return 0
	}
	x := binary.LittleEndian.Uint32(r.b[r.pos:])
	r.pos += 4
	return signed32(x)
}

func signed32(x uint32) int32 {
	if x>>31 != 0 {
		return -int32(x &^ (1 << 31))
	}
	return int32(x)
}

func (r *legacyReader) counter() int64 {
	if len(r.b)-r.pos < 8 {
		r.fail(r.pos, "file ends here, expected a counter of 8 bytes")
		return 0
	}
	x := binary.LittleEndian.Uint64(r.b[r.pos:])
	r.pos += 8
	if x>>63 != 0 {
		return -int64(x &^ (1 << 63))
	}
	return int64(x)
}

// padded takes a string of n bytes with its NUL and padding.
func (r *legacyReader) padded(n int) string {
	size := n/4*4 + 4
	if n < 0 || size > len(r.b)-r.pos {
		r.fail(r.pos, "name of %d bytes, but only %d are left", n, len(r.b)-r.pos)
		return ""
	}
	s := r.b[r.pos : r.pos+n]
	r.pos += size
	return string(s)
}

// text takes a string of .bbg and .da: -1, length, text, -1.
func (r *legacyReader) text() string {
	start := r.pos
	if x := r.number(); x != -1 && r.err == nil {
		r.fail(start, "expected -1 before a name, found %d", x)
	}
	s := r.padded(int(r.number()))
	end := r.pos
	if x := r.number(); x != -1 && r.err == nil {
		r.fail(end, "expected -1 behind the name %q, found %d", s, x)
	}
	return s
}

// ReadLegacyNotes decodes a .bb and a .bbg file. On an error the notes hold the
// functions before it.
func ReadLegacyNotes(bb, bbg []byte) (*LegacyNotes, error) {
	n := &LegacyNotes{Named: NamedGraph(bbg)}
	graphs, errGraph := ReadLegacyGraphs(bbg, n.Named)
	lines, errLines := ReadLegacyLines(bb)
	n.Graphs, n.Lines = graphs, lines
	err := n.join()
	switch {
	case errGraph != nil:
		return n, fmt.Errorf(".bbg: %w", errGraph)
	case errLines != nil:
		return n, fmt.Errorf(".bb: %w", errLines)
	}
	return n, err
}

// NamedGraph tells the forms apart: that of GCC 3.3 begins with -1, the other
// with a number of blocks.
func NamedGraph(bbg []byte) bool {
	return len(bbg) >= 4 && binary.LittleEndian.Uint32(bbg) == 1<<31|1
}

func ReadLegacyGraphs(b []byte, named bool) ([]*LegacyGraph, error) {
	r := &legacyReader{b: b}
	var list []*LegacyGraph
	for r.pos < len(b) {
		g := new(LegacyGraph)
		if named {
			g.Name = r.text()
			g.Checksum = r.number()
		}
		at := r.pos
		blocks, arcs := int(r.number()), int(r.number())
		// A block takes 4 bytes at least, an arc 8.
		if r.err == nil && (blocks < 2 || blocks > len(b)/4 || arcs < 0 || arcs > len(b)/8) {
			r.fail(at, "%d blocks and %d arcs in a file of %d bytes", blocks, arcs, len(b))
		}
		g.Blocks = blocks
		for i := 0; i < blocks && r.err == nil; i++ {
			g.readBlock(r, i)
		}
		if r.err == nil && len(g.Arcs) != arcs {
			r.fail(r.pos, "%d arcs, expected %d", len(g.Arcs), arcs)
		}
		end := r.pos
		if x := r.number(); r.err == nil && x != -1 {
			r.fail(end, "expected -1 behind a graph, found %d", x)
		}
		if r.err != nil {
			break
		}
		list = append(list, g)
	}
	return list, r.result()
}

// readBlock reads the arcs of a block.
func (g *LegacyGraph) readBlock(r *legacyReader, block int) {
	for range r.number() {
		at := r.pos
		dst, flags := r.number(), r.number()
		if r.err == nil && (dst < 0 || int(dst) >= g.Blocks) {
			r.fail(at, "arc to block %d of %d", dst, g.Blocks)
		}
		if r.err != nil {
			return
		}
		g.Arcs = append(g.Arcs, Arc{uint32(block), uint32(dst), uint32(flags)})
		if flags&ArcTree == 0 {
			g.Counted++
		}
	}
}

func ReadLegacyLines(b []byte) ([]LegacyToken, error) {
	r := &legacyReader{b: b}
	var list []LegacyToken
	for r.pos < len(b) {
		at := r.pos
		t := LegacyToken{Number: r.number()}
		switch {
		case r.err != nil:
			return list, r.result()
		case t.Number == TokenFile || t.Number == TokenFunction:
			n := bytes.IndexByte(b[r.pos:], 0)
			if n < 0 {
				r.fail(at, "a name without an end")
				return list, r.result()
			}
			t.Name = r.padded(n)
			if x := r.number(); x != t.Number && r.err == nil {
				r.fail(r.pos, "expected %d behind the name %q, found %d", t.Number, t.Name, x)
			}
			if r.err != nil {
				return list, r.result()
			}
		case t.Number < 0:
			r.fail(at, "%d is neither a line nor the mark of a name", t.Number)
			return list, r.result()
		}
		list = append(list, t)
	}
	return list, nil
}

// join finds the functions in the lines and gives them their graphs.
func (n *LegacyNotes) join() error {
	var starts []int
	for i, t := range n.Lines {
		if t.Number == TokenFunction {
			starts = append(starts, i)
		}
	}
	for i, at := range starts {
		end := len(n.Lines)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		if i >= len(n.Graphs) {
			return fmt.Errorf(".bb has %d functions, .bbg %d: they are not of the same compilation", len(starts), len(n.Graphs))
		}
		f := LegacyFunction{Name: n.Lines[at].Name, Lines: n.Lines[at+1 : end], Graph: n.Graphs[i]}
		if n.Named && f.Graph.Name != f.Name {
			return fmt.Errorf("function %d is %q in .bb and %q in .bbg: they are not of the same compilation", i, f.Name, f.Graph.Name)
		}
		n.BySite = append(n.BySite, f)
	}
	if len(starts) < len(n.Graphs) {
		return fmt.Errorf(".bb has %d functions, .bbg %d: they are not of the same compilation", len(starts), len(n.Graphs))
	}
	return nil
}

// LegacyCounts are a .da file.
type LegacyCounts struct {
	Named  bool
	Values []int64       // until GCC 3.2: of all functions
	Blocks []LegacyBlock // GCC 3.3
}

// A LegacyBlock is what one program wrote of the object.
type LegacyBlock struct {
	Extension []byte // figures of the whole program and of the object
	Functions []LegacyFunctionCounts
}

// LegacyFunctionCounts are the counters of one function.
type LegacyFunctionCounts struct {
	Name     string
	Checksum int32
	Values   []int64
}

const legacyMagic = -123

// ReadLegacyCounts decodes a .da file, or the file of an object that the GCOV
// patch for Linux of 2002 shows under /proc/gcov, which is the same. On an error
// the counts hold what stands before it.
func ReadLegacyCounts(b []byte) (*LegacyCounts, error) {
	r := &legacyReader{b: b}
	c := &LegacyCounts{Named: len(b) >= 4 && signed32(binary.LittleEndian.Uint32(b)) == legacyMagic}
	if !c.Named {
		n := r.counter()
		if r.err == nil && n != int64(len(b)-8)/8 {
			r.err = &FormatError{0, fmt.Sprintf("%d counters in a file of %d bytes, expected %d bytes", n, len(b), 8+8*n)}
		}
		for len(b)-r.pos >= 8 && int64(len(c.Values)) < n {
			c.Values = append(c.Values, r.counter())
		}
		return c, r.result()
	}
	for r.pos < len(b) && r.err == nil {
		c.Blocks = append(c.Blocks, LegacyBlock{})
		c.Blocks[len(c.Blocks)-1].read(r)
	}
	return c, r.result()
}

func (k *LegacyBlock) read(r *legacyReader) {
	at := r.pos
	if m := r.number(); m != legacyMagic && r.err == nil {
		r.fail(at, "expected the mark %d, found %d", legacyMagic, m)
	}
	functions := r.number()
	n := int(r.number())
	if n < 0 || n > len(r.b)-r.pos {
		r.fail(r.pos, "extension of %d bytes, but only %d are left", n, len(r.b)-r.pos)
		return
	}
	k.Extension = r.b[r.pos : r.pos+n]
	r.pos += n
	for i := int32(0); i < functions && r.err == nil; i++ {
		f := LegacyFunctionCounts{Name: r.text(), Checksum: r.number()}
		n := int(r.number())
		if r.err == nil && (n < 0 || n > (len(r.b)-r.pos)/8) {
			r.fail(r.pos, "%d counters of %q, but only %d bytes are left", n, f.Name, len(r.b)-r.pos)
		}
		for k := 0; k < n && r.err == nil; k++ {
			f.Values = append(f.Values, r.counter())
		}
		if r.err == nil {
			k.Functions = append(k.Functions, f)
		}
	}
}

// Of returns the counters of function i of the notes, all blocks added, and
// whether there are any. The notes and the counts belong together if Fits has
// returned nil.
func (c *LegacyCounts) Of(n *LegacyNotes, i int) ([]int64, bool) {
	g := n.Graphs[i]
	if !c.Named {
		at := 0
		for _, before := range n.Graphs[:i] {
			at += before.Counted
		}
		if end := at + g.Counted; end <= len(c.Values) {
			return c.Values[at:end], true
		}
		return nil, false
	}
	var sum []int64
	want := g.Counted
	for _, k := range c.Blocks {
		for _, f := range k.Functions {
			if f.Name != g.Name || f.Checksum != g.Checksum || len(f.Values) != want {
				continue
			}
			if sum == nil {
				sum = make([]int64, want)
			}
			for j, x := range f.Values {
				sum[j] += x
			}
		}
	}
	return sum, sum != nil
}

// Fits tells why counts are not those of the notes, as far as can be told.
// Until GCC 3.2 that is the number of counters; in 3.3 functions that differ are
// ignored, which is said.
func (c *LegacyCounts) Fits(n *LegacyNotes) error {
	if c.Named != n.Named {
		return fmt.Errorf("written by GCC %s, but the notes are of GCC %s", legacyName(c.Named), legacyName(n.Named))
	}
	if !c.Named {
		want := 0
		for _, g := range n.Graphs {
			want += g.Counted
		}
		if want != len(c.Values) {
			return fmt.Errorf("%d counters, but the notes count %d arcs: of another compilation, delete the .da file and run again", len(c.Values), want)
		}
		return nil
	}
	other := 0
	for _, k := range c.Blocks {
		for _, f := range k.Functions {
			if !n.knows(&f) {
				other++
			}
		}
	}
	if other > 0 {
		return fmt.Errorf("%d functions have another checksum, number of counters or name than in the notes and are ignored: delete the .da file and run again", other)
	}
	return nil
}

func (n *LegacyNotes) knows(f *LegacyFunctionCounts) bool {
	for _, g := range n.Graphs {
		if g.Name == f.Name && g.Checksum == f.Checksum && g.Counted == len(f.Values) {
			return true
		}
	}
	return false
}

func legacyName(named bool) string {
	if named {
		return "3.3"
	}
	return "2.91 to 3.2"
}
