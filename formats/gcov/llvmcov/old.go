package llvmcov

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"

	"footfall/formats/gcov"
)

// What llvm-cov gcov did until LLVM 11: the listings, and until 10 a reader
// that takes records in Clang's order only.

// An llvmOldCursor reads words; each read that fails says so.
type llvmOldCursor struct {
	f   *llvmFile
	b   []byte
	pos int
}

// tag reads a word if it is that tag.
func (c *llvmOldCursor) tag(tag uint32) bool {
	want := []byte{byte(tag), byte(tag >> 8), byte(tag >> 16), byte(tag >> 24)}
	if !bytes.HasPrefix(c.b[c.pos:], want) {
		return false
	}
	c.pos += 4
	return true
}

func (c *llvmOldCursor) word(w *uint32) bool {
	if len(c.b)-c.pos < 4 {
		fmt.Fprintf(c.f.stderr, "Unexpected end of memory buffer: %d.\n", c.pos+4)
		return false
	}
	p := c.b[c.pos:]
	*w = uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24
	c.pos += 4
	return true
}

func (c *llvmOldCursor) words(ws ...*uint32) bool {
	for _, w := range ws {
		if !c.word(w) {
			return false
		}
	}
	return true
}

// text reads a string behind as many empty ones as there are.
func (c *llvmOldCursor) text(s *string) bool {
	var n uint32
	for n == 0 {
		if !c.word(&n) {
			return false
		}
	}
	n *= 4
	if int64(len(c.b)-c.pos) < int64(n) {
		fmt.Fprintf(c.f.stderr, "Unexpected end of memory buffer: %d.\n", c.pos+int(n))
		return false
	}
	t, _, _ := bytes.Cut(c.b[c.pos:c.pos+int(n)], []byte{0})
	*s = string(t)
	c.pos += int(n)
	return true
}

// head reads magic, version and stamp.
func (c *llvmOldCursor) head(magic string, stamp *uint32) (layout llvmLayout, ok bool) {
	if got := c.b[:min(4, len(c.b))]; string(got) != magic {
		fmt.Fprintf(c.f.stderr, "Unexpected file type: %s.\n", got)
		return 0, false
	}
	c.pos = 4
	switch v := c.b[4:min(8, len(c.b))]; string(v) {
	case "*204":
		layout = llvm304
	case "*404", "*704":
		layout = llvm407
	default:
		fmt.Fprintf(c.f.stderr, "Unexpected version: %s.\n", v)
		return 0, false
	}
	c.pos = 8
	return layout, true
}

func (f *llvmFile) readOldNotes(b []byte) bool {
	c := &llvmOldCursor{f: f, b: b}
	var ok bool
	if f.layout, ok = c.head("oncg", &f.stamp); !ok || !c.word(&f.stamp) {
		return false
	}
	for c.tag(gcov.TagFunction) {
		fn := new(llvmFunc)
		if !f.readOldFunction(c, fn) {
			return false
		}
		f.fns = append(f.fns, fn)
	}
	return true
}

// fileSum reads the checksum of the file that functions have from 4.4 on.
func (f *llvmFile) fileSum(c *llvmOldCursor, fn *llvmFunc) bool {
	if f.layout < llvm407 {
		return true
	}
	var sum uint32
	if !c.word(&sum) {
		return false
	}
	if sum != f.stamp {
		fmt.Fprintf(f.stderr, "File checksums do not match: %d != %d in (%s).\n", f.stamp, sum, fn.name)
	}
	return sum == f.stamp
}

func (f *llvmFile) readOldFunction(c *llvmOldCursor, fn *llvmFunc) bool {
	var skip, n uint32
	var source string
	if !c.words(&skip, &fn.ident, &fn.lineSum) || !f.fileSum(c, fn) ||
		!c.text(&fn.name) || !c.text(&source) || !c.word(&fn.startLine) {
		return false
	}
	fn.source = f.source(source)
	if !c.tag(gcov.TagBlocks) {
		fmt.Fprint(f.stderr, "Block tag not found.\n")
		return false
	}
	if !c.word(&n) {
		return false
	}
	for i := range n {
		if !c.word(&skip) {
			return false
		}
		fn.blocks = append(fn.blocks, llvmBlock{number: i})
	}
	for c.tag(gcov.TagArcs) {
		var src, dst uint32
		if !c.words(&n, &src) || !f.oldBlock(fn, src) {
			return false
		}
		for range (n - 1) / 2 {
			if !c.words(&dst, &skip) || dst >= uint32(len(fn.blocks)) {
				return false
			}
			fn.addArc(int(src), int(dst), 0)
		}
	}
	for c.tag(gcov.TagLines) {
		if !f.readOldLines(c, fn, source) {
			return false
		}
	}
	return true
}

func (f *llvmFile) oldBlock(fn *llvmFunc, block uint32) bool {
	if block >= uint32(len(fn.blocks)) {
		fmt.Fprintf(f.stderr, "Unexpected block number: %d (in %s).\n", block, fn.name)
		return false
	}
	return true
}

func (f *llvmFile) readOldLines(c *llvmOldCursor, fn *llvmFunc, source string) bool {
	var n, block, skip uint32
	if !c.word(&n) {
		return false
	}
	end := c.pos + int(n*4)
	if !c.word(&block) || !f.oldBlock(fn, block) || !c.word(&skip) {
		return false
	}
	if c.pos != end-4 {
		var name string
		if !c.text(&name) {
			return false
		}
		if name != source {
			fmt.Fprintf(f.stderr, "Multiple sources for a single basic block: %s != %s (in %s).\n", source, name, fn.name)
			return false
		}
		for c.pos < end-8 {
			var line uint32
			if !c.word(&line) {
				return false
			}
			if line != 0 {
				fn.blocks[block].addLine(line, fn.source)
			}
		}
		if !c.word(&skip) {
			return false
		}
	}
	return c.word(&skip)
}

func (f *llvmFile) readOldData(b []byte) bool {
	c := &llvmOldCursor{f: f, b: b}
	var stamp uint32
	layout, ok := c.head("adcg", &stamp)
	if !ok {
		return false
	}
	if layout != f.layout {
		fmt.Fprint(f.stderr, "GCOV versions do not match.\n")
		return false
	}
	if !c.word(&stamp) {
		return false
	}
	if stamp != f.stamp {
		fmt.Fprintf(f.stderr, "File checksums do not match: %d != %d.\n", f.stamp, stamp)
		return false
	}
	for _, fn := range f.fns {
		if !c.tag(gcov.TagFunction) {
			fmt.Fprint(f.stderr, "Unexpected number of functions.\n")
			return false
		}
		if !f.readOldCounts(c, fn) {
			return false
		}
	}
	var n, skip uint32
	if c.tag(gcov.TagObjectSummary) {
		if !c.words(&n, &skip, &skip, &f.runs) {
			return false
		}
		c.skip(n - 3)
	}
	for c.tag(gcov.TagProgramSummary) {
		if !c.word(&n) {
			return false
		}
		c.skip(n)
		f.programs++
	}
	return true
}

func (c *llvmOldCursor) skip(words uint32) {
	c.pos += min(int(words*4), len(c.b)-c.pos)
}

func (f *llvmFile) readOldCounts(c *llvmOldCursor, fn *llvmFunc) bool {
	var n, ident, sum uint32
	if !c.word(&n) {
		return false
	}
	end := c.pos + int(n*4)
	if !c.word(&ident) {
		return false
	}
	if ident != fn.ident {
		fmt.Fprintf(f.stderr, "Function identifiers do not match: %d != %d (in %s).\n", fn.ident, ident, fn.name)
		return false
	}
	if !c.word(&sum) {
		return false
	}
	if sum != fn.lineSum {
		fmt.Fprintf(f.stderr, "Function checksums do not match: %d != %d (in %s).\n", fn.lineSum, sum, fn.name)
		return false
	}
	if !f.fileSum(c, fn) {
		return false
	}
	if c.pos < end {
		var name string
		if !c.text(&name) {
			return false
		}
		if name != fn.name {
			fmt.Fprintf(f.stderr, "Function names do not match: %s != %s.\n", fn.name, name)
			return false
		}
	}
	if !c.tag(gcov.TagCounters) {
		fmt.Fprintf(f.stderr, "Arc tag not found (in %s).\n", fn.name)
		return false
	}
	return c.word(&n) && f.readOldArcs(c, fn, n/2)
}

func (f *llvmFile) readOldArcs(c *llvmOldCursor, fn *llvmFunc, n uint32) bool {
	for i := 0; n > 0; i++ {
		if i == len(fn.blocks) {
			fmt.Fprintf(f.stderr, "Unexpected number of edges (in %s).\n", fn.name)
			return false
		}
		if i == len(fn.blocks)-1 {
			fmt.Fprintf(f.stderr, "(%s) has arcs from exit block.\n", fn.name)
		}
		b := &fn.blocks[i]
		for _, a := range b.succ {
			if n == 0 {
				fmt.Fprintf(f.stderr, "Unexpected number of edges (in %s).\n", fn.name)
				return false
			}
			n--
			var low, high uint32
			if !c.words(&low, &high) {
				return false
			}
			arc := &fn.arcs[a]
			arc.count = uint64(high)<<32 | uint64(low)
			b.count += arc.count
			if dst := &fn.blocks[arc.dst]; len(dst.succ) == 0 {
				dst.count += arc.count
			}
		}
		slices.SortStableFunc(b.succ, func(x, y int32) int { return int(fn.arcs[x].dst) - int(fn.arcs[y].dst) })
	}
	return true
}

// An llvmOldSource is what is known of a source after its listing.
type llvmOldSource struct {
	display string // "" for one without lines and functions
	listing string
	sum     llvmSummary
}

// printOld makes the listings and summaries. Sources are listed in the order
// of their names.
func (l *llvmListing) printOld() {
	opts, out := &l.run.opts, l.run.stdout
	l.nameSources()
	for _, fn := range l.file.fns {
		if fn.startLine == 0 {
			continue
		}
		l.collect(fn)
	}
	var order []int
	for i := range l.sources {
		if s := &l.sources[i]; len(s.lines) > 0 || len(s.starts) > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return bytes.Compare([]byte(l.sources[a].name), []byte(l.sources[b].name))
	})
	done := make([]llvmOldSource, len(l.sources))
	var fns []*llvmFunc // in the order in which lines of theirs come
	sums := make(map[*llvmFunc]*llvmSummary)
	if opts.intermediate && !opts.noOutput && !l.printOldIntermediate() {
		return
	}
	for _, i := range order {
		s := &l.sources[i]
		done[i] = llvmOldSource{display: s.name, listing: l.listingName(s.name)}
		for _, num := range llvmOrder(s.lines) {
			line := s.lines[num]
			line.count = llvmOldLineCount(line.blocks)
			for _, r := range line.blocks {
				if sums[r.fn] == nil {
					sums[r.fn] = new(llvmSummary)
					fns = append(fns, r.fn)
				}
			}
			done[i].sum.addOldLine(num, line, sums)
		}
		text := l.oldSource(s.name)
		if !opts.noOutput && (opts.stdout || !opts.intermediate) {
			l.write(done[i].listing, opts.stdout, func(w *bufio.Writer) { l.annotateOld(w, s, text) })
		}
	}
	if opts.stdout {
		return
	}
	if opts.functions {
		for _, fn := range fns {
			fmt.Fprintf(out, "Function '%s'\n", fn.name)
			l.printSummary(out, sums[fn])
			out.WriteByte('\n')
		}
	}
	if l.run.version.fixedLayout() {
		for _, i := range order {
			l.printOldSource(&done[i])
		}
		return
	}
	for i := range done {
		l.printOldSource(&done[i])
	}
}

func (l *llvmListing) oldSource(name string) []byte {
	if l.run.opts.intermediate {
		return nil
	}
	return l.source(name)
}

func (l *llvmListing) printOldSource(s *llvmOldSource) {
	out := l.run.stdout
	fmt.Fprintf(out, "File '%s'\n", s.display)
	l.printSummary(out, &s.sum)
	if !l.run.opts.noOutput && !l.run.opts.intermediate {
		if l.run.version.fixedLayout() {
			fmt.Fprintf(out, "%s:creating '%s'\n", s.display, s.listing)
		} else {
			fmt.Fprintf(out, "Creating '%s'\n", s.listing)
		}
	}
	out.WriteByte('\n')
}

// addOldLine adds a line to the sums of its source and its functions.
func (s *llvmSummary) addOldLine(num uint32, line *llvmLine, fns map[*llvmFunc]*llvmSummary) {
	ran := make(map[*llvmFunc]bool)
	for _, r := range line.blocks {
		was, known := ran[r.fn]
		if !known {
			fns[r.fn].lines++
		}
		b := r.get()
		if b.count != 0 && !was {
			fns[r.fn].linesExec++
		}
		ran[r.fn] = was || b.count != 0
		if b.last != num || len(b.succ) < 2 {
			continue
		}
		for _, sum := range []*llvmSummary{s, fns[r.fn]} {
			sum.addBranches(r.fn, b)
		}
	}
	s.lines++
	if line.count != 0 {
		s.linesExec++
	}
}

func (s *llvmSummary) addBranches(fn *llvmFunc, b *llvmBlock) {
	for _, i := range b.succ {
		s.branches++
		if b.count != 0 {
			s.branchesExec++
		}
		if fn.arcs[i].count != 0 {
			s.branchesTaken++
		}
	}
}

// llvmLastLine is where listings of lines without source end, so that a
// damaged line number does not fill the disk.
const llvmLastLine = 1 << 20

// annotateOld prints a listing, which goes on behind the end of the source as
// long as there are lines.
func (l *llvmListing) annotateOld(w *bufio.Writer, s *llvmSource, text []byte) {
	l.head(w, s.name)
	last := uint32(0)
	for num := range s.lines {
		last = max(last, num)
	}
	for num := range s.starts {
		last = max(last, num)
	}
	last = min(last, llvmLastLine)
	for num := uint32(1); num <= last || len(text) > 0; num++ {
		if l.run.opts.branches {
			for _, fn := range s.starts[num] {
				printOldFunction(w, fn)
			}
		}
		row := []byte("/*EOF*/")
		if len(text) > 0 {
			row, text, _ = bytes.Cut(text, []byte("\n"))
		}
		line := s.lines[num]
		if line == nil {
			w.WriteString("        -:")
		} else {
			printLLVMCount(w, line.count, "    #####:")
		}
		fmt.Fprintf(w, "%5d:%s\n", num, row)
		if line != nil {
			l.printBlocks(w, num, line)
		}
	}
}

func printOldFunction(w *bufio.Writer, fn *llvmFunc) {
	if len(fn.blocks) == 0 {
		return
	}
	called, returned := fn.blocks[0].count, fn.blocks[len(fn.blocks)-1].count
	var ran uint64
	for i := range fn.blocks {
		if b := &fn.blocks[i]; len(b.succ) > 0 && b.count != 0 {
			ran++
		}
	}
	fmt.Fprintf(w, "function %s called %d returned %d%% blocks executed %d%%\n",
		fn.name, called, llvmOldRatio(returned, called), llvmOldRatio(ran, uint64(len(fn.blocks)-1)))
}

// llvmOldRatio is a percentage, cut off.
func llvmOldRatio(part, whole uint64) uint32 {
	if part == 0 || whole == 0 {
		return 0
	}
	return uint32(part * 100 / whole)
}

// printOldIntermediate writes the listing of -i; false if it cannot.
func (l *llvmListing) printOldIntermediate() bool {
	return l.write(llvmName(l.main)+".gcov", false, func(w *bufio.Writer) {
		for i := range l.sources {
			s := &l.sources[i]
			fmt.Fprintf(w, "file:%s\n", s.name)
			for _, fn := range l.file.fns {
				if fn.source == i {
					l.printIntermediateFunction(w, fn)
				}
			}
			for _, num := range llvmOrder(s.lines) {
				line := s.lines[num]
				fmt.Fprintf(w, "lcount:%d,%d\n", num, llvmOldLineCount(line.blocks))
				if l.run.opts.branches {
					l.printIntermediateBranches(w, num, line)
				}
			}
		}
	})
}
