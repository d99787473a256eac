// Package growth compares readings of coverage that grows: what of it was reached for the
// first time, and what is hot. It looks again only at files that have changed.
//
// It is what the screen of watch and the pages of watch/web have in common: who reads the
// coverage gives one set after another to a [Comparer], and shows its [Picture].
//
// # Words
//
// A tick is one reading of the coverage. What ran since the tick before is
// heat: for a line its runs, for a function its calls and the runs of its lines,
// for a file the runs of its lines. Growth is the number of lines that were
// covered for the first time since the tick before, or since the start: the
// first tick, or the last reset.
package growth

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"footfall/coverage"
	"footfall/demangle"
	"footfall/output"
)

// A Comparer compares each reading with the one before and with the first. It is for one
// goroutine at a time.
type Comparer struct {
	shown func(string) string

	start, before     *coverage.Set // of the first tick, and of the one before
	startAt, beforeAt time.Time
	number            int
	names             map[string]string // of files and functions, as shown
	sums              sums

	compared  map[string]*compared // by name of the file
	functions int                  // rows of the last picture
}

// New returns a Comparer. shown returns the name to show for a file.
func New(shown func(name string) string) *Comparer {
	return &Comparer{shown: shown, names: make(map[string]string), compared: make(map[string]*compared)}
}

// Restart forgets all readings: the next one is the start.
func (s *Comparer) Restart() { s.start, s.before = nil, nil }

// Take compares a reading that was made at a time. The set is not to be changed from then on.
func (s *Comparer) Take(set *coverage.Set, at time.Time) *Picture {
	if s.start == nil {
		s.start, s.startAt = set, at
	}
	p := &Picture{Now: set, Before: s.before, Start: s.start, Since: at.Sub(s.startAt)}
	if s.before != nil {
		p.Seconds = at.Sub(s.beforeAt).Seconds()
	}
	s.number++
	p.Number = s.number
	s.compare(p)
	s.before, s.beforeAt = set, at
	return p
}

// A Picture is the coverage at a tick, and how it differs from before. It does
// not change.
type Picture struct {
	Number             int
	Seconds            float64       // since the tick before; 0: there is none
	Since              time.Duration // the start
	Now, Before, Start *coverage.Set
	Totals             coverage.Totals
	NewTick, NewStart  int     // lines covered for the first time
	Runs               float64 // of lines, since the tick before
	Files, Functions   []Row
}

// Rate returns how many n are in a second, of those since the tick before.
func (p *Picture) Rate(n float64) float64 {
	if p.Seconds <= 0 {
		return 0
	}
	return n / p.Seconds
}

// A Row is a file or a function. Sums of counts are floating point numbers,
// which are exact up to 2^53 and cannot overflow.
type Row struct {
	Key      Key
	Name     string
	Lines    coverage.Ratio
	NewTick  int // lines covered since the tick before
	NewStart int // and since the start
	Runs     float64

	// Of a file.
	Functions, Branches coverage.Ratio

	// Of a function.
	Place  string // file and line
	Count  int64  // calls
	Called int64  // calls since the tick before
}

// A LineGrowth is one with code, and what became of it.
type LineGrowth struct {
	*coverage.Line
	Runs              float64 // since the tick before
	NewTick, NewStart bool    // it was covered for the first time
}

// Lines returns the lines with code of a file by its name in the set, nil if it is not there.
func (p *Picture) Lines(name string) []LineGrowth {
	now := file(p.Now, name)
	if now == nil {
		return nil
	}
	var s sums
	s.add(now, file(p.Before, name), file(p.Start, name), p.Before != nil)
	lines := make([]LineGrowth, len(now.Lines))
	for i := range lines {
		var r Row
		s.lines(&r, i, i+1)
		lines[i] = LineGrowth{&now.Lines[i], r.Runs, r.NewTick > 0, r.NewStart > 0}
	}
	return lines
}

// A Key identifies a row from tick to tick. Files have a file name only.
type Key struct {
	File         string
	Line, Column int32
	Function     string
}

// compare fills in what follows from the sets of p.
func (s *Comparer) compare(p *Picture) {
	p.Files = make([]Row, 0, p.Now.Len())
	p.Functions = make([]Row, 0, s.functions)
	for i, name := range p.Now.Names() {
		c := s.compared[name]
		still := p.Now.Keeps(p.Before, i)
		if c == nil || !c.still || !still {
			c = s.compareFile(p, p.Now.At(i))
			c.still = still
			s.compared[name] = c
		}
		p.Files = append(p.Files, c.file)
		p.Functions = append(p.Functions, c.functions...)
		p.Totals.Add(c.totals)
		p.NewTick += c.file.NewTick
		p.NewStart += c.file.NewStart
		p.Runs += c.file.Runs
	}
	s.functions = len(p.Functions)
}

// compared is what comes of a file. If that was the same at the tick before, and is again,
// so is this; behind a reset there is no tick before.
type compared struct {
	still     bool
	file      Row
	functions []Row
	totals    coverage.Totals
}

func (s *Comparer) compareFile(p *Picture, f *coverage.File) *compared {
	b, first := file(p.Before, f.Name), p.Start.File(f.Name)
	s.sums.add(f, b, first, p.Before != nil)

	c := &compared{totals: f.Totals()}
	c.file = Row{Key: Key{File: f.Name}, Name: s.FileName(f.Name)}
	s.sums.lines(&c.file, 0, len(f.Lines))
	c.file.Functions, c.file.Branches = c.totals.Functions, c.totals.Branches
	c.functions = s.compareFunctions(make([]Row, 0, len(f.Functions)), f, b, c.file.Name, p.Before != nil)
	return c
}

// compareFunctions adds a row for each function of f.
func (s *Comparer) compareFunctions(rows []Row, f, before *coverage.File, shown string, known bool) []Row {
	var old []*coverage.Function
	if before != nil {
		old = before.Functions
	}
	for i, fn := range f.Functions {
		r := Row{
			Key:   Key{f.Name, fn.StartLine, fn.StartColumn, fn.Name},
			Name:  s.functionName(fn),
			Place: shown + ":" + strconv.Itoa(int(fn.StartLine)),
			Count: fn.Count,
		}
		var b *coverage.Function
		b, old = match(old, fn, compareFunctions)
		switch {
		case b != nil:
			r.Called = max(0, fn.Count-b.Count)
		case known:
			r.Called = fn.Count // of a library that came since
		}
		from, to := body(f, i)
		s.sums.lines(&r, from, to)
		rows = append(rows, r)
	}
	return rows
}

// body returns which lines of f belong to its i-th function. Where its end is
// not known it goes on to the next.
func body(f *coverage.File, i int) (from, to int) {
	end := f.Functions[i].EndLine
	if end == 0 && i+1 < len(f.Functions) {
		end = f.Functions[i+1].StartLine - 1
	}
	from = lineIndex(f, f.Functions[i].StartLine)
	to = len(f.Lines)
	if end > 0 {
		to = lineIndex(f, end+1)
	}
	return from, max(from, to)
}

// lineIndex returns the index of the first line of f from number on.
func lineIndex(f *coverage.File, number int32) int {
	i, _ := slices.BinarySearchFunc(f.Lines, number, func(l coverage.Line, n int32) int { return cmp.Compare(l.Number, n) })
	return i
}

// match returns the element of sorted that is like e, if any, and the elements
// from it on.
func match[T any](sorted []*T, e *T, compare func(a, b *T) int) (*T, []*T) {
	for i, s := range sorted {
		switch c := compare(s, e); {
		case c == 0:
			return s, sorted[i:]
		case c > 0:
			return nil, sorted[i:]
		}
	}
	return nil, nil
}

func compareFunctions(a, b *coverage.Function) int {
	return cmp.Or(
		cmp.Compare(a.StartLine, b.StartLine),
		cmp.Compare(a.StartColumn, b.StartColumn),
		cmp.Compare(a.Name, b.Name))
}

// sums has, for the lines of a file, the sum of all before each one, so that
// those of functions, which may overlap, are differences. It is used for file
// after file.
type sums struct {
	covered, newTick, newStart []int
	runs                       []float64
}

// add sums up f. The other two are the same file at the tick before and at the
// start, or nil where it was not there; known tells if there was a tick before.
func (s *sums) add(f, before, start *coverage.File, known bool) {
	n := len(f.Lines) + 1
	s.covered = slices.Grow(s.covered[:0], n)[:n]
	s.newTick = slices.Grow(s.newTick[:0], n)[:n]
	s.newStart = slices.Grow(s.newStart[:0], n)[:n]
	s.runs = slices.Grow(s.runs[:0], n)[:n]
	s.covered[0], s.newTick[0], s.newStart[0], s.runs[0] = 0, 0, 0, 0
	ran, first := countsOf(before), countsOf(start)
	for i := range f.Lines {
		l := &f.Lines[i]
		covered, newTick, newStart := 0, 0, 0
		old, initial := ran(l.Number), first(l.Number)
		if l.Count > 0 {
			covered = 1
			if known && old <= 0 {
				newTick = 1
			}
			if initial <= 0 {
				newStart = 1
			}
		}
		runs := 0.0
		if known {
			runs = float64(max(0, l.Count-max(0, old)))
		}
		s.covered[i+1] = s.covered[i] + covered
		s.newTick[i+1] = s.newTick[i] + newTick
		s.newStart[i+1] = s.newStart[i] + newStart
		s.runs[i+1] = s.runs[i] + runs
	}
}

// lines fills in what the lines from one index to another add up to.
func (s *sums) lines(r *Row, from, to int) {
	r.Lines = coverage.Ratio{Covered: s.covered[to] - s.covered[from], Total: to - from}
	r.NewTick = s.newTick[to] - s.newTick[from]
	r.NewStart = s.newStart[to] - s.newStart[from]
	r.Runs = s.runs[to] - s.runs[from]
}

// countsOf returns a function for the counts of the lines of f, 0 for those
// that f has not, to be called with ascending numbers.
func countsOf(f *coverage.File) func(number int32) int64 {
	if f == nil {
		return func(int32) int64 { return 0 }
	}
	lines := f.Lines
	return func(number int32) int64 {
		for len(lines) > 0 && lines[0].Number < number {
			lines = lines[1:]
		}
		if len(lines) > 0 && lines[0].Number == number {
			return lines[0].Count
		}
		return 0
	}
}

// FileName returns the name to show for a file, the same string each time.
func (s *Comparer) FileName(name string) string {
	return s.remember("/"+name, func() string { return s.shown(name) })
}

func (s *Comparer) functionName(fn *coverage.Function) string {
	key := fn.Name
	if n := len(fn.Instances); n > 1 {
		// Instances only come, with libraries, so their number tells whether there are others.
		key = fmt.Sprint(key, " ", n)
	}
	return s.remember(key, func() string { return output.Printable(demangle.Title(fn.Symbols())) })
}

func (s *Comparer) remember(name string, shown func() string) string {
	known, ok := s.names[name]
	if !ok {
		known = shown()
		s.names[name] = known
	}
	return known
}

// file returns the file of that name in s; nil: there is none.
func file(s *coverage.Set, name string) *coverage.File {
	if s == nil {
		return nil
	}
	return s.File(name)
}
