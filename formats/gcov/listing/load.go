package listing

import (
	"math/bits"
	"slices"

	"footfall/formats/gcov"
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
	version          gcov.Version // the personality
	versioned        bool         // a file told it
	cwd              string
	marks            bool
	noData           bool
	hasRuns          bool
	runs, programs   int
	sources          []string // in the order of their mention
	functions        []*listFunction
	head, body, tail []notice // before sources are named, behind them, about the data
	kept             []*gcov.FunctionGraph
}

// A loader reads and solves operands, one after the other.
type loader struct {
	*options
	forced gcov.Version
	sharer sharer
	graph  gcov.Flow
	buf    []byte // for the files, one after the other
	names  *demangler
}

func newLoader(opt *options, forced gcov.Version, names *demangler) *loader {
	ld := &loader{options: opt, forced: forced, names: names}
	ld.sharer.line.Flow = &ld.graph
	return ld
}

// personality is the version whose gcov reads notes of version v.
func (ld *loader) personality(v gcov.Version) gcov.Version {
	f := ld.forced
	if f == 0 || f.Number()%10 == 0 && f.Major() >= 5 && f.Major() == v.Major() {
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
	if dropsUncounted(in.version) && !in.noData {
		counts = in.dropUncounted(counts)
	}
	if notes != nil {
		ld.solve(in, notes, counts)
	}
}

func (ld *loader) readNotes(in *loaded) *gcov.Notes {
	b, mtime, err := readTimed(ld.owners, in.notesName, ld.buf)
	if err != nil {
		in.head = append(in.head, notice{in.notesName + ":cannot open notes file\n", 1})
		return nil
	}
	ld.buf = b
	in.opened, in.notesTime = true, mtime
	notes, err := gcov.ReadNotes(b)
	if notes == nil && !gcov.IsMagic(b, gcov.NotesMagic) {
		in.head = append(in.head, notice{in.notesName + ":not a gcov notes file\n", 2})
		return nil
	}
	in.isNotes = true
	var damage []gcov.Damage
	if err != nil {
		notes, damage = gcov.SalvageNotes(b)
	}
	in.version, in.versioned = ld.personality(notes.Version), true
	if ld.forced != 0 && notes.Version != in.version {
		in.head = append(in.head, notice{in.notesName + ":version '" + notes.Version.String() + "', prefer '" + in.version.String() + "'\n", 3})
	}
	in.decoded, in.cwd, in.marks = true, notes.Cwd, notes.Unexecuted
	for _, d := range damage {
		n := notice{in.notesName + d.Message + "\n", 0}
		if d.Cut {
			n.status = 4
		}
		in.body = append(in.body, n)
	}
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

// prepare names the sources and chooses the functions.
func (ld *loader) prepare(in *loaded, notes *gcov.Notes) {
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
func (ld *loader) readCounts(in *loaded, notes *gcov.Notes) []functionData {
	data := make([]functionData, len(in.kept))
	for i, fn := range in.kept {
		n := fn.Counters()
		in.functions[i].instrumented = n > 0
		data[i].arcs = make([]int64, n)
		if jsonFormat2(in.version) {
			data[i].conditions = make([]conditionCounts, len(fn.Conditions))
		}
	}
	b, _, err := readTimed(ld.owners, in.dataName, nil)
	if err != nil {
		in.tail = append(in.tail, notice{in.dataName + ":cannot open data file, assuming not executed\n", 0})
		in.noData = true
		return data
	}
	if !gcov.IsMagic(b, gcov.DataMagic) {
		in.tail = append(in.tail, notice{in.dataName + ":not a gcov data file\n", 2})
		return data
	}
	counts, err := gcov.ReadCounts(b)
	cut := false
	if err != nil {
		counts, cut = gcov.SalvageCounts(b)
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
	if cut && in.version.NoticesCuts() && bad == len(counts.Functions) {
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
func (ld *loader) readRuns(in *loaded, counts *gcov.Counts, end int) {
	seen := gcov.Counts{Version: counts.Version}
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
func (ld *loader) distribute(in *loaded, counts *gcov.Counts, data []functionData) int {
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
func (d *functionData) add(c *gcov.FunctionCounts, fn *gcov.FunctionGraph, v gcov.Version) bool {
	for i := range c.Counters {
		k := &c.Counters[i]
		switch {
		case k.Kind == gcov.KindArcs:
			if k.Len() != len(d.arcs) {
				return false
			}
			d.counted = true
			for j, n := range k.Values {
				d.arcs[j] += n
			}
		case k.Kind == gcov.KindConditions && jsonFormat2(v):
			if k.Len() != 2*len(d.conditions) {
				return false
			}
			for j := range d.conditions {
				d.conditions[j].truev |= uint64(k.At(2 * j))
				d.conditions[j].falsev |= uint64(k.At(2*j + 1))
			}
		case k.Kind == gcov.KindPaths && jsonPaths(v):
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
func (ld *loader) solve(in *loaded, notes *gcov.Notes, data []functionData) {
	v := in.version
	s := &ld.sharer
	s.detail = detail{
		arcs:    ld.branches,
		blocks:  ld.allBlocks || jsonFormat2(v) && (ld.conditions || ld.json),
		visits:  ld.sums,
		counts:  ld.debug,
		entries: ld.countsEntries(v),

		propagates: propagatesLines(v),
	}
	s.line.Old = propagatesLines(v)
	for i, fn := range in.kept {
		f := in.functions[i]
		if f.artificial {
			continue
		}
		ld.graph.Build(fn, notes.Version)
		inspect(&ld.graph, f)
		ld.graph.Solve(data[i].arcs)
		summarize(&ld.graph, f)
		s.share(f, data[i].conditions)
		if s.propagates && !ld.allBlocks {
			for k := range f.arcs {
				a := &f.arcs[k]
				f.outcomes.Add(a.call, a.unconditional, a.total, a.count)
			}
		}
		if s.counts {
			for b := range ld.graph.Blocks {
				f.counts = append(f.counts, blockCount{shownID(&ld.graph, b), ld.graph.Blocks[b].Count})
			}
		}
		if ld.sums && functionBranches(v) {
			for k := range ld.graph.Arcs {
				a := &ld.graph.Arcs[k]
				f.outcomes.Add(a.NonReturn, a.Unconditional, ld.graph.Blocks[a.Src].Count, a.Count)
			}
			for k, c := range data[i].conditions {
				f.conditions += 2 * int(fn.Conditions[k].Terms)
				f.conditionsShown += bits.OnesCount64(c.truev) + bits.OnesCount64(c.falsev)
			}
		}
		if jsonPaths(v) && (ld.paths || ld.json) {
			f.paths = newPathCoverage(&ld.graph, f.source, data[i].paths, s, ld.paths)
		}
	}
	in.kept = nil
}

// inspect notes what is wrong with the graph.
func inspect(g *gcov.Flow, f *listFunction) {
	if len(g.Blocks) < 2 {
		f.faults |= lacksEnds
		return
	}
	if g.Blocks[0].OpenPred > 0 {
		f.faults |= arcsToEntry
	}
	if g.Blocks[g.Exit].OpenSucc > 0 {
		f.faults |= arcsFromExit
	}
}

// shownID is the number of the block as gcov shows it: blocks learn theirs from
// arcs.
func shownID(g *gcov.Flow, b int) int32 {
	fb := &g.Blocks[b]
	if fb.Succ == fb.SuccEnd && fb.Pred == fb.PredEnd && !slices.Contains(g.Fn.Arcless, uint32(b)) {
		return 0
	}
	return int32(b)
}

// summarize tells how often the function was called and returned, and how many
// of its blocks ran.
func summarize(g *gcov.Flow, f *listFunction) {
	if len(g.Blocks) < 2 {
		return
	}
	f.called = g.Blocks[0].Count
	f.returned = g.Blocks[g.Exit].Count
	for _, k := range g.Preds(g.Exit) {
		if g.Arcs[k].Fake() {
			f.returned -= g.Arcs[k].Count
		}
	}
	for b := 1; b < len(g.Blocks)-1; b++ {
		if g.Blocks[b].Count != 0 {
			f.blocksExecuted++
		}
	}
}
