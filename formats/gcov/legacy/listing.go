// Package legacy does what gcov of GCC 2.91 to 3.3 does with the files .bb, .bbg and .da. What is
// in those files, and how counts add up, is in package gcov, as reports read them too.
package legacy

import (
	"fmt"
	"io"
	"os"
	"time"

	"footfall/formats/gcov"
	"footfall/input"
)

// A Invocation is one call of gcov.
type Invocation struct {
	Prog   string   // as it was called, for messages
	Args   []string // what follows it
	Stdout io.Writer
	Stderr io.Writer
}

// A legacyListing is one run of an old gcov.
type legacyListing struct {
	inv   *Invocation
	style Style

	branches, counts, write, long, functions, preserve bool
	object, input                                      string

	bbName  string
	bbTime  time.Time
	notes   *gcov.LegacyNotes
	flows   []*legacyFlow
	sources []*legacySource
	owners  input.Owners // of notes and data
}

// A legacySource is a source and what its lines count.
type legacySource struct {
	name  string
	lines map[int32]*legacyLine
	last  int32 // the greatest number of a line
}

// line returns the line of that number, made if it is missing.
func (s *legacySource) line(number int32) *legacyLine {
	if s.lines[number] == nil {
		s.lines[number] = new(legacyLine)
	}
	return s.lines[number]
}

// at returns the line of that number, or an empty one.
func (s *legacySource) at(number int32) legacyLine {
	if l := s.lines[number]; l != nil {
		return *l
	}
	return legacyLine{}
}

type legacyLine struct {
	exists   bool
	count    int64
	branches []legacyBranch
}

// A legacyBranch is a branch or, from a call that may not return, the other way
// out.
type legacyBranch struct {
	hits, total int64
	call        bool
}

// Run does what gcov before GCC 3.4 does, and returns the exit status.
func Run(inv *Invocation, style Style) int {
	l := &legacyListing{inv: inv, style: style, write: true}
	if l.style == Any {
		l.find()
		l.style = l.guess()
		l.object = ""
	}
	parse := l.parse
	if l.old() {
		parse = l.parseOld
	}
	if status, stop := parse(); stop {
		return status
	}
	if status, ok := l.read(); !ok {
		return status
	}
	for _, s := range l.sources {
		if !l.scan(s) {
			return l.fatalStatus()
		}
		l.list(s)
	}
	return 0
}

func (l *legacyListing) old() bool { return l.style == GCC2 }

func (l *legacyListing) fatalStatus() int {
	if l.old() {
		return 33
	}
	return 1
}

func (l *legacyListing) errorf(format string, args ...any) {
	fmt.Fprintf(l.inv.Stderr, format, args...)
}

func (l *legacyListing) printf(format string, args ...any) {
	fmt.Fprintf(l.inv.Stdout, format, args...)
}

// read reads the files and solves the graphs.
func (l *legacyListing) read() (status int, ok bool) {
	stem := l.stem()
	l.bbName = stem + ".bb"
	bb, bbErr := gcov.ReadFile(&l.owners, l.bbName, nil)
	bbg, bbgErr := gcov.ReadFile(&l.owners, stem+".bbg", nil)
	da, daErr := gcov.ReadFile(&l.owners, stem+".da", nil)
	if st, err := os.Stat(l.bbName); err == nil {
		l.bbTime = st.ModTime()
	}
	noData := func() {
		if daErr != nil {
			l.errorf("Could not open data file %s.\nAssuming that all execution counts are zero.\n", stem+".da")
		}
	}
	if bbErr != nil {
		l.errorf("Could not open basic block file %s.\n", l.bbName)
		return l.fatalStatus(), false
	}
	if l.old() {
		noData()
	}
	if bbgErr != nil {
		l.errorf("Could not open program flow graph file %s.\n", stem+".bbg")
		return l.fatalStatus(), false
	}
	if !l.old() {
		noData()
	}
	if len(bbg) == 0 {
		l.errorf("No executable code associated with file %s.\n", l.input)
		return l.fatalStatus(), false
	}
	notes, err := gcov.ReadLegacyNotes(bb, bbg)
	if err != nil {
		l.errorf("%s: %v\n", stem, err)
		if len(notes.BySite) == 0 {
			return l.fatalStatus(), false
		}
	}
	l.notes = notes
	l.solve(stem+".da", da, daErr == nil)
	l.findSources()
	return 0, true
}

// solve gives each function the counts of the data.
func (l *legacyListing) solve(name string, da []byte, there bool) {
	counts := &gcov.LegacyCounts{}
	if there {
		var err error
		if counts, err = gcov.ReadLegacyCounts(da); err != nil {
			if counts.Named {
				l.errorf(".da file corrupted!\n")
			} else {
				l.errorf(".da file contents exhausted too early\n")
			}
			l.errorf("%s: %v; counts that are missing are 0\n", name, err)
		} else if err := counts.Fits(l.notes); err != nil {
			if !counts.Named && len(counts.Values) > 0 {
				l.errorf(".da file contents not exhausted\n")
			}
			l.errorf("%s: %v\n", name, err)
			if !counts.Named || !l.notes.Named {
				counts = &gcov.LegacyCounts{} // of another object
			}
		}
	}
	for i, g := range l.notes.Graphs {
		values, _ := counts.Of(l.notes, i)
		l.flows = append(l.flows, solveGraph(g, values))
	}
}

// findSources lists all sources, the last mentioned first.
func (l *legacyListing) findSources() {
	var current *legacySource
	for _, f := range l.notes.BySite {
		for _, t := range f.Lines {
			switch {
			case t.Number == gcov.TokenFile:
				if current = l.source(t.Name); current == nil {
					current = &legacySource{name: t.Name, lines: make(map[int32]*legacyLine)}
					l.sources = append([]*legacySource{current}, l.sources...)
				}
			case t.Number > maxLegacyLine:
				l.errorf("%s: line %d in function %s is left out\n", l.bbName, t.Number, f.Name)
			case t.Number > 0 && current != nil:
				current.last = max(current.last, t.Number)
			}
		}
	}
}

// maxLegacyLine is the largest line number that is believed.
const maxLegacyLine = 1 << 20

func (l *legacyListing) source(name string) *legacySource {
	for _, s := range l.sources {
		if s.name == name {
			return s
		}
	}
	return nil
}

// A legacySummary counts what is in a function or file.
type legacySummary struct {
	lines, linesRun, branches, branchesRun, taken, calls, callsRun int
}

// add counts a branch. The gcov of GCC 2 knows only percentages: what is less
// than half a percent was not taken.
func (s *legacySummary) add(b legacyBranch, old bool) {
	run, taken := b.total != 0, b.hits != 0
	if old {
		run, taken = b.percent() != -1, b.percent() > 0
	}
	switch {
	case b.call:
		s.calls++
		s.callsRun += toInt(run)
	default:
		s.branches++
		s.branchesRun += toInt(run)
		s.taken += toInt(taken)
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// percent is the share in the arithmetic of GCC 2, of 32 bits; -1 stands for
// never executed.
func (b legacyBranch) percent() int32 {
	if int32(b.total) == 0 {
		return -1
	}
	return (int32(b.hits)*100 + int32(b.total)>>1) / int32(b.total)
}

// scan books all blocks that name lines of a source on them, and prints the
// summaries of functions as it passes them. Which source is current is known
// only from the last name, be it of another function. It returns false where
// the lines do not fit the graphs.
func (l *legacyListing) scan(s *legacySource) bool {
	here := false
	last := int32(0) // the line that takes branches
	for i, f := range l.notes.BySite {
		flow, block := l.flows[i], 0
		var sum legacySummary
		// The entry counts for the name that the file before it left.
		for _, t := range f.Lines {
			switch {
			case t.Number == gcov.TokenFile:
				here = t.Name == s.name
			case t.Number == 0:
				if block >= flow.Blocks {
					l.errorf("ERROR: too many basic blocks in function %s\n", f.Name)
					return false
				}
				if l.branches && here {
					l.bookBranches(s.line(last), flow, block, &sum)
				}
				block++
			case here && t.Number <= maxLegacyLine && block < flow.Blocks:
				last = t.Number
				line := s.line(last)
				sum.lines += toInt(!line.exists)
				sum.linesRun += toInt(line.count == 0 && flow.blocks[block] != 0)
				line.count += flow.blocks[block]
				line.exists = true
			}
		}
		if i+1 < len(l.notes.BySite) {
			l.closeFunction(s, f.Name, flow, block, last, here, &sum)
		}
		if l.functions && here {
			l.summary(&sum, "function", f.Name)
		}
	}
	return true
}

// closeFunction books what the last block with lines leaves over, before
// another function begins.
func (l *legacyListing) closeFunction(s *legacySource, name string, flow *legacyFlow, block int, last int32, here bool, sum *legacySummary) {
	switch block {
	case flow.Blocks - 1: // falls through to the exit
	case flow.Blocks - 2:
		if l.branches && here {
			l.bookBranches(s.line(last), flow, block, sum)
		}
	default:
		l.errorf("didn't use all bb entries of graph, function %s\nblock_num = %d, num_blocks = %d\n", name, block, flow.Blocks)
	}
}

// bookBranches puts all ways out of a block but the next one on a line.
func (l *legacyListing) bookBranches(line *legacyLine, flow *legacyFlow, block int, sum *legacySummary) {
	for _, i := range flow.out[block] {
		a := flow.Arcs[i]
		if a.Flags&gcov.ArcFallthrough != 0 {
			continue
		}
		b := legacyBranch{total: flow.blocks[block], call: a.Flags&gcov.ArcFake != 0}
		if b.total != 0 {
			b.hits = flow.arcs[i]
		}
		sum.add(b, l.old())
		line.branches = append(line.branches, b)
	}
}

// summary prints a summary of a function or file.
func (l *legacyListing) summary(s *legacySummary, what, name string) {
	kind := "lines"
	if l.old() {
		kind = "source lines"
	}
	if s.lines > 0 {
		l.printf("%s of %d %s executed in %s %s\n", l.share(s.linesRun, s.lines), s.lines, kind, what, name)
	} else {
		l.printf("No executable %s in %s %s\n", kind, what, name)
	}
	if !l.branches {
		return
	}
	if s.branches > 0 {
		l.printf("%s of %d branches executed in %s %s\n", l.share(s.branchesRun, s.branches), s.branches, what, name)
		l.printf("%s of %d branches taken at least once in %s %s\n", l.share(s.taken, s.branches), s.branches, what, name)
	} else {
		l.printf("No branches in %s %s\n", what, name)
	}
	if s.calls > 0 {
		l.printf("%s of %d calls executed in %s %s\n", l.share(s.callsRun, s.calls), s.calls, what, name)
	} else {
		l.printf("No calls in %s %s\n", what, name)
	}
}

// share is a percentage with two decimals.
func (l *legacyListing) share(top, bottom int) string {
	if l.old() {
		return fmt.Sprintf("%6.2f%%", float64(top)/float64(bottom)*100)
	}
	return legacyPercent(int64(top), int64(bottom), 2)
}

// legacyPercent is a percentage as GCC 3.3 prints it: 0 and 100 only when exact.
func legacyPercent(top, bottom int64, decimals int) string {
	var ratio float32
	if bottom != 0 {
		ratio = float32(top) / float32(bottom)
	}
	limit := uint32(100)
	for range decimals {
		limit *= 10
	}
	percent := uint32(int64(ratio*float32(limit) + 0.5))
	switch {
	case percent == 0 && top != 0:
		percent = 1
	case percent >= limit && top != bottom:
		percent = limit - 1
	}
	if decimals == 0 {
		return fmt.Sprintf("%d%%", percent)
	}
	return fmt.Sprintf("%d.%0*d%%", percent/(limit/100), decimals, percent%(limit/100))
}
