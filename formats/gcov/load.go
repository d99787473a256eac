package gcov

import (
	"math/bits"
	"slices"

	"footfall/input"
)

// loaded is what was read for one operand.
type loaded struct {
	operand             string
	notesName, dataName string
	repeated            bool // the data file was named before
	first               bool // filters are in force

	opened, isNotes  bool // the notes could be opened, are notes
	decoded          bool // and their head was read
	notesTime        int64
	version          Version // the personality
	versioned        bool    // a file told it
	cwd              string
	marks            bool
	noData           bool
	hasRuns          bool
	runs, programs   int
	sources          []string // in the order of their mention
	functions        []*listFunction
	head, body, tail []notice // before sources are named, behind them, about the data
	kept             []*Function
}

// A loader reads and solves operands, one after the other.
type loader struct {
	*options
	forced Version
	sharer sharer
	graph  flow
	buf    []byte // for the files, one after the other
	names  *demangler
}

func newLoader(opt *options, forced Version, names *demangler) *loader {
	ld := &loader{options: opt, forced: forced, names: names}
	ld.sharer.line.flow = &ld.graph
	return ld
}

// personality is the version whose gcov reads notes of version v.
func (ld *loader) personality(v Version) Version {
	f := ld.forced
	if f == 0 || f.number()%10 == 0 && f.Major() >= 5 && f.Major() == v.Major() {
		return v
	}
	return f
}

func (ld *loader) load(in *loaded) {
	if in.repeated {
		return
	}
	in.version = ld.forced
	notes := ld.readNotes(in)
	if notes != nil {
		ld.prepare(in, notes)
	}
	counts := ld.readCounts(in, notes)
	if in.version.dropsUncounted() && !in.noData {
		counts = in.dropUncounted(counts)
	}
	if notes != nil {
		ld.solve(in, notes, counts)
	}
}

func (ld *loader) readNotes(in *loaded) *Notes {
	b, mtime, err := readTimed(ld.owners, in.notesName, ld.buf)
	if err != nil {
		in.head = append(in.head, notice{in.notesName + ":cannot open notes file\n", 1})
		return nil
	}
	ld.buf = b
	in.opened, in.notesTime = true, mtime
	notes, err := ReadNotes(b)
	if notes == nil && !isMagic(b, notesMagic) {
		in.head = append(in.head, notice{in.notesName + ":not a gcov notes file\n", 2})
		return nil
	}
	in.isNotes = true
	var damage []notice
	if err != nil {
		notes, damage = salvageNotes(b, in.notesName)
	}
	in.version, in.versioned = ld.personality(notes.Version), true
	if ld.forced != 0 && notes.Version != in.version {
		in.head = append(in.head, notice{in.notesName + ":version '" + notes.Version.String() + "', prefer '" + in.version.String() + "'\n", 3})
	}
	in.decoded, in.cwd, in.marks = true, notes.Cwd, notes.Unexecuted
	in.body = append(in.body, damage...)
	return notes
}

// readTimed reads a file into buf, or a larger slice, and tells when it was
// last changed.
func readTimed(owners *input.Owners, name string, buf []byte) (b []byte, mtime int64, err error) {
	b, changed, err := owners.ReadInto(buf, name, input.MostData)
	if b == nil {
		return nil, 0, err
	}
	// What cannot be read ends the file, as it does for gcov.
	return b, changed.Unix(), nil
}

func isMagic(b []byte, want uint32) bool {
	r := reader{b: b}
	r.magic(want, "")
	return r.err == nil
}

// prepare names the sources and chooses the functions.
func (ld *loader) prepare(in *loaded, notes *Notes) {
	s := &ld.sharer
	s.sources, s.names = nil, nil
	filters := ld.filters
	if !in.first {
		// Gcov forgets the filters behind the first file written as JSON, but
		// not what to do with functions that none matches.
		filters = nil
	}
	for _, fn := range notes.Functions {
		source := s.mention(fn)
		f := &listFunction{
			name: fn.Name, source: source, start: min(fn.StartLine, maxLine), end: min(fn.EndLine, maxLine),
			startColumn: fn.StartColumn, endColumn: fn.EndColumn, artificial: fn.Artificial, blocks: fn.Blocks,
		}
		if ld.demangle || ld.filterDemangled || ld.json {
			f.plain = ld.names.demangled(fn.Name, in.version)
		}
		name := fn.Name
		if ld.filterDemangled {
			name = f.plain
		}
		if (ld.drop || len(filters) > 0) && !ld.keeps(filters, name) {
			continue
		}
		in.functions = append(in.functions, f)
		in.kept = append(in.kept, fn)
	}
	in.sources = s.names
}

// functionData are the counters of a function.
type functionData struct {
	counted    bool // the data have counters of arcs for it
	arcs       []int64
	conditions []conditionCounts
	paths      []uint64
}

// readCounts reads the data file and gives each function its counters.
func (ld *loader) readCounts(in *loaded, notes *Notes) []functionData {
	data := make([]functionData, len(in.kept))
	for i, fn := range in.kept {
		n := fn.counters()
		in.functions[i].instrumented = n > 0
		data[i].arcs = make([]int64, n)
		if in.version.jsonFormat2() {
			data[i].conditions = make([]conditionCounts, len(fn.Conditions))
		}
	}
	b, _, err := readTimed(ld.owners, in.dataName, nil)
	if err != nil {
		in.tail = append(in.tail, notice{in.dataName + ":cannot open data file, assuming not executed\n", 0})
		in.noData = true
		return data
	}
	if !isMagic(b, dataMagic) {
		in.tail = append(in.tail, notice{in.dataName + ":not a gcov data file\n", 2})
		return data
	}
	counts, err := ReadCounts(b)
	cut := false
	if err != nil {
		counts, cut = salvageCounts(b)
	}
	if notes == nil {
		in.version, in.versioned = ld.personality(counts.Version), true
	}
	// Without a forced version, that of the notes is the one to expect.
	if want := in.version; want != 0 && counts.Version != want {
		in.tail = append(in.tail, notice{in.dataName + ":version '" + counts.Version.String() + "', prefer version '" + want.String() + "'\n", 3})
	}
	stamp := uint32(0)
	if notes != nil {
		stamp = notes.Stamp
	}
	if counts.Stamp != stamp {
		in.tail = append(in.tail, notice{in.dataName + ":stamp mismatch with notes file\n", 5})
		return data
	}
	bad := ld.distribute(in, counts, data)
	if cut && in.version.noticesCuts() && bad == len(counts.Functions) {
		in.tail = append(in.tail, notice{in.dataName + ":corrupted\n", 4})
	}
	ld.readRuns(in, counts, bad)
	return data
}

// dropUncounted leaves the functions out for which there are no counters.
func (in *loaded) dropUncounted(data []functionData) []functionData {
	n := 0
	for i := range data {
		if data[i].counted {
			data[n], in.functions[n], in.kept[n] = data[i], in.functions[i], in.kept[i]
			n++
		}
	}
	in.functions, in.kept = in.functions[:n], in.kept[:n]
	return data[:n]
}

// readRuns takes the runs from the summaries before function end.
func (ld *loader) readRuns(in *loaded, counts *Counts, end int) {
	seen := Counts{Version: counts.Version}
	for _, s := range counts.Summaries {
		if s.Before <= end {
			seen.Summaries = append(seen.Summaries, s)
		}
	}
	in.runs, in.programs = seen.Runs()
	in.hasRuns = len(seen.Summaries) > 0
}

// distribute adds the counters to the functions that they belong to, and
// returns the index of the first function of the file that does not fit its
// notes, or their number. Those behind it are not looked at.
func (ld *loader) distribute(in *loaded, counts *Counts, data []functionData) int {
	byIdent := make(map[uint32]int, len(in.kept))
	for i, fn := range in.kept {
		byIdent[fn.Ident] = i
	}
	for k := range counts.Functions {
		c := &counts.Functions[k]
		i, ok := byIdent[c.Ident]
		if c.Placeholder || !ok {
			continue
		}
		fn := in.kept[i]
		if c.LineChecksum != fn.LineChecksum || c.CfgChecksum != fn.CfgChecksum || !data[i].add(c, fn, in.version) {
			name := fn.Name
			if ld.demangle {
				name = in.functions[i].plain
			}
			in.tail = append(in.tail, notice{in.dataName + ":profile mismatch for '" + name + "'\n", 0})
			return k
		}
	}
	return len(counts.Functions)
}

// add adds counters; it reports whether there are as many as fn has.
func (d *functionData) add(c *FunctionCounts, fn *Function, v Version) bool {
	for i := range c.Counters {
		k := &c.Counters[i]
		switch {
		case k.Kind == KindArcs:
			if k.Len() != len(d.arcs) {
				return false
			}
			d.counted = true
			for j, n := range k.Values {
				d.arcs[j] += n
			}
		case k.Kind == KindConditions && v.jsonFormat2():
			if k.Len() != 2*len(d.conditions) {
				return false
			}
			for j := range d.conditions {
				d.conditions[j].truev |= uint64(k.At(2 * j))
				d.conditions[j].falsev |= uint64(k.At(2*j + 1))
			}
		case k.Kind == KindPaths && v.jsonPaths():
			if k.Len() != (int(fn.Paths)+63)/64 {
				return false
			}
			d.paths = make([]uint64, k.Len())
			for j := range d.paths {
				d.paths[j] = uint64(k.At(j))
			}
		}
	}
	return true
}

// solve solves the graphs and keeps what listings need of them.
func (ld *loader) solve(in *loaded, notes *Notes, data []functionData) {
	v := in.version
	s := &ld.sharer
	s.detail = detail{
		arcs:    ld.branches,
		blocks:  ld.allBlocks || v.jsonFormat2() && (ld.conditions || ld.json),
		visits:  ld.sums,
		counts:  ld.debug,
		entries: ld.countsEntries(v),

		propagates: v.propagatesLines(),
	}
	s.line.old = v.propagatesLines()
	for i, fn := range in.kept {
		f := in.functions[i]
		if f.artificial {
			continue
		}
		ld.graph.build(fn, notes.Version)
		ld.graph.inspect(f)
		ld.graph.solve(data[i].arcs)
		ld.graph.summarize(f)
		s.share(f, data[i].conditions)
		if s.propagates && !ld.allBlocks {
			for k := range f.arcs {
				a := &f.arcs[k]
				f.outcomes.add(a.call, a.unconditional, a.total, a.count)
			}
		}
		if s.counts {
			for b := range ld.graph.blocks {
				f.counts = append(f.counts, blockCount{ld.graph.id(b), ld.graph.blocks[b].count})
			}
		}
		if ld.sums && v.functionBranches() {
			for k := range ld.graph.arcs {
				a := &ld.graph.arcs[k]
				f.outcomes.add(a.nonReturn, a.unconditional, ld.graph.blocks[a.src].count, a.count)
			}
			for k, c := range data[i].conditions {
				f.conditions += 2 * int(fn.Conditions[k].Terms)
				f.conditionsShown += bits.OnesCount64(c.truev) + bits.OnesCount64(c.falsev)
			}
		}
		if v.jsonPaths() && (ld.paths || ld.json) {
			f.paths = newPathCoverage(&ld.graph, f.source, data[i].paths, s, ld.paths)
		}
	}
	in.kept = nil
}

// inspect notes what is wrong with the graph.
func (g *flow) inspect(f *listFunction) {
	if len(g.blocks) < 2 {
		f.faults |= lacksEnds
		return
	}
	if g.blocks[0].openPred > 0 {
		f.faults |= arcsToEntry
	}
	if g.blocks[g.exit].openSucc > 0 {
		f.faults |= arcsFromExit
	}
}

// id is the number of the block as gcov shows it: blocks learn theirs from
// arcs.
func (g *flow) id(b int) int32 {
	fb := &g.blocks[b]
	if fb.succ == fb.succEnd && fb.pred == fb.predEnd && !slices.Contains(g.fn.arcless, uint32(b)) {
		return 0
	}
	return int32(b)
}

// summarize tells how often the function was called and returned, and how many
// of its blocks ran.
func (g *flow) summarize(f *listFunction) {
	if len(g.blocks) < 2 {
		return
	}
	f.called = g.blocks[0].count
	f.returned = g.blocks[g.exit].count
	for _, k := range g.preds(g.exit) {
		if g.arcs[k].fake() {
			f.returned -= g.arcs[k].count
		}
	}
	for b := 1; b < len(g.blocks)-1; b++ {
		if g.blocks[b].count != 0 {
			f.blocksExecuted++
		}
	}
}
