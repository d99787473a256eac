package listing

import (
	"strconv"

	"footfall/formats/gcov"
)

// A coverageSummary counts what of a source or a function was executed.
type coverageSummary struct {
	lines, executed int
	outcomes        gcov.Outcomes
	conditions      int // outcomes of conditions
	shown           int // of these
	paths           int
	pathsCovered    int
}

// executed appends the line that tells how many lines were executed.
func executed(v gcov.Version, b []byte, lines, executed int) []byte {
	if lines == 0 {
		return append(b, "No executable lines\n"...)
	}
	return appendShare(v, b, "Lines executed:", executed, lines)
}

func appendShare(v gcov.Version, b []byte, what string, part, whole int) []byte {
	b = append(b, what...)
	b = appendPercent(v, b, int64(part), int64(whole), 2)
	b = append(b, " of "...)
	b = strconv.AppendInt(b, int64(whole), 10)
	return append(b, '\n')
}

// append appends the summary. Outcomes, conditions and paths are told where
// asked for.
func (c *coverageSummary) append(b []byte, v gcov.Version, outcomes, conditions, paths bool) []byte {
	b = executed(v, b, c.lines, c.executed)
	if outcomes {
		if o := &c.outcomes; o.Branches > 0 {
			b = appendShare(v, b, "Branches executed:", o.Executed, o.Branches)
			b = appendShare(v, b, "Taken at least once:", o.Taken, o.Branches)
		} else {
			b = append(b, "No branches\n"...)
		}
		if o := &c.outcomes; o.Calls > 0 {
			b = appendShare(v, b, "Calls executed:", o.CallsExecuted, o.Calls)
		} else {
			b = append(b, "No calls\n"...)
		}
	}
	if conditions {
		if c.conditions > 0 {
			b = appendShare(v, b, "Condition outcomes covered:", c.shown, c.conditions)
		} else {
			b = append(b, "No conditions\n"...)
		}
	}
	if paths {
		if c.paths > 0 {
			b = appendShare(v, b, "Prime paths covered:", c.pathsCovered, c.paths)
		} else {
			b = append(b, "No path information\n"...)
		}
	}
	return b
}

// functionSummaries prints the summary of each function.
func (l *lister) functionSummaries() {
	seen := make([]runningLines, len(l.sources))
	for _, f := range l.functions {
		if f.faults&lacksLines != 0 {
			l.say("%s:no lines for '%s'\n", l.notesName, l.functionName(f))
		}
		if !l.sums {
			continue
		}
		c := l.functionSummary(f, seen)
		l.stdout = append(l.stdout, "Function '"...)
		l.stdout = append(l.stdout, l.functionName(f)...)
		l.stdout = append(l.stdout, "'\n"...)
		more := functionBranches(l.version) || !hasJSON(l.version) && l.branches
		l.stdout = c.append(l.stdout, l.version, more, more && l.options.conditions, more && l.options.paths)
		l.stdout = append(l.stdout, '\n')
	}
}

// functionSummary counts the lines of a function: those that no function
// before it has mentioned.
func (l *lister) functionSummary(f *listFunction, seen []runningLines) *coverageSummary {
	c := &coverageSummary{outcomes: f.outcomes, conditions: f.conditions, shown: f.conditionsShown}
	if f.paths != nil {
		c.paths, c.pathsCovered = f.paths.total, f.paths.covered
	}
	own := make([]runningLine, len(f.shares))
	for _, v := range f.visits {
		sh := &f.shares[v.share]
		line := &own[v.share]
		count := countsInstances(l.version)
		if !f.owns(sh) {
			line, count = seen[sh.source].line(sh.line, l.sources[sh.source].size), true
		}
		if count && !line.exists {
			c.lines++
		}
		if count && line.sum == 0 && v.count != 0 {
			c.executed++
		}
		line.exists = true
		line.sum += v.count
	}
	return c
}

// runningLines are the lines of a source as the functions so far have left
// them.
type runningLines struct {
	lines []runningLine
	few   map[uint32]*runningLine // for a source of unlikely length
}

type runningLine struct {
	exists bool
	sum    int64
}

func (r *runningLines) line(n, size uint32) *runningLine {
	if r.lines == nil && size <= 1<<20 {
		r.lines = make([]runningLine, size)
	}
	if r.lines != nil {
		return &r.lines[n]
	}
	if r.few == nil {
		r.few = make(map[uint32]*runningLine)
	}
	if r.few[n] == nil {
		r.few[n] = new(runningLine)
	}
	return r.few[n]
}

// fileSummary appends the summary of a source.
func (l *lister) fileSummary(b []byte, src *listSource) []byte {
	b = append(b, "File '"...)
	b = append(b, src.shown...)
	b = append(b, "'\n"...)
	return src.summary.append(b, l.version, l.branches, l.options.conditions && jsonFormat2(l.version), l.options.paths && jsonPaths(l.version))
}

// total sums up the lines of a source: first those that functions of groups
// have for themselves, then the others, and at last both together, except for
// JSON.
func (l *lister) total(src *listSource) {
	c := &src.summary
	own := make([]*lineTable, 0)
	for _, f := range src.functions {
		if f.group {
			t := l.ownLines(f)
			own = append(own, t)
			l.totalLines(src, t, countsInstances(l.version))
		}
		if f.paths != nil {
			c.paths += f.paths.total
			c.pathsCovered += f.paths.covered
		}
	}
	src.lines = newLineTable(0, src.size, src.shares, l.keepsDetail())
	src.shares = nil
	l.totalLines(src, src.lines, true)
	if l.json {
		return
	}
	src.lines.reserve(own)
	for _, t := range own {
		for i := range t.lines {
			from := &t.lines[i]
			if !from.exists {
				continue
			}
			to := src.lines.at(from.number)
			if !to.exists {
				c.lines++
			}
			if to.count == 0 && from.count != 0 {
				c.executed++
			}
			to.count += from.count
			to.exists = true
			to.unexecuted = to.unexecuted || from.unexecuted
			to.unexceptional = to.unexceptional || from.unexceptional
		}
	}
}

// keepsDetail tells whether lines keep their blocks and arcs.
func (l *lister) keepsDetail() bool {
	return l.branches || l.allBlocks || l.options.conditions || l.json
}

// ownLines makes the lines that a function of a group has for itself.
func (l *lister) ownLines(f *listFunction) *lineTable {
	var shares []lineRef
	for i := range f.shares {
		if sh := &f.shares[i]; f.owns(sh) {
			shares = append(shares, lineRef{f, sh})
		}
	}
	f.own = newLineTable(f.start, f.end+1, shares, l.keepsDetail())
	return f.own
}

func (l *lister) totalLines(src *listSource, t *lineTable, count bool) {
	c := &src.summary
	for i := range t.lines {
		line := &t.lines[i]
		if !line.exists && !line.attached {
			continue
		}
		for _, r := range line.shares {
			if !count {
				break
			}
			arcs := r.arcs()
			if r.sh.entering != nil {
				c.outcomes.Sum(r.sh.entering)
				arcs = nil
			}
			for k := range arcs {
				c.outcomes.Add(arcs[k].call, arcs[k].unconditional, arcs[k].total, arcs[k].count)
			}
			blocks := r.blocks()
			for k := range blocks {
				c.conditions += 2 * int(blocks[k].terms)
				c.shown += blocks[k].covered()
			}
		}
		if line.attached && l.countsEntries(l.version) {
			line.count = line.entered
			if line.count > int64(src.hottest) {
				src.hottest = uint32(line.count)
			}
		}
		if count && line.exists {
			c.lines++
			if line.count != 0 {
				c.executed++
			}
		}
	}
}
