package report

import (
	"fmt"
	"io"
	"slices"

	"footfall/coverage"
)

// printLcov writes a tracefile as geninfo of lcov 2.5 does: one record for each
// source,
//
//	TN:test                          or nothing
//	SF:/abs/path.c
//	FNL:index,line,end               for each function
//	FNA:index,calls,name             for each instance of it
//	FNF:found  FNH:hit
//	BRDA:line,block,branch,taken     "-" where the decision never ran; "e" before block: an exception's way
//	BRF:found  BRH:hit
//	MCDC:line,terms,t or f,shown,index,expression
//	MCF:found  MCH:hit
//	DA:line,count
//	LF:found  LH:hit
//	end_of_record
//
// and comments that say more of branches, see lineBranches.
//
// lcov 2.2 and later read it. lcov 1 skips the records that it does not know,
// and so shows lines and branches, but no functions. lcov 2.0 and 2.1 stop at
// them.
func printLcov(w io.Writer, r *Report) error {
	return printTracefile(w, tracefile{report: r, dialect: lcov22})
}

// printLcov2 writes what every lcov 2 reads: FN:line,end,name and
// FNDA:calls,name for each instance, and no conditions.
func printLcov2(w io.Writer, r *Report) error {
	return printTracefile(w, tracefile{report: r, dialect: lcov20})
}

// printLcov1 writes FN:line,name. Without the ends lcov 2 makes up where
// functions end, and stops at the contradictions that follow; lcov 1 would take
// an end for the name.
func printLcov1(w io.Writer, r *Report) error {
	return printTracefile(w, tracefile{report: r, dialect: lcov1})
}

// A dialect is the oldest lcov that reads a tracefile.
type dialect int

const (
	lcov1 dialect = iota
	lcov20
	lcov22
)

func printTracefile(w io.Writer, t tracefile) error {
	set, kept := t.report.Set, t.report.Again.textsOf(t.dialect)
	if kept == nil {
		return writeOrdered(w, set.Len(), func(o *ordered) func(int, []byte) []byte {
			own := tracefile{report: t.report, dialect: t.dialect, to: o}
			return func(i int, b []byte) []byte {
				own.buf, own.which = b, i
				own.file(set.At(i))
				return own.buf
			}
		})
	}
	for i := range set.Len() {
		text, ok := kept.of(set, i)
		if !ok {
			t.buf = t.buf[:0]
			t.file(set.At(i))
			text = t.buf
			kept.keep(set, i, func() []byte { return slices.Clone(text) }, len(text))
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	kept.end(set)
	return nil
}

// file writes the records of a file.
func (t *tracefile) file(f *coverage.File) {
	test := onlyTest(f)
	t.begin(test, f.Name)
	t.functions(f.Functions)
	t.branches(f.Lines)
	if t.dialect != lcov20 {
		t.conditions(f.Lines)
	}
	if test != "" {
		t.lines(f.Lines)
	} else {
		t.lines(withoutTests(f))
	}
	t.buf = append(t.buf, "end_of_record\n"...)
	if test == "" {
		t.tests(f)
	}
}

type tracefile struct {
	buffer
	to      *ordered       // who takes what there is of a file; nil: all stays in the buffer
	which   int            // the number of the file
	list    []lcovFunction // those of a file, used again, as are
	names   []lcovName     // all of theirs
	places  map[string]lcovPlace
	report  *Report
	dialect dialect
}

// sendSome sends what there is, if that is much: a buffer for all of a large file would
// take longer to grow than the file takes to be written.
func (t *tracefile) sendSome() {
	if t.to != nil {
		t.buf = t.to.hand(t.which, t.buf)
	}
}

// record appends a record of numbers, and of a name if there is one.
func (t *tracefile) record(tag, name string, numbers ...int64) {
	t.buf = append(t.buf, tag...)
	for i, n := range numbers {
		if i > 0 {
			t.buf = append(t.buf, ',')
		}
		t.buf = appendNumber(t.buf, n)
	}
	if name != "" {
		t.buf = append(append(t.buf, ','), name...)
	}
	t.buf = append(t.buf, '\n')
}

func (t *tracefile) ratio(found, hit string, r coverage.Ratio) {
	t.record(found, "", int64(r.Total))
	t.record(hit, "", int64(r.Covered))
}

// An lcovFunction is a function as lcov knows it: a place with names.
type lcovFunction struct {
	line, end int32 // end 0: not known
	names     []lcovName
}

type lcovName struct {
	name  string
	calls int64
}

// An lcovPlace is where the name of a function has been met.
type lcovPlace struct {
	line           int32
	function, name int
}

// lcovFunctions lists functions until the next call. It has each name once: lcov knows only one line for a name, and
// lcov 2 stops at a second one. Where one source was compiled in two ways, a name
// may have two; the others have their line behind the name, f@6. Those of one
// line are one to lcov.
func (t *tracefile) lcovFunctions(functions []*coverage.Function) []lcovFunction {
	instances := 0
	for _, f := range functions {
		instances += len(f.Instances)
	}
	list, names := slices.Grow(t.list[:0], len(functions)), slices.Grow(t.names[:0], instances)
	if t.places == nil {
		t.places = make(map[string]lcovPlace)
	}
	places := t.places
	clear(places)
	end, line := int32(0), int32(-1)
	for i, f := range functions {
		if f.StartLine != line {
			end, line = commonEnd(functions[i:]), f.StartLine
		}
		entry := lcovFunction{line: line, names: names[len(names):]}
		if end >= line {
			entry.end = end
		}
		for _, in := range f.Instances {
			name, calls := oneLine(in.Name), max(in.Count, 0)
			p, again := places[name]
			if again && p.line != line {
				name = fmt.Sprintf("%s@%d", name, line)
				p, again = places[name]
			}
			switch {
			case !again:
				places[name] = lcovPlace{line, len(list), len(entry.names)}
				entry.names = append(entry.names, lcovName{name, calls})
			case p.function < len(list):
				list[p.function].names[p.name].calls += calls
			default:
				entry.names[p.name].calls += calls
			}
		}
		if n := len(entry.names); n > 0 {
			names, list = names[:len(names)+n], append(list, entry)
		}
	}
	t.list, t.names = list, names
	return list
}

func (t *tracefile) functions(functions []*coverage.Function) {
	list := t.lcovFunctions(functions)
	var total coverage.Ratio
	if t.dialect >= lcov22 {
		for i, f := range list {
			if f.end > 0 {
				t.record("FNL:", "", int64(i), int64(f.line), int64(f.end))
			} else {
				t.record("FNL:", "", int64(i), int64(f.line))
			}
			called := 0
			for _, n := range f.names {
				t.record("FNA:", n.name, int64(i), n.calls)
				if n.calls > 0 {
					called = 1
				}
			}
			total = total.Plus(coverage.Ratio{Covered: called, Total: 1})
			t.sendSome()
		}
		t.ratio("FNF:", "FNH:", total)
		return
	}
	for _, f := range list {
		for _, n := range f.names {
			if t.dialect == lcov20 && f.end > 0 {
				t.record("FN:", n.name, int64(f.line), int64(f.end))
			} else {
				t.record("FN:", n.name, int64(f.line))
			}
		}
		t.sendSome()
	}
	for _, f := range list {
		for _, n := range f.names {
			t.record("FNDA:", n.name, n.calls)
			total.Total++
			if n.calls > 0 {
				total.Covered++
			}
		}
		t.sendSome()
	}
	t.ratio("FNF:", "FNH:", total)
}

// commonEnd is the last line of the functions that start where the first does:
// to lcov they are one function with several names.
func commonEnd(functions []*coverage.Function) int32 {
	end := functions[0].EndLine
	for _, f := range functions[1:] {
		if f.StartLine != functions[0].StartLine {
			break
		}
		end = max(end, f.EndLine)
	}
	return end
}

func (t *tracefile) branches(lines []coverage.Line) {
	var total coverage.Ratio
	for i := range lines {
		l := &lines[i]
		if len(l.Branches) == 0 && l.Told == nil {
			continue
		}
		shown := t.report.branches(l)
		total = total.Plus(coverage.Taken(shown))
		t.lineBranches("BRDA:", l.Number, shown)
		if told := toldBranches(l); told != nil && len(shown) == len(l.Branches) {
			t.lineBranches("#BRDA:", l.Number, told)
		}
		t.sendSome()
	}
	if total.Total > 0 {
		t.ratio("BRF:", "BRH:", total)
	}
}

// lineBranches writes the branches of a line. Records that begin with # are
// comments to lcov; footfall reads them in the place of the others.
func (t *tracefile) lineBranches(tag string, line int32, branches []coverage.Branch) {
	own := tag[0] == '#'
	block, index := int32(-1), int64(0)
	for i := range branches {
		b := &branches[i]
		if b.Block != block {
			block, index = b.Block, 0
		}
		t.number(tag, int64(line))
		t.raw(",")
		if b.Throw && (own || t.dialect > lcov1) {
			t.raw("e")
		}
		if own && b.List {
			t.raw("l")
		}
		if own && b.Guessed {
			t.raw("g")
		}
		t.number("", int64(b.Block))
		t.number(",", index)
		if b.Evaluated {
			t.number(",", max(b.Count, 0))
		} else {
			t.raw(",-")
		}
		t.raw("\n")
		index++
	}
}

// toldBranches returns what a reader must know of a line's branches to merge
// them with others, where it cannot tell from the records: lists beside others,
// or that were matched with others. It is nil for most lines.
func toldBranches(l *coverage.Line) []coverage.Branch {
	if l.Told != nil {
		return *l.Told
	}
	n := len(l.Branches)
	if n == 0 || !l.Branches[n-1].List { // they come last
		return nil
	}
	if first, last := l.Branches[0], l.Branches[n-1]; n > 1 && first.Block == last.Block && !last.Guessed {
		return nil // one block is read as a list
	}
	return l.Branches
}

// conditions numbers the terms of all conditions of a line that have as many:
// lcov 2 has one group a line for each number of terms.
func (t *tracefile) conditions(lines []coverage.Line) {
	var total coverage.Ratio
	outcome := func(line int32, terms, index int, sense byte, shown bool) {
		total.Total++
		taken := byte('0')
		if shown {
			total.Covered++
			taken = '1'
		}
		t.buf = fmt.Appendf(t.buf, "MCDC:%d,%d,%c,%c,%d,%d\n", line, terms, sense, taken, index, index)
	}
	for i := range lines {
		l := &lines[i]
		if len(l.Conditions) == 0 {
			continue
		}
		next := make(map[int]int) // index by number of terms
		for _, c := range l.Conditions {
			n := len(c.Terms)
			for _, term := range c.Terms {
				outcome(l.Number, n, next[n], 't', term.True)
				outcome(l.Number, n, next[n], 'f', term.False)
				next[n]++
			}
		}
	}
	if total.Total > 0 {
		t.ratio("MCF:", "MCH:", total)
	}
}

func (t *tracefile) lines(lines []coverage.Line) {
	var total coverage.Ratio
	for i := range lines {
		l := &lines[i]
		total.Total++
		if l.Count > 0 {
			total.Covered++
		}
		t.number("DA:", int64(l.Number))
		t.number(",", max(l.Count, 0))
		t.raw("\n")
		t.sendSome()
	}
	t.ratio("LF:", "LH:", total)
}
