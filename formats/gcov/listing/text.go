package listing

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"

	"footfall/formats/gcov"
)

const (
	noLineNumber = "        -:    0:"
	separator    = "------------------\n"

	resetColor  = "\x1b[m\x1b[K"
	cyanText    = "\x1b[36m\x1b[K"
	onRed       = "\x1b[41m\x1b[K"
	onGreen     = "\x1b[42m\x1b[K"
	onYellow    = "\x1b[43m\x1b[K"
	onMagenta   = "\x1b[45m\x1b[K"
	onCyan      = "\x1b[46m\x1b[K"
	whiteOnRed  = "\x1b[41;37m\x1b[K"
	whiteOnCyan = "\x1b[46;37m\x1b[K"
	whiteOnPink = "\x1b[45;37m\x1b[K"
)

// listing makes the results for a source as text.
func (l *lister) listing(src *listSource, r *results) {
	l.total(src)
	if l.debug {
		r.stderr = l.dump(r.stderr, src)
	}
	if !l.toStdout {
		r.stdout = l.fileSummary(r.stdout, src)
	}
	if l.write && src.summary.lines > 0 {
		p := &printer{lister: l, src: src, results: r}
		if l.json {
			p.intermediate()
		} else {
			p.print()
		}
		r.text = p.out
		if p.streamed {
			r.late = p.errors
		} else {
			r.stderr = append(r.stderr, p.errors...)
		}
	}
	src.lines = nil
	for _, f := range src.functions {
		f.own = nil
	}
}

// A printer prints the listing of a source.
type printer struct {
	*lister
	src     *listSource
	results *results
	out     []byte
	errors  []byte
	// streamed: a part of the listing has been handed on, with the errors up to then.
	streamed bool
	lines    [][]byte // of the source file
	found    bool
	others   map[*listSource][][]byte // lines of other sources, on paths
}

// lastPadded is the last line that is shown behind the end of a source: a
// damaged file can name lines far beyond it.
const lastPadded = 1 << 20

// print prints the listing: the source with a count before each line.
func (p *printer) print() {
	p.readSource()
	p.head()
	end := uint32(len(p.lines))
	if padsMissingSource(p.version) && p.src.size > 0 {
		end = max(end, min(p.src.size-1, lastPadded))
	}
	filtered := len(p.filters) > 0
	shown := end // the last line to be shown, with filters
	if filtered {
		shown = 0
	}
	groupEnd := uint32(0)
	var group []*listFunction
	for n := uint32(1); n <= end; n++ {
		if n >= p.src.size {
			if filtered {
				break
			}
			p.out = append(p.out, "        -:"...)
			p.number(n)
			p.source(n)
			p.endLine()
			continue
		}
		if groupEnd == 0 {
			switch fns := p.functionsAt(n); {
			case len(fns) > 1 && hasGroups(p.version):
				group = fns
				for _, f := range fns {
					groupEnd = max(groupEnd, f.end)
				}
				if extendsToFunctionEnd(p.version) {
					groupEnd = min(groupEnd, p.src.size-1)
				}
				if filtered {
					shown = groupEnd
				}
			case len(fns) > 0:
				for _, f := range fns {
					p.function(f)
				}
				if filtered {
					shown = fns[0].end
				}
			}
		}
		if !filtered || n <= shown {
			p.line(p.src.lines.at(n), n)
		}
		if groupEnd == n {
			p.group(group)
			groupEnd = 0
		}
	}
}

// functionsAt returns the functions that start on line n, in the order of
// gcov's sort. Before groups were known, they stand as in the notes.
func (p *printer) functionsAt(n uint32) []*listFunction {
	fns := p.src.slots[n]
	introsort(fns, startsBefore)
	return fns
}

func startsBefore(a, b *listFunction) bool {
	if a.start == b.start {
		return a.startColumn < b.startColumn
	}
	return a.start < b.start
}

func (p *printer) head() {
	if p.colors && hasJSON(p.version) {
		p.text(noLineNumber, "Colorization: profile count: ", onCyan, "zero coverage (exceptional)", resetColor, " ",
			onRed, "zero coverage (unexceptional)", resetColor, " ", onMagenta, "unexecuted block", resetColor, "\n")
	}
	if p.hotness {
		p.text(noLineNumber, "Colorization: line numbers: hotness: ", onRed, "> 50%", resetColor, " ",
			onYellow, "> 20%", resetColor, " ", onGreen, "> 10%", resetColor, "\n")
	}
	p.text(noLineNumber, "Source:", p.src.shown, "\n")
	if !p.several {
		data := p.dataName
		if p.noData {
			data = "-"
		}
		p.text(noLineNumber, "Graph:", p.notesName, "\n", noLineNumber, "Data:", data, "\n")
		p.text(noLineNumber, "Runs:", strconv.FormatUint(uint64(uint32(p.runs)), 10), "\n")
		if listsPrograms(p.version) {
			p.text(noLineNumber, "Programs:", strconv.Itoa(p.programs), "\n")
		}
	}
	if p.found && p.src.mtime == 0 {
		p.text(noLineNumber, "Source is newer than graph\n")
	}
}

func (p *printer) text(parts ...string) {
	for _, s := range parts {
		p.out = append(p.out, s...)
	}
}

// readSource reads the lines of the source.
func (p *printer) readSource() {
	b, err := gcov.ReadSourceFile(p.owners, p.src.name)
	if err != nil {
		p.errors = append(p.errors, "Cannot open source file "+p.src.name+"\n"...)
		return
	}
	p.found = true
	p.lines = splitLines(b)
}

func splitLines(b []byte) [][]byte {
	if bytes.IndexByte(b, 0) >= 0 {
		return splitLinesAtNUL(b)
	}
	lines := make([][]byte, 0, bytes.Count(b, []byte{'\n'})+1)
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		lines = append(lines, line)
		b = rest
	}
	return lines
}

// splitLinesAtNUL splits text that has NUL characters. Gcov reads it in pieces,
// loses what stands behind a NUL in its piece, and with that the end of the
// line, so that the next line is joined to it.
func splitLinesAtNUL(b []byte) [][]byte {
	var lines [][]byte
	var line []byte
	room := 200 // of gcov's buffer
	for len(b) > 0 {
		piece := b[:min(len(b), room-len(line)-1)]
		if i := bytes.IndexByte(piece, '\n'); i >= 0 {
			piece = piece[:i+1]
		}
		b = b[len(piece):]
		text, _, _ := bytes.Cut(piece, []byte{0})
		line = append(line, text...)
		if bytes.HasSuffix(text, []byte{'\n'}) {
			lines = append(lines, line[:len(line)-1])
			line = nil
		} else if len(line) > room/2 {
			room *= 2
		}
	}
	if len(line) > 0 {
		lines = append(lines, line)
	}
	return lines
}

// source prints the text of line n behind its number.
func (p *printer) source(n uint32) {
	p.out = append(p.out, ':')
	if int(n) <= len(p.lines) {
		p.out = append(p.out, p.lines[n-1]...)
	} else if padsMissingSource(p.version) {
		p.out = append(p.out, "/*EOF*/"...)
	}
	p.out = append(p.out, '\n')
}

// number prints a line number, five wide.
func (p *printer) number(n uint32) {
	for k := uint32(10000); k > n && k > 1; k /= 10 {
		p.out = append(p.out, ' ')
	}
	p.out = strconv.AppendUint(p.out, uint64(n), 10)
}

func (p *printer) line(line *listLine, n uint32) {
	p.count(line, n, "=====", "#####", p.src.hottest)
	p.source(n)
	p.details(line, n)
	p.endLine()
}

// endLine hands on what has been printed, if it is much.
func (p *printer) endLine() {
	if len(p.out) < mostListed {
		return
	}
	if !p.streamed {
		p.streamed = true
		p.results.stderr = append(p.results.stderr, p.errors...)
		p.errors = nil
	}
	p.out = p.results.stream(p.out)
}

// group prints the functions of a group, each with its own lines.
func (p *printer) group(fns []*listFunction) {
	for _, f := range fns {
		p.text(separator)
		if p.colors {
			p.text(cyanText, p.functionName(f), resetColor, ":\n")
		} else {
			p.text(p.functionName(f), ":\n")
		}
		p.function(f)
		for n := f.start; f.own != nil && n <= f.end && int(n) <= len(p.lines); n++ {
			p.line(f.own.at(n), n)
		}
	}
	p.text(separator)
}

// count prints what stands before a source line: the count, nine wide, and the
// number of the line.
func (p *printer) count(line *listLine, n uint32, exceptional, normal string, hottest uint32) {
	start := len(p.out)
	switch {
	case !line.exists:
		p.out = append(p.out, '-')
		p.pad(start)
	case line.count > 0:
		p.out = p.appendCount(p.out, line.count)
		switch {
		case !line.unexecuted || !p.marks || !marksUnexecuted(p.version):
		case p.colors:
			p.pad(start)
			p.wrap(start, whiteOnPink)
		default:
			p.out = append(p.out, '*')
		}
		p.pad(start)
	case p.colors:
		p.out = append(p.out, '0')
		p.pad(start)
		if line.unexceptional {
			p.wrap(start, whiteOnRed)
		} else {
			p.wrap(start, whiteOnCyan)
		}
	default:
		if line.unexceptional || !exceptionalLines(p.version) {
			exceptional = normal
		}
		p.out = append(p.out, exceptional...)
		p.pad(start)
	}
	p.out = append(p.out, ':')
	start = len(p.out)
	p.number(n)
	if p.hotness && hottest > 0 {
		p.heat(start, line.count, int64(hottest))
	}
}

// heat colours the line number that begins at start.
func (p *printer) heat(start int, count, hottest int64) {
	switch {
	case count*2 > hottest:
		p.wrap(start, onRed)
	case count*5 > hottest:
		p.wrap(start, onYellow)
	case count*10 > hottest:
		p.wrap(start, onGreen)
	default:
		p.out = append(p.out, resetColor...)
	}
}

// pad moves what was printed since start right, to be nine wide.
func (p *printer) pad(start int) {
	n := len(p.out) - start
	if n >= 9 {
		return
	}
	p.out = append(p.out, "         "[:9-n]...)
	copy(p.out[start+9-n:], p.out[start:start+n])
	for i := start; i < start+9-n; i++ {
		p.out[i] = ' '
	}
}

// wrap puts a colour around what was printed since start.
func (p *printer) wrap(start int, color string) {
	p.out = append(p.out, resetColor...)
	p.out = append(p.out, color...)
	copy(p.out[start+len(color):], p.out[start:len(p.out)-len(color)])
	copy(p.out[start:], color)
}

// details prints the blocks, branches and conditions of a line.
func (p *printer) details(line *listLine, n uint32) {
	if len(line.shares) == 0 {
		return
	}
	if p.allBlocks {
		p.blocks(line, n)
		return
	}
	if p.branches {
		index := 0
		for _, r := range line.shares {
			arcs := r.arcs()
			for k := range arcs {
				index += p.arc(index, &arcs[k])
			}
		}
	}
	if p.options.conditions && jsonFormat2(p.version) {
		for _, r := range line.shares {
			blocks := r.blocks()
			for k := range blocks {
				p.condition(&blocks[k])
			}
		}
	}
}

func (p *printer) blocks(line *listLine, n uint32) {
	exceptional, normal := "$$$$$", "%%%%%"
	if swapsBlockMarks(p.version) {
		exceptional, normal = normal, exceptional
	}
	index, arcIndex := 0, 0
	for _, r := range line.shares {
		arcs := r.arcs()
		blocks := r.blocks()
		for k := range blocks {
			b := &blocks[k]
			if !b.callReturn {
				// With colours, blocks have the colours that lines have not.
				head := listLine{exists: line.exists, unexceptional: b.exceptional, count: b.count}
				p.count(&head, n, normal, exceptional, 0)
				p.blockNumber(index, b)
				index++
			}
			for ; p.branches && b.arcs > 0; b.arcs-- {
				arcIndex += p.arc(arcIndex, &arcs[0])
				arcs = arcs[1:]
			}
			if p.options.conditions && jsonFormat2(p.version) {
				p.condition(b)
			}
		}
	}
}

func (p *printer) blockNumber(index int, b *listBlock) {
	p.text("-block ")
	if blockIDs(p.version) {
		p.out = strconv.AppendInt(p.out, int64(b.id), 10)
	} else {
		p.index(index)
	}
	if p.verbose {
		p.text(" (BB ", strconv.Itoa(int(b.id)), ")")
	}
	p.out = append(p.out, '\n')
}

// index prints a number two wide.
func (p *printer) index(i int) {
	if i < 10 {
		p.out = append(p.out, ' ')
	}
	p.out = strconv.AppendInt(p.out, int64(i), 10)
}

// arc prints a branch, a call or, where asked for, an unconditional branch. It
// returns 1 if it printed anything.
func (p *printer) arc(index int, a *listArc) int {
	switch {
	case a.call:
		p.text("call   ")
		p.index(index)
		if a.total == 0 {
			p.text(" never executed\n")
			return 1
		}
		p.text(" returned ")
		p.share(a.total-a.count, a.total)
	case !a.unconditional:
		p.text("branch ")
		p.index(index)
		if a.total != 0 {
			p.text(" taken ")
			p.share(a.count, a.total)
		} else {
			p.text(" never executed")
		}
		if a.total != 0 || suffixOnNever(p.version) {
			if a.fallthru {
				p.text(" (fallthrough)")
			} else if a.throw {
				p.text(" (throw)")
			}
		}
		if p.verbose {
			p.text(" (BB ", strconv.Itoa(int(a.dst)), ")")
		}
	case p.unconditional && !a.toCallReturn:
		p.text("unconditional ")
		p.index(index)
		if a.total == 0 {
			p.text(" never executed\n")
			return 1
		}
		p.text(" taken ")
		p.share(a.count, a.total)
	default:
		return 0
	}
	p.out = append(p.out, '\n')
	return 1
}

// share prints a part of a whole as a count or as a percentage.
func (p *printer) share(part, whole int64) {
	if p.counts {
		p.out = p.appendCount(p.out, part)
	} else {
		p.out = p.appendWhole(p.out, part, whole)
	}
}

func (p *printer) condition(b *listBlock) {
	if b.terms == 0 {
		return
	}
	all, got := 2*int(b.terms), b.covered()
	p.text("condition outcomes covered ", strconv.Itoa(got), "/", strconv.Itoa(all), "\n")
	if got == all {
		return
	}
	for i := range b.terms {
		t, f := b.truev>>i&1 != 0, b.falsev>>i&1 != 0
		missing := "true false"
		switch {
		case t && f:
			continue
		case t:
			missing = "false"
		case f:
			missing = "true"
		}
		p.text("condition ")
		p.index(int(i))
		p.text(" not covered (", missing, ")\n")
	}
}

// function prints the line about a function.
func (p *printer) function(f *listFunction) {
	if p.branches {
		p.text("function ", p.functionName(f), " called ")
		p.out = p.appendCount(p.out, f.called)
		p.text(" returned ")
		p.out = p.appendWhole(p.out, f.returned, f.called)
		p.text(" blocks executed ")
		p.out = p.appendWhole(p.out, int64(f.blocksExecuted), int64(uint32(f.blocks-2)))
		p.out = append(p.out, '\n')
	}
	if p.options.paths && jsonPaths(p.version) {
		p.printPaths(f)
	}
}

// appendCount appends a count, rounded with -H; in GCC 8 to whole thousands.
func (l *lister) appendCount(b []byte, count int64) []byte {
	if count < 1000 || !l.human {
		return strconv.AppendInt(b, count, 10)
	}
	const units = " kMGTPEZY"
	i, divisor := 0, int64(1)
	for ; i < len(units)-1; i++ {
		if count+divisor/2 < 1000*divisor {
			break
		}
		divisor *= 1000
	}
	if hasJSON(l.version) {
		b = strconv.AppendFloat(b, float64(float32(count)/float32(divisor)), 'f', 1, 64)
	} else {
		b = strconv.AppendInt(b, (count+divisor/2)/divisor, 10)
	}
	return append(b, units[i])
}

// appendWhole appends a percentage without decimals.
func (l *lister) appendWhole(b []byte, part, whole int64) []byte {
	return appendPercent(l.version, b, part, whole, 0)
}

// appendPercent appends a percentage. Single precision shows in the digits.
func appendPercent(v gcov.Version, b []byte, part, whole int64, decimals int) []byte {
	if refusesPercent(v) && part > whole && whole != 0 {
		return append(b, "NAN %"...)
	}
	if !floatPercent(v) {
		return appendOldPercent(b, part, whole, decimals)
	}
	var ratio float32
	if whole != 0 {
		ratio = 100 * float32(part) / float32(whole)
	}
	if decimals == 0 && ratio > 0 && ratio < 0.5 {
		ratio = 1
	}
	b = strconv.AppendFloat(b, float64(ratio), 'f', decimals, 64)
	return append(b, '%')
}

// appendOldPercent appends a percentage as gcov does before GCC 9: 0 and 100 only where
// that is exact. Single precision decides what is rounded up.
func appendOldPercent(b []byte, part, whole int64, decimals int) []byte {
	limit := uint32(100)
	for range decimals {
		limit *= 10
	}
	var ratio float32
	if whole != 0 {
		ratio = float32(part) / float32(whole)
	}
	percent := uint32(int64(float32(ratio*float32(limit)) + 0.5))
	if percent == 0 && part != 0 {
		percent = 1
	} else if percent >= limit && part != whole {
		percent = limit - 1
	}
	b = strconv.AppendUint(b, uint64(percent/(limit/100)), 10)
	if decimals > 0 {
		b = fmt.Appendf(b, ".%0*d", decimals, percent%(limit/100))
	}
	return append(b, '%')
}

// dump appends the functions, blocks and lines of a source.
func (l *lister) dump(b []byte, src *listSource) []byte {
	b = append(b, "source_info: "+src.name+"\n"...)
	for _, f := range src.functions {
		b = append(b, "  function_info: "+l.functionName(f)+"\n"...)
		for _, c := range f.counts {
			b = append(b, "    block_info id="...)
			b = strconv.AppendInt(b, int64(c.id), 10)
			b = append(b, ", count="...)
			b = strconv.AppendInt(b, c.count, 10)
			b = append(b, " \n"...)
		}
	}
	for n := uint32(1); n < min(src.size, lastPadded); n++ {
		b = append(b, "  line_info="...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, ", count="...)
		b = strconv.AppendInt(b, src.lines.at(n).count, 10)
		b = append(b, '\n')
	}
	return append(b, '\n')
}

// relativeOnly tells whether -r leaves the source out.
func (l *lister) relativeOnly(src *listSource) bool {
	return l.relative && filepath.IsAbs(src.shown)
}
