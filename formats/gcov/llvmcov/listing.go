package llvmcov

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"fmt"
	"io"
	"slices"
	"strings"

	"footfall/demangle"
	"footfall/formats/gcov"
	"footfall/output"
)

// An llvmListing prints what is known of one pair of notes and data.
type llvmListing struct {
	run        *llvmRun
	file       *llvmFile
	main       string // the operand
	gcno, gcda string
	sources    []llvmSource
	out        *output.PendingFile // being written
}

type llvmSource struct {
	name, display string
	ignored       bool
	starts        map[uint32][]*llvmFunc // functions by first line
	lines         map[uint32]*llvmLine
}

type llvmLine struct {
	blocks []llvmRef
	count  uint64
}

type llvmSummary struct {
	lines, linesExec                      uint64
	branches, branchesExec, branchesTaken uint64
}

// llvmOrder returns the numbers that have an entry, in order.
func llvmOrder[T any](m map[uint32]T) []uint32 {
	keys := make([]uint32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// demangled is the name of a function as it is shown.
func (l *llvmListing) demangled(fn *llvmFunc) string {
	if !l.run.opts.demangle {
		return fn.name
	}
	return demangle.LLVM(fn.name, int(l.run.version))
}

// print makes the listings and summaries of LLVM 12 and later.
func (l *llvmListing) print() {
	opts, out := &l.run.opts, l.run.stdout
	l.nameSources()
	for _, fn := range l.file.fns {
		sum := l.collect(fn)
		if opts.functions && !opts.stdout {
			fmt.Fprintf(out, "Function '%s'\n", l.demangled(fn))
			l.printSummary(out, &sum)
			out.WriteByte('\n')
		}
	}
	for i := range l.sources {
		s := &l.sources[i]
		if s.ignored {
			continue
		}
		sum := l.countLines(s)
		name := l.listingName(s.name)
		if !opts.stdout {
			fmt.Fprintf(out, "File '%s'\n", s.display)
			l.printSummary(out, &sum)
			if !opts.noOutput && !opts.intermediate {
				fmt.Fprintf(out, "Creating '%s'\n", name)
			}
			out.WriteByte('\n')
		}
		if opts.noOutput || opts.intermediate {
			continue
		}
		l.write(name, opts.stdout, func(w *bufio.Writer) { l.annotate(w, s) })
	}
	if opts.intermediate && !opts.noOutput {
		l.write(llvmName(l.main)+".gcov", false, func(w *bufio.Writer) {
			for i := range l.sources {
				l.printIntermediate(w, &l.sources[i])
			}
		})
	}
}

// nameSources sets up a source for each name in the file.
func (l *llvmListing) nameSources() {
	opts := &l.run.opts
	for _, name := range l.file.sources {
		s := llvmSource{
			name:    name,
			display: name,
			starts:  make(map[uint32][]*llvmFunc),
			lines:   make(map[uint32]*llvmLine),
		}
		if rest, ok := strings.CutPrefix(name, opts.prefix); ok && opts.prefix != "" {
			// A prefix that ends within a component is none.
			if rest == "" || rest[0] == '/' {
				s.display = strings.TrimPrefix(rest, "/")
			}
		}
		s.ignored = opts.relative && llvmRootSlash(s.display) >= 0
		l.sources = append(l.sources, s)
	}
}

// collect books the blocks of a function on their lines.
func (l *llvmListing) collect(fn *llvmFunc) llvmSummary {
	own := &l.sources[fn.source]
	own.starts[fn.startLine] = append(own.starts[fn.startLine], fn)
	var sum llvmSummary
	ran := make(map[uint32]bool)
	for i := range fn.blocks {
		b := &fn.blocks[i]
		for _, lines := range b.lines {
			s := &l.sources[lines.source]
			for _, num := range lines.lines {
				line, known := s.lines[num], true
				if line == nil {
					line, known = new(llvmLine), false
					s.lines[num] = line
				}
				was := line.count != 0
				line.blocks = append(line.blocks, llvmRef{fn, int32(i)})
				line.count += b.count
				if lines.source != fn.source {
					continue
				}
				if !l.run.version.sharesLines() {
					was, known = ran[num]
					ran[num] = was || b.count != 0
				}
				if !known {
					sum.lines++
				}
				if b.count != 0 && !was {
					sum.linesExec++
				}
			}
		}
	}
	return sum
}

// countLines sets the counts of all lines of a source.
func (l *llvmListing) countLines(s *llvmSource) llvmSummary {
	var sum llvmSummary
	for num, line := range s.lines {
		line.count = llvmLineCount(line.blocks)
		sum.lines++
		if line.count != 0 {
			sum.linesExec++
		}
		if !l.run.opts.branches {
			continue
		}
		for _, r := range line.blocks {
			b := r.get()
			if b.last != num || len(b.succ) < 2 {
				continue
			}
			sum.branches += uint64(len(b.succ))
			if line.count != 0 {
				sum.branchesExec += uint64(len(b.succ))
			}
			for _, i := range b.succ {
				if r.fn.arcs[i].count != 0 {
					sum.branchesTaken++
				}
			}
		}
	}
	return sum
}

func (l *llvmListing) printSummary(w io.Writer, s *llvmSummary) {
	fmt.Fprintf(w, "Lines executed:%s%% of %d\n", llvmPercent(s.linesExec, s.lines), s.lines)
	if !l.run.opts.branches {
		return
	}
	if s.branches == 0 {
		fmt.Fprint(w, "No branches\n")
	} else {
		fmt.Fprintf(w, "Branches executed:%s%% of %d\n", llvmPercent(s.branchesExec, s.branches), s.branches)
		fmt.Fprintf(w, "Taken at least once:%s%% of %d\n", llvmPercent(s.branchesTaken, s.branches), s.branches)
	}
	fmt.Fprint(w, "No calls\n")
}

func llvmPercent(part, whole uint64) string {
	switch {
	case whole == 0 && part == 0:
		return "-nan" // as x86 has it: 0/0 comes out negative
	case whole == 0:
		return "inf"
	}
	return fmt.Sprintf("%.2f", float64(part)*100/float64(whole))
}

// listingName is the name of the listing of a source.
func (l *llvmListing) listingName(source string) string {
	opts := &l.run.opts
	if opts.noOutput {
		return source
	}
	name := llvmMangle(source, opts.paths)
	if opts.longNames && source != l.main {
		name = llvmMangle(l.main, opts.paths) + "##" + name
	}
	if opts.hash {
		name += fmt.Sprintf("##%x", md5.Sum([]byte(source)))
	}
	return name + ".gcov"
}

// write hands out a writer to a file, or to the standard output; false if the
// file cannot be made.
func (l *llvmListing) write(name string, stdout bool, print func(*bufio.Writer)) bool {
	if stdout {
		print(l.run.stdout)
		return true
	}
	f, err := output.Create(l.run.path(name))
	if err != nil {
		l.run.say("%s\n", llvmErrorText(err))
		return false
	}
	l.out = f
	defer func() { l.out = nil }()
	defer f.Discard()
	w := bufio.NewWriterSize(f, 1<<16)
	print(w)
	if err = w.Flush(); err == nil {
		err = f.Close()
	}
	if err != nil {
		l.run.say("%s\n", llvmErrorText(err))
	}
	return true
}

// source reads a source; a message and nothing when it cannot be read. With what
// not everybody may read the listing is only for us.
func (l *llvmListing) source(name string) []byte {
	var text []byte
	var private bool
	var err error
	if name == "" || name == "-" {
		text, err = l.run.read(name)
	} else {
		text, private, err = l.run.owners.ReadSource(l.run.path(name))
	}
	if private && l.out != nil {
		err = l.out.Private()
	}
	if err != nil {
		l.run.say("%s: %s\n", name, llvmErrorText(err))
	}
	return text
}

// head prints the lines numbered 0.
func (l *llvmListing) head(w *bufio.Writer, display string) {
	fmt.Fprintf(w, "        -:    0:Source:%s\n", display)
	fmt.Fprintf(w, "        -:    0:Graph:%s\n", l.gcno)
	fmt.Fprintf(w, "        -:    0:Data:%s\n", l.gcda)
	fmt.Fprintf(w, "        -:    0:Runs:%d\n", l.file.runs)
	if l.file.layout < llvm900 {
		fmt.Fprintf(w, "        -:    0:Programs:%d\n", l.file.programs)
	}
}

func (l *llvmListing) annotate(w *bufio.Writer, s *llvmSource) {
	text := l.source(s.name)
	l.head(w, s.display)
	last := uint32(0)
	for num := range s.lines {
		last = max(last, num)
	}
	for num := uint32(1); len(text) > 0; num++ {
		// Behind the last line with code there are no functions either.
		if l.run.opts.branches && num <= last {
			for _, fn := range s.starts[num] {
				l.printFunction(w, fn)
			}
		}
		line := s.lines[num]
		if line == nil {
			w.WriteString("        -:")
		} else {
			printLLVMCount(w, line.count, "    #####:")
		}
		var row []byte
		row, text, _ = bytes.Cut(text, []byte("\n"))
		fmt.Fprintf(w, "%5d:%s\n", num, row)
		if line != nil {
			l.printBlocks(w, num, line)
		}
	}
}

func printLLVMCount(w *bufio.Writer, count uint64, none string) {
	if count == 0 {
		w.WriteString(none)
	} else {
		fmt.Fprintf(w, "%9d:", count)
	}
}

// printFunction prints what goes before the first line of a function.
func (l *llvmListing) printFunction(w *bufio.Writer, fn *llvmFunc) {
	if len(fn.blocks) == 0 {
		return
	}
	exit := l.file.exit(fn)
	var returned, ran uint64
	for _, i := range fn.blocks[exit].pred {
		returned += fn.arcs[i].count
	}
	for i := range fn.blocks {
		if b := &fn.blocks[i]; b.number != 0 && i != exit && b.count != 0 {
			ran++
		}
	}
	called := fn.blocks[0].count
	fmt.Fprintf(w, "function %s called %d returned %d%% blocks executed %d%%\n", l.demangled(fn), called,
		llvmRatio(returned, called), llvmRatio(ran, uint64(len(fn.blocks)-2)))
}

// llvmRatio is a percentage, cut off, but not to 0.
func llvmRatio(part, whole uint64) uint32 {
	if part == 0 || whole == 0 {
		return 0
	}
	if part *= 100; part < whole {
		return 1
	}
	return uint32(part / whole)
}

// printBlocks prints blocks and branches, each block below its last line.
func (l *llvmListing) printBlocks(w *bufio.Writer, num uint32, line *llvmLine) {
	opts := &l.run.opts
	if !opts.blocks && !opts.branches {
		return
	}
	block, edge := 0, 0
	for _, r := range line.blocks {
		b := r.get()
		if b.last != num {
			continue
		}
		if opts.blocks {
			printLLVMCount(w, b.count, "    $$$$$:")
			fmt.Fprintf(w, "%5d-block %2d\n", num, block)
			block++
		}
		if !opts.branches {
			continue
		}
		switch {
		case len(b.succ) > 1:
			var total uint64
			for _, i := range b.succ {
				total += r.fn.arcs[i].count
			}
			for _, i := range b.succ {
				fmt.Fprintf(w, "branch %2d %s\n", edge, l.taken(r.fn.arcs[i].count, total))
				edge++
			}
		case len(b.succ) == 1 && opts.unconditional:
			count := r.fn.arcs[b.succ[0]].count
			fmt.Fprintf(w, "unconditional %2d %s\n", edge, l.taken(count, count))
			edge++
		}
	}
}

// taken says how often an arc was taken, of the total of its block.
func (l *llvmListing) taken(count, total uint64) string {
	switch {
	case total == 0:
		return "never executed"
	case l.run.opts.counts:
		return fmt.Sprintf("taken %d", count)
	}
	return fmt.Sprintf("taken %d%%", llvmTaken(count, total))
}

// llvmTaken is a percentage, rounded, but to 0 and 100 only when it is that.
func llvmTaken(count, total uint64) uint8 {
	switch {
	case count == 0:
		return 0
	case count == total:
		return 100
	}
	switch p := uint8((count*100 + total/2) / total); p {
	case 0:
		return 1
	case 100:
		return 99
	default:
		return p
	}
}

// printIntermediate prints the lines of -i.
func (l *llvmListing) printIntermediate(w *bufio.Writer, s *llvmSource) {
	fmt.Fprintf(w, "file:%s\n", s.name)
	for _, start := range llvmOrder(s.starts) {
		for _, fn := range s.starts[start] {
			l.printIntermediateFunction(w, fn)
		}
	}
	for _, num := range llvmOrder(s.lines) {
		line := s.lines[num]
		if num == 0 {
			continue
		}
		fmt.Fprintf(w, "lcount:%d,%d\n", num, line.count)
		if l.run.opts.branches {
			l.printIntermediateBranches(w, num, line)
		}
	}
}

func (l *llvmListing) printIntermediateFunction(w *bufio.Writer, fn *llvmFunc) {
	var called uint64
	if len(fn.blocks) > 0 {
		called = fn.blocks[0].count
	}
	fmt.Fprintf(w, "function:%d,%d,%s\n", fn.startLine, called, l.demangled(fn))
}

func (l *llvmListing) printIntermediateBranches(w *bufio.Writer, num uint32, line *llvmLine) {
	for _, r := range line.blocks {
		b := r.get()
		if len(b.succ) < 2 || b.last != num {
			continue
		}
		for _, i := range b.succ {
			kind := "notexec"
			switch {
			case b.count == 0:
			case r.fn.arcs[i].count == 0:
				kind = "nottaken"
			default:
				kind = "taken"
			}
			fmt.Fprintf(w, "branch:%d,%s\n", num, kind)
		}
	}
}

// dump prints the graphs, for --dump.
func (f *llvmFile) dump(w *bufio.Writer) {
	for _, fn := range f.fns {
		fmt.Fprintf(w, "===== %s (%d) @ %s:%d\n", fn.name, fn.ident, f.sources[fn.source], fn.startLine)
		for i := range fn.blocks {
			f.dumpBlock(w, fn, &fn.blocks[i])
		}
	}
}

func (f *llvmFile) dumpBlock(w *bufio.Writer, fn *llvmFunc, b *llvmBlock) {
	fmt.Fprintf(w, "Block : %d Counter : %d\n", b.number, b.count)
	if len(b.pred) > 0 {
		w.WriteString("\tSource Edges : ")
		for _, i := range b.pred {
			fmt.Fprintf(w, "%d (%d), ", fn.blocks[fn.arcs[i].src].number, fn.arcs[i].count)
		}
		w.WriteByte('\n')
	}
	if len(b.succ) > 0 {
		w.WriteString("\tDestination Edges : ")
		for _, i := range b.succ {
			if f.version.solvesTree() && fn.arcs[i].flags&gcov.ArcTree != 0 {
				w.WriteByte('*')
			}
			fmt.Fprintf(w, "%d (%d), ", fn.blocks[fn.arcs[i].dst].number, fn.arcs[i].count)
		}
		w.WriteByte('\n')
	}
	for _, lines := range b.lines {
		if f.version.linesKeepSource() {
			fmt.Fprintf(w, "\tFile: %d: ", lines.source)
		} else {
			w.WriteString("\tLines : ")
		}
		for _, line := range lines.lines {
			fmt.Fprintf(w, "%d,", line)
		}
		w.WriteByte('\n')
	}
}
