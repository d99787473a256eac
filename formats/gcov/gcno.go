package gcov

import "cmp"

// Notes are the contents of a notes file: what the compiler says of one
// object, mainly the flow graph of each function and the lines of its blocks.
//
//	magic  version  stamp  [checksum: 12+]  [cwd: 9+]  [unexecuted flag: 8+]
//	function 01000000   ident line-checksum [cfg-checksum: 4.7+] name [artificial: 8+]
//	                    source start-line [start-column end-line: 8+] [end-column: 9+]
//	  blocks 01410000   a flag word for each block; 8+: their number
//	  arcs   01430000   source block, then (target block, flags) ...
//	  lines  01450000   block; line ..., 0 file line ..., 0 ""
//	  conds  01470000   (block, number of terms) ...               14+
//	  paths  01490000   number of prime paths                      15+
//
// The order of lines, conds and paths is that of GCC; a record of another
// kind is kept behind them.
type Notes struct {
	BigEndian bool
	Version   Version
	Stamp     uint32 // data files with another stamp belong to another compilation
	Checksum  uint32
	Cwd       string // where the compiler ran; "" before GCC 9
	// Unexecuted tells that the compiler supports marks of unexecuted blocks.
	Unexecuted bool
	Functions  []*FunctionGraph
	// Trailer is what follows the last record: empty for GCC, eight zero
	// bytes for Clang.
	Trailer []byte
}

// Clang tells whether the file was written by Clang.
func (n *Notes) Clang() bool { return len(n.Trailer) == 8 }

// A FunctionGraph is the graph of one function. Blocks are numbered from the entry
// block 0.
type FunctionGraph struct {
	Ident        uint32 // pairs notes and data within an object
	LineChecksum uint32
	CfgChecksum  uint32
	Name         string
	Artificial   bool // made by the compiler, has no source
	Source       string
	StartLine    uint32
	StartColumn  uint32
	EndLine      uint32
	EndColumn    uint32
	Blocks       int
	BlockFlags   []uint32 // before GCC 8
	Arcs         []Arc    // in file order: by source block
	Conditions   []Decision
	Locations    []Location // in file order: by block
	Paths        uint32     // number of prime paths

	hasBlocks, hasConditions, hasPaths bool
	Arcless                            []uint32 // blocks that have an empty record of arcs
	extra                              []record
}

// Flags of an arc.
const (
	ArcTree        = 1 << 0 // on the spanning tree: has no counter
	ArcFake        = 1 << 1 // a call that may not return, or a return by longjmp
	ArcFallthrough = 1 << 2
	ArcTrue        = 1 << 3 // the true and false edges of a condition, GCC 15+
	ArcFalse       = 1 << 4
)

// An Arc leads from a block to a block.
type Arc struct {
	Src, Dst uint32
	Flags    uint32
}

// A Location is a run of lines in one source that a block belongs to.
type Location struct {
	Block uint32
	// Source is the file; "" at the start of a block that names none, which
	// then is the function's.
	Source string
	Lines  []uint32

	closes bool // the last location of its record
}

// A Decision is a decision of Terms operands, evaluated in and after Block.
type Decision struct {
	Block, Terms uint32
}

// ReadNotes decodes a notes file. On a *FormatError the notes hold what was
// read before it, except for bytes that are no notes file at all, for which
// they are nil.
func ReadNotes(b []byte) (*Notes, error) {
	n, r := readNotesHead(b)
	if r.err != nil {
		return nil, r.result()
	}
	d := decoder{version: n.Version}
	for {
		raw, ok := nextFunction(&r)
		if !ok {
			break
		}
		fn := new(FunctionGraph)
		if err := d.function(fn, raw); err != nil {
			r.err = err
			if fn.Name != "" || fn.hasBlocks {
				n.Functions = append(n.Functions, fn)
			}
			return n, r.result()
		}
		n.Functions = append(n.Functions, fn)
	}
	if r.err == nil {
		n.Trailer = r.b[r.pos:]
	}
	return n, r.result()
}

// readNotesHead decodes the head; the reader returned stands at the first
// record.
func readNotesHead(b []byte) (*Notes, reader) {
	r := reader{b: b}
	r.magic(NotesMagic, "notes")
	n := &Notes{BigEndian: r.big, Version: Version(r.word()), Stamp: r.word()}
	r.bytes = n.Version.ByteLengths()
	if r.err == nil && n.Version.Number() == 0 {
		r.fail(4, "version word %q is none of a known compiler", n.Version.String())
	}
	if n.Version.HasObjectChecksum() {
		n.Checksum = r.word()
	}
	if n.Version.HasCwd() {
		n.Cwd = string(r.text())
	}
	if n.Version.HasUnexecuted() {
		n.Unexecuted = r.word() != 0
	}
	return n, r
}

// nextFunction returns a reader of all records of the next function, the
// function record itself included. ok is false at the end.
func nextFunction(r *reader) (fn reader, ok bool) {
	start := r.pos
	for {
		mark := r.pos
		tag, _, _, more := r.next()
		if !more || (tag == TagFunction && mark != start) {
			if more {
				r.pos = mark
			}
			break
		}
	}
	end := r.pos
	if end == start {
		return reader{}, false
	}
	fn = *r
	fn.err = nil
	fn.b, fn.pos, fn.base = r.b[start:end], 0, r.base+int64(start)
	return fn, true
}

// A decoder turns the records of functions into Functions. Source names are
// shared between them.
type decoder struct {
	version Version
	sources map[string]string
	last    string // the source asked for last, mostly asked for again
}

// source returns b as a string, the same one for the same bytes.
func (d *decoder) source(b []byte) string {
	if string(b) == d.last {
		return d.last
	}
	s, ok := d.sources[string(b)]
	if !ok {
		if d.sources == nil {
			d.sources = make(map[string]string)
		}
		s = string(b)
		d.sources[s] = s
	}
	d.last = s
	return s
}

// function decodes the records in r into fn, whose slices are reused.
func (d *decoder) function(fn *FunctionGraph, r reader) *FormatError {
	*fn = FunctionGraph{BlockFlags: fn.BlockFlags[:0], Arcs: fn.Arcs[:0], Conditions: fn.Conditions[:0], Locations: fn.Locations[:0]}
	var blocks reader // of the record that says how many there are
	for {
		tag, length, data, ok := r.next()
		if !ok {
			break
		}
		switch tag {
		case TagFunction:
			d.head(fn, &data)
		case TagBlocks:
			blocks = data
			d.blocks(fn, &data)
		case TagArcs:
			d.arcs(fn, &data)
		case TagLines:
			d.lines(fn, &data)
		case TagConditions:
			fn.hasConditions = true
			for data.pos < len(data.b) && data.err == nil {
				c := Decision{data.word(), data.word()}
				if data.err == nil && c.Block >= uint32(fn.Blocks) {
					data.fail(data.pos-8, "condition in block %d of %d", c.Block, fn.Blocks)
				}
				fn.Conditions = append(fn.Conditions, c)
			}
		case TagPaths:
			fn.hasPaths = true
			fn.Paths = data.word()
		default:
			fn.extra = append(fn.extra, record{tag, data.b})
			data.pos = len(data.b)
		}
		if data.err == nil && data.pos < len(data.b) {
			data.fail(data.pos, "record %08x of length %d has %d bytes too many", tag, length, len(data.b)-data.pos)
		}
		if data.err != nil {
			r.err = data.err
			break
		}
	}
	if !fn.plausible(d.version) {
		blocks.fail(0, "%d blocks in %q, whose records have %d bytes", fn.Blocks, fn.Name, len(r.b))
		*fn = FunctionGraph{Name: fn.Name, Source: fn.Source, StartLine: fn.StartLine, hasBlocks: true}
		return cmp.Or(r.err, blocks.err)
	}
	return r.err
}

// plausible tells whether the number of blocks fits what is known of them. It
// sizes the tables of the solver, so it must not exceed what bytes describe.
// Every block but entry and exit has an arc, mostly one of its own; what has
// fewer is measured by the bytes of its records as we write them, not as they
// were read: what is read and written again must be as plausible as before.
func (fn *FunctionGraph) plausible(v Version) bool {
	if fn.Blocks <= len(fn.Arcs)+2 {
		return true
	}
	w := &writer{bytes: v.ByteLengths()}
	fn.encode(w, v)
	return fn.Blocks <= len(w.b)/8+2
}

func (d *decoder) head(fn *FunctionGraph, r *reader) {
	v := d.version
	fn.Ident = r.word()
	fn.LineChecksum = r.word()
	if v.HasCfgChecksum() {
		fn.CfgChecksum = r.word()
	}
	fn.Name = string(r.text())
	if v.HasColumns() {
		fn.Artificial = r.word() != 0
	}
	fn.Source = d.source(r.source())
	fn.StartLine = r.word()
	if v.HasColumns() {
		fn.StartColumn = r.word()
		fn.EndLine = r.word()
	}
	if v.HasEndColumn() {
		fn.EndColumn = r.word()
	}
}

func (d *decoder) blocks(fn *FunctionGraph, r *reader) {
	if fn.hasBlocks {
		r.fail(0, "a second record of blocks for %q", fn.Name)
		return
	}
	fn.hasBlocks = true
	if !d.version.HasColumns() {
		for r.pos < len(r.b) {
			fn.BlockFlags = append(fn.BlockFlags, r.word())
		}
		fn.Blocks = len(fn.BlockFlags)
		return
	}
	fn.Blocks = int(r.word())
}

func (d *decoder) arcs(fn *FunctionGraph, r *reader) {
	src := r.word()
	if r.err == nil && src >= uint32(fn.Blocks) {
		r.fail(0, "arcs of block %d, but %q has %d blocks", src, fn.Name, fn.Blocks)
	}
	last, some := uint32(0), false
	if k := len(fn.Arcs); k > 0 {
		last, some = fn.Arcs[k-1].Src, true
	}
	if k := len(fn.Arcless); k > 0 {
		last, some = max(last, fn.Arcless[k-1]), true
	}
	if r.err == nil && some && last >= src {
		r.fail(0, "arcs of block %d after those of block %d", src, last)
	}
	if r.err == nil && r.pos == len(r.b) {
		fn.Arcless = append(fn.Arcless, src)
	}
	for r.pos < len(r.b) && r.err == nil {
		a := Arc{src, r.word(), r.word()}
		if r.err == nil && a.Dst >= uint32(fn.Blocks) {
			r.fail(r.pos-8, "arc to block %d, but %q has %d blocks", a.Dst, fn.Name, fn.Blocks)
		}
		if r.err == nil {
			fn.Arcs = append(fn.Arcs, a)
		}
	}
}

func (d *decoder) lines(fn *FunctionGraph, r *reader) {
	block := r.word()
	if r.err == nil && block >= uint32(fn.Blocks) {
		r.fail(0, "lines of block %d, but %q has %d blocks", block, fn.Name, fn.Blocks)
	}
	open := -1 // index of the location that takes lines
	add := func(source string) {
		open = len(fn.Locations)
		if open < cap(fn.Locations) {
			fn.Locations = fn.Locations[:open+1]
			fn.Locations[open] = Location{Block: block, Source: source, Lines: fn.Locations[open].Lines[:0]}
		} else {
			fn.Locations = append(fn.Locations, Location{Block: block, Source: source})
		}
	}
	for r.err == nil {
		line := r.word()
		if line == 0 {
			name := r.source()
			if len(name) == 0 {
				break
			}
			add(d.source(name))
			continue
		}
		if open < 0 {
			add("")
		}
		l := &fn.Locations[open]
		l.Lines = append(l.Lines, line)
	}
	if open < 0 && r.err == nil {
		add("")
	}
	if open >= 0 {
		fn.Locations[open].closes = true
	}
}

// Encode returns the bytes of the notes file. For notes that were read from a
// compiler's file they are the same bytes.
func (n *Notes) Encode() []byte {
	w := &writer{big: n.BigEndian, bytes: n.Version.ByteLengths()}
	w.word(NotesMagic)
	w.word(uint32(n.Version))
	w.word(n.Stamp)
	if n.Version.HasObjectChecksum() {
		w.word(n.Checksum)
	}
	if n.Version.HasCwd() {
		w.text(n.Cwd)
	}
	if n.Version.HasUnexecuted() {
		w.flag(n.Unexecuted)
	}
	for _, fn := range n.Functions {
		fn.encode(w, n.Version)
	}
	return append(w.b, n.Trailer...)
}

func (w *writer) flag(b bool) {
	if b {
		w.word(1)
	} else {
		w.word(0)
	}
}

func (fn *FunctionGraph) encode(w *writer, v Version) {
	fn.encodeHead(w, v)
	if fn.hasBlocks {
		mark := w.open(TagBlocks)
		if v.HasColumns() {
			w.word(uint32(fn.Blocks))
		} else {
			for _, f := range fn.BlockFlags {
				w.word(f)
			}
		}
		w.close(mark)
	}
	fn.encodeArcs(w)
	fn.encodeLines(w)
	if fn.hasConditions {
		mark := w.open(TagConditions)
		for _, c := range fn.Conditions {
			w.word(c.Block)
			w.word(c.Terms)
		}
		w.close(mark)
	}
	if fn.hasPaths {
		mark := w.open(TagPaths)
		w.word(fn.Paths)
		w.close(mark)
	}
	w.records(fn.extra)
}

func (fn *FunctionGraph) encodeHead(w *writer, v Version) {
	mark := w.open(TagFunction)
	w.word(fn.Ident)
	w.word(fn.LineChecksum)
	if v.HasCfgChecksum() {
		w.word(fn.CfgChecksum)
	}
	w.text(fn.Name)
	if v.HasColumns() {
		w.flag(fn.Artificial)
	}
	w.text(fn.Source)
	w.word(fn.StartLine)
	if v.HasColumns() {
		w.word(fn.StartColumn)
		w.word(fn.EndLine)
	}
	if v.HasEndColumn() {
		w.word(fn.EndColumn)
	}
	w.close(mark)
}

func (fn *FunctionGraph) encodeArcs(w *writer) {
	arcless := fn.Arcless
	for i := 0; i < len(fn.Arcs) || len(arcless) > 0; {
		var src uint32
		if len(arcless) > 0 && (i == len(fn.Arcs) || arcless[0] < fn.Arcs[i].Src) {
			src, arcless = arcless[0], arcless[1:]
		} else {
			src = fn.Arcs[i].Src
		}
		mark := w.open(TagArcs)
		w.word(src)
		for ; i < len(fn.Arcs) && fn.Arcs[i].Src == src; i++ {
			w.word(fn.Arcs[i].Dst)
			w.word(fn.Arcs[i].Flags)
		}
		w.close(mark)
	}
}

func (fn *FunctionGraph) encodeLines(w *writer) {
	for i := 0; i < len(fn.Locations); i++ {
		mark := w.open(TagLines)
		w.word(fn.Locations[i].Block)
		for ; ; i++ {
			l := &fn.Locations[i]
			if l.Source != "" {
				w.word(0)
				w.text(l.Source)
			}
			for _, line := range l.Lines {
				w.word(line)
			}
			if l.closes || i+1 == len(fn.Locations) {
				break
			}
		}
		w.word(0)
		w.word(0)
		w.close(mark)
	}
}

// NotesVersion is the version of notes, 0 for what are none.
func NotesVersion(b []byte) Version {
	n, r := readNotesHead(b)
	if r.err != nil {
		return 0
	}
	return n.Version
}
